//===- GradCheck.h - Gradients against central differences -----*- C++ -*-===//
//
// Differentiates a module's @forward with the passes of stage autodiff, runs
// @micro_step, and compares every parameter's gradient with differences of
// @eval, in double.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_GRADCHECK_GRADCHECK_H
#define QWEN_TEST_GRADCHECK_GRADCHECK_H

#include "Tensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

namespace qwen::gradcheck {

/// Values are drawn uniformly from here.
struct Range {
  double low = -1.0, high = 1.0;
};

struct GradientCase {
  std::string name;
  /// A module whose @forward has a result `nll`. Float inputs get random
  /// values, so an input that multiplies the result makes cotangents differ.
  std::string module;
  /// Integer inputs by name.
  std::map<std::string, std::vector<double>> inputs;
  /// Values of parameters by name, [-1, 1) for the others.
  std::map<std::string, Range> ranges;
  /// Parameters of which the loss does not depend, so that all-zero gradients
  /// are right for them.
  std::vector<std::string> independent;
  /// Elements of each parameter to vary, evenly spread; all where absent.
  std::optional<int64_t> elements;
  /// Terms of the longest chain of additions behind the loss.
  double reductionLength = 64;

  /// Test reports name the case.
  friend void PrintTo(const GradientCase &test, std::ostream *stream) {
    *stream << test.name;
  }
};

/// A context with the dialects and derivative rules of the compiler.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Fails the running test where a gradient is wrong. The case's module is given
/// as text.
void checkGradients(const GradientCase &test);

/// The two halves of the above: runs stage autodiff on a module, and compares
/// its micro_step with its eval.
llvm::LogicalResult differentiate(mlir::ModuleOp module);
void compareGradients(mlir::ModuleOp module, const GradientCase &test);

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_GRADCHECK_H
