//===- CompareRows.cu - Whether matrices hold the same bits ----*- CUDA -*-===//

#include "CompareRows.h"

#include <cuda_bf16.h>

using namespace qwen;

static __global__ void rowsKernel(const uint16_t *rows, const uint16_t *other,
                                  int64_t count, int64_t width, int64_t shift,
                                  unsigned *differs) {
  int64_t row = blockIdx.x;
  const uint16_t *first = rows + row * width;
  const uint16_t *second = other + (row + count - shift) % count * width;
  bool same = true;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    same = same && first[i] == second[i];
  if (!same)
    *differs = 1;
}

cudaError_t bench::compareRows(const void *rows, const void *other,
                               int64_t count, int64_t width, int64_t shift,
                               unsigned *differs) {
  rowsKernel<<<unsigned(count), 512>>>(static_cast<const uint16_t *>(rows),
                                       static_cast<const uint16_t *>(other),
                                       count, width, shift, differs);
  return cudaGetLastError();
}

template <typename T>
static __global__ void numbersKernel(const T *numbers, const T *other,
                                     int64_t count, float sums, float roundoff,
                                     unsigned *differs) {
  bool near = true;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * blockDim.x) {
    float x = float(numbers[i]), y = float(other[i]);
    // A NaN is a difference too.
    near = near && fabsf(x - y) <= 2 * (sums + roundoff * fabsf(x));
  }
  if (!near)
    *differs = 1;
}

cudaError_t bench::compareNumbers(const void *numbers, const void *other,
                                  int64_t count, bool isBF16, float sums,
                                  float roundoff, unsigned *differs) {
  auto launch = [&]<typename T>(T) {
    numbersKernel<<<2048, 512>>>(static_cast<const T *>(numbers),
                                 static_cast<const T *>(other), count, sums,
                                 roundoff, differs);
  };
  isBF16 ? launch(__nv_bfloat16()) : launch(float());
  return cudaGetLastError();
}
