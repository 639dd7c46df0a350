//===- AdamW.cpp - AdamW over a list of tensors ----------------*- C++ -*-===//
//
// kernel.adamw. Scalars are formed in float64 and rounded once, as PyTorch
// does.
//
//===----------------------------------------------------------------------===//

#include "HyperParameters.h"
#include "Parallel.h"
#include "Storage.h"
#include "qwen/Support/Random.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>
#include <cmath>

using namespace qwen;
using namespace qwen::cpu;

namespace {

/// The step's scalars in the type of the update.
template <typename T> struct AdamWScalars {
  T clip, keep, beta1, beta2, oneMinusBeta1, oneMinusBeta2, stepSize, rootBias2,
      eps;
  AdamWScalars(const HyperParameters &h, double clipFactor, bool decay)
      : clip(static_cast<T>(clipFactor)),
        keep(static_cast<T>(decay ? 1 - h.lr * h.weightDecay : 1)),
        beta1(static_cast<T>(1 - h.oneMinusBeta1)),
        beta2(static_cast<T>(1 - h.oneMinusBeta2)),
        oneMinusBeta1(static_cast<T>(h.oneMinusBeta1)),
        oneMinusBeta2(static_cast<T>(h.oneMinusBeta2)),
        stepSize(static_cast<T>(h.lr / h.bias1)),
        rootBias2(static_cast<T>(std::sqrt(h.bias2))),
        eps(static_cast<T>(h.eps)) {}
};

/// The random bits of a tensor's roundings in a step, element by element.
class RoundingStream {
public:
  RoundingStream(uint32_t seed, uint32_t step, uint32_t tensor)
      : seed(seed), step(step), tensor(tensor) {}

  /// Forms the bits of the element's pair where they are not there yet.
  void moveTo(uint64_t next) {
    element = next;
    if (pair == next / 2)
      return;
    pair = next / 2;
    std::ranges::copy(
        randomBits(seed, RandomUse::StochasticRounding, step, tensor, pair),
        words);
  }
  uint32_t operator()(Rounding rounding) const {
    return roundingBits(words, element, rounding);
  }

private:
  uint32_t seed, step, tensor;
  uint32_t words[4] = {};
  uint64_t element = 0, pair = ~uint64_t(0);
};

} // namespace

/// Rounds up with the probability of the part that is cut off; `random` has 16
/// bits.
static BFloat16 roundStochastically(float x, uint32_t random) {
  if (!std::isfinite(x))
    return toBFloat16(x);
  uint32_t bits = std::bit_cast<uint32_t>(x) + random;
  return {static_cast<uint16_t>(bits >> 16)};
}

/// Rounds to storage: stochastically to bf16, else to nearest.
template <typename S, typename T> static S round(T x, uint32_t random) {
  if constexpr (std::is_same_v<S, BFloat16>)
    return roundStochastically(x, random);
  else
    return static_cast<S>(x);
}

/// Elements [begin, end) of one tensor; P, G, M1 and M2 are storage types.
template <typename P, typename G, typename M1, typename M2>
static void update(const AdamWArgs &args, size_t i, int64_t begin, int64_t end,
                   const AdamWScalars<Wide<P>> &s, RoundingStream bits) {
  using T = Wide<P>;
  P *param = args.params[i].as<P>();
  const G *grad = args.grads[i].as<G>();
  M1 *moment1 = args.moments1[i].as<M1>();
  M2 *moment2 = args.moments2[i].as<M2>();
  T *master = args.masters.empty() ? nullptr : args.masters[i].as<T>();
  constexpr bool narrowMoments =
      std::is_same_v<M1, BFloat16> || std::is_same_v<M2, BFloat16>;
  int64_t first = args.firstElements.empty() ? 0 : args.firstElements[i];
  bool random = narrowMoments || (!master && std::is_same_v<P, BFloat16>);
  for (int64_t e = begin; e < end; ++e) {
    if (random)
      bits.moveTo(static_cast<uint64_t>(first + e));
    T g = s.clip * static_cast<T>(widen(grad[e]));
    T p = master ? master[e] : static_cast<T>(widen(param[e]));
    p = p * s.keep;
    T m = s.beta1 * widen(moment1[e]) + s.oneMinusBeta1 * g;
    T v = s.beta2 * widen(moment2[e]) + s.oneMinusBeta2 * g * g;
    p = p - s.stepSize * m / (std::sqrt(v) / s.rootBias2 + s.eps);
    moment1[e] = round<M1>(m, bits(Rounding::Moment1));
    moment2[e] = round<M2>(v, bits(Rounding::Moment2));
    if (master) {
      master[e] = p;
      param[e] = narrow<P>(p);
    } else {
      param[e] = round<P>(p, bits(Rounding::Parameter));
    }
  }
}

/// Calls body(S{}) with the storage type of a gradient or moment of a parameter
/// stored as P.
template <typename P, typename F> static void withState(DType dtype, F &&body) {
  if constexpr (std::is_same_v<P, double>)
    body(double{});
  else if (dtype == DType::BF16)
    body(BFloat16{});
  else
    body(float{});
}

template <typename P>
static void updateTensor(const AdamWArgs &args, size_t i,
                         const HyperParameters &hyper) {
  using T = Wide<P>;
  AdamWScalars<T> scalars(hyper, readScalar(args.stats, statsClip), args.decay);
  const int32_t *rng = args.rng.as<int32_t>();
  RoundingStream stream(static_cast<uint32_t>(rng[0]),
                        static_cast<uint32_t>(rng[1]),
                        static_cast<uint32_t>(args.tensorIds[i]));
  parallelBlocks(args.params[i].elements(), 8192, [&](int64_t b, int64_t e) {
    withState<P>(args.grads[i].dtype, [&](auto grad) {
      withState<P>(args.moments1[i].dtype, [&](auto moment1) {
        withState<P>(args.moments2[i].dtype, [&](auto moment2) {
          update<P, decltype(grad), decltype(moment1), decltype(moment2)>(
              args, i, b, e, scalars, stream);
        });
      });
    });
  });
}

void qwen::cpu::launch(const AdamWArgs &args, const LaunchContext &) {
  if (readScalar(args.stats, statsFinite) == 0)
    return;
  HyperParameters hyper(args.hyper);
  for (size_t i = 0; i < args.params.size(); ++i)
    withStorage(args.params[i].dtype,
                [&](auto tag) { updateTensor<decltype(tag)>(args, i, hyper); });
}
