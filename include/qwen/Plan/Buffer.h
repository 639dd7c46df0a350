//===- Buffer.h - Typed strided views of memory ----------------*- C++ -*-===//
//
// What a kernel sees of memory: element type, shape, strides, address. The
// compiler uses the same type with a null address to ask for shape checks and
// workspace sizes. Includes neither LLVM nor CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_BUFFER_H
#define QWEN_PLAN_BUFFER_H

#include <array>
#include <cstdint>
#include <string>

namespace qwen {

/// Element types; the numbers are those of plan.fbs.
enum class DType : uint8_t { F32 = 0, BF16 = 1, F64 = 2, I32 = 3 };

/// Bytes of one element.
constexpr int64_t dtypeBytes(DType dtype) {
  switch (dtype) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
    return 2;
  case DType::F64:
    return 8;
  }
  return 0;
}

/// "f32", "bf16", "f64", "i32".
constexpr const char *dtypeName(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "f32";
  case DType::BF16:
    return "bf16";
  case DType::F64:
    return "f64";
  case DType::I32:
    return "i32";
  }
  return "?";
}

/// Largest number of dimensions of a kernel operand.
inline constexpr int maxRank = 4;
/// Largest dimension: row and column numbers are 32-bit in kernels.
inline constexpr int64_t maxDimension = (int64_t(1) << 31) - 1;
/// Largest number of elements: byte counts of many such tensors still fit in
/// 63 bits.
inline constexpr int64_t maxElements = int64_t(1) << 48;

/// Element type, shape and strides (both in elements) of a view. Rank 0 is a
/// scalar of one element.
struct BufferType {
  DType dtype = DType::F32;
  int rank = 0;
  std::array<int64_t, maxRank> shape{};
  std::array<int64_t, maxRank> strides{};

  int64_t dim(int i) const { return shape[i]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i)
      n *= shape[i];
    return n;
  }
  int64_t bytes() const { return elements() * dtypeBytes(dtype); }
  /// Elements from the first to one past the last one that the view reaches.
  int64_t extent() const {
    int64_t last = 0;
    for (int i = 0; i < rank; ++i) {
      if (shape[i] == 0)
        return 0;
      last += (shape[i] - 1) * strides[i];
    }
    return last + 1;
  }
  /// Row-major without gaps.
  bool isContiguous() const {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != expected)
        return false;
      expected *= shape[i];
    }
    return true;
  }
  /// The innermost dimension has stride 1 (or one element).
  bool hasUnitInnerStride() const {
    return rank == 0 || shape[rank - 1] == 1 || strides[rank - 1] == 1;
  }
  bool operator==(const BufferType &) const = default;
};

/// "f32[8192, 5120]", with "strides [..]" added where not contiguous.
std::string toString(const BufferType &type);

/// A view that a kernel may only read.
struct ConstBuffer : BufferType {
  const void *data = nullptr;
  template <typename T> const T *as() const {
    return static_cast<const T *>(data);
  }
};

/// A view that a kernel may write.
struct Buffer : BufferType {
  void *data = nullptr;
  template <typename T> T *as() const { return static_cast<T *>(data); }
  operator ConstBuffer() const { return {*this, data}; }
};

} // namespace qwen

#endif // QWEN_PLAN_BUFFER_H
