//===- StreamOrder.h - What waits say about the order of launches -*- C++ -*-=//
//
// Reads streams and waits from the launches of a flat program.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_MEMORY_STREAMORDER_H
#define QWEN_LIB_MEMORY_STREAMORDER_H

#include "dialects/Kernel/Kernel.h"

namespace qwen {

/// When the collectives of a program are known to be done.
class StreamOrder {
public:
  explicit StreamOrder(llvm::ArrayRef<kernel::KernelOpInterface> launches);

  /// The first launch from `step` on that starts when `step` is done and
  /// everything that the stream of computation starts later does too: `step`
  /// itself on that stream; the number of launches where there is none.
  int64_t doneBy(int64_t step) const { return done[step]; }

private:
  llvm::SmallVector<int64_t> done;
};

} // namespace qwen

#endif // QWEN_LIB_MEMORY_STREAMORDER_H
