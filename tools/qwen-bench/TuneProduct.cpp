//===- TuneProduct.cpp - The best algorithm of one product ----------------===//

#include "TuneProduct.h"

#include "CompareRows.h"
#include "qwen/Plan/CudaKernels.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Support/Tolerance.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace qwen;
using namespace qwen::bench;
using cuda::GemmShape;
using cuda::Product;

/// Operands of small products rotate through this much memory each, several
/// times the level-2 cache.
static constexpr int64_t rotatedBytes = int64_t(192) << 20;
/// How many proposals are asked for.
static constexpr int proposals = 64;
/// Of the normal random numbers in both operands: activations or gradients, and
/// weights. Other scales have the same mantissas and other exponents
/// throughout, which takes the same power.
static constexpr double deviationA = 1, deviationB = 0.02;
/// A sample lasts about this long.
static constexpr double sampleMs = 3;

namespace {

/// Bytes of a product's matrices.
struct ProductBytes {
  int64_t a, b, c;
  explicit ProductBytes(const GemmShape &shape)
      : a(shape.m * shape.k * dtypeBytes(shape.operands)),
        b(shape.k * shape.n * dtypeBytes(shape.operands)),
        c(shape.m * shape.n * dtypeBytes(shape.result)) {}
  /// From one matrix to the next of a rotation.
  static int64_t step(int64_t matrix) {
    return roundUp(matrix, cuda::deviceAlignment);
  }
  /// Sets of operands that a sample rotates through.
  int64_t sets() const {
    return std::clamp<int64_t>(rotatedBytes / std::max({a, b, c}), 1, 8);
  }
};

/// An algorithm with the times of its samples.
struct Candidate {
  GemmAlgorithm algorithm; ///< empty: the library's first choice
  std::vector<double> ms = {};
  double estimate = HUGE_VAL; ///< of earlier samples

  double median() const {
    std::vector<double> sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? HUGE_VAL : sorted[sorted.size() / 2];
  }
};

class ProductTuner {
public:
  ProductTuner(cuda::Blas &blas, const ProductMemory &memory, SteadyLoad &load,
               const GemmShape &shape, const TuneSearch &search)
      : blas(blas), memory(memory), load(load), shape(shape), search(search),
        bytes(shape) {}

  StatusOr<TunedProduct> tune();

private:
  Product product(const GemmAlgorithm &algorithm, int64_t set = 0) const {
    return productOf(memory, shape, algorithm, set);
  }
  Status run(const Product &product) const;
  Status add(const GemmAlgorithm &algorithm);
  Status addProposed();
  Status addNeighbours(size_t count);
  /// One sample of each candidate, in turn.
  Status sampleAll();
  StatusOr<double> sample(const GemmAlgorithm &algorithm, int runs);
  /// Keeps those whose median is at most `factor` times the best, the fastest
  /// `most` of them and `ofTile` of each tile, and those to be kept anyway.
  void prune(double factor, int most, int ofTile);
  StatusOr<Stretch> stretch(const Candidate &candidate, double milliseconds);
  /// The times of all candidates under a sustained load.
  Status sustain(std::vector<SustainedAlgorithm> &measured);
  StatusOr<bool> isStable(const GemmAlgorithm &algorithm) const;
  StatusOr<bool> isRight(const GemmAlgorithm &algorithm) const;
  Status chooseBest(TunedProduct &tuned) const;

  cuda::Blas &blas;
  const ProductMemory &memory;
  SteadyLoad &load;
  GemmShape shape;
  const TuneSearch &search;
  ProductBytes bytes;
  std::vector<Candidate> candidates;
  std::set<GemmAlgorithm> known; ///< accepted or not
  GemmAlgorithm first;           ///< numbers of the library's first choice
  int timed = 0;
  size_t turn = 0;
  cudaEvent_t begin = nullptr, end = nullptr;
};

} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

StatusOr<ProductMemory>
ProductMemory::create(const std::set<GemmShape> &shapes) {
  int64_t a = 0, b = 0, c = 0, oneA = 0, oneC = 0;
  for (const GemmShape &shape : shapes) {
    ProductBytes bytes(shape);
    a = std::max(a, bytes.step(bytes.a) * bytes.sets());
    b = std::max(b, bytes.step(bytes.b) * bytes.sets());
    c = std::max(c, bytes.step(bytes.c) * bytes.sets());
    oneA = std::max(oneA, bytes.a);
    oneC = std::max(oneC, bytes.c);
  }
  std::vector<DeviceArray> arrays;
  for (int64_t size : {a, b, c, oneA, oneC, cuda::productWorkspaceBytes}) {
    QWEN_ASSIGN_OR_RETURN(DeviceArray array, DeviceArray::create(size));
    QWEN_RETURN_IF_ERROR(array.fillNormal(
        DType::BF16, arrays.empty() ? deviationA : deviationB));
    arrays.push_back(std::move(array));
  }
  return ProductMemory{std::move(arrays[0]), std::move(arrays[1]),
                       std::move(arrays[2]), std::move(arrays[3]),
                       std::move(arrays[4]), std::move(arrays[5])};
}

