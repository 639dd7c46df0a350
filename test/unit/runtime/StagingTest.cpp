//===- StagingTest.cpp - Checkpoints of a model on a device ---------------===//
//
// The same model in this process's memory and on a device whose memory ends the
// process when it is touched: the same bits go in, the same files come out.
//
//===----------------------------------------------------------------------===//

#include "runtime/checkpoint/Staging.h"
#include "FakeDevice.h"
#include "TemporaryFolder.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Checkpoint.h"

#include <cstring>
#include <deque>
#include <limits>
#include <random>

using namespace qwen;

namespace {

/// Parameters in host memory, or in that of a device.
struct StagedModel {
  explicit StagedModel(FakeDevice *device) : device(device) {
    // Sizes around those of a piece of 100 bytes.
    add("exact", {7, 9}, DType::BF16, false);
    add("wide", {130}, DType::BF16, true);
    add("narrow", {3, 25}, DType::BF16, false);
    add("half", {51}, DType::F32, false);
    add("double", {26}, DType::F32, false);
    add("one", {1}, DType::F32, false);
  }

  void add(const std::string &name, const std::vector<int64_t> &shape,
           DType dtype, bool master) {
    ParameterView view;
    view.name = name;
    view.shape = shape;
    if (device)
      view.memory = device;
    view.value = buffer(shape, dtype);
    view.moment1 = buffer(shape, DType::F32);
    view.moment2 = buffer(shape, dtype);
    if (master)
      view.master = buffer(shape, DType::F32);
    views.push_back(view);
  }

  Buffer buffer(const std::vector<int64_t> &shape, DType dtype) {
    Buffer buffer{contiguousType(dtype, shape), nullptr};
    auto &bytes = content.emplace_back(size_t(buffer.bytes()));
    buffer.data = device ? device->map(bytes) : bytes.data();
    return buffer;
  }

  /// Changes some elements of everything, as training does.
  void train() {
    std::mt19937 random(3);
    for (auto &bytes : content)
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4 * (1 + random() % 5)) {
        // 1 … 2 as float32, and in both halves as bfloat16.
        uint32_t bits = 0x3f803f80u | (random() & 0x007f007fu);
        std::memcpy(bytes.data() + i, &bits, 4);
      }
  }

  FakeDevice *device;
  std::vector<ParameterView> views;
  std::deque<std::vector<std::byte>> content; ///< of all buffers
};

} // namespace

/// A checkpoint whose tensors need casts that keep their originals, and more.
static void writeMixedSource(const std::string &folder) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  struct Tensor {
    TensorSpec spec;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors;
  auto add = [&](const char *name, FileDType dtype,
                 const std::vector<int64_t> &shape) {
    Tensor tensor{{name, dtype, shape}, {}};
    int64_t count = *tensor.spec.bytes() / fileDTypeBytes(dtype);
    std::vector<double> values(size_t(count), 0.0);
    for (double &value : values)
      value = normal(random);
    Buffer live{contiguousType(DType::F64, {count}), values.data()};
    tensor.bytes.resize(size_t(*tensor.spec.bytes()));
    storeElements(live, 0, count, dtype, {}, tensor.bytes.data());
    tensors.push_back(std::move(tensor));
  };
  add("double", FileDType::F64, {26});
  add("wide", FileDType::F32, {130});
  add("narrow", FileDType::F32, {3, 25});
  add("one", FileDType::F32, {1});
  add("exact", FileDType::BF16, {7, 9});
  add("half", FileDType::F16, {51});
  add("mtp.carried", FileDType::BF16, {5});
  std::vector<TensorSpec> specs;
  for (const Tensor &tensor : tensors)
    specs.push_back(tensor.spec);
  auto writer =
      SafetensorsWriter::create(folder + "/model.safetensors", specs, {});
  ASSERT_OK(writer.status());
  for (const Tensor &tensor : tensors)
    ASSERT_OK(writer->write(tensor.bytes));
  ASSERT_OK(writer->close());
}

