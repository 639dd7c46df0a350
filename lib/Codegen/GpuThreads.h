//===- GpuThreads.h - Threads, shuffles and memory of a GPU ----*- C++ -*-===//
//
// The few things that generated GPU code does beside arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_GPUTHREADS_H
#define QWEN_LIB_CODEGEN_GPUTHREADS_H

#include "mlir/IR/Builders.h"

namespace qwen {

class GpuThreads {
public:
  GpuThreads(mlir::OpBuilder &builder, mlir::Location loc)
      : b(builder), loc(loc) {}

  /// Number of the thread in its block and of the block in the grid, as i32.
  mlir::Value thread();
  mlir::Value block();
  /// The f32 value of the lane whose number differs in the bits of `mask`. All
  /// lanes of the warp must take part.
  mlir::Value exchange(mlir::Value value, int64_t mask);
  /// Sum over groups of `lanes` (a power of two) neighbouring lanes; every lane
  /// gets the same bits.
  mlir::Value sumOfLanes(mlir::Value value, int64_t lanes);
  /// All threads of the block or of the warp, and their writes to memory.
  void blockBarrier();
  void warpBarrier();
  /// Barrier `number` (i64, 1 to 15) of `threads` threads, whole warps.
  void teamBarrier(mlir::Value number, int64_t threads);

  /// Address of element `index` (i64) from `base`, in the base's address space.
  mlir::Value address(mlir::Value base, mlir::Type element, mlir::Value index);
  /// A vector of `width` elements, a scalar where it is 0.
  mlir::Value load(mlir::Value address, mlir::Type element, int64_t width);
  void store(mlir::Value value, mlir::Value address, int64_t width);

private:
  mlir::Value callSpecial(llvm::StringRef name);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GPUTHREADS_H