Product bench::productOf(const ProductMemory &memory, const GemmShape &shape,
                         const GemmAlgorithm &algorithm, int64_t set) {
  ProductBytes bytes(shape);
  return {.shape = shape,
          .a = memory.a.bytes().data() + set * bytes.step(bytes.a),
          .strideA = shape.transposeA ? shape.m : shape.k,
          .b = memory.b.bytes().data() + set * bytes.step(bytes.b),
          .strideB = shape.transposeB ? shape.k : shape.n,
          .c = memory.c.bytes().data() + set * bytes.step(bytes.c),
          .strideC = shape.n,
          .algorithm = algorithm};
}

//===----------------------------------------------------------------------===//
// Bursts
//===----------------------------------------------------------------------===//

Status ProductTuner::run(const Product &product) const {
  return cudaStatus(blas.run(product, memory.workspace.bytes(), nullptr),
                    toString(shape));
}

StatusOr<double> ProductTuner::sample(const GemmAlgorithm &algorithm,
                                      int runs) {
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(begin), "event"));
  for (int i = 0; i < runs; ++i)
    QWEN_RETURN_IF_ERROR(run(product(algorithm, i % bytes.sets())));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(end), "event"));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventSynchronize(end), toString(shape)));
  float ms;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaEventElapsedTime(&ms, begin, end), "event"));
  return double(ms) / runs;
}

Status ProductTuner::sampleAll() {
  ++turn;
  for (size_t i = 0; i < candidates.size(); ++i) {
    // Not always the same one after the pause between rounds.
    Candidate &candidate = candidates[(i + turn) % candidates.size()];
    int runs = std::clamp(int(sampleMs / candidate.estimate), 1, 32);
    QWEN_ASSIGN_OR_RETURN(double ms, sample(candidate.algorithm, runs));
    candidate.ms.push_back(ms);
  }
  return okStatus();
}

Status ProductTuner::add(const GemmAlgorithm &algorithm) {
  if (!known.insert(algorithm).second ||
      (!algorithm.empty() && !blas.accepts(product({}), algorithm)))
    return okStatus();
  QWEN_RETURN_IF_ERROR(blas.prepare(product(algorithm)));
  // The first run loads the kernel. The library may find out only here that it
  // has none; that it starts one is checked by the next run.
  if (!run(product(algorithm)).ok() && !algorithm.empty())
    return okStatus();
  candidates.push_back({algorithm});
  ++timed;
  return okStatus();
}

/// The library proposes few: other options, clusters and swizzles of the best.
Status ProductTuner::addNeighbours(size_t count) {
  constexpr size_t swizzleField = 5, customField = 6, clusterField = 8;
  constexpr int64_t clusters[] = {2, 3, 5, 6}; // 1x1, 2x1, 1x2, 2x2
  constexpr int64_t customs = 8;
  std::vector<GemmAlgorithm> best;
  for (const Candidate &candidate : candidates)
    if (!candidate.algorithm.empty() && best.size() < count)
      best.push_back(candidate.algorithm);
  for (const GemmAlgorithm &from : best) {
    GemmAlgorithm algorithm = from;
    algorithm[swizzleField] = 1;
    QWEN_RETURN_IF_ERROR(add(algorithm));
    algorithm[swizzleField] = 0;
    for (int64_t custom = 0; custom < customs; ++custom)
      for (int64_t cluster : clusters) {
        algorithm[customField] = custom;
        algorithm[clusterField] = cluster;
        QWEN_RETURN_IF_ERROR(add(algorithm));
      }
  }
  return okStatus();
}

/// What the search names, and the first proposals for this very product.
Status ProductTuner::addProposed() {
  QWEN_RETURN_IF_ERROR(add({}));
  QWEN_ASSIGN_OR_RETURN(std::vector<GemmAlgorithm> proposed,
                        blas.candidates(product({}), proposals));
  // The first one is the library's first choice, which is there already.
  if (!proposed.empty())
    known.insert(first = proposed.front());
  for (const GemmAlgorithm &algorithm : proposed)
    QWEN_RETURN_IF_ERROR(add(algorithm));
  for (const GemmAlgorithm &algorithm : search.algorithms)
    QWEN_RETURN_IF_ERROR(add(algorithm));
  return search.keep.empty() ? okStatus() : add(search.keep);
}

