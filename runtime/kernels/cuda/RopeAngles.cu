//===- RopeAngles.cu - Rotary angles ---------------------------*- CUDA -*-===//
//
// kernel.rope_angles. The frequencies depend on the plan alone and are formed
// on the host, as the CPU kernel forms them; cos and sin of the float32 angle
// are computed in float64 and rounded once.
//
//===----------------------------------------------------------------------===//

#include "RowKernels.h"
#include "Vectors.cuh"
#include "runtime/kernels/cuda/Kernels.h"

#include <cmath>

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 256;

struct Frequencies {
  float value[maxFrequencies];
};

__global__ void __launch_bounds__(threads)
    fillAngles(const int *positions, float *angles, int64_t stride,
               int64_t tokens, int half,
               __grid_constant__ const Frequencies f) {
  int64_t i = blockIdx.x * int64_t(threads) + threadIdx.x;
  int64_t token = i / half;
  int j = int(i % half);
  if (token >= tokens)
    return;
  double angle = __fmul_rn(float(positions[token]), f.value[j]), cosine, sine;
  sincos(angle, &sine, &cosine);
  angles[token * stride + j] = float(cosine);
  angles[token * stride + half + j] = float(sine);
}

} // namespace

cudaError_t qwen::cuda::launch(const RopeAnglesArgs &args,
                               const LaunchContext &context) {
  int64_t tokens = args.positions.dim(0), width = args.angles.dim(1);
  int64_t half = width / 2;
  Frequencies frequencies;
  for (int64_t j = 0; j < half; ++j) {
    float exponent = float(2 * j) / float(width);
    float power = float(std::pow(double(float(args.theta)), double(exponent)));
    frequencies.value[j] = 1.0f / power;
  }
  fillAngles<<<ceilDiv(tokens * half, threads), threads, 0, context.stream>>>(
      args.positions.as<int>(), args.angles.as<float>(), args.angles.strides[0],
      tokens, int(half), frequencies);
  return cudaGetLastError();
}
