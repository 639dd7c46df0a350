//===- Safetensors.cpp - Reader and writer of safetensors files -----------===//

#include "runtime/checkpoint/Safetensors.h"

#include "runtime/support/Json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

using namespace qwen;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and is mapped as it is");

/// The format's own limit, so that a wrong length cannot ask for much memory.
static constexpr uint64_t maxHeaderBytes = 100'000'000;
static constexpr uint64_t lengthBytes = 8;

namespace {
struct FileDTypeRow {
  std::string_view name;
  int64_t bytes;
};
} // namespace

static constexpr std::array<FileDTypeRow, 17> fileDTypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"I64", 8},
    {"U64", 8},
    {"F64", 8},
    {"C64", 8},
}};

std::string_view qwen::fileDTypeName(FileDType dtype) {
  return fileDTypes[static_cast<size_t>(dtype)].name;
}

int64_t qwen::fileDTypeBytes(FileDType dtype) {
  return fileDTypes[static_cast<size_t>(dtype)].bytes;
}

std::optional<FileDType> qwen::parseFileDType(std::string_view name) {
  for (size_t i = 0; i < fileDTypes.size(); ++i)
    if (fileDTypes[i].name == name)
      return static_cast<FileDType>(i);
  return std::nullopt;
}

std::optional<int64_t> TensorSpec::bytes() const {
  int64_t total = fileDTypeBytes(dtype);
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(total, dim, &total))
      return std::nullopt;
  return total;
}

std::string qwen::toString(const TensorSpec &spec) {
  return fmt::format("{}[{}]", fileDTypeName(spec.dtype),
                     fmt::join(spec.shape, ", "));
}

namespace {
/// One entry of the header before its data is located.
struct HeaderEntry {
  TensorSpec spec;
  uint64_t begin = 0, end = 0;
};
} // namespace

/// Reads {dtype, shape, data_offsets} of one tensor.
static StatusOr<HeaderEntry> readEntry(const std::string &name,
                                       const Json &json) {
  std::string shown = printable(name);
  if (!json.is_object())
    return dataLoss("tensor '{}': expected an object, found {}", shown,
                    json.type_name());
  for (auto &[key, value] : json.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return dataLoss("tensor '{}': unknown field '{}'", shown, printable(key));
  auto dtype = json.find("dtype"), shape = json.find("shape"),
       offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string())
    return dataLoss("tensor '{}': no dtype", shown);
  HeaderEntry entry;
  entry.spec.name = name;
  auto parsed = parseFileDType(dtype->get_ref<const std::string &>());
  if (!parsed)
    return dataLoss("tensor '{}': unknown dtype '{}'", shown,
                    printable(dtype->get_ref<const std::string &>()));
  entry.spec.dtype = *parsed;
  if (shape == json.end() || !shape->is_array())
    return dataLoss("tensor '{}': no shape", shown);
  for (const Json &dim : *shape) {
    auto size = jsonCount(dim);
    if (!size)
      return dataLoss("tensor '{}': a dimension is not a whole number", shown);
    entry.spec.shape.push_back(*size);
  }
  if (offsets == json.end() || !offsets->is_array() || offsets->size() != 2)
    return dataLoss("tensor '{}': expected two data_offsets", shown);
  auto begin = jsonCount((*offsets)[0]), end = jsonCount((*offsets)[1]);
  if (!begin || !end || *begin > *end)
    return dataLoss("tensor '{}': data_offsets are not an ascending pair of "
                    "whole numbers",
                    shown);
  entry.begin = *begin;
  entry.end = *end;
  auto bytes = entry.spec.bytes();
  if (!bytes || uint64_t(*bytes) != entry.end - entry.begin)
    return dataLoss("tensor '{}': {} needs {} bytes, data_offsets give {}",
                    shown, toString(entry.spec),
                    bytes ? std::to_string(*bytes) : "too many",
                    entry.end - entry.begin);
  return entry;
}

static Status readMetadata(const Json &json, SafetensorsMetadata &metadata) {
  if (!json.is_object())
    return dataLoss("__metadata__ is not an object");
  for (auto &[key, value] : json.items()) {
    if (!value.is_string())
      return dataLoss("__metadata__ '{}' is not a string", printable(key));
    metadata[key] = value.get<std::string>();
  }
  return okStatus();
}

StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file(std::move(mapped));
  if (Status status = file.readHeader(); !status.ok())
    return status.withContext(fmt::format("'{}'", path));
  return file;
}

