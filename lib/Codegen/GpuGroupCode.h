//===- GpuGroupCode.h - Writes the kernel of one group ---------*- C++ -*-===//
//
// One object writes one kernel. GpuGroupEmitter.cpp has what both forms of a
// kernel share and the flat form, GpuGroupRows.cpp the form with teams.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_GPUGROUPCODE_H
#define QWEN_LIB_CODEGEN_GPUGROUPCODE_H

#include "GpuGeometry.h"
#include "GpuThreads.h"
#include "GroupValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace qwen {

/// An input or output of the group in memory.
struct GpuPlace {
  mlir::Value base; // address of the first element
  mlir::Type element;
  llvm::SmallVector<int64_t> strides;
  /// Iteration-space dimension of each dimension.
  llvm::SmallVector<int64_t> dims;
};

/// A unit of a row.
struct GpuCell {
  mlir::Value column;  // first one, i64
  mlir::Value present; // i1; null where every thread has the unit
  /// As stored, by input; null where the input has no columns.
  llvm::SmallVector<mlir::Value> raw;
  ValueMap memo;
};

/// A row of which the thread has some units.
struct GpuRow {
  llvm::SmallVector<mlir::Value> index; // of the leading dimensions, i64
  mlir::Value present; // i1; null where every thread has the row
  ValueMap values;
  llvm::SmallVector<GpuCell> cells;
};

/// When a team loads what it needs of an input with columns.
enum class LoadTime {
  Once,    ///< before all rows
  WithRow, ///< when the row begins
  Ahead,   ///< while the row before is worked at
};

/// Writes one kernel.
class GpuGroupCode {
public:
  GpuGroupCode(mlir::OpBuilder &b, kernel::GroupFunctionOp group,
               const GroupAnalysis &analysis, const GpuGeometry &geometry)
      : b(b), group(group), analysis(analysis), geometry(geometry),
        loc(group.getLoc()), body(group.getBody().front()), gpu(b, loc),
        values(b, body, analysis, Processor::Gpu) {}

  /// At the builder's insertion point. Fails with an emitted error where the
  /// kernel needs more shared memory than there is.
  mlir::LogicalResult emit();

private:
  // Kernel.
  llvm::SmallVector<int64_t> requiredAlignments();
  void inspect();
  int64_t layoutShared();
  mlir::Value sharedAt(int64_t offset);
  mlir::LLVM::LLVMFuncOp createKernel(int64_t sharedBytes);
  void createPlaces(mlir::Block &entry);

  // Flat form.
  mlir::LogicalResult emitFlat();
  GpuRow flatRow(mlir::Value unit, int64_t total);

  // Rows form.
  mlir::LogicalResult emitRows();
  llvm::SmallVector<GpuCell> createCells();
  LoadTime loadTime(mlir::BlockArgument argument) const;
  void loadCells(LoadTime time, llvm::ArrayRef<mlir::Value> index,
                 llvm::MutableArrayRef<GpuCell> cells);
  GpuRow rowAt(mlir::Value base);
  llvm::SmallVector<mlir::Value> loadAhead(GpuRow &row);
  void takeRow(GpuRow &row, mlir::ValueRange loaded);
  mlir::LogicalResult emitRow(GpuRow &row,
                              llvm::SmallVectorImpl<mlir::Value> &columnTotals);
  mlir::LogicalResult emitRowSums(int sweep, GpuRow &row);
  void addWarps(llvm::MutableArrayRef<mlir::Value> sums);
  mlir::LogicalResult emitRotation(RopeOp rope, GpuRow &row);
  mlir::Value rotated(RopeOp rope, GpuRow &row, GpuCell &cell, mlir::Value x);
  mlir::LogicalResult
  addToColumnTotals(GpuRow &row, llvm::SmallVectorImpl<mlir::Value> &totals);
  void storeColumnTotals(llvm::ArrayRef<GpuCell> cells,
                         mlir::ValueRange totals);
  void addSlots(mlir::Value partialSums, mlir::Type element);

  // Both forms.
  mlir::LogicalResult storeOutputs(llvm::MutableArrayRef<GpuRow> rows);
  mlir::FailureOr<mlir::Value> cellValue(GpuRow &row, GpuCell &cell,
                                         mlir::Value value);
  void teamBarrier();

  // Memory and small arithmetic.
  llvm::SmallVector<mlir::Value> leadingIndex(mlir::Value row);
  mlir::Value placeAddress(const GpuPlace &place,
                           llvm::ArrayRef<mlir::Value> index,
                           mlir::Value column);
  mlir::Value loadInput(unsigned input, llvm::ArrayRef<mlir::Value> index,
                        mlir::Value column);
  mlir::Value widen(mlir::Value stored);
  mlir::Value narrow(mlir::Value value, mlir::Type element);
  mlir::Value constant(int64_t value) {
    return mlir::arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  mlir::Value times(mlir::Value x, int64_t y) {
    return mlir::arith::MulIOp::create(b, loc, x, constant(y));
  }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ult,
                                       x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return condition ? mlir::Value(mlir::arith::SelectOp::create(
                           b, loc, condition, x, y))
                     : x;
  }
  mlir::Value both(mlir::Value x, mlir::Value y) {
    return x && y ? mlir::Value(mlir::arith::AndIOp::create(b, loc, x, y))
           : x    ? x
                  : y;
  }
  mlir::Value wide(mlir::Value i32) {
    return mlir::arith::ExtUIOp::create(b, loc, b.getI64Type(), i32);
  }
  std::pair<mlir::Value, mlir::Value> divide(mlir::Value x, int64_t divisor,
                                             int64_t bound);
  /// Runs `emitThen` under the condition, or always where it is null.
  void when(mlir::Value condition, llvm::function_ref<void()> emitThen);
  bool isFixed(mlir::BlockArgument argument) const;

  mlir::OpBuilder &b;
  kernel::GroupFunctionOp group;
  const GroupAnalysis &analysis;
  const GpuGeometry &geometry;
  mlir::Location loc;
  mlir::Block &body;
  GpuThreads gpu;
  GroupValues values;

  llvm::SmallVector<GpuPlace> inputs, outputs;
  llvm::SmallVector<ReduceSumOp> columnSums; // in the order of the outputs
  mlir::Value partials;                      // of this block
  mlir::Value shared;
  int64_t sharedRotation = 0, sharedColumns = 0; // offsets
  llvm::DenseSet<mlir::Value> firstNeeds; // of sums and rotations, transitively
  int64_t reductions = 0, maxSums = 0; // sweeps of a row with sums; sums of one
  mlir::Value thread, block;           // i64
  mlir::Value lane, slot;              // in the team, of the team
  mlir::Value blockBegin, blockEnd;
  mlir::Value parity;    // of the row in the block, i64
  int64_t reduction = 0; // number in the row being emitted
};

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GPUGROUPCODE_H
