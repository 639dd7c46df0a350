//===- GroupValues.h - Values of a group's body ----------------*- C++ -*-===//
//
// Walks the body of a group and emits its arithmetic for one row or for a few
// columns of a row. The emitters say how the leaves get there: what is loaded,
// what a rotation left behind.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_GROUPVALUES_H
#define QWEN_LIB_CODEGEN_GROUPVALUES_H

#include "Elementwise.h"
#include "GroupAnalysis.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace qwen {

/// Emitted values by the value of the body they stand for.
using ValueMap = llvm::DenseMap<mlir::Value, mlir::Value>;

/// A few columns of a row: `width` elements a vector.
struct ColumnContext {
  int64_t width;
  /// Scalars of the row.
  const ValueMap &rowValues;
  /// Vectors that exist already.
  ValueMap &memo;
  /// Emits a value that is no op of the body (an argument, the result of a
  /// rotation); null for all others.
  llvm::function_ref<mlir::Value(mlir::Value)> leaf;
};

class GroupValues {
public:
  GroupValues(mlir::OpBuilder &builder, mlir::Block &body,
              const GroupAnalysis &analysis, Processor processor)
      : b(builder), body(body), analysis(analysis), processor(processor) {}

  /// Row values (arguments) that a row must have before anything else. The
  /// angles of a rotation are none: their columns are their own.
  bool isRowInput(mlir::BlockArgument argument) const;
  /// Adds the scalars that are complete before `sweep` to `rowValues`, which
  /// has the row inputs and the sums so far.
  mlir::LogicalResult emitRowValues(int sweep, ValueMap &rowValues);
  /// The vector of a value that runs over columns.
  mlir::FailureOr<mlir::Value> columnValue(mlir::Value value,
                                           const ColumnContext &context);

private:
  mlir::FailureOr<mlir::Value> operandAt(mlir::Value value,
                                         const ColumnContext &context);

  mlir::OpBuilder &b;
  mlir::Block &body;
  const GroupAnalysis &analysis;
  Processor processor;
};

/// Adds lane i and lane i + n/2 until one is left; n is a power of two.
mlir::Value horizontalSum(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value vector);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GROUPVALUES_H
