//===- OccupyGpu.cu - A GPU on which nothing gets on -----------*- CUDA -*-===//

#include "OccupyGpu.h"

#include <cuda_runtime.h>

static constexpr int threads = 1024;

static __global__ void __launch_bounds__(threads, 2)
    waitForever(const volatile int *never) {
  while (*never == 0)
    __nanosleep(1000);
}

const char *qwen::ranktest::occupyGpu() {
  int device = 0, blocks = 0, processors = 0, most = 0;
  int *never = nullptr;
  cudaStream_t stream = nullptr;
  for (cudaError_t error :
       {cudaGetDevice(&device),
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                               device),
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor,
                               device),
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, waitForever,
                                                      threads, 0),
        cudaMalloc(&never, sizeof(int)), cudaMemset(never, 0, sizeof(int)),
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)})
    if (error != cudaSuccess)
      return cudaGetErrorString(error);
  if (blocks * threads != most)
    return "the kernel leaves others a place";
  waitForever<<<blocks * processors, threads, 0, stream>>>(never);
  cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
