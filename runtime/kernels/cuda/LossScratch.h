//===- LossScratch.h - Device scratch of the loss --------------*- C++ -*-===//
//
// One constructor measures the bytes and hands out the pointers. Needs no CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_LOSSSCRATCH_H
#define QWEN_RUNTIME_KERNELS_CUDA_LOSSSCRATCH_H

#include "GemmShape.h"
#include "qwen/Plan/Scratch.h"

namespace qwen::cuda {

/// Most logits of a row that its cluster of blocks keeps in registers.
inline constexpr int64_t maxVocabulary = int64_t(1) << 18;

/// Pieces of scratch start at multiples of this, as the library likes it.
inline constexpr int64_t lossAlignment = 256;

struct LogitsScratch {
  std::byte *product; ///< of the library
  uint16_t *logits;   ///< bf16 [rows, stride], then their gradients
  float *targets;     ///< logit of each token's label [rows]

  LogitsScratch(Carver &carver, const LossBlocks &blocks)
      : product(carver.take<std::byte>(productWorkspaceBytes)),
        logits(carver.take<uint16_t>(
            roundUp(blocks.rows * blocks.stride, lossAlignment))),
        targets(carver.take<float>(blocks.rows)) {}
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_LOSSSCRATCH_H
