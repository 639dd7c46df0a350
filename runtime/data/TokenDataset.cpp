//===- TokenDataset.cpp - Token files of qwen-prepare ---------------------===//

#include "runtime/data/TokenDataset.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <charconv>
#include <cstring>

using namespace qwen;

static constexpr std::string_view formatName = "qwen-tokens-1";

/// FNV-1a over 8-byte words; the rest byte by byte.
static uint64_t hashBytes(uint64_t hash, std::span<const std::byte> bytes) {
  constexpr uint64_t prime = 0x100000001b3u;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * prime;
    // FNV moves low bits up only; words need the way back too.
    hash ^= hash >> 29;
  }
  for (; i < bytes.size(); ++i)
    hash = (hash ^ uint64_t(bytes[i])) * prime;
  return hash;
}

/// A one-dimensional tensor of the file as a span of `T`.
template <typename T>
static StatusOr<std::span<const T>>
tensorSpan(const SafetensorsFile &file, const char *name, FileDType dtype) {
  const StoredTensor *tensor = file.find(name);
  if (!tensor)
    return dataLoss("tensor '{}' is missing; expected a token file made by "
                    "qwen-prepare",
                    name);
  if (tensor->dtype != dtype || tensor->shape.size() != 1)
    return dataLoss("tensor '{}' is {}, expected {} with one dimension", name,
                    toString(*tensor), fileDTypeName(dtype));
  if (reinterpret_cast<uintptr_t>(tensor->data.data()) % alignof(T) != 0)
    return dataLoss("tensor '{}' is not aligned to {} bytes", name, alignof(T));
  return std::span(reinterpret_cast<const T *>(tensor->data.data()),
                   tensor->data.size() / sizeof(T));
}

StatusOr<TokenDataset> TokenDataset::open(const std::string &path,
                                          int64_t vocabSize) {
  QWEN_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  TokenDataset data(std::move(file));
  auto check = [&]() -> Status {
    QWEN_RETURN_IF_ERROR(data.readTensors());
    QWEN_RETURN_IF_ERROR(data.checkOffsets());
    QWEN_RETURN_IF_ERROR(data.checkMask());
    QWEN_RETURN_IF_ERROR(data.checkTokens(vocabSize));
    return data.checkMetadata(vocabSize);
  };
  if (Status status = check(); !status.ok())
    return status.withContext(fmt::format("'{}'", path));
  data.hash = 0xcbf29ce484222325u;
  for (const char *name : {"tokens", "document_offsets", "loss_mask"})
    data.hash = hashBytes(data.hash, data.file.find(name)->data);
  return data;
}

Status TokenDataset::readTensors() {
  auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != formatName)
    return dataLoss("metadata 'format' is not '{}'; expected a token file made "
                    "by qwen-prepare",
                    formatName);
  QWEN_ASSIGN_OR_RETURN(ids,
                        tensorSpan<int32_t>(file, "tokens", FileDType::I32));
  QWEN_ASSIGN_OR_RETURN(
      offsets, tensorSpan<int64_t>(file, "document_offsets", FileDType::I64));
  QWEN_ASSIGN_OR_RETURN(mask,
                        tensorSpan<uint8_t>(file, "loss_mask", FileDType::U8));
  if (mask.size() != ids.size())
    return dataLoss("loss_mask has {} elements, tokens has {}", mask.size(),
                    ids.size());
  return okStatus();
}

Status TokenDataset::checkOffsets() const {
  if (offsets.empty())
    return dataLoss("document_offsets is empty; it starts with 0");
  if (documents() == 0)
    return invalidArgument("the data set is empty: no document");
  if (offsets.front() != 0 || offsets.back() != tokens())
    return dataLoss("document_offsets goes from {} to {}, expected 0 to {}",
                    offsets.front(), offsets.back(), tokens());
  // Compared, not subtracted: a difference of two numbers of the file may not
  // fit.
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    if (offsets[i] >= offsets[i + 1])
      return dataLoss("document {} goes from {} to {}: document_offsets must "
                      "increase strictly",
                      i, offsets[i], offsets[i + 1]);
  return okStatus();
}

Status TokenDataset::checkTokens(int64_t vocabSize) const {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocabSize) {
      auto after = std::upper_bound(offsets.begin(), offsets.end(), int64_t(i));
      return dataLoss("token {} of document {} is {}, outside the vocabulary "
                      "of {}",
                      int64_t(i) - *(after - 1), after - offsets.begin() - 1,
                      ids[i], vocabSize);
    }
  return okStatus();
}

Status TokenDataset::checkMask() {
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] > 1)
      return dataLoss("loss_mask of token {} is {}, expected 0 or 1", i,
                      mask[i]);
    supervised += mask[i];
  }
  for (int64_t i = 0; i < documents(); ++i)
    if (mask[size_t(offsets[size_t(i)])] != 0)
      return dataLoss("loss_mask of the first token of document {} is 1, but "
                      "nothing predicts it",
                      i);
  return okStatus();
}

/// Compares the numbers that the metadata states with the tensors.
Status TokenDataset::checkMetadata(int64_t vocabSize) {
  int64_t longest = 0;
  for (int64_t i = 0; i < documents(); ++i)
    longest = std::max(longest, length(i));
  const std::pair<const char *, int64_t> expected[] = {
      {"documents", documents()},
      {"tokens", tokens()},
      {"supervised_tokens", supervised},
      {"max_document_tokens", longest},
  };
  for (auto [key, value] : expected) {
    auto it = file.metadata().find(key);
    if (it != file.metadata().end() && it->second != std::to_string(value))
      return dataLoss("metadata '{}' says {}, the tensors give {}", key,
                      printable(it->second), value);
  }
  if (auto it = file.metadata().find("vocab_size");
      it != file.metadata().end()) {
    int64_t size = -1;
    const std::string &text = it->second;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < 1)
      return dataLoss("metadata 'vocab_size' is '{}', expected a number of "
                      "tokens",
                      printable(text));
    if (size > vocabSize)
      return makeError(StatusCode::FailedPrecondition,
                       "made with a tokenizer of {} tokens, the model has {}",
                       text, vocabSize);
  }
  if (auto it = file.metadata().find("tokenizer_sha256");
      it != file.metadata().end())
    tokenizer = it->second;
  return okStatus();
}

Document TokenDataset::document(int64_t index) const {
  size_t begin = size_t(offsets[size_t(index)]);
  size_t count = size_t(length(index));
  return {ids.subspan(begin, count), mask.subspan(begin, count)};
}
