//===- CheckpointTest.cpp - Checkpoint folders, in and out ----------------===//

#include "runtime/checkpoint/Checkpoint.h"
#include "TemporaryFolder.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/support/Json.h"

#include <bit>
#include <cstring>
#include <limits>

using namespace qwen;

namespace {
/// A tensor in memory with its name, for building files.
struct NamedTensor {
  TensorSpec spec;
  std::string bytes;
};

/// Parameters of a tiny model and the memory that they live in.
struct Model {
  std::vector<ParameterView> views;
  std::vector<std::vector<std::byte>> memory;

  void add(const std::string &name, std::vector<int64_t> shape, DType dtype,
           bool master = false) {
    ParameterView view;
    view.name = name;
    view.shape = shape;
    view.value = buffer(shape, dtype);
    view.moment1 = buffer(shape, DType::F32);
    view.moment2 = buffer(shape, DType::F32);
    if (master)
      view.master = buffer(shape, DType::F32);
    views.push_back(view);
  }
  Buffer buffer(const std::vector<int64_t> &shape, DType dtype) {
    Buffer buffer{contiguousType(dtype, shape), nullptr};
    memory.emplace_back(size_t(buffer.bytes()));
    buffer.data = memory.back().data();
    return buffer;
  }
  std::string content() const {
    std::string all;
    for (auto &bytes : memory)
      all.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return all;
  }
};
} // namespace

static std::string bytesOf(std::vector<float> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * 4};
}
static std::string bf16Of(std::vector<float> values) {
  std::string out;
  for (float value : values) {
    uint16_t bits = uint16_t(std::bit_cast<uint32_t>(value) >> 16);
    out.append(reinterpret_cast<const char *>(&bits), 2);
  }
  return out;
}

static void writeShard(const std::string &path,
                       const std::vector<NamedTensor> &tensors) {
  std::vector<TensorSpec> specs;
  for (auto &tensor : tensors)
    specs.push_back(tensor.spec);
  auto writer = SafetensorsWriter::create(path, specs, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok());
  for (auto &tensor : tensors)
    ASSERT_OK(writer->write(std::as_bytes(std::span(tensor.bytes))));
  ASSERT_OK(writer->close());
}

static NamedTensor f32(const std::string &name, std::vector<float> values) {
  return {{name, FileDType::F32, {int64_t(values.size())}}, bytesOf(values)};
}
static NamedTensor bf16(const std::string &name, std::vector<float> values) {
  return {{name, FileDType::BF16, {int64_t(values.size())}}, bf16Of(values)};
}

/// Two shards with one vision tensor, and their index.
static void writeSharded(const std::string &folder) {
  writeShard(folder + "/m-1.safetensors",
             {bf16("model.a", {1, 2, 3}), f32("model.A_log", {0.1f, 0.2f})});
  writeShard(folder + "/m-2.safetensors",
             {bf16("model.visual.x", {9, 8, 7, 6}), f32("model.b", {0.3f})});
  writeFile(folder + "/model.safetensors.index.json",
            R"({"metadata": {"total_size": 26}, "weight_map": {
  "model.a": "m-1.safetensors", "model.A_log": "m-1.safetensors",
  "model.visual.x": "m-2.safetensors", "model.b": "m-2.safetensors"}})");
}

static Model shardedModel() {
  Model model;
  model.add("model.a", {3}, DType::F32);
  model.add("model.A_log", {2}, DType::F32);
  model.add("model.b", {1}, DType::BF16);
  return model;
}

TEST(CheckpointTest, UnchangedWeightsRoundTripByteForByte) {
  TemporaryFolder in, out;
  writeSharded(in.path);
  auto checkpoint = Checkpoint::open(in.path);
  ASSERT_OK(checkpoint.status());
  Model model = shardedModel();
  auto report = loadParameters(*checkpoint, model.views, {});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->loadedTensors, 3);
  EXPECT_EQ(report->carriedTensors, 1);
  EXPECT_EQ(report->carriedBytes, 8);
  ASSERT_EQ(report->casts.size(), 2u);
  EXPECT_EQ(report->casts[1].example, "model.b");
  EXPECT_EQ(model.views[0].value.as<float>()[2], 3.0f);
  ASSERT_OK(saveParameters(out.path, &*checkpoint, model.views));
  for (const char *file : {"/m-1.safetensors", "/m-2.safetensors",
                           "/model.safetensors.index.json"})
    EXPECT_EQ(readFile(in.path + file), readFile(out.path + file)) << file;
}

