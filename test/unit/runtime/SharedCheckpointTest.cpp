//===- SharedCheckpointTest.cpp - Checkpoints of a sharded model ----------===//
//
// Ranks are threads of the test. Whatever their number, the files are those of
// one rank byte for byte, and each gets its slices of them back.
//
//===----------------------------------------------------------------------===//

#include "TemporaryFolder.h"
#include "ThreadRanks.h"
#include "qwen/Plan/Contiguous.h"
#include "qwen/Plan/Sharding.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/checkpoint/StateCopy.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace qwen;

namespace {

struct Tensor {
  const char *name;
  std::vector<int64_t> shape;
  FileDType file;
  DType dtype;
  bool master = false;
  bool inStack = false; ///< follows the one before it without a gap

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return count;
  }
};

/// Odd sizes, a stack, a tied embedding that is one tensor, masters, and file
/// types that are the plan's, wider and narrower.
const std::vector<Tensor> tensors = {
    {"embed", {37, 11}, FileDType::F32, DType::BF16},
    {"norm", {7}, FileDType::F32, DType::BF16, true},
    {"q", {13, 7}, FileDType::BF16, DType::BF16},
    {"k", {5, 7}, FileDType::BF16, DType::BF16, false, true},
    {"v", {5, 7}, FileDType::BF16, DType::BF16, false, true},
    {"A_log", {3}, FileDType::F16, DType::F32},
    {"dt_bias", {3}, FileDType::F64, DType::F32},
    {"conv", {9, 1, 4}, FileDType::BF16, DType::F32},
    {"up", {131}, FileDType::F64, DType::BF16, true},
    {"one", {1}, FileDType::F32, DType::F32},
};

/// The first element and the number of those that a rank holds of a tensor.
std::pair<int64_t, int64_t> sliceOf(const Tensor &wanted, int rank, int ranks) {
  // One bucket for each element type.
  int64_t length = 0, offset = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.dtype != wanted.dtype)
      continue;
    if (!tensor.inStack)
      length = paddedElements(length, bucketAlignment);
    if (&tensor == &wanted)
      offset = length;
    length += tensor.elements();
  }
  int64_t shard = paddedElements(length, bucketAlignment * ranks) / ranks;
  int64_t begin = std::max(shard * rank, offset);
  int64_t end = std::min(shard * (rank + 1), offset + wanted.elements());
  if (begin >= end)
    return {0, 0};
  return {begin - offset, end - begin};
}

/// This process's memory as if it were that of a device.
class HookedMemory final : public DeviceMemory {
public:
  std::function<Status()> beforeCopy = [] { return okStatus(); };

  bool isHost() const override { return false; }
  Status copyToHost(void *host, const void *device, int64_t bytes) override {
    QWEN_RETURN_IF_ERROR(beforeCopy());
    std::memcpy(host, device, size_t(bytes));
    return okStatus();
  }
  Status copyToDevice(void *device, const void *host, int64_t bytes) override {
    std::memcpy(device, host, size_t(bytes));
    return okStatus();
  }
  Status zero(void *device, int64_t bytes) override {
    std::memset(device, 0, size_t(bytes));
    return okStatus();
  }
};

/// What one rank holds.
struct RankModel {
  explicit RankModel(int rank = 0, int ranks = 1) {
    for (const Tensor &tensor : tensors) {
      auto [first, count] = sliceOf(tensor, rank, ranks);
      ParameterView view;
      view.name = tensor.name;
      view.shape = tensor.shape;
      view.firstElement = first;
      view.value = buffer(count, tensor.dtype);
      view.moment1 = buffer(count, DType::F32);
      view.moment2 = buffer(count, tensor.dtype);
      if (tensor.master)
        view.master = buffer(count, DType::F32);
      views.push_back(view);
    }
  }
  Buffer buffer(int64_t count, DType dtype) {
    Buffer buffer{contiguousType(dtype, {count}), nullptr};
    // One byte more, so that an empty slice has an address too.
    buffer.data = content.emplace_back(size_t(buffer.bytes() + 1)).data();
    return buffer;
  }

  /// Changes some elements of everything, as training does.
  void train(unsigned seed) {
    std::mt19937 random(seed);
    for (auto &bytes : content)
      for (size_t i = 0; i + 4 < bytes.size(); i += 4 * (1 + random() % 5)) {
        // 1 … 2 as float32, and in both halves as bfloat16.
        uint32_t bits = 0x3f803f80u | (random() & 0x007f007fu);
        std::memcpy(bytes.data() + i, &bits, 4);
      }
  }

