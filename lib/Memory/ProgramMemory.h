//===- ProgramMemory.h - Who touches which memory when ---------*- C++ -*-===//
//
// The view of a flat program that all passes of the stage share: its launches
// in order, and for every root buffer (allocation, argument, storage) the
// launches that touch it.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_MEMORY_PROGRAMMEMORY_H
#define QWEN_LIB_MEMORY_PROGRAMMEMORY_H

#include "dialects/Kernel/Kernel.h"
#include "qwen/Plan/StreamOrder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace qwen {

/// Where launches meet memory: the buffer under a chain of views.
struct RootedView {
  mlir::Value root;
  int64_t byteOffset = 0; ///< of the view in the root
};
RootedView rootOf(mlir::Value view);

/// Bytes that a memref value reaches over.
int64_t reachedBytes(mlir::Value value);

/// `bytes` rounded up to the alignment of every buffer.
int64_t alignBytes(int64_t bytes);
inline constexpr int64_t bufferAlignment = 64;

/// How a launch uses one operand. Adding to it counts as reading too.
struct OperandUse {
  mlir::OpOperand *operand;
  bool reads, writes;
};
llvm::SmallVector<OperandUse> operandUses(kernel::KernelOpInterface launch);

/// Functions with the attribute `qwen.program`.
llvm::SmallVector<mlir::func::FuncOp> programsOf(mlir::ModuleOp module);

/// One touch of a root.
struct Touch {
  int64_t step;
  bool reads, writes;
};

/// The launches of a program and the touches of every root, in order.
class ProgramMemory {
public:
  explicit ProgramMemory(mlir::func::FuncOp program);

  llvm::ArrayRef<kernel::KernelOpInterface> launches() const { return steps; }
  /// The order that their streams and waits make.
  StreamOrder order() const;
  /// Touches of a root; empty where it is unused.
  llvm::ArrayRef<Touch> touches(mlir::Value root) const;
  /// The launch that must be reached before the memory of a root, which some
  /// launch touches, may be used for something else.
  int64_t lastStep(mlir::Value root, const StreamOrder &order) const;
  /// Allocations in program order.
  llvm::ArrayRef<mlir::memref::AllocOp> allocations() const { return allocs; }

private:
  llvm::SmallVector<kernel::KernelOpInterface> steps;
  llvm::SmallVector<mlir::memref::AllocOp> allocs;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Touch, 4>> byRoot;
};

} // namespace qwen

#endif // QWEN_LIB_MEMORY_PROGRAMMEMORY_H
