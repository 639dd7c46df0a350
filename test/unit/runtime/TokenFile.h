//===- TokenFile.h - Token files for tests ---------------------*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_TOKENFILE_H
#define QWEN_TEST_UNIT_RUNTIME_TOKENFILE_H

#include "TemporaryFolder.h"
#include "runtime/checkpoint/Safetensors.h"

#include <map>
#include <vector>

namespace qwen {

/// Content of a token file; a test may spoil any of it before writing.
struct TokenFile {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  std::vector<uint8_t> mask;
  SafetensorsMetadata metadata = {{"format", "qwen-tokens-1"},
                                  {"tokenizer_sha256", "abc"}};
  FileDType tokenType = FileDType::I32;

  /// Adds a document; by default all but its first token are supervised.
  void add(const std::vector<int32_t> &document, bool supervised = true) {
    for (size_t i = 0; i < document.size(); ++i) {
      tokens.push_back(document[i]);
      mask.push_back(supervised && i > 0);
    }
    offsets.push_back(int64_t(tokens.size()));
  }
  /// Adds documents of these lengths with ids 1 … 50.
  void addLengths(const std::vector<int> &lengths) {
    for (int length : lengths) {
      std::vector<int32_t> document;
      for (int i = 0; i < length; ++i)
        document.push_back(1 + int(tokens.size() + size_t(i)) * 7 % 50);
      add(document);
    }
  }

  void write(const std::string &path) const {
    std::vector<TensorSpec> specs = {
        {"document_offsets", FileDType::I64, {int64_t(offsets.size())}},
        {"tokens", tokenType, {int64_t(tokens.size())}},
        {"loss_mask", FileDType::U8, {int64_t(mask.size())}}};
    auto writer = SafetensorsWriter::create(path, specs, metadata);
    ASSERT_TRUE(writer.ok());
    ASSERT_OK(writer->write(std::as_bytes(std::span(offsets))));
    ASSERT_OK(writer->write(std::as_bytes(std::span(tokens))));
    ASSERT_OK(writer->write(std::as_bytes(std::span(mask))));
    ASSERT_OK(writer->close());
  }
};

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_TOKENFILE_H