  std::vector<ParameterView> views;
  std::deque<std::vector<std::byte>> content; ///< of all buffers
};

std::vector<Buffer *> buffersOf(ParameterView &view) {
  std::vector<Buffer *> all = {&view.value, &view.moment1, &view.moment2};
  if (view.master.data)
    all.push_back(&view.master);
  return all;
}

/// Calls `use(slice's buffer, the same elements of the whole)`.
void forEachSlice(
    RankModel &model, RankModel &whole,
    const std::function<void(const Buffer &, const std::byte *)> &use) {
  for (size_t i = 0; i < model.views.size(); ++i) {
    std::vector<Buffer *> parts = buffersOf(model.views[i]),
                          all = buffersOf(whole.views[i]);
    for (size_t j = 0; j < parts.size(); ++j)
      use(*parts[j], all[j]->as<std::byte>() + model.views[i].firstElement *
                                                   dtypeBytes(all[j]->dtype));
  }
}

void copySlices(RankModel &model, RankModel &whole) {
  forEachSlice(model, whole, [](const Buffer &part, const std::byte *from) {
    std::memcpy(part.data, from, size_t(part.bytes()));
  });
}

/// Compares every bit, and what training started from.
Status compareSlices(RankModel &model, RankModel &whole) {
  bool same = true;
  forEachSlice(model, whole, [&](const Buffer &part, const std::byte *other) {
    same &= std::memcmp(part.data, other, size_t(part.bytes())) == 0;
  });
  for (size_t i = 0; i < model.views.size(); ++i) {
    const ParameterView &part = model.views[i], &all = whole.views[i];
    if ((part.original.data() == nullptr) != (all.original.data() == nullptr))
      return invalidArgument("'{}': one has an original", part.name);
    auto size = size_t(fileDTypeBytes(tensors[i].file));
    if (part.original.data())
      same &= std::ranges::equal(
          part.original,
          all.original.subspan(size_t(part.firstElement) * size,
                               size_t(part.value.elements()) * size));
  }
  return same ? okStatus() : invalidArgument("other bits");
}

/// A checkpoint to start from, its first shard with what is carried.
void writeSource(const std::string &folder) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<std::vector<TensorSpec>> specs(2);
  std::vector<std::vector<std::vector<std::byte>>> data(2);
  specs[0] = {{"mtp.fc", FileDType::BF16, {5001}},
              {"visual.x", FileDType::U8, {3}},
              {"visual.none", FileDType::F32, {0, 4}}};
  for (const TensorSpec &spec : specs[0]) {
    auto &bytes = data[0].emplace_back(size_t(*spec.bytes()));
    for (std::byte &byte : bytes)
      byte = std::byte(random());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<double> values(size_t(tensors[i].elements()));
    for (double &value : values)
      value = normal(random);
    ConstBuffer live{contiguousType(DType::F64, {int64_t(values.size())}),
                     values.data()};
    TensorSpec spec{tensors[i].name, tensors[i].file, tensors[i].shape};
    specs[i % 2].push_back(spec);
    auto &bytes = data[i % 2].emplace_back(size_t(*spec.bytes()));
    storeElements(live, 0, live.shape[0], spec.dtype, {}, bytes.data());
  }
  std::string map;
  for (size_t file = 0; file < 2; ++file) {
    std::string name = fmt::format("m-{}.safetensors", file);
    auto writer =
        SafetensorsWriter::create(folder + "/" + name, specs[file], {});
    ASSERT_OK(writer.status());
    for (const auto &bytes : data[file])
      ASSERT_OK(writer->write(bytes));
    ASSERT_OK(writer->close());
    for (const TensorSpec &spec : specs[file])
      map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ",", spec.name,
                         name);
  }
  writeFile(folder + "/model.safetensors.index.json",
            "{\"weight_map\": {" + map + "}}");
}

/// A save as that of a run: from the state itself, or beside what this thread
/// does next from a copy.
Status saveTo(const RunDirectory *directory, int64_t step, Communicator &ranks,
              const Checkpoint *source, const RankModel &model,
              bool isBeside = false) {
  CheckpointContent content;
  content.step = step;
  content.source = source;
  content.parameters = model.views;
  content.maxShardBytes = 2000;
  content.addFiles = [](const std::string &folder) {
    return publishFile(folder + "/trainer_state.json", "{}");
  };
  StateCopy copy; // outlives the writer
  CheckpointWriter writer(directory, ranks);
  if (!isBeside)
    return writer.save(std::move(content)).status();
  QWEN_RETURN_IF_ERROR(copy.take(model.views, ranks));
  content.parameters = copy.parameters();
  QWEN_RETURN_IF_ERROR(writer.begin(std::move(content)));
  return writer.finish().status();
}

