//===- PlaceBuffers.h - Offsets for buffers with lifetimes -----*- C++ -*-===//
//
// The packing problem of the memory planner, free of IR.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_MEMORY_PLACEBUFFERS_H
#define QWEN_LIB_MEMORY_PLACEBUFFERS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace qwen {

/// A buffer that lives from step `first` to step `last`, both included.
struct LiveRange {
  int64_t size, first, last;
  int64_t offset = 0; ///< set by placeBuffers
};

/// Sets every offset so that ranges that share a step share no byte; returns
/// the size of the arena. Sizes are multiples of the alignment. Largest first,
/// each in the smallest gap that takes it; deterministic.
int64_t placeBuffers(llvm::MutableArrayRef<LiveRange> ranges);

/// The most bytes that live at one step: no placement can be smaller.
int64_t peakBytes(llvm::ArrayRef<LiveRange> ranges);

} // namespace qwen

#endif // QWEN_LIB_MEMORY_PLACEBUFFERS_H
