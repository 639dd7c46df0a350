//===- CompareRows.h - Whether matrices agree ------------------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWEN_BENCH_COMPAREROWS_H
#define QWEN_TOOLS_QWEN_BENCH_COMPAREROWS_H

#include <cstdint>

#include <cuda_runtime.h>

namespace qwen::bench {

/// Sets *differs (in device memory) to 1 where the bits of row i are not those
/// of row i - shift of `other`, cyclically; `width` is in units of two bytes.
cudaError_t compareRows(const void *rows, const void *other, int64_t count,
                        int64_t width, int64_t shift, unsigned *differs);

/// Sets *differs to 1 where a number is further from its twin than twice
/// (sums + roundoff times it). `count` numbers in bf16 or float32.
cudaError_t compareNumbers(const void *numbers, const void *other,
                           int64_t count, bool isBF16, float sums,
                           float roundoff, unsigned *differs);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_COMPAREROWS_H
