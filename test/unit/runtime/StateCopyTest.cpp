//===- StateCopyTest.cpp - Copies of a state, and ranks that write them ---===//

#include "runtime/checkpoint/StateCopy.h"
#include "FakeDevice.h"
#include "TemporaryFolder.h"
#include "ThreadRanks.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/CheckpointWriter.h"

#include <array>
#include <latch>
#include <numeric>

using namespace qwen;

/// `count` elements of float32 at `data`.
static Buffer floats(void *data, int64_t count) {
  return {contiguousType(DType::F32, {count}), data};
}

static ParameterView viewOf(const char *name, int64_t count, void *value,
                            void *moment) {
  ParameterView view;
  view.name = std::string(name);
  view.shape = {count};
  view.value = floats(value, count);
  view.moment1 = view.moment2 = floats(moment, count);
  return view;
}

TEST(StateCopyTest, KeepsWhatTrainingChanges) {
  for (bool isDevice : {false, true}) {
    std::vector<float> value(1000), moment(1000);
    std::iota(value.begin(), value.end(), 1.0f);
    std::iota(moment.begin(), moment.end(), -7.0f);
    FakeDevice device;
    auto place = [&](std::vector<float> &held) -> void * {
      return isDevice ? device.map(std::as_writable_bytes(std::span(held)))
                      : held.data();
    };
    ParameterView view = viewOf("w", 1000, place(value), place(moment));
    if (isDevice)
      view.memory = &device;
    StateCopy copy;
    const void *place1 = nullptr;
    for (float next : {5.0f, 6.0f}) {
      std::vector<float> before = value;
      ASSERT_OK(copy.take({&view, 1}, selfCommunicator()));
      value.assign(1000, next);
      const ParameterView &copied = copy.parameters()[0];
      EXPECT_TRUE(copied.memory->isHost());
      EXPECT_FALSE(copied.master.data);
      auto *bits = copied.value.as<float>();
      EXPECT_EQ(std::vector<float>(bits, bits + 1000), before);
      bits = copied.moment2.as<float>();
      EXPECT_EQ(std::vector<float>(bits, bits + 1000), moment);
      EXPECT_TRUE(!place1 || place1 == copied.value.data) << "memory is kept";
      place1 = copied.value.data;
    }
  }
}

TEST(StateCopyTest, AMachineThatIsTooSmallIsSoForAllItsRanks) {
  // Fits none; and each alone, but not three at once.
  auto available = availableMemory();
  ASSERT_OK(available.status());
  for (int64_t bytes : {int64_t(1) << 46, *available * 2 / 5}) {
    ThreadRanks group(3);
    std::array<float, 1> element = {3};
    auto results = group.run([&](Communicator &ranks) -> Status {
      ParameterView view = viewOf("w", 1, element.data(), nullptr);
      view.value.shape[0] = bytes / 4;
      StateCopy copy;
      Status status = copy.take({&view, 1}, ranks);
      // And nothing is left that would be in the way of another state.
      view.value.shape[0] = 1;
      QWEN_RETURN_IF_ERROR(copy.take({&view, 1}, ranks));
      return *copy.parameters()[0].value.as<float>() == 3
                 ? status
                 : invalidArgument("other bits");
    });
    for (const Status &result : results) {
      EXPECT_ERROR(result, "a copy of the state needs ");
      EXPECT_EQ(result.code(), StatusCode::ResourceExhausted);
    }
  }
}

TEST(CheckpointWriterTest, RanksGoOnUntilTheSlowestHasWritten) {
  TemporaryFolder folder;
  auto run = RunDirectory::open(folder.path);
  ASSERT_OK(run.status());
  ThreadRanks group(3);
  std::latch goOn(1);
  std::array<int, 3> rounds{};
  auto results = group.run([&](Communicator &ranks) -> Status {
    // Each rank has one of three elements.
    float element = float(ranks.rank());
    ParameterView view = viewOf("w", 1, &element, &element);
    view.shape = {3};
    view.firstElement = ranks.rank();
    CheckpointContent content;
    content.step = 7;
    content.parameters = {&view, 1};
    content.addFiles = [&](const std::string &path) {
      goOn.wait();
      return publishFile(path + "/trainer_state.json", "{}");
    };
    CheckpointWriter writer(ranks.rank() == 0 ? &*run : nullptr, ranks);
    QWEN_RETURN_IF_ERROR(writer.begin(std::move(content)));
    int &round = rounds[size_t(ranks.rank())];
    for (bool isWritten = false; !isWritten; ++round) {
      // Nothing is there before the first rank's thread may end.
      if (!listCheckpoints(folder.path).empty())
        return invalidArgument("published too early");
      QWEN_ASSIGN_OR_RETURN(isWritten, writer.isWritten());
      if (ranks.rank() == 0 && round == 3)
        goOn.count_down();
    }
    QWEN_ASSIGN_OR_RETURN(std::string path, writer.finish());
    return path == run->checkpointPath(7) ? okStatus()
                                          : invalidArgument("{}", path);
  });
  for (const Status &result : results)
    ASSERT_OK(result);
  EXPECT_GT(rounds[0], 4);
  EXPECT_EQ(rounds[1], rounds[0]);
  EXPECT_EQ(rounds[2], rounds[0]);
  auto saved = Checkpoint::open(run->checkpointPath(7));
  ASSERT_OK(saved.status());
  auto *values = reinterpret_cast<const float *>(saved->find("w")->data.data());
  EXPECT_EQ(std::vector<float>(values, values + 3),
            (std::vector<float>{0, 1, 2}));
}