Status loadFrom(const std::string &path, Communicator &ranks, RankModel &model,
                std::deque<Checkpoint> &opened) {
  auto weights = Checkpoint::open(path);
  QWEN_RETURN_IF_ERROR(ranks.agree(weights.status()));
  QWEN_RETURN_IF_ERROR(
      loadParameters(*weights, model.views, {}, ranks).status());
  auto state = loadOptimizerState(path, model.views, ranks);
  QWEN_RETURN_IF_ERROR(state.status());
  opened.push_back(std::move(weights).value());
  opened.push_back(std::move(state).value());
  return okStatus();
}

std::map<std::string, std::string> filesOf(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (auto &entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = readFile(entry.path().string());
  return files;
}

void expectAll(const std::vector<Status> &results) {
  for (const Status &result : results)
    EXPECT_TRUE(result.ok()) << result.message();
}

/// A trained model and its source on disk.
class SharedCheckpoint : public testing::Test {
protected:
  void SetUp() override {
    writeSource(folder.path);
    auto opened = Checkpoint::open(folder.path);
    ASSERT_OK(opened.status());
    source.emplace(std::move(opened).value());
    ASSERT_OK(loadParameters(*source, whole.views, {}).status());
  }
  /// Opens a run's folder and saves the whole model in it as that of a step.
  StatusOr<RunDirectory> start(const std::string &path, int64_t step) {
    QWEN_ASSIGN_OR_RETURN(RunDirectory run, RunDirectory::open(path));
    QWEN_RETURN_IF_ERROR(
        saveTo(&run, step, selfCommunicator(), &*source, whole));
    return run;
  }
  /// Saves the trained model on several ranks. `prepare` sees each before.
  std::vector<Status> saveOn(
      ThreadRanks &group, const RunDirectory &run, int64_t step,
      const std::function<void(int, RankModel &)> &prepare =
          [](int, RankModel &) {}) {
    return group.run([&](Communicator &ranks) -> Status {
      RankModel model(ranks.rank(), ranks.size());
      QWEN_RETURN_IF_ERROR(
          loadParameters(*source, model.views, {}, ranks).status());
      copySlices(model, whole);
      prepare(ranks.rank(), model);
      return saveTo(ranks.rank() == 0 ? &run : nullptr, step, ranks, &*source,
                    model, isBeside);
    });
  }

  /// In a process of its own: a save of step 2 that a kill ends before the
  /// act of that number.
  [[noreturn]] void saveAndDie(const std::string &path, int point) {
    std::atomic<int> left = point;
    auto act = [&] {
      if (left-- == 0)
        ::raise(SIGKILL);
      return okStatus();
    };
    HookedMemory memory;
    memory.beforeCopy = act;
    auto run = RunDirectory::open(path);
    ThreadRanks group(3);
    group.beforeOperation = [&](int) { (void)act(); };
    bool good = run.ok();
    if (good)
      for (const Status &result :
           saveOn(group, *run, 2, [&](int, RankModel &model) {
             for (ParameterView &view : model.views)
               view.memory = &memory;
           }))
        good &= result.ok();
    ::_exit(good ? 0 : 1);
  }

  TemporaryFolder folder;
  std::optional<Checkpoint> source;
  RankModel whole;
  bool isBeside = false; ///< from a copy, in threads of their own
};

class SharedCheckpointTest : public SharedCheckpoint,
                             public testing::WithParamInterface<int> {};
class SharedFailureTest : public SharedCheckpoint,
                          public testing::WithParamInterface<bool> {
protected:
  void SetUp() override {
    SharedCheckpoint::SetUp();
    isBeside = GetParam();
  }
};

} // namespace

TEST_P(SharedCheckpointTest, EveryRankReadsItsSlices) {
  ThreadRanks group(GetParam());
  expectAll(group.run([&](Communicator &ranks) -> Status {
    RankModel model(ranks.rank(), ranks.size());
    QWEN_ASSIGN_OR_RETURN(LoadReport report,
                          loadParameters(*source, model.views, {}, ranks));
    if (report.loadedTensors != int64_t(tensors.size()) ||
        report.carriedTensors != 3 || report.carriedBytes != 10005)
      return invalidArgument("another report");
    return compareSlices(model, whole);
  }));
}