void ProductTuner::prune(double factor, int most, int ofTile) {
  constexpr size_t tileField = 1;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &x, const Candidate &y) {
                     return x.median() < y.median();
                   });
  double limit = candidates.front().median() * factor;
  std::map<int64_t, int> tiles;
  int kept = 0;
  std::erase_if(candidates, [&](const Candidate &candidate) {
    const GemmAlgorithm &algorithm = candidate.algorithm;
    if (algorithm.empty())
      return false;
    bool fits = candidate.median() <= limit && kept < most &&
                tiles[algorithm[tileField]] < ofTile;
    if (!fits && algorithm != search.keep)
      return true;
    ++kept;
    ++tiles[algorithm[tileField]];
    return false;
  });
  for (Candidate &candidate : candidates)
    candidate.estimate = candidate.median();
}

//===----------------------------------------------------------------------===//
// Sustained load
//===----------------------------------------------------------------------===//

StatusOr<Stretch> ProductTuner::stretch(const Candidate &candidate,
                                        double milliseconds) {
  int launches = std::max(4, int(milliseconds / candidate.estimate));
  return load.run(launches, [&](int launch) {
    return run(product(candidate.algorithm, launch % bytes.sets()));
  });
}

Status ProductTuner::sustain(std::vector<SustainedAlgorithm> &measured) {
  QWEN_RETURN_IF_ERROR(stretch(candidates.front(), search.heatMs).status());
  for (const Candidate &candidate : candidates) {
    SustainedAlgorithm &algorithm = measured.emplace_back();
    algorithm.algorithm = candidate.algorithm;
    algorithm.burstMs = candidate.estimate;
    algorithm.time.isFirst = candidate.algorithm.empty();
  }
  // There and back, so that a card that still warms up favours none.
  std::vector<std::pair<size_t, Stretch>> stretches;
  for (size_t i = 0; i < 2 * candidates.size(); ++i) {
    size_t at = i < candidates.size() ? i : 2 * candidates.size() - 1 - i;
    QWEN_ASSIGN_OR_RETURN(Stretch taken,
                          stretch(candidates[at], search.stretchMs));
    stretches.emplace_back(at, taken);
    measured[at].ms.push_back(taken.milliseconds);
    measured[at].time.milliseconds += taken.milliseconds / 2;
    measured[at].megahertz = load.megahertz().value_or(0);
  }
  for (const auto &[at, taken] : stretches)
    measured[at].watts.push_back(load.watts(taken).value_or(0));
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

/// Runs compare(flag) on the device; whether the flag stayed 0.
template <typename F> static StatusOr<bool> agree(F &&compare) {
  QWEN_ASSIGN_OR_RETURN(DeviceArray flag, DeviceArray::copyOf<unsigned>({0}));
  auto *differs = static_cast<unsigned *>(flag.data());
  QWEN_RETURN_IF_ERROR(cudaStatus(compare(differs), "comparison"));
  unsigned found;
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaMemcpy(&found, differs, sizeof(found), cudaMemcpyDeviceToHost),
      "comparison"));
  return found == 0;
}

/// Runs twice, the second time with the rows of op(a) at other places where
/// they are tokens: not in weight gradients, whose rows are those of a weight.
StatusOr<bool> ProductTuner::isStable(const GemmAlgorithm &algorithm) const {
  Product first = product(algorithm), second = first;
  second.c = memory.otherC.data();
  int64_t shift = shape.transposeA ? 0 : (shape.m / 3) | 1;
  if (!shape.transposeA) {
    int64_t behind = shift * (bytes.a / shape.m);
    std::byte *from = memory.a.bytes().data(),
              *to = memory.otherA.bytes().data();
    second.a = to;
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaMemcpy(to, from + (bytes.a - behind), size_t(behind),
                              cudaMemcpyDeviceToDevice),
                   "copy"));
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaMemcpy(to + behind, from, size_t(bytes.a - behind),
                              cudaMemcpyDeviceToDevice),
                   "copy"));
  }
  for (const Product &product : {first, second}) {
    QWEN_RETURN_IF_ERROR(blas.prepare(product));
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaMemset(product.c, 0, size_t(bytes.c)), "cudaMemset"));
    QWEN_RETURN_IF_ERROR(run(product));
  }
  // Row i of the first is row i + shift of the second.
  return agree([&](unsigned *differs) {
    return compareRows(second.c, first.c, shape.m, bytes.c / shape.m / 2, shift,
                       differs);
  });
}

