//===- TuneProduct.h - The best algorithm of one product -------*- C++ -*-===//
//
// Times what the library proposes for any of the products, and neighbours of
// the best ones, on random data that does not fit in the cache.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H
#define QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/kernels/cuda/Blas.h"
#include "runtime/kernels/cuda/GemmTuning.h"

#include <set>

namespace qwen::bench {

/// Device memory that all products share: operands, results, and seconds of
/// both for comparisons.
class ProductMemory {
public:
  static StatusOr<ProductMemory>
  create(const std::set<cuda::GemmShape> &shapes);

  DeviceArray a, b, c, otherA, otherC, workspace;
};

/// What was found out about a product.
struct TunedProduct {
  cuda::TunedGemm best;
  int timed = 0;   ///< algorithms
  int refused = 0; ///< of the fastest: bits differ between runs or places
  double least = 0, most = 0; ///< TFLOP/s of the best one's samples
};

/// What the library proposes for these products.
StatusOr<std::set<GemmAlgorithm>>
proposedAlgorithms(const cuda::Blas &blas, const ProductMemory &memory,
                   const std::set<cuda::GemmShape> &shapes);

/// Finds the product's algorithm among `proposed` and more: the fastest one
/// whose results are the same bits on every run and, where rows are tokens, at
/// every place.
StatusOr<TunedProduct> tuneProduct(cuda::Blas &blas,
                                   const ProductMemory &memory,
                                   const cuda::GemmShape &shape,
                                   const std::set<GemmAlgorithm> &proposed);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H