TEST_P(SharedCheckpointTest, FilesAreThoseOfOneRank) {
  whole.train(3);
  auto one = start(folder / "one", 5);
  ASSERT_OK(one.status());
  auto several = RunDirectory::open(folder / "several");
  ASSERT_OK(several.status());
  ThreadRanks group(GetParam());
  auto expected = filesOf(folder / "one/checkpoint-5");
  EXPECT_GT(expected.size(), 6u) << "weights, state in shards, indices";
  for (bool beside : {false, true}) {
    isBeside = beside;
    expectAll(saveOn(group, *several, 5));
    auto found = filesOf(folder / "several/checkpoint-5");
    ASSERT_EQ(found.size(), expected.size());
    for (auto &[name, content] : expected)
      EXPECT_EQ(found[name], content) << name;
    std::filesystem::remove_all(folder / "several/checkpoint-5");
  }

  // Without a predecessor too.
  std::filesystem::create_directories(folder / "own/one");
  std::filesystem::create_directories(folder / "own/several");
  ASSERT_OK(saveParameters(folder / "own/one", nullptr, whole.views, 500));
  expectAll(group.run([&](Communicator &ranks) -> Status {
    RankModel model(ranks.rank(), ranks.size());
    copySlices(model, whole);
    return saveParameters(folder / "own/several", nullptr, model.views, 500,
                          ranks);
  }));
  EXPECT_GT(filesOf(folder / "own/one").size(), 2u);
  EXPECT_EQ(filesOf(folder / "own/several"), filesOf(folder / "own/one"));
}

