//===- RowKernels.h - Blocking and scratch of row kernels ------*- C++ -*-===//
//
// How the memory-bound kernels cut their work, and what they keep in device
// memory: the same constructors measure the bytes and hand out the pointers.
// Includes no CUDA, so that a compiler can ask for sizes.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_ROWKERNELS_H
#define QWEN_RUNTIME_KERNELS_CUDA_ROWKERNELS_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Scratch.h"

namespace qwen::cuda {

/// Taps of the convolution.
inline constexpr int convWidth = 4;

/// Tap gradients: one partial sum for each convTokenBlock tokens.
struct TapPartials {
  float *partials; ///< [blocks, C, width]
  int64_t blocks;
  TapPartials(Carver &carver, const CausalConv1dGradArgs &args)
      : blocks(ceilDiv(args.x.dim(0), convTokenBlock)) {
    partials = carver.take<float>(blocks * args.x.dim(1) * convWidth);
  }
};

/// Tokens sorted by id, those of one id in token order.
struct SortedTokens {
  int32_t *tokens; ///< [T]
  int32_t *ids;    ///< [T]
  /// `Args` is that of embedding_grad or embedding_grad_shard.
  template <typename Args>
  SortedTokens(Carver &carver, const Args &args)
      : tokens(carver.take<int32_t>(args.ids.dim(0))),
        ids(carver.take<int32_t>(args.ids.dim(0))) {}
};

/// Most rotary frequencies: they are passed by value.
inline constexpr int64_t maxFrequencies = 256;

/// Elements that one block of AdamW updates, and those of a vector in it.
inline constexpr int64_t adamWBlock = 16384;
inline constexpr int64_t adamWLanes = 8;

/// Addresses of one tensor of a list; null where the kernel has none.
struct TensorEntry {
  void *param, *moment1, *moment2, *master;
  const void *grad;
  int64_t elements;
  uint32_t firstBlock; ///< of this tensor
  uint32_t tensorId;
};

/// Where the elements of an entry of adamw, a slice of a tensor, belong.
struct SliceEntry {
  int64_t firstElement; ///< of the slice, in its tensor
  /// Elements before the first one where vectors may start in all operands;
  /// blocks are counted from there. 0 where there is no such one.
  int32_t head;
  int32_t hasVectors; ///< there is
};

/// The tensors of a list, and which one each block of elements belongs to.
struct TensorTable {
  TensorEntry *entries;
  uint32_t *tensorOfBlock;
  SliceEntry *slices = nullptr; ///< of adamw on several ranks
  int64_t blocks = 0;

  template <typename Buffers>
  TensorTable(Carver &carver, const Buffers &tensors, int64_t blockElements,
              bool sliced = false)
      : entries(
            carver.take<TensorEntry>(static_cast<int64_t>(tensors.size()))) {
    for (const auto &tensor : tensors)
      blocks += ceilDiv(tensor.elements(), blockElements);
    tensorOfBlock = carver.take<uint32_t>(blocks);
    if (sliced)
      slices = carver.take<SliceEntry>(static_cast<int64_t>(tensors.size()));
  }
};

/// Entry `i` of adamw's table of slices.
SliceEntry sliceEntry(const AdamWArgs &args, size_t i);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_ROWKERNELS_H
