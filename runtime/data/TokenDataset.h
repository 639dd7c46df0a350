//===- TokenDataset.h - Token files of qwen-prepare ------------*- C++ -*-===//
//
// A token file is a safetensors file with `tokens` I32 [N], `document_offsets`
// I64 [D + 1] and `loss_mask` U8 [N]; mask 1 marks a token that is a supervised
// target. The file stays mapped; everything in it is verified at `open`.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_DATA_TOKENDATASET_H
#define QWEN_RUNTIME_DATA_TOKENDATASET_H

#include "runtime/checkpoint/Safetensors.h"

#include <cstdint>
#include <span>
#include <string>

namespace qwen {

/// One document of a data set.
struct Document {
  std::span<const int32_t> tokens;
  std::span<const uint8_t> mask; ///< mask[0] is 0
};

/// A verified token file.
class TokenDataset {
public:
  /// Fails where the file is not what its format promises, a token is outside
  /// [0, vocabSize), or there is no document.
  static StatusOr<TokenDataset> open(const std::string &path,
                                     int64_t vocabSize);

  int64_t documents() const { return int64_t(offsets.size()) - 1; }
  int64_t tokens() const { return int64_t(ids.size()); }
  int64_t supervisedTokens() const { return supervised; }
  int64_t length(int64_t document) const {
    return offsets[size_t(document) + 1] - offsets[size_t(document)];
  }
  Document document(int64_t index) const;
  const std::string &path() const { return file.path(); }
  const std::string &tokenizerHash() const { return tokenizer; }
  /// Identifies the content for `--resume`: a hash of all tensors.
  uint64_t contentHash() const { return hash; }

private:
  explicit TokenDataset(SafetensorsFile opened) : file(std::move(opened)) {}
  Status readTensors();
  Status checkMetadata(int64_t vocabSize);
  Status checkOffsets() const;
  Status checkTokens(int64_t vocabSize) const;
  Status checkMask();

  SafetensorsFile file;
  std::span<const int32_t> ids;
  std::span<const int64_t> offsets;
  std::span<const uint8_t> mask;
  std::string tokenizer;
  int64_t supervised = 0;
  uint64_t hash = 0;
};

} // namespace qwen

#endif // QWEN_RUNTIME_DATA_TOKENDATASET_H
