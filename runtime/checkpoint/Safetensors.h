//===- Safetensors.h - Reader and writer of safetensors files --*- C++ -*-===//
//
// A safetensors file is an 8-byte little-endian header length, a JSON header
// {name: {dtype, shape, data_offsets}} and the data. The reader maps the file
// and believes nothing: after `open` every tensor lies inside the file, has the
// bytes that shape and dtype ask for, and the tensors cover the data without
// hole or overlap.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define QWEN_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "runtime/support/File.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace qwen {

/// Element types of the format, in the order of `fileDTypes`.
enum class FileDType : uint8_t {
  Bool,
  U8,
  I8,
  F8E4M3,
  F8E5M2,
  F8E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  I64,
  U64,
  F64,
  C64,
};

/// Name as in the file, e.g. "BF16".
std::string_view fileDTypeName(FileDType dtype);
/// Bytes of one element.
int64_t fileDTypeBytes(FileDType dtype);
std::optional<FileDType> parseFileDType(std::string_view name);

/// Name, element type and shape of a tensor in a file.
struct TensorSpec {
  std::string name;
  FileDType dtype = FileDType::F32;
  std::vector<int64_t> shape;

  /// Bytes of the tensor; nothing where the number does not fit.
  std::optional<int64_t> bytes() const;
};

/// "BF16[4, 2]".
std::string toString(const TensorSpec &spec);

/// A tensor of an opened file.
struct StoredTensor : TensorSpec {
  std::span<const std::byte> data;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A verified, memory-mapped safetensors file.
class SafetensorsFile {
public:
  static StatusOr<SafetensorsFile> open(const std::string &path);

  /// All tensors in the order of their data.
  const std::vector<StoredTensor> &tensors() const { return stored; }
  /// The tensor of that name, or null.
  const StoredTensor *find(const std::string &name) const;
  const SafetensorsMetadata &metadata() const { return strings; }
  const std::string &path() const { return file.path(); }

private:
  explicit SafetensorsFile(MappedFile mapped) : file(std::move(mapped)) {}
  Status readHeader();

  MappedFile file;
  std::vector<StoredTensor> stored;
  std::unordered_map<std::string, size_t> byName;
  SafetensorsMetadata strings;
};

/// Where everything of a file lies before it is written.
struct SafetensorsLayout {
  std::string head;             ///< length and header, the file's first bytes
  std::vector<int64_t> offsets; ///< of the tensors, in the file
  int64_t bytes = 0;            ///< of the file

  /// The data has the order of `tensors`.
  static StatusOr<SafetensorsLayout>
  create(std::span<const TensorSpec> tensors,
         const SafetensorsMetadata &metadata);
};

/// Writes a safetensors file front to back in pieces of any size.
class SafetensorsWriter {
public:
  static StatusOr<SafetensorsWriter>
  create(const std::string &path, std::span<const TensorSpec> tensors,
         const SafetensorsMetadata &metadata);
  /// Appends data in the order of `tensors`.
  Status write(std::span<const std::byte> bytes);
  /// Checks that exactly the announced bytes came, and closes.
  Status close();

private:
  explicit SafetensorsWriter(OutputFile output) : file(std::move(output)) {}

  OutputFile file;
  int64_t missing = 0;
};

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_SAFETENSORS_H
