//===- TuneProduct.h - The best algorithm of one product -------*- C++ -*-===//
//
// Times what the library proposes for any of the products, and neighbours of
// the best ones, on random data that does not fit in the cache: in bursts to
// find the candidates, then under a sustained load, which decides.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H
#define QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H

#include "SteadyLoad.h"
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

/// What is tried for a product, and for how long.
struct TuneSearch {
  std::set<GemmAlgorithm> algorithms; ///< to try
  GemmAlgorithm keep = {};            ///< not dropped before the last stage
  bool neighbours = true;             ///< also those next to the best ones
  int candidates = 6;     ///< of the last stage, and the first choice
  double stretchMs = 300; ///< a candidate's load, twice
  double heatMs = 100;    ///< load before the candidates'
};

/// A candidate of the last stage.
struct SustainedAlgorithm {
  GemmAlgorithm algorithm;   ///< empty: the library's first choice
  double burstMs = 0;        ///< median of its samples in bursts
  SustainedTime time;        ///< mean
  int megahertz = 0;         ///< the last clock that was told
  std::vector<double> ms;    ///< of a launch, one number a stretch
  std::vector<double> watts; ///< likewise; 0 where the card does not tell
};

/// What was found out about a product.
struct TunedProduct {
  cuda::TunedGemm best;
  GemmAlgorithm first; ///< numbers of the library's first choice
  int timed = 0;       ///< algorithms
  int refused = 0;     ///< of the best: bits differ between runs or places
  std::vector<SustainedAlgorithm> sustained;
};

/// What the library proposes for these products.
StatusOr<std::set<GemmAlgorithm>>
proposedAlgorithms(const cuda::Blas &blas, const ProductMemory &memory,
                   const std::set<cuda::GemmShape> &shapes);

/// Finds the product's algorithm: the best one under a sustained load
/// (bestSustained) whose results are the same bits on every run and,
/// where rows are tokens, at every place.
StatusOr<TunedProduct>
tuneProduct(cuda::Blas &blas, const ProductMemory &memory, SteadyLoad &load,
            const cuda::GemmShape &shape, const TuneSearch &search);

/// The product on set number `set` of the operands.
cuda::Product productOf(const ProductMemory &memory,
                        const cuda::GemmShape &shape,
                        const GemmAlgorithm &algorithm, int64_t set = 0);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_TUNEPRODUCT_H
