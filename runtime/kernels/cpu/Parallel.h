//===- Parallel.h - Independent pieces of work on threads ------*- C++ -*-===//
//
// The only place where kernels start threads. Pieces are independent and each
// writes its own outputs, so any thread may take any piece and the result does
// not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_PARALLEL_H
#define QWEN_RUNTIME_KERNELS_CPU_PARALLEL_H

#include "qwen/Plan/Scratch.h"

#include <omp.h>

namespace qwen::cpu {

/// Runs body(index, slot) for each index in [0, count), in increasing order as
/// far as threads are free. At most `slots` calls run at a time, each with a
/// slot number of its own.
template <typename F> void parallelFor(int64_t count, int64_t slots, F &&body) {
  int64_t threads =
      std::min({static_cast<int64_t>(omp_get_max_threads()), slots, count});
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i)
      body(i, int64_t(0));
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    int64_t slot = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i)
      body(i, slot);
  }
}

/// Runs body(begin, end) over [0, count) in blocks of `block`.
template <typename F>
void parallelBlocks(int64_t count, int64_t block, F &&body) {
  int64_t blocks = ceilDiv(count, block);
  parallelFor(blocks, blocks, [&](int64_t i, int64_t) {
    body(i * block, std::min(count, (i + 1) * block));
  });
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_PARALLEL_H
