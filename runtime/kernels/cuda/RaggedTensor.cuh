//===- RaggedTensor.cuh - Tiles of documents through TMA -------*- CUDA -*-===//
//
// Loads and stores of 64 tokens of one head, [64, D] in panels, that end where
// the document ends: rows behind it load as zeros and are not stored.
//
// A tensor map has one bound per dimension, the same for all documents. Here
// the row dimension is far longer than the pack, and a row is named by its
// distance from that dimension's end, so that a document's last row is the
// dimension's last. Two more dimensions move the address back to the document:
// addresses wrap at 2^64.
//
//   address = base + row * R + unit * 128 + (begin + length) * R
//             + 2^30 * (2^34 - R),   row = 2^30 - length + (row in document)
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_RAGGEDTENSOR_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_RAGGEDTENSOR_CUH

#include "AttentionScratch.h"
#include "Hopper.cuh"
#include "qwen/Plan/Buffer.h"

#include <cuda.h>

namespace qwen::cuda {

inline constexpr int raggedRows = 1 << 30;

/// A [T, heads, D] bf16 operand whose rows and heads start at multiples of 64
/// elements from each other.
struct RaggedTensor {
  CUtensorMap map;
  int headUnits; ///< 128-byte units from head to head
};

QWEN_DEVICE void prefetch(const RaggedTensor &tensor) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&tensor.map) : "memory");
}

/// Rows [row, row + 64) of a document, all of D, to a tile of panels of 8192
/// bytes; counts all bytes of the tile on `barrier`. One thread.
QWEN_DEVICE void loadRows(SmemAddr tile, const RaggedTensor &tensor,
                          DocumentRows document, int row, int head,
                          SmemAddr barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
      "[%7];" ::"r"(tile),
      "l"(&tensor.map), "r"(0), "r"(raggedRows - document.length + row),
      "r"(head * tensor.headUnits), "r"(document.token + document.length),
      "r"(raggedRows), "r"(barrier)
      : "memory");
}
/// The same rows from a tile, in this thread's store group.
QWEN_DEVICE void storeRows(const RaggedTensor &tensor, DocumentRows document,
                           int row, int head, SmemAddr tile) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
               "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&tensor.map),
               "r"(0), "r"(raggedRows - document.length + row),
               "r"(head * tensor.headUnits),
               "r"(document.token + document.length), "r"(raggedRows), "r"(tile)
               : "memory");
}

/// Fills `tensor` for boxes of 64 rows and all columns of a head.
cudaError_t makeRaggedTensor(RaggedTensor &tensor, const ConstBuffer &buffer);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_RAGGEDTENSOR_CUH