/// The same numbers as by the library's first choice, starting from the same
/// random c: a product that is rounded before it is added shows here.
StatusOr<bool> ProductTuner::isRight(const GemmAlgorithm &algorithm) const {
  Product mine = product(algorithm), first = product({});
  first.c = memory.otherC.data();
  for (const Product &product : {mine, first}) {
    auto *to = static_cast<std::byte *>(product.c);
    for (int64_t at = 0; at < bytes.c; at += bytes.b)
      QWEN_RETURN_IF_ERROR(
          cudaStatus(cudaMemcpy(to + at, memory.b.data(),
                                size_t(std::min(bytes.b, bytes.c - at)),
                                cudaMemcpyDeviceToDevice),
                     "copy"));
    QWEN_RETURN_IF_ERROR(blas.prepare(product));
    QWEN_RETURN_IF_ERROR(run(product));
  }
  // Sums of k products of normal numbers, which reach 6 of their deviations.
  double sums = sumTolerance(shape.operands, double(shape.k)) * 6 * deviationA *
                deviationB * std::sqrt(double(shape.k));
  return agree([&](unsigned *differs) {
    return compareNumbers(mine.c, first.c, shape.m * shape.n,
                          shape.result == DType::BF16, float(sums),
                          float(unitRoundoff(shape.result)), differs);
  });
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// The best candidate whose results are right.
Status ProductTuner::chooseBest(TunedProduct &tuned) const {
  std::vector<SustainedAlgorithm> left = tuned.sustained;
  for (; !left.empty(); ++tuned.refused) {
    std::vector<SustainedTime> times;
    for (const SustainedAlgorithm &algorithm : left)
      times.push_back(algorithm.time);
    size_t at = bestSustained(times);
    const SustainedAlgorithm &best = left[at];
    QWEN_ASSIGN_OR_RETURN(bool stable, isStable(best.algorithm));
    QWEN_ASSIGN_OR_RETURN(bool right, isRight(best.algorithm));
    if (stable && right) {
      tuned.best.algorithm = best.algorithm;
      tuned.best.tflops = shape.flops() / best.time.milliseconds * 1e-9;
      return okStatus();
    }
    left.erase(left.begin() + ptrdiff_t(at));
  }
  return makeError(StatusCode::FailedPrecondition,
                   "no algorithm for {} gives the same bits on every run",
                   toString(shape));
}

StatusOr<TunedProduct> ProductTuner::tune() {
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventCreate(&begin), "event"));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventCreate(&end), "event"));
  constexpr int any = std::numeric_limits<int>::max();
  QWEN_RETURN_IF_ERROR(addProposed());
  QWEN_RETURN_IF_ERROR(sampleAll());
  prune(1.15, 12, any);
  if (search.neighbours) {
    QWEN_RETURN_IF_ERROR(addNeighbours(3));
    QWEN_RETURN_IF_ERROR(sampleAll());
    prune(1.1, 12, any);
  }
  for (int i = 0; i < 3; ++i)
    QWEN_RETURN_IF_ERROR(sampleAll());
  // A burst does not tell which one needs the least power. What decides that is
  // the tile above all, so there are several.
  prune(1.1, search.candidates, 2);
  TunedProduct tuned;
  tuned.first = first;
  tuned.timed = timed;
  QWEN_RETURN_IF_ERROR(sustain(tuned.sustained));
  for (const SustainedAlgorithm &algorithm : tuned.sustained)
    if (algorithm.algorithm.empty())
      tuned.best.firstTflops =
          shape.flops() / algorithm.time.milliseconds * 1e-9;
  QWEN_RETURN_IF_ERROR(chooseBest(tuned));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return tuned;
}

StatusOr<std::set<GemmAlgorithm>>
bench::proposedAlgorithms(const cuda::Blas &blas, const ProductMemory &memory,
                          const std::set<GemmShape> &shapes) {
  std::set<GemmAlgorithm> all;
  for (const GemmShape &shape : shapes) {
    Product product = productOf(memory, shape, {});
    QWEN_ASSIGN_OR_RETURN(std::vector<GemmAlgorithm> proposed,
                          blas.candidates(product, proposals));
    all.insert(proposed.begin(), proposed.end());
  }
  return all;
}

StatusOr<TunedProduct> bench::tuneProduct(cuda::Blas &blas,
                                          const ProductMemory &memory,
                                          SteadyLoad &load,
                                          const GemmShape &shape,
                                          const TuneSearch &search) {
  return ProductTuner(blas, memory, load, shape, search).tune();
}
