//===- KernelStreams.h - Streams and waits of launches ---------*- C++ -*-===//
//
// A launch of a flat program may carry two attributes, whose meaning is that of
// the plan's Step: `qwen.stream`, where it is not the stream of computation,
// and `qwen.waits`, numbers of launches of the program.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_KERNEL_KERNELSTREAMS_H
#define QWEN_DIALECTS_KERNEL_KERNELSTREAMS_H

#include "dialects/Kernel/Kernel.h"

namespace qwen::kernel {

/// Whether the launch talks to other ranks.
bool isCollectiveLaunch(mlir::Operation *launch);

/// Whether a stream or waits were set.
bool hasStream(mlir::Operation *launch);
/// The launch's stream (qwen/Plan/Streams.h).
int64_t streamOf(mlir::Operation *launch);
llvm::ArrayRef<int64_t> waitsOf(mlir::Operation *launch);

void setStream(mlir::Operation *launch, int64_t stream);
/// Adds to the launch's waits.
void addWait(mlir::Operation *launch, int64_t step);

/// Collectives and no other launches are on their stream; waits name earlier
/// launches of the other stream.
llvm::LogicalResult verifyStreams(llvm::ArrayRef<KernelOpInterface> launches);

} // namespace qwen::kernel

#endif // QWEN_DIALECTS_KERNEL_KERNELSTREAMS_H