static void save(const std::string &folder, const Checkpoint &source,
                 std::span<const ParameterView> views) {
  ASSERT_OK(checkFinite(views));
  ASSERT_OK(saveParameters(folder, &source, views));
  auto written = Checkpoint::open(folder);
  ASSERT_OK(written.status());
  // Small shards: tensors of several types in several files.
  ASSERT_OK(saveOptimizerState(folder, *written, views, 1000));
}

TEST(StagingTest, ADeviceGivesTheSameCheckpoints) {
  TemporaryFolder source, hostFolder, deviceFolder;
  writeMixedSource(source.path);
  auto checkpoint = Checkpoint::open(source.path);
  ASSERT_OK(checkpoint.status());
  FakeDevice memory;
  StagedModel host(nullptr), device(&memory);
  for (StagedModel *model : {&host, &device}) {
    auto report = loadParameters(*checkpoint, model->views, {});
    ASSERT_OK(report.status());
    EXPECT_EQ(report->loadedTensors, 6);
  }
  EXPECT_EQ(device.content, host.content);
  host.train();
  device.train();
  ASSERT_EQ(device.content, host.content);
  save(hostFolder.path, *checkpoint, host.views);
  save(deviceFolder.path, *checkpoint, device.views);
  int files = 0;
  for (auto &entry : std::filesystem::directory_iterator(hostFolder.path)) {
    std::string name = entry.path().filename().string();
    EXPECT_EQ(readFile(deviceFolder / name), readFile(hostFolder / name))
        << name;
    ++files;
  }
  EXPECT_GT(files, 3) << "weights, shards of the state and their index";

  // And back: into a fresh device every bit of the host's model.
  FakeDevice other(64);
  StagedModel resumed(&other);
  auto saved = Checkpoint::open(deviceFolder.path);
  ASSERT_OK(saved.status());
  ASSERT_OK(loadParameters(*saved, resumed.views, {}).status());
  auto state = loadOptimizerState(deviceFolder.path, resumed.views);
  ASSERT_OK(state.status());
  EXPECT_EQ(resumed.content, host.content);
  for (size_t i = 0; i < resumed.views.size(); ++i)
    EXPECT_TRUE(std::equal(
        resumed.views[i].original.begin(), resumed.views[i].original.end(),
        host.views[i].original.begin(), host.views[i].original.end()))
        << resumed.views[i].name;
}

TEST(StagingTest, FindsTheFirstBadElementInAnyPiece) {
  FakeDevice memory;
  StagedModel model(&memory);
  const ParameterView &wide = model.views[1];
  Staging staging(memory);
  auto none = staging.firstNonFinite(wide.master);
  ASSERT_OK(none.status());
  EXPECT_EQ(*none, -1);
  ASSERT_OK(checkFinite(model.views));
  float bad = std::numeric_limits<float>::infinity();
  for (int64_t at : {129, 77, 25, 24, 0}) {
    ASSERT_OK(memory.copyToDevice(wide.master.as<float>() + at, &bad, 4));
    auto found = staging.firstNonFinite(wide.master);
    ASSERT_OK(found.status());
    EXPECT_EQ(*found, at);
    EXPECT_ERROR(
        checkFinite(model.views),
        fmt::format("master of 'wide' is NaN or infinite at element {}", at)
            .c_str());
  }
}

TEST(StagingTest, AnErrorEndsTheWork) {
  FakeDevice memory;
  StagedModel model(&memory);
  Staging staging(memory);
  int pieces = 0;
  Status status = staging.read(
      model.views[1].master, [&](int64_t first, const ConstBuffer &) -> Status {
        ++pieces;
        return first < 50 ? okStatus() : invalidArgument("stop at {}", first);
      });
  EXPECT_ERROR(status, "stop at 50");
  EXPECT_EQ(pieces, 3);
  // An address that is no memory of the device.
  Buffer lost = model.views[0].value;
  lost.data = &pieces;
  EXPECT_ERROR(staging.firstNonFinite(lost).status(), "no device memory");
}