Status SafetensorsFile::readHeader() {
  std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < lengthBytes)
    return dataLoss("not a safetensors file: {} bytes, at least {} expected",
                    bytes.size(), lengthBytes);
  uint64_t headerBytes;
  std::memcpy(&headerBytes, bytes.data(), lengthBytes);
  if (headerBytes > maxHeaderBytes)
    return dataLoss("not a safetensors file: header of {} bytes, at most {} "
                    "expected",
                    headerBytes, maxHeaderBytes);
  if (headerBytes > bytes.size() - lengthBytes)
    return dataLoss("file is cut: header of {} bytes announced, file has {}",
                    headerBytes, bytes.size());
  std::span<const std::byte> data = bytes.subspan(lengthBytes + headerBytes);
  std::string_view header(
      reinterpret_cast<const char *>(bytes.data() + lengthBytes), headerBytes);
  QWEN_ASSIGN_OR_RETURN(Json json, parseJsonObject(header, "header"));

  std::vector<HeaderEntry> entries;
  for (auto &[name, value] : json.items()) {
    if (name == "__metadata__") {
      QWEN_RETURN_IF_ERROR(readMetadata(value, strings));
      continue;
    }
    QWEN_ASSIGN_OR_RETURN(HeaderEntry entry, readEntry(name, value));
    entries.push_back(std::move(entry));
  }
  // Empty tensors come before the one that starts at the same place.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const HeaderEntry &a, const HeaderEntry &b) {
                     return std::pair(a.begin, a.end) <
                            std::pair(b.begin, b.end);
                   });
  uint64_t reached = 0;
  const char *previous = "the header";
  for (const HeaderEntry &entry : entries) {
    if (entry.begin != reached)
      return dataLoss("tensor '{}' starts at byte {} of the data, '{}' ends at "
                      "{}: {}",
                      printable(entry.spec.name), entry.begin,
                      printable(previous), reached,
                      entry.begin < reached ? "they overlap" : "a hole");
    reached = entry.end;
    previous = entry.spec.name.c_str();
  }
  if (reached != data.size())
    return dataLoss("file is {}: tensors need {} bytes of data, it has {} "
                    "(expected file size {}, found {})",
                    reached > data.size() ? "cut" : "too long", reached,
                    data.size(), lengthBytes + headerBytes + reached,
                    bytes.size());
  stored.reserve(entries.size());
  for (HeaderEntry &entry : entries) {
    byName[entry.spec.name] = stored.size();
    StoredTensor tensor;
    static_cast<TensorSpec &>(tensor) = std::move(entry.spec);
    tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    stored.push_back(std::move(tensor));
  }
  return okStatus();
}

const StoredTensor *SafetensorsFile::find(const std::string &name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &stored[it->second];
}

StatusOr<SafetensorsLayout>
SafetensorsLayout::create(std::span<const TensorSpec> tensors,
                          const SafetensorsMetadata &metadata) {
  SafetensorsLayout layout;
  // Built by hand because the order of the data is the order of the header.
  std::string header = "{";
  if (!metadata.empty()) {
    for (auto &[key, value] : metadata)
      header += fmt::format("{}{}:{}",
                            header.size() == 1 ? "\"__metadata__\":{" : ",",
                            jsonString(key), jsonString(value));
    header += "}";
  }
  int64_t end = 0;
  for (const TensorSpec &tensor : tensors) {
    auto bytes = tensor.bytes();
    if (!bytes || __builtin_add_overflow(end, *bytes, &end))
      return invalidArgument("tensor '{}' is too large to write: {}",
                             tensor.name, toString(tensor));
    layout.offsets.push_back(end - *bytes);
    header += fmt::format(
        R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
        header.size() == 1 ? "" : ",", jsonString(tensor.name),
        fileDTypeName(tensor.dtype), fmt::join(tensor.shape, ","), end - *bytes,
        end);
  }
  header += "}";
  // Spaces round the header up so that the data is aligned in a mapping.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t length = header.size();
  layout.head.resize(lengthBytes);
  std::memcpy(layout.head.data(), &length, lengthBytes);
  layout.head += header;
  auto data = static_cast<int64_t>(layout.head.size());
  for (int64_t &offset : layout.offsets)
    offset += data;
  layout.bytes = data + end;
  return layout;
}

StatusOr<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path,
                          std::span<const TensorSpec> tensors,
                          const SafetensorsMetadata &metadata) {
  QWEN_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                        SafetensorsLayout::create(tensors, metadata));
  QWEN_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(path));
  SafetensorsWriter writer(std::move(output));
  writer.missing = layout.bytes - static_cast<int64_t>(layout.head.size());
  QWEN_RETURN_IF_ERROR(writer.file.write(layout.head));
  return writer;
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  missing -= static_cast<int64_t>(bytes.size());
  return file.write(bytes);
}

Status SafetensorsWriter::close() {
  if (missing != 0)
    return makeError(StatusCode::Internal,
                     "safetensors writer: {} announced bytes not written",
                     missing);
  return file.close();
}
