//===- CheckHelpers.h - Building blocks of kernel checks -------*- C++ -*-===//
//
// A collector that keeps the first broken rule of a kernel's operands.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_CHECKHELPERS_H
#define QWEN_RUNTIME_PLAN_CHECKHELPERS_H

#include "qwen/Plan/Buffer.h"
#include "qwen/Support/Status.h"

#include <initializer_list>
#include <string_view>

namespace qwen {

/// How strict a view's strides are checked.
enum class Layout {
  UnitInner,  ///< innermost stride 1, no two elements at one address
  Disjoint,   ///< any strides, no two elements at one address
  Contiguous, ///< row-major without gaps
  Any,        ///< any non-negative strides
};

/// Runs rules over the operands of one kernel. The first broken rule is kept;
/// later ones are not looked at, so a rule may rely on those before it.
class OperandRules {
public:
  explicit OperandRules(const char *kernelName) : kernel(kernelName) {}

  /// Rank, dimensions in [1, 2^31), addressable extent, element type, strides.
  void operand(std::string_view name, const BufferType &type, int rank,
               std::initializer_list<DType> dtypes,
               Layout layout = Layout::UnitInner);
  /// As `operand`, for any rank.
  void anyRank(std::string_view name, const BufferType &type,
               std::initializer_list<DType> dtypes, Layout layout);
  /// Dimension `i` has `expected` elements; `meaning` says of what.
  void dim(std::string_view name, const BufferType &type, int i,
           int64_t expected, std::string_view meaning);
  /// Same shape as another operand.
  void sameShape(std::string_view name, const BufferType &type,
                 std::string_view otherName, const BufferType &other);
  /// A condition between attributes or operands, with its message.
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format,
               Args &&...args) {
    if (status.ok() && !condition)
      fail(fmt::format(format, std::forward<Args>(args)...));
  }

  bool ok() const { return status.ok(); }
  Status result() const { return status; }

private:
  void fail(std::string message);
  void shapeRules(std::string_view name, const BufferType &type);
  void layoutRules(std::string_view name, const BufferType &type,
                   Layout layout);
  void dtypeRules(std::string_view name, const BufferType &type,
                  std::initializer_list<DType> dtypes);

  const char *kernel;
  Status status;
};

/// Element type that sums of `dtype` are kept in: f64 for f64, else f32.
constexpr DType wideOf(DType dtype) {
  return dtype == DType::F64 ? DType::F64 : DType::F32;
}

/// A document-boundary operand: i32 [S], S >= 2.
void checkBoundaries(OperandRules &rules, const BufferType &cuSeqlens);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_CHECKHELPERS_H