TEST_P(SharedCheckpointTest, AnyNumberOfRanksResumesWithEveryBit) {
  whole.train(4);
  auto run = RunDirectory::open(folder / "run");
  ASSERT_OK(run.status());
  ThreadRanks savers(GetParam());
  expectAll(saveOn(savers, *run, 1));
  for (int ranks : {1, 2, 3, 7}) {
    ThreadRanks group(ranks);
    expectAll(group.run([&](Communicator &ranks) -> Status {
      RankModel model(ranks.rank(), ranks.size());
      std::deque<Checkpoint> opened;
      QWEN_RETURN_IF_ERROR(
          loadFrom(folder / "run/checkpoint-1", ranks, model, opened));
      return compareSlices(model, whole);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedCheckpointTest,
                         testing::Values(1, 2, 3, 7));

namespace {
/// Expects the line of the failing rank on all ranks, and its number on the
/// others.
void expectFrom(int failing, const std::vector<Status> &results,
                const std::string &line) {
  for (int rank = 0; rank < int(results.size()); ++rank) {
    EXPECT_ERROR(results[size_t(rank)], line);
    std::string prefix = fmt::format("rank {}: ", failing);
    EXPECT_EQ(results[size_t(rank)].message().starts_with(prefix),
              rank != failing)
        << results[size_t(rank)].message();
    EXPECT_EQ(results[size_t(rank)].code(), results[size_t(failing)].code());
  }
}

/// Expects that the newest checkpoint is that of step 1 and nothing else is
/// left.
void expectOnlyTheFirst(const std::string &path) {
  for (auto &entry : std::filesystem::directory_iterator(path)) {
    std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "checkpoint-1" || name == ".lock") << name;
  }
  ASSERT_OK(verifyCheckpoint(path + "/checkpoint-1"));
}
} // namespace

TEST_P(SharedFailureTest, AFindingOfOneRankStopsAll) {
  // The last element of the last bf16 tensor is in the last slices.
  std::string path = folder / "m-0.safetensors";
  auto setLast = [&](double value) {
    auto file = SafetensorsFile::open(path);
    ASSERT_OK(file.status());
    auto data = file->find("up")->data, last = file->tensors().back().data;
    auto behind = (last.data() + last.size()) - (data.data() + data.size());
    std::string text = readFile(path);
    std::memcpy(text.data() + text.size() - size_t(behind) - sizeof value,
                &value, sizeof value);
    writeFile(path, text);
  };
  setLast(std::numeric_limits<double>::quiet_NaN());
  auto load = [&](const char *line) {
    auto opened = Checkpoint::open(folder.path);
    ASSERT_OK(opened.status());
    ThreadRanks group(3);
    auto results = group.run([&](Communicator &ranks) -> Status {
      RankModel model(ranks.rank(), ranks.size());
      return loadParameters(*opened, model.views, {}, ranks).status();
    });
    expectFrom(2, results, line);
  };
  load("1 with NaN or infinity (up)");
  setLast(1e300);
  load("tensor 'up' of F64 has values that bf16 cannot hold");
}

TEST_P(SharedFailureTest, SlicesMustBeTheWhole) {
  auto run = start(folder / "run", 1);
  ASSERT_OK(run.status());
  ThreadRanks group(3);
  auto results = saveOn(group, *run, 2, [](int rank, RankModel &model) {
    if (rank == 1)
      ++model.views[0].firstElement;
  });
  for (const Status &result : results)
    EXPECT_ERROR(result, "rank 1 holds 'embed' from element");
  results = saveOn(group, *run, 2, [](int rank, RankModel &model) {
    if (rank == 2)
      --model.views[8].value.shape[0];
  });
  for (const Status &result : results)
    EXPECT_ERROR(result, "the ranks hold 130 elements of 'up', it has 131");
  expectOnlyTheFirst(folder / "run");
}

TEST_P(SharedFailureTest, AnErrorOfOneRankHarmsNothing) {
  auto run = start(folder / "run", 1);
  ASSERT_OK(run.status());
  whole.train(5);
  ThreadRanks group(3);
  for (int failing : {0, 1, 2}) {
    HookedMemory memory;
    std::atomic<int> left = 5;
    memory.beforeCopy = [&]() -> Status {
      return --left > 0 ? okStatus()
                        : makeError(StatusCode::IoError, "cable pulled");
    };
    auto results = saveOn(group, *run, 2, [&](int rank, RankModel &model) {
      for (ParameterView &view : model.views)
        if (rank == failing)
          view.memory = &memory;
    });
    expectFrom(failing, results, "cable pulled");
    EXPECT_EQ(results[0].code(), StatusCode::IoError);
    expectOnlyTheFirst(folder / "run");
  }
  // And then all is well again.
  expectAll(saveOn(group, *run, 2));
  ASSERT_OK(verifyCheckpoint(folder / "run/checkpoint-2"));
}

TEST_P(SharedFailureTest, AFullDiskIsFoundBeforeATensorIsWritten) {
  auto run = start(folder / "run", 1);
  ASSERT_OK(run.status());
  // A limit on file sizes stands for the full disk.
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = {512, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  HookedMemory memory;
  std::atomic<int> copies = 0;
  memory.beforeCopy = [&] {
    ++copies;
    return okStatus();
  };
  ThreadRanks group(3);
  auto results = saveOn(group, *run, 2, [&](int, RankModel &model) {
    for (ParameterView &view : model.views)
      view.memory = &memory;
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expectFrom(0, results, "cannot write");
  EXPECT_EQ(copies == 0, !isBeside) << "but for those of the state";
  expectOnlyTheFirst(folder / "run");
}

TEST_P(SharedFailureTest, KilledAtAnyPointTheLastGoodOneStays) {
  std::string path = folder / "run";
  ASSERT_OK(start(path, 1).status());
  RankModel first;
  ASSERT_OK(loadParameters(*source, first.views, {}).status());
  whole.train(6);
  bool ended = false;
  for (int point = 0; !ended; ++point) {
    // All ranks die with their process, in the middle of what they do: before
    // an operation of theirs or before a tensor is written.
    pid_t child = ::fork();
    if (child == 0)
      saveAndDie(path, point);
    int result = 0;
    ASSERT_EQ(::waitpid(child, &result, 0), child);
    ended = WIFEXITED(result);
    ASSERT_TRUE(ended ? WEXITSTATUS(result) == 0 : WTERMSIG(result) == SIGKILL);
    // The next run takes the folder over.
    ASSERT_OK(RunDirectory::open(path).status());
    std::vector<std::string> warnings;
    auto newest = findNewestCheckpoint(path, warnings);
    ASSERT_OK(newest.status());
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    // A kill behind the last act of the save comes too late.
    bool saved = newest->step == 2;
    EXPECT_TRUE(saved || !ended);
    RankModel loaded;
    std::deque<Checkpoint> opened;
    ASSERT_OK(loadFrom(newest->path, selfCommunicator(), loaded, opened));
    ASSERT_OK(compareSlices(loaded, saved ? whole : first));
    std::filesystem::remove_all(path + "/checkpoint-2");
    expectOnlyTheFirst(path);
    ASSERT_LT(point, 2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SharedFailureTest, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Beside" : "Waiting";
                         });
