//===- DerivedFunctions.h - Forward and backward functions -----*- C++ -*-===//
//
// Differentiates called functions, each once for a set of results with
// cotangents and arguments that depend on parameters.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_AUTODIFF_DERIVEDFUNCTIONS_H
#define QWEN_LIB_AUTODIFF_DERIVEDFUNCTIONS_H

#include "lib/Autodiff/WeightAnalysis.h"

#include "mlir/IR/SymbolTable.h"

#include <map>
#include <set>

namespace qwen {

/// Where the caller of a backward function finds one of its operands.
struct BackwardOperand {
  enum Kind { ForwardResult, Argument, Cotangent };
  Kind kind;
  /// Result of the forward function, argument of the call, or result of the
  /// call whose cotangent is meant.
  unsigned index;
};

/// The pair made of one function.
struct DerivedFunction {
  mlir::func::FuncOp forward;
  /// Null where no cotangent reaches an argument or a parameter.
  mlir::func::FuncOp backward;
  llvm::SmallVector<BackwardOperand> operands;
  /// For each argument the backward function's result, or -1.
  llvm::SmallVector<int> argumentCotangents;
};

class DerivedFunctions {
public:
  explicit DerivedFunctions(mlir::ModuleOp module);

  /// The derivative of the function that `call` calls.
  mlir::FailureOr<const DerivedFunction *> get(mlir::func::CallOp call,
                                               const llvm::BitVector &active,
                                               const llvm::BitVector &varying);

  /// True if the function or one that it calls reads parameters.
  bool readsParameters(llvm::StringRef callee);

  /// The name in the user's model of a function that is being differentiated.
  llvm::StringRef originalName(mlir::func::FuncOp func) const;
  void setOriginalName(mlir::func::FuncOp func, llvm::StringRef name);

  const WeightAnalysis &weights() const { return weightAnalysis; }
  mlir::SymbolTable &symbols() { return symbolTable; }

  /// Functions differentiated and values that their forwards save.
  unsigned differentiated() const { return memo.size(); }
  unsigned residuals() const { return residualCount; }

private:
  using Key =
      std::tuple<std::string, std::vector<unsigned>, std::vector<unsigned>>;

  llvm::LogicalResult differentiate(mlir::func::FuncOp callee,
                                    const llvm::BitVector &active,
                                    const llvm::BitVector &varying,
                                    DerivedFunction &result);

  mlir::SymbolTable symbolTable;
  WeightAnalysis weightAnalysis;
  std::map<Key, DerivedFunction> memo;
  /// Functions whose differentiation has begun and not ended.
  std::set<std::string> open;
  llvm::StringMap<bool> readers;
  llvm::DenseMap<mlir::Operation *, std::string> originalNames;
  unsigned residualCount = 0;
};

} // namespace qwen

#endif // QWEN_LIB_AUTODIFF_DERIVEDFUNCTIONS_H
