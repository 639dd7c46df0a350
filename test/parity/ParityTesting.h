//===- ParityTesting.h - Operands and packs for kernel tests ---*- C++ -*-===//
//
// Tensors with any layout, ragged packs of documents, and a launch that checks
// what every launch must keep: the argument rules, the workspace's end, and the
// memory between the elements of a view.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PARITY_PARITYTESTING_H
#define QWEN_TEST_PARITY_PARITYTESTING_H

#include "qwen/Plan/KernelChecks.h"
#include "qwen/Plan/Workspace.h"
#include "qwen/Support/Tolerance.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

namespace qwen::parity {

using Values = std::vector<double>;

/// How a tensor lies in memory.
enum class Spacing {
  Dense,
  Sliced, ///< rows (and heads) are slices of wider ones
};

/// An operand with its memory. Elements are read and written as double, in
/// row-major order of the shape.
class Tensor {
public:
  Tensor(DType dtype, std::vector<int64_t> shape,
         Spacing spacing = Spacing::Dense);

  int64_t size() const { return type.elements(); }
  double get(int64_t i) const;
  void set(int64_t i, double value);
  Values values() const;
  void setValues(const Values &values);
  Tensor &uniform(std::mt19937_64 &random, double low, double high);
  Tensor &fill(double value);
  DType dtype() const { return type.dtype; }

  operator Buffer() const;
  operator ConstBuffer() const { return static_cast<Buffer>(*this); }

  /// Raw bits of the elements of the outermost rows [begin, end).
  std::vector<uint8_t> bits(int64_t begin, int64_t end) const;
  std::vector<uint8_t> bits() const { return bits(0, type.dim(0)); }
  /// Nothing between the elements was written.
  bool gapsUntouched() const;

private:
  int64_t offset(int64_t i) const;

  BufferType type;
  int64_t first = 0;
  std::vector<uint8_t> memory;
};

/// Documents of a pack.
struct Pack {
  int64_t tokens;
  std::vector<int32_t> boundaries;

  int64_t documents() const {
    return static_cast<int64_t>(boundaries.size()) - 1;
  }
  int64_t begin(int64_t d) const { return boundaries[d]; }
  int64_t end(int64_t d) const { return boundaries[d + 1]; }
  int64_t total() const { return boundaries.back(); }
  /// Length of the longest document, at least 1.
  int64_t longest() const {
    int64_t longest = 1;
    for (int64_t d = 0; d < documents(); ++d)
      longest = std::max(longest, end(d) - begin(d));
    return longest;
  }
  Tensor tensor() const;
};

/// Documents of these lengths, `unused` boundary slots and `tail` tokens that
/// belong to none.
Pack packOf(std::vector<int64_t> lengths, int64_t unused = 0, int64_t tail = 0);
/// Lengths around the chunk and block sizes, empty documents first, in the
/// middle and last, unused slots and a tail.
Pack raggedPack();
/// A random pack of about `tokens` tokens.
Pack randomPack(std::mt19937_64 &random, int64_t tokens);

/// The storage types of activations.
inline const DType storageTypes[] = {DType::F32, DType::BF16, DType::F64};

/// Compares with `exact`, the error bounded by `sums` (a sumTolerance) relative
/// to the largest exact value, and by the rounding to storage. Where sums
/// cancel, `terms` is the magnitude of what is summed.
void expectClose(const Tensor &result, const Values &exact, double sums,
                 const std::string &name, double terms = 0);

/// Fills `ids` with integers in [0, limit).
void randomIds(Tensor &ids, std::mt19937_64 &random, int64_t limit);

void setThreads(int threads);

/// Launches a kernel whose arguments must be right, with a workspace of exactly
/// the promised size that is full of NaNs.
template <typename Args>
void launchKernel(const Args &args, cpu::GroupFunction group = nullptr) {
  Status status = checkKernel(args);
  ASSERT_TRUE(status.ok()) << status.message();
  constexpr size_t guard = 64;
  size_t bytes = static_cast<size_t>(cpuWorkspaceBytes(args));
  size_t allocated = (bytes + 63) / 64 * 64 + guard;
  std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(64, allocated), &std::free);
  std::memset(memory.get(), 0xff, allocated);
  auto *base = static_cast<std::byte *>(memory.get());
  cpu::launch(args, {std::span(base, bytes), group});
  for (size_t i = bytes; i < allocated; ++i)
    ASSERT_EQ(base[i], std::byte(0xff)) << "write behind the workspace";
}

/// Central differences of a scalar function of one tensor's elements, compared
/// with `gradient` at `samples` elements spread over the tensor.
void expectDifferences(Tensor &input, const Tensor &gradient, int64_t samples,
                       double length, const std::function<double()> &loss,
                       const std::string &name);

/// Sum of weights[i] values[i].
double weightedSum(const Tensor &values, const Tensor &weights);

} // namespace qwen::parity

#endif // QWEN_TEST_PARITY_PARITYTESTING_H
