//===- GroupAnalysis.h - Phases of a fused group ---------------*- C++ -*-===//
//
// What the code generator must know of a group before it emits loops: which
// dimensions of the iteration space each value runs over, and in which sweep
// over the row it can be computed.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_GROUPANALYSIS_H
#define QWEN_LIB_CODEGEN_GROUPANALYSIS_H

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"

#include "llvm/ADT/DenseMap.h"

namespace qwen {

/// A group's rows are swept one or more times from the first column to the
/// last. A row sum is complete after the sweep that adds it up, and a rotation
/// needs its whole input row, so each of the two ends a sweep. Values that run
/// over columns are computed again in every sweep that needs them (the row is
/// in the first-level cache); results are stored in the last sweep only, hence
/// an output may take the place of an input.
class GroupAnalysis {
public:
  /// Fails with an emitted error where the group is not of this form.
  static mlir::FailureOr<GroupAnalysis> create(kernel::GroupFunctionOp op);

  /// Iteration-space dimension of each dimension of a value.
  llvm::ArrayRef<int64_t> dims(mlir::Value value) const {
    return dimMap.find(value)->second;
  }
  /// Whether the value differs from column to column.
  bool runsOverColumns(mlir::Value value) const {
    auto d = dims(value);
    return !d.empty() && d.back() == columnDim;
  }
  /// First sweep in which the value can be computed (column values) or before
  /// which it is complete (row values).
  int sweep(mlir::Value value) const { return sweepOf.find(value)->second; }
  /// Number of sweeps, at least 1.
  int sweepCount() const { return sweeps; }

  llvm::ArrayRef<int64_t> domain() const { return domainShape; }
  int64_t columns() const { return columnDim < 0 ? 1 : domainShape[columnDim]; }
  /// Product of the leading dimensions.
  int64_t rows() const;

private:
  mlir::LogicalResult assignDims(kernel::GroupFunctionOp op);
  mlir::LogicalResult setDims(mlir::Value value, llvm::ArrayRef<int64_t> dims,
                              bool &changed);
  mlir::LogicalResult propagateDims(mlir::Operation &op, bool &changed);
  mlir::LogicalResult checkSums(mlir::Block &body) const;
  void assignSweeps(mlir::Block &body);

  llvm::SmallVector<int64_t> domainShape;
  /// Last dimension of the space, or -1 in a space of rank 1, whose rows have
  /// one element.
  int64_t columnDim = -1;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> dimMap;
  llvm::DenseMap<mlir::Value, int> sweepOf;
  int sweeps = 1;
};

/// Whether the op sums over the columns of a row (as against over the rows).
bool isRowSum(ReduceSumOp op, const GroupAnalysis &analysis);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GROUPANALYSIS_H
