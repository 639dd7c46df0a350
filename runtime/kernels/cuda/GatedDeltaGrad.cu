//===- GatedDeltaGrad.cu - Gradients of the gated delta rule ---*- CUDA -*-===//
//
// kernel.gated_delta_grad: schedule, preparation, the state scan, the gradient
// scan, and here the gradients of every chunk, which no longer depend on each
// other. A piece of work is a chunk of a key head; the sums over its value
// heads stay in registers. With S before and dS after the chunk:
//
//   Z  = (do vd^T) P,            dP = scale D (do vd^T)
//   N' = -strictLower(D x vd^T), N  = beta N' by rows
//   dq = scale 2^G (do S^T) + dP k
//   dk = 2^(GC - G) (vd dS^T) - beta 2^G (x S^T) + dP^T q + (N + N^T) k
//   dG = q.dq' - k.dk' + k.dk'' + row and column sums of Z and N * (k k^T)
//   dbeta = x.v - 2^G k.(x S^T) + row sums of N' * (k k^T)
//
// where dq', dk', dk'' are the parts from the states. One warpgroup makes dq,
// one dk, one finishes the gates; one thread of a fourth loads tiles.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaGradGates.cuh"
#include "GatedDeltaGradProducts.cuh"
#include "Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

__global__ void __launch_bounds__(4 * 128, 1)
    gradients(GatedDeltaSizes sizes, GatedDeltaBuffers buffers,
              GradOperands operands) {
  extern __shared__ __align__(1024) std::byte raw[];
  GradSmem &smem = *reinterpret_cast<GradSmem *>(raw);
  if (threadIdx.x == 0)
    smem.init();
  __syncthreads();
  int role = warpgroupIndex();
  int items = buffers.header->chunks * sizes.keyHeads;
  GradContext context{smem, sizes, buffers, operands, items};
  // 128 registers a thread at the start, moved to where they are needed.
  if (role == 0) {
    raiseRegisters<192>();
    queryGradients(context);
  } else if (role == 1) {
    raiseRegisters<216>();
    keyGradients(context);
  } else if (role == 2) {
    lowerRegisters<80>();
    finishHeads(context);
  } else {
    lowerRegisters<24>();
    if (threadIdx.x % 128 == 0)
      loadTiles(context);
  }
}

cudaError_t enqueueGradients(const GatedDeltaSizes &sizes,
                             const GatedDeltaBuffers &buffers,
                             const GradOperands &operands,
                             cudaStream_t stream) {
  cudaError_t error = cudaFuncSetAttribute(
      gradients, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(GradSmem));
  if (error != cudaSuccess)
    return error;
  gradients<<<multiprocessors(), 4 * 128, sizeof(GradSmem), stream>>>(
      sizes, buffers, operands);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::launch(const GatedDeltaGradArgs &args,
                               const LaunchContext &context) {
  GatedDeltaSizes sizes(args);
  Carver carver(context.workspace.data());
  GatedDeltaBuffers buffers(carver, sizes, true);
  float scale = static_cast<float>(args.scale);
  HeadRows<const Bf16> v = headRows<Bf16>(args.v);
  HeadRows<const Bf16> dout = headRows<Bf16>(args.dout);
  PrepareOperands prepared = {headRows<Bf16>(args.q),
                              headRows<Bf16>(args.k),
                              headRows<Bf16>(args.beta),
                              headRows<float>(args.g),
                              scale,
                              static_cast<float>(args.l2normEps)};
  GradOperands operands = {v,
                           dout,
                           headRows<Bf16>(args.dq),
                           headRows<Bf16>(args.dk),
                           headRows<float>(args.dg),
                           headRows<Bf16>(args.dbeta),
                           scale};
  Tails tails = {{tailRows(args.dq), tailRows(args.dk), tailRows(args.dv),
                  tailRows(args.dg), tailRows(args.dbeta)},
                 5};
  cudaStream_t stream = context.stream;
  cudaError_t error =
      enqueueSchedule(sizes, buffers, args.cuSeqlens.as<int>(), tails, stream);
  if (error == cudaSuccess)
    error = enqueuePrepare(sizes, buffers, prepared, true, stream);
  if (error == cudaSuccess)
    error = enqueueStateScan(sizes, buffers, v, stream);
  if (error == cudaSuccess)
    error = enqueueGradScan(sizes, buffers, dout, headRows<Bf16>(args.dv),
                            scale, stream);
  if (error == cudaSuccess)
    error = enqueueGradients(sizes, buffers, operands, stream);
  return error;
}
