//===- Interpreter.h - Runs tensor-level functions in double ---*- C++ -*-===//
//
// Evaluates functions of the stages import and autodiff op by op in plain loops
// on doubles. Conversions between element types change nothing. Region ops
// follow their definitions (NaiveOps), their gradients the CPU kernels
// (KernelGradients).
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_GRADCHECK_INTERPRETER_H
#define QWEN_TEST_GRADCHECK_INTERPRETER_H

#include "Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <string>

namespace qwen::gradcheck {

class Interpreter {
public:
  /// Parameters are zero until set.
  explicit Interpreter(mlir::ModuleOp module);

  /// Values of parameters by name, and what was accumulated for them.
  std::map<std::string, Tensor> parameters, gradients;

  /// Results of a function; empty, with an error emitted at the op, where it
  /// holds one that is not known here.
  mlir::FailureOr<std::vector<Tensor>>
  run(llvm::StringRef function, const std::vector<Tensor> &arguments);

private:
  using Frame = llvm::DenseMap<mlir::Value, Tensor>;

  /// Results of one op.
  mlir::FailureOr<std::vector<Tensor>>
  evaluate(mlir::Operation *op, const std::vector<Tensor> &operands);
  Tensor readParameters(mlir::ArrayAttr names, mlir::Type type);
  void accumulate(mlir::ArrayAttr names, const Tensor &gradient,
                  bool overwrite);

  mlir::ModuleOp module;
};

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_INTERPRETER_H