TEST(CheckpointTest, TrainedWeightsKeepNamesTypesAndCarriedTensors) {
  TemporaryFolder in, out;
  writeSharded(in.path);
  auto checkpoint = Checkpoint::open(in.path);
  ASSERT_OK(checkpoint.status());
  Model model = shardedModel();
  ASSERT_OK(loadParameters(*checkpoint, model.views, {}).status());
  model.views[0].value.as<float>()[0] = 5.5f;
  ASSERT_OK(saveParameters(out.path, &*checkpoint, model.views));
  auto saved = Checkpoint::open(out.path);
  ASSERT_OK(saved.status());
  EXPECT_EQ(toString(*saved->find("model.a")), "BF16[3]");
  auto data = saved->find("model.a")->data;
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(data.data()), 6),
            bf16Of({5.5f, 2, 3}));
  EXPECT_EQ(std::memcmp(saved->find("model.visual.x")->data.data(),
                        checkpoint->find("model.visual.x")->data.data(), 8),
            0);
}

TEST(CheckpointTest, ReportsAllThatDoesNotFitAndWritesNothing) {
  TemporaryFolder folder;
  writeShard(folder / "model.safetensors",
             {f32("model.a", {1}),
              {{"model.A_log", FileDType::I32, {2}}, std::string(8, 1)},
              f32("model.layers.9.x", {1}),
              f32("mtp.fc", {1}),
              f32("model.c", {std::numeric_limits<float>::quiet_NaN()})});
  auto checkpoint = Checkpoint::open(folder.path);
  ASSERT_OK(checkpoint.status());
  Model model = shardedModel();
  model.add("model.c", {1}, DType::F32);
  std::string before = model.content();
  Status status = loadParameters(*checkpoint, model.views, {}).status();
  EXPECT_ERROR(status, "1 missing (model.b)");
  EXPECT_ERROR(status, "1 of wrong shape (model.a: plan [3], file [1])");
  EXPECT_ERROR(status, "1 of wrong type (model.A_log");
  EXPECT_ERROR(status, "1 with NaN or infinity (model.c)");
  EXPECT_ERROR(status, "1 not in the plan (model.layers.9.x)");
  EXPECT_EQ(model.content(), before);
  std::vector<std::string> carry = {"model.layers.9."};
  EXPECT_EQ(loadParameters(*checkpoint, model.views, carry)
                .status()
                .message()
                .find("not in the plan"),
            std::string::npos);
  // A slip in a prefix would lose tensors that somebody counts on; values are
  // not looked at without loading.
  carry = {"model.layers.9.", "model.layer."};
  status = checkLayout(*checkpoint, model.views, carry);
  EXPECT_ERROR(status, "1 to carry by a prefix that no other tensor has "
                       "(model.layer.)");
  EXPECT_EQ(status.message().find("NaN"), std::string::npos);
}

TEST(CheckpointTest, RefusesWhatTheTypeOfThePlanCannotHold) {
  TemporaryFolder folder;
  writeShard(folder / "model.safetensors",
             {f32("model.a", {1, std::numeric_limits<float>::max()})});
  auto checkpoint = Checkpoint::open(folder.path);
  ASSERT_OK(checkpoint.status());
  Model narrow, wide;
  narrow.add("model.a", {2}, DType::BF16);
  wide.add("model.a", {2}, DType::F32);
  EXPECT_ERROR(loadParameters(*checkpoint, narrow.views, {}).status(),
               "tensor 'model.a' of F32 has values that bf16 cannot hold");
  ASSERT_OK(loadParameters(*checkpoint, wide.views, {}).status());
}

TEST(CheckpointTest, IndexAndShardsMustAgree) {
  TemporaryFolder folder;
  writeSharded(folder.path);
  writeFile(folder / "model.safetensors.index.json",
            R"({"metadata": {"total_size": 26}, "weight_map": {
  "model.a": "m-2.safetensors", "model.A_log": "m-1.safetensors",
  "model.gone": "m-1.safetensors", "model.b": "m-2.safetensors",
  "model.c": "m-3.safetensors"}})");
  Status status = Checkpoint::open(folder.path).status();
  EXPECT_ERROR(status, "4 mismatches");
  EXPECT_ERROR(status, "m-3.safetensors': No such file");
  EXPECT_ERROR(status, "'model.a' is in m-1.safetensors, the index says m-2");
  EXPECT_ERROR(status, "'model.gone' is not in m-1.safetensors");
  EXPECT_ERROR(status, "'model.visual.x' of m-2.safetensors is not in");
}

