//===- RequireGpu.h - Skip where there is no GPU ---------------*- C++ -*-===//

#ifndef QWEN_TEST_PARITY_CUDA_REQUIREGPU_H
#define QWEN_TEST_PARITY_CUDA_REQUIREGPU_H

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

namespace qwen::cudatest {

/// Ends the program with 77, which ctest counts as skipped, unless device 0 is
/// of compute capability 9.0, for which the kernels are built.
inline void requireGpu() {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(error));
    std::exit(77);
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, 0);
  if (error == cudaSuccess && properties.major == 9 && properties.minor == 0)
    return;
  std::printf("skipped: the kernels are for compute capability 9.0, device 0 "
              "has %d.%d (%s)\n",
              properties.major, properties.minor, cudaGetErrorString(error));
  std::exit(77);
}

} // namespace qwen::cudatest

#endif // QWEN_TEST_PARITY_CUDA_REQUIREGPU_H
