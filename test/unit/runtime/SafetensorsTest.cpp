//===- SafetensorsTest.cpp - Files that tell the truth, and others --------===//

#include "runtime/checkpoint/Safetensors.h"
#include "TemporaryFolder.h"

#include <cstring>

using namespace qwen;

/// A file image with this header text and data.
static std::string image(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

static Status openImage(const TemporaryFolder &folder,
                        const std::string &content) {
  writeFile(folder / "t.safetensors", content);
  return SafetensorsFile::open(folder / "t.safetensors").status();
}

/// A small valid file with three tensors, one of them empty, and metadata.
static std::string validImage(const TemporaryFolder &folder) {
  std::vector<TensorSpec> specs = {{"a", FileDType::F32, {2, 2}},
                                   {"none", FileDType::I64, {0, 3}},
                                   {"b.weight", FileDType::BF16, {3}}};
  auto writer = SafetensorsWriter::create(folder / "valid", specs,
                                          {{"format", "pt"}, {"k", "\"v\""}});
  EXPECT_TRUE(writer.ok());
  std::vector<std::byte> data(22);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = std::byte(i);
  EXPECT_TRUE(writer->write(std::span(data).first(5)).ok());
  EXPECT_TRUE(writer->write(std::span(data).subspan(5)).ok());
  EXPECT_TRUE(writer->close().ok());
  return readFile(folder / "valid");
}

TEST(SafetensorsTest, RoundTrip) {
  TemporaryFolder folder;
  validImage(folder);
  auto file = SafetensorsFile::open(folder / "valid");
  ASSERT_OK(file.status());
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  const StoredTensor *b = file->find("b.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(toString(*b), "BF16[3]");
  ASSERT_EQ(b->data.size(), 6u);
  EXPECT_EQ(b->data[0], std::byte(16));
  EXPECT_EQ(file->find("none")->data.size(), 0u);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(file->metadata().at("k"), "\"v\"");
}

TEST(SafetensorsTest, WriterCountsItsBytes) {
  TemporaryFolder folder;
  std::vector<TensorSpec> specs = {{"a", FileDType::F32, {2}}};
  auto writer = SafetensorsWriter::create(folder / "w", specs, {});
  ASSERT_OK(writer.status());
  EXPECT_ERROR(writer->close(), "8 announced bytes not written");
  std::vector<TensorSpec> huge = {{"a", FileDType::F32, {INT64_MAX, 2}}};
  EXPECT_ERROR(SafetensorsWriter::create(folder / "w", huge, {}).status(),
               "too large");
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  TemporaryFolder folder;
  std::string whole = validImage(folder);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(openImage(folder, whole.substr(0, length)).ok()) << length;
  EXPECT_ERROR(openImage(folder, whole + "x"), "too long");
  EXPECT_ERROR(openImage(folder, whole.substr(0, whole.size() - 1)),
               fmt::format("expected file size {}, found {}", whole.size(),
                           whole.size() - 1));
}

TEST(SafetensorsTest, BitFlipsNeverLeaveTheFile) {
  TemporaryFolder folder;
  std::string whole = validImage(folder);
  size_t accepted = 0;
  for (size_t bit = 0; bit < (whole.size() - 22) * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    writeFile(folder / "flip", flipped);
    auto file = SafetensorsFile::open(folder / "flip");
    if (!file.ok())
      continue;
    // A flip inside a name or a metadata string can stay a valid file; what it
    // says of sizes must still hold.
    ++accepted;
    size_t bytes = 0;
    for (const StoredTensor &tensor : file->tensors())
      bytes += tensor.data.size();
    EXPECT_EQ(bytes, 22u);
  }
  EXPECT_LT(accepted, whole.size() * 4);
}

TEST(SafetensorsTest, EveryKindOfLieIsNamed) {
  TemporaryFolder folder;
  auto expect = [&](const std::string &header, size_t bytes,
                    const char *message) {
    EXPECT_ERROR(openImage(folder, image(header, std::string(bytes, 'x'))),
                 message);
  };
  expect("", 0, "not valid JSON");
  expect("[]", 0, "expected a JSON object");
  expect(R"({"a": 1})", 0, "expected an object");
  expect(R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", 4, "no dtype");
  expect(R"({"a": {"dtype": 5, "shape": [1], "data_offsets": [0, 4]}})", 4,
         "no dtype");
  expect(R"({"a": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}})", 4,
         "unknown dtype 'F33'");
  expect(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4, "no shape");
  expect(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4,
         "not a whole number");
  expect(R"({"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})",
         4, "not a whole number");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", 4,
         "two data_offsets");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", 4,
         "ascending pair");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}})", 8,
         "F32[1] needs 4 bytes, data_offsets give 8");
  expect(R"({"a": {"dtype": "F32", "shape": [9223372036854775807, 9],
             "data_offsets": [0, 4]}})",
         4, "needs too many bytes");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4],
             "x": 1}})",
         4, "unknown field 'x'");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 3,
         "file is cut: tensors need 4 bytes of data, it has 3");
  expect(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 8,
         "a hole");
  expect(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
             "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
         8, "they overlap");
  expect(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
             "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})",
         1, "key 'a' stands twice");
  expect(R"({"__metadata__": {"a": 1}})", 0, "not a string");
  expect(R"({"__metadata__": 3})", 0, "not an object");
}

TEST(SafetensorsTest, HugeHeaderLengths) {
  TemporaryFolder folder;
  EXPECT_ERROR(openImage(folder, std::string(8, '\xff')), "at most 100000000");
  EXPECT_ERROR(openImage(folder, std::string("\x40\0\0\0\0\0\0\0{}", 10)),
               "header of 64 bytes announced");
  EXPECT_ERROR(openImage(folder, ""), "0 bytes, at least 8");
}

TEST(SafetensorsTest, MessagesStayOnOneLine) {
  TemporaryFolder folder;
  EXPECT_ERROR(openImage(folder, image(R"({"a\n\u001b[2J": 1})", "")),
               "a\\x0a\\x1b[2J");
}