TEST(CheckpointTest, IndexLies) {
  TemporaryFolder folder;
  writeSharded(folder.path);
  std::string path = folder / "model.safetensors.index.json";
  std::string good = readFile(path);
  auto expect = [&](const std::string &text, const char *message) {
    writeFile(path, text);
    EXPECT_ERROR(Checkpoint::open(folder.path).status(), message);
  };
  std::string wrongSize = good;
  wrongSize.replace(wrongSize.find("26"), 2, "27");
  expect(wrongSize, "total_size of the index is 27, the tensors have 26 bytes");
  expect("{}", "no weight_map");
  expect("", "not valid JSON");
  expect(R"({"weight_map": {}})", "weight_map is empty");
  expect(R"({"weight_map": {"a": "../x.safetensors"}})", "plain file name");
  expect(R"({"weight_map": {"a": "d/x.safetensors"}})", "plain file name");
  expect(R"({"weight_map": {"a": 1}})", "plain file name");
  writeFile(path, good);
  std::filesystem::resize_file(folder / "m-2.safetensors", 10);
  EXPECT_ERROR(Checkpoint::open(folder.path).status(), "m-2.safetensors': ");
  writeFile(folder / "model.safetensors", "");
  EXPECT_ERROR(Checkpoint::open(folder.path).status(), "which one is meant");
}

TEST(CheckpointTest, NoCheckpoint) {
  TemporaryFolder folder;
  EXPECT_ERROR(Checkpoint::open(folder / "none").status(),
               "no checkpoint folder");
  EXPECT_ERROR(Checkpoint::open(folder.path).status(), "has neither");
}

TEST(CheckpointTest, OwnLayoutSplitsIntoShards) {
  TemporaryFolder folder;
  Model model = shardedModel();
  for (auto &bytes : model.memory)
    std::fill(bytes.begin(), bytes.end(), std::byte(0x3f));
  ASSERT_OK(saveParameters(folder.path, nullptr, model.views, 12));
  auto saved = Checkpoint::open(folder.path);
  ASSERT_OK(saved.status());
  EXPECT_EQ(saved->shards().size(), 2u);
  EXPECT_EQ(saved->shards()[0].fileName, "model-00001-of-00002.safetensors");
  Model again = shardedModel();
  ASSERT_OK(loadParameters(*saved, again.views, {}).status());
  EXPECT_EQ(
      std::memcmp(again.views[0].value.data, model.views[0].value.data, 12), 0);
}

TEST(CheckpointTest, OptimizerStateRestoresEveryBit) {
  TemporaryFolder in, out;
  writeSharded(in.path);
  auto checkpoint = Checkpoint::open(in.path);
  ASSERT_OK(checkpoint.status());
  auto makeModel = [] {
    Model model;
    model.add("model.a", {3}, DType::F32);            // BF16 on disk
    model.add("model.A_log", {2}, DType::BF16, true); // F32 on disk
    model.add("model.b", {1}, DType::BF16);           // F32 on disk
    return model;
  };
  Model model = makeModel();
  ASSERT_OK(loadParameters(*checkpoint, model.views, {}).status());
  for (ParameterView &view : model.views)
    for (Buffer *buffer : {&view.moment1, &view.moment2, &view.master})
      for (int64_t i = 0; buffer->data && i < buffer->elements(); ++i)
        buffer->as<float>()[i] += 0.123456789f * float(i + 1);
  model.views[0].value.as<float>()[1] = 2.000001f;
  model.views[2].value.as<uint16_t>()[0] ^= 1;
  ASSERT_OK(saveParameters(out.path, &*checkpoint, model.views));
  auto saved = Checkpoint::open(out.path);
  ASSERT_OK(saved.status());
  ASSERT_OK(saveOptimizerState(out.path, *saved, model.views));

  Model again = makeModel();
  ASSERT_OK(loadParameters(*saved, again.views, {}).status());
  auto state = loadOptimizerState(out.path, again.views);
  ASSERT_OK(state.status());
  EXPECT_EQ(again.content(), model.content());
  // What the run started from is known after the restart too: a value that
  // comes back to it gets the original's bits.
  TemporaryFolder second;
  ASSERT_OK(saveParameters(second.path, &*saved, again.views));
  EXPECT_NE(readFile(second / "m-2.safetensors"),
            readFile(in / "m-2.safetensors"));
  again.views[2].value.as<uint16_t>()[0] ^= 1;
  ASSERT_OK(saveParameters(second.path, &*saved, again.views));
  EXPECT_EQ(readFile(second / "m-2.safetensors"),
            readFile(in / "m-2.safetensors"));
}

