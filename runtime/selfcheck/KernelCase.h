//===- KernelCase.h - Random operands of one kernel ------------*- C++ -*-===//
//
// The operands of a kernel as a plan lays them out, for a small pack of random
// documents. What is in no document is not a number in inputs, and must become
// zeros in results.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_KERNELCASE_H
#define QWEN_RUNTIME_SELFCHECK_KERNELCASE_H

#include "runtime/selfcheck/HostTensor.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>
#include <vector>

namespace qwen {

/// Documents of a pack.
struct CheckPack {
  std::vector<int32_t> boundaries = {0};
  int64_t tokens = 0; ///< with those that belong to no document

  int64_t used() const { return boundaries.back(); }
  int64_t longest() const;
  /// Documents of these lengths, `unused` slots and `tail` tokens.
  static CheckPack of(std::span<const int64_t> lengths, int64_t unused,
                      int64_t tail);
  /// Lengths around the sizes of blocks, empty documents, unused slots and a
  /// tail: `tokens` in all.
  static CheckPack random(std::mt19937_64 &random, int64_t tokens);
};

/// The values that operands are drawn from.
struct OperandRange {
  double low = -1, high = 1;
};
/// Range of an operand by its name and its second dimension. Queries and keys
/// of attention are larger than others, so that its probabilities differ; the
/// classes' weights give logits of variance 4/9.
OperandRange operandRange(std::string_view kernel, std::string_view name,
                          int64_t columns);
/// Six standard deviations of a logit.
inline constexpr double largestLogit = 4;
/// Classes, one of three ignored.
void drawLabels(std::mt19937_64 &random, int64_t classes, int64_t ignored,
                HostTensor &labels);

/// Whether the outermost dimension of an operand is that of the tokens.
bool isPerToken(std::string_view operand);

/// How the tensors of a case are stored.
enum class CaseTypes {
  Plan,   ///< types and strides of the plan
  Double, ///< float64, contiguous
};

/// The operands of one kernel.
template <typename Args> class KernelCase {
public:
  /// `prototype` gives types; its addresses are not looked at.
  KernelCase(const Args &prototype, const CheckPack &pack, CaseTypes types)
      : held(prototype) {
    held.forEachOperand([&](const char *name, auto &buffer, bool, bool) {
      names.push_back(name);
      tensors.emplace_back(typeOf(name, buffer, pack, types));
    });
    if (!has("cu_seqlens"))
      return;
    HostTensor &boundaries = (*this)["cu_seqlens"];
    for (size_t i = 0; i < pack.boundaries.size(); ++i)
      boundaries.set(int64_t(i), pack.boundaries[i]);
  }

  HostTensor &operator[](std::string_view name) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name)
        return tensors[i];
    assert(false && "the kernel has no such operand");
    return tensors.front();
  }
  bool has(std::string_view name) const {
    for (const std::string &own : names)
      if (own == name)
        return true;
    return false;
  }

  /// Random values for everything that is read; where the kernel knows of
  /// documents, in these.
  void draw(std::mt19937_64 &random, const CheckPack &pack) {
    held.forEachOperand([&](const char *name, auto &, bool reads, bool) {
      if (!reads || name == std::string_view("cu_seqlens"))
        return;
      HostTensor &tensor = (*this)[name];
      if constexpr (requires { held.labels; })
        if (name == std::string_view("labels"))
          return drawLabels(random, held.weight.dim(0), held.ignoreIndex,
                            tensor);
      OperandRange range =
          operandRange(Args::kernelName, name, tensor.type().dim(1));
      std::uniform_real_distribution<double> values(range.low, range.high);
      int64_t rows = tensor.type().dim(0), count = tensor.size();
      if (has("cu_seqlens") && isPerToken(name))
        count = count / rows * pack.used();
      for (int64_t i = 0; i < count; ++i)
        tensor.set(i, values(random));
    });
  }

  /// Takes the values of all operands that both kernels have.
  template <typename Other> void take(KernelCase<Other> &other) {
    for (size_t i = 0; i < names.size(); ++i)
      if (other.has(names[i]))
        tensors[i].assign(other[names[i]]);
  }

  /// The arguments, with addresses in this case.
  Args args() {
    size_t next = 0;
    held.forEachOperand([&](const char *, auto &buffer, bool, bool) {
      Buffer view = tensors[next++].buffer();
      static_cast<BufferType &>(buffer) = view;
      buffer.data = view.data;
    });
    return held;
  }

private:
  static BufferType typeOf(std::string_view name, BufferType type,
                           const CheckPack &pack, CaseTypes types) {
    if (name == "cu_seqlens")
      type.shape[0] = int64_t(pack.boundaries.size());
    else if (isPerToken(name))
      type.shape[0] = pack.tokens;
    if (types == CaseTypes::Plan)
      return type;
    return contiguousType(type.dtype == DType::I32 ? DType::I32 : DType::F64,
                          {type.shape.data(), size_t(type.rank)});
  }

  Args held;
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
};

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_KERNELCASE_H