TEST(CheckpointTest, OptimizerStateOfAnotherPlanIsRefused) {
  TemporaryFolder folder;
  Model model = shardedModel();
  ASSERT_OK(saveParameters(folder.path, nullptr, model.views));
  auto saved = Checkpoint::open(folder.path);
  ASSERT_OK(saved.status());
  ASSERT_OK(saveOptimizerState(folder.path, *saved, model.views));
  Model larger = shardedModel();
  larger.add("model.c", {1}, DType::F32);
  EXPECT_ERROR(loadOptimizerState(folder.path, larger.views).status(),
               "moment1.model.c is missing");
  Model smaller = shardedModel();
  smaller.views.pop_back();
  EXPECT_ERROR(loadOptimizerState(folder.path, smaller.views).status(),
               "6 tensors in the files, 4 known");
  Model other = shardedModel();
  other.views[0].shape = {1, 3};
  EXPECT_ERROR(loadOptimizerState(folder.path, other.views).status(),
               "moment1.model.a is F32[3], the plan has F32[1, 3]");
}

/// Loads parameters and writes what their checkpoint has; returns its bytes on
/// the disk.
static StatusOr<int64_t> writtenBytes(const Checkpoint *source,
                                      std::vector<ParameterView> parameters) {
  TemporaryFolder out;
  CheckpointFiles files;
  if (source)
    QWEN_RETURN_IF_ERROR(loadParameters(*source, parameters, {}).status());
  QWEN_RETURN_IF_ERROR(
      planCheckpoint(source, parameters, defaultShardBytes, files));
  QWEN_RETURN_IF_ERROR(reserveFiles(out.path, files));
  QWEN_RETURN_IF_ERROR(fillFiles(out.path, files, 0, 1));
  int64_t bytes = 0;
  for (auto &entry : std::filesystem::directory_iterator(out.path))
    bytes += int64_t(entry.file_size());
  return bytes;
}

TEST(CheckpointTest, BytesAreKnownBeforeAnythingIsLoaded) {
  TemporaryFolder in;
  writeSharded(in.path);
  auto source = Checkpoint::open(in.path);
  ASSERT_OK(source.status());
  // The originals of what is narrower than its file, or masters.
  Model plain = shardedModel(), masters;
  masters.add("model.a", {3}, DType::F32);
  masters.add("model.A_log", {2}, DType::BF16, true);
  masters.add("model.b", {1}, DType::BF16, true);
  for (const Model *model : {&plain, &masters})
    for (const Checkpoint *from :
         {&source.value(), static_cast<Checkpoint *>(nullptr)}) {
      auto told = checkpointBytes(from, model->views);
      ASSERT_OK(told.status());
      auto written = writtenBytes(from, model->views);
      ASSERT_OK(written.status());
      EXPECT_EQ(*told, *written) << (from ? "like a source" : "its own");
    }
}

TEST(CheckpointTest, NonFiniteIsFoundByName) {
  Model model = shardedModel();
  ASSERT_OK(checkFinite(model.views));
  model.views[1].moment2.as<float>()[1] =
      std::numeric_limits<float>::infinity();
  EXPECT_ERROR(
      checkFinite(model.views),
      "second moment of 'model.A_log' is NaN or infinite at element 1");
}

TEST(SideFilesTest, CopiesWhatBelongsToTheModel) {
  TemporaryFolder in, out;
  for (const char *name :
       {"config.json", "tokenizer.json", "chat_template.jinja", "merges.txt",
        "LICENSE", "model.safetensors", "model.safetensors.index.json",
        "trainer_state.json", "notes.py"})
    writeFile(in / name, name);
  SideFiles files;
  ASSERT_OK(files.addFolder(in.path));
  writeFile(in / "other", "mine");
  ASSERT_OK(files.addFile(in / "other", "config.json"));
  std::filesystem::remove_all(in.path);
  ASSERT_OK(files.writeTo(out.path));
  EXPECT_EQ(readFile(out / "config.json"), "mine");
  EXPECT_EQ(readFile(out / "merges.txt"), "merges.txt");
  int64_t count = 0, bytes = 0;
  for (auto &entry : std::filesystem::directory_iterator(out.path)) {
    ++count;
    bytes += int64_t(entry.file_size());
  }
  EXPECT_EQ(count, 5);
  EXPECT_EQ(files.bytes(), bytes);
}
