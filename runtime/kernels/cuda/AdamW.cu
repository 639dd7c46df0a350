//===- AdamW.cu - AdamW over a list of tensors -----------------*- CUDA -*-===//
//
// kernel.adamw, one launch for the whole list: a block updates adamWBlock
// elements of one tensor, or of the slice of one that a rank holds. Every
// operation is rounded by itself in the CPU kernel's order, and random bits are
// a function of the element's place in its tensor, so results are the CPU's to
// the bit.
//
//===----------------------------------------------------------------------===//

#include "RowKernels.h"
#include "Vectors.cuh"
#include "qwen/Support/Random.h"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 256;
constexpr int lanes = adamWLanes; ///< elements that a thread updates together

/// The step's scalars, formed in float64 and rounded once.
struct Scalars {
  float clip, keep, beta1, beta2, oneMinusBeta1, oneMinusBeta2, stepSize,
      rootBias2, eps;
  uint32_t seed, step;
  bool finite;

  QWEN_DEVICE void fill(const float *hyper, const float *stats, const int *rng,
                        bool decay) {
    clip = stats[1];
    finite = stats[2] != 0;
    keep = decay ? float(1 - double(hyper[0]) * double(hyper[4])) : 1.0f;
    beta1 = float(1 - double(hyper[1]));
    beta2 = float(1 - double(hyper[2]));
    oneMinusBeta1 = hyper[1];
    oneMinusBeta2 = hyper[2];
    stepSize = float(double(hyper[0]) / double(hyper[6]));
    rootBias2 = float(sqrt(double(hyper[7])));
    eps = hyper[3];
    seed = uint32_t(rng[0]);
    step = uint32_t(rng[1]);
  }
};

struct Launch {
  const TensorEntry *entries;
  const uint32_t *tensorOfBlock;
  const SliceEntry *slices; ///< null: entries are whole tensors
  const float *hyper, *stats;
  const int *rng;
  bool decay;
};

/// Where element `first` of a block lies.
struct Place {
  int64_t block;    ///< the block's first element in the entry
  uint64_t element; ///< the same one in its tensor
  int first;

  QWEN_DEVICE int64_t at() const { return block + first; }
  /// Element `first + i` in its tensor.
  QWEN_DEVICE uint64_t number(int i) const {
    return element + uint32_t(first + i);
  }
};

/// What is read and written of one element.
struct Element {
  float p, g, m, v;
};

/// Which roundings of an element are random.
template <typename P, typename M1, typename M2, bool HasMaster>
struct RandomRoundings {
  static constexpr bool moment1 = !std::is_same_v<M1, float>;
  static constexpr bool moment2 = !std::is_same_v<M2, float>;
  static constexpr bool param = !HasMaster && !std::is_same_v<P, float>;
  static constexpr bool any = moment1 || moment2 || param;
};

/// Random bits of a pair of elements of a tensor.
QWEN_DEVICE void randomWords(uint32_t (&words)[4], const Scalars &s,
                             uint32_t tensorId, uint64_t pair) {
  words[0] = uint32_t(pair);
  words[1] = uint32_t(pair >> 32);
  words[2] = s.step;
  words[3] = tensorId;
  philoxRounds(words, s.seed, uint32_t(RandomUse::StochasticRounding));
}

QWEN_DEVICE void moments(Element &e, const Scalars &s) {
  float g = __fmul_rn(s.clip, e.g);
  e.p = __fmul_rn(e.p, s.keep);
  e.m = __fadd_rn(__fmul_rn(s.beta1, e.m), __fmul_rn(s.oneMinusBeta1, g));
  e.v = __fadd_rn(__fmul_rn(s.beta2, e.v),
                  __fmul_rn(__fmul_rn(s.oneMinusBeta2, g), g));
}

//===----------------------------------------------------------------------===//
// Any numbers
//===----------------------------------------------------------------------===//

/// A bf16 in the upper half: x rounded up with the probability of the part that
/// is cut off. Infinities keep their bits; the NaN that arithmetic makes stays
/// one when it is cut.
QWEN_DEVICE float roundStochastically(float x, uint32_t random) {
  uint32_t bits = __float_as_uint(x);
  bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return __uint_as_float(bits + (finite ? random : 0u));
}

template <typename S> QWEN_DEVICE void storeElement(S *to, float x) {
  if constexpr (std::is_same_v<S, float>)
    *to = x;
  else
    *reinterpret_cast<uint16_t *>(to) = uint16_t(__float_as_uint(x) >> 16);
}

/// `count` elements one after the other. Used where no vector may start or a
/// tensor's end leaves less than one, and for numbers outside the range of the
/// fast division.
template <typename P, typename G, typename M1, typename M2, bool HasMaster>
__device__ __noinline__ void
updateAny(const TensorEntry &tensor, const Scalars &s, Place place, int count) {
  using Random = RandomRoundings<P, M1, M2, HasMaster>;
  auto *param = static_cast<P *>(tensor.param) + place.at();
  auto *grad = static_cast<const G *>(tensor.grad) + place.at();
  auto *moment1 = static_cast<M1 *>(tensor.moment1) + place.at();
  auto *moment2 = static_cast<M2 *>(tensor.moment2) + place.at();
  auto *master = static_cast<float *>(tensor.master) + place.at();
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    Element e{HasMaster ? master[i] : float(param[i]), float(grad[i]),
              float(moment1[i]), float(moment2[i])};
    moments(e, s);
    float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(e.v), s.rootBias2), s.eps);
    e.p = __fsub_rn(e.p, __fdiv_rn(__fmul_rn(s.stepSize, e.m), root));
    uint32_t words[4];
    randomWords(words, s, tensor.tensorId, place.number(i) / 2);
    auto random = [&](Rounding rounding) {
      return roundingBits(words, place.number(i), rounding);
    };
    if constexpr (Random::moment1)
      e.m = roundStochastically(e.m, random(Rounding::Moment1));
    if constexpr (Random::moment2)
      e.v = roundStochastically(e.v, random(Rounding::Moment2));
    if constexpr (HasMaster) {
      master[i] = e.p;
      param[i] = P(e.p);
    } else {
      if constexpr (Random::param)
        e.p = roundStochastically(e.p, random(Rounding::Parameter));
      storeElement(param + i, e.p);
    }
    storeElement(moment1 + i, e.m);
    storeElement(moment2 + i, e.v);
  }
}

//===----------------------------------------------------------------------===//
// Numbers of usual size, eight at a time
//===----------------------------------------------------------------------===//

/// Square root and quotients rounded to nearest, as the library's functions
/// compute them for zero and between 2^-100 and 2^20, but without their
/// branches for other numbers, which would keep the elements from overlapping.
/// Zeros are usual: rows of an embedding that no token has named yet.
QWEN_DEVICE float approximateInverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(y, fmaf(-x, y, 1.0f), y);
}

QWEN_DEVICE float fastQuotient(float a, float b, float inverse) {
  float q = __fmul_rn(a, inverse);
  q = fmaf(fmaf(-b, q, a), inverse, q);
  return fmaf(fmaf(-b, q, a), inverse, q);
}

QWEN_DEVICE float fastSquareRoot(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  float root = __fmul_rn(x, y), half = __fmul_rn(y, 0.5f);
  return x == 0.0f ? 0.0f : fmaf(fmaf(-root, root, x), half, root);
}

/// Collects whether all numbers were of usual size.
struct UsualSize {
  uint32_t farthest = 0; ///< largest distance from 2^-100
  float notFinite = 0;   ///< NaN after an infinity or NaN

  static constexpr uint32_t low = 27u << 23, high = 147u << 23;
  QWEN_DEVICE void addMagnitude(float x) {
    // Not -0: its quotient would lose the sign.
    uint32_t bits = __float_as_uint(x);
    farthest = max(farthest, bits == 0 ? 0 : (bits & 0x7fffffffu) - low);
  }
  QWEN_DEVICE void addFinite(float x) { notFinite = fmaf(x, 0.0f, notFinite); }
  QWEN_DEVICE bool holds() const {
    return farthest <= high - low && notFinite == 0.0f;
  }
};

/// Upper halves of random sums: rounds to bf16 stochastically.
QWEN_DEVICE float addRandom(float x, uint32_t random) {
  return __uint_as_float(__float_as_uint(x) + random);
}

/// Stores floats, or the upper halves as bf16.
template <typename S>
QWEN_DEVICE void storeUpper(void *base, int64_t at, const float (&x)[lanes]) {
  Vector<S, lanes> row;
  if constexpr (std::is_same_v<S, float>) {
#pragma unroll
    for (int i = 0; i < lanes; ++i)
      row.word[i] = __float_as_uint(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < lanes; i += 2)
      row.word[i / 2] =
          __byte_perm(__float_as_uint(x[i]), __float_as_uint(x[i + 1]), 0x7632);
  }
  row.store(static_cast<S *>(base) + at);
}

template <typename S>
QWEN_DEVICE Vector<S, lanes> loadVector(const void *base, int64_t at) {
  return Vector<S, lanes>::load(static_cast<const S *>(base) + at);
}

/// Updates `lanes` elements; false, with nothing stored, where a number is not
/// of usual size. `inverseBias` is that of rootBias2.
template <typename P, typename G, typename M1, typename M2, bool HasMaster>
QWEN_DEVICE bool updateVector(const TensorEntry &tensor, const Scalars &s,
                              float inverseBias, const Place &place) {
  using Random = RandomRoundings<P, M1, M2, HasMaster>;
  using Stored = std::conditional_t<HasMaster, float, P>;
  int64_t at = place.at();
  auto gRow = loadVector<G>(tensor.grad, at);
  auto mRow = loadVector<M1>(tensor.moment1, at);
  auto vRow = loadVector<M2>(tensor.moment2, at);
  auto pRow = loadVector<Stored>(HasMaster ? tensor.master : tensor.param, at);
  float p[lanes], m[lanes], v[lanes];
  uint32_t words[4] = {};
  UsualSize usual;
#pragma unroll
  for (int i = 0; i < lanes; ++i) {
    Element e{pRow[i], gRow[i], mRow[i], vRow[i]};
    moments(e, s);
    float step = __fmul_rn(s.stepSize, e.m);
    usual.addMagnitude(e.v);
    usual.addMagnitude(step);
    float root = __fadd_rn(
        fastQuotient(fastSquareRoot(e.v), s.rootBias2, inverseBias), s.eps);
    e.p = __fsub_rn(e.p, fastQuotient(step, root, approximateInverse(root)));
    usual.addFinite(e.p);
    // Vectors start at even elements.
    if (Random::any && i % 2 == 0)
      randomWords(words, s, tensor.tensorId, place.number(i) / 2);
    auto random = [&](Rounding rounding) {
      return roundingBits(words, i, rounding);
    };
    m[i] = Random::moment1 ? addRandom(e.m, random(Rounding::Moment1)) : e.m;
    v[i] = Random::moment2 ? addRandom(e.v, random(Rounding::Moment2)) : e.v;
    p[i] = Random::param ? addRandom(e.p, random(Rounding::Parameter)) : e.p;
  }
  if (!usual.holds())
    return false;
  storeUpper<M1>(tensor.moment1, at, m);
  storeUpper<M2>(tensor.moment2, at, v);
  if constexpr (HasMaster) {
    storeUpper<float>(tensor.master, at, p);
    Vector<P, lanes>::rounded(p).store(static_cast<P *>(tensor.param) + at);
  } else {
    storeUpper<P>(tensor.param, at, p);
  }
  return true;
}

/// The block's place in an entry that is a slice: behind the elements before
/// the first vector, which a thread updates here. Clears `fast` where there is
/// none.
template <typename P, typename G, typename M1, typename M2, bool HasMaster>
QWEN_DEVICE void beginSlice(const SliceEntry &slice, const TensorEntry &tensor,
                            const Scalars &s, Place &place, bool &fast) {
  place.element += uint64_t(slice.firstElement);
  if (slice.head > 0 && place.block == 0 && threadIdx.x == 0)
    updateAny<P, G, M1, M2, HasMaster>(
        tensor, s, place, int(min(tensor.elements, int64_t(slice.head))));
  place.block += slice.head;
  place.element += uint64_t(slice.head);
  fast = fast && slice.hasVectors;
}

template <typename P, typename G, typename M1, typename M2, bool HasMaster>
__global__ void __launch_bounds__(threads, HasMaster ? 2 : 3)
    adamW(Launch launch) {
  __shared__ Scalars shared;
  uint32_t index = launch.tensorOfBlock[blockIdx.x];
  TensorEntry tensor = launch.entries[index];
  if (threadIdx.x == 0)
    shared.fill(launch.hyper, launch.stats, launch.rng, launch.decay);
  __syncthreads();
  Scalars s = shared;
  if (!s.finite)
    return;
  int64_t block = int64_t(blockIdx.x - tensor.firstBlock) * adamWBlock;
  Place place{block, uint64_t(block), 0};
  float inverseBias = approximateInverse(s.rootBias2);
  // The fast quotients also need divisors of usual size.
  bool fast = s.eps > 0x1p-40f && s.eps < 0x1p10f && s.rootBias2 > 0x1p-10f;
  if (launch.slices)
    beginSlice<P, G, M1, M2, HasMaster>(launch.slices[index], tensor, shared,
                                        place, fast);
  int elements = int(min(tensor.elements - place.block, adamWBlock));
#pragma unroll 1
  for (place.first = threadIdx.x * lanes; place.first < elements;
       place.first += threads * lanes) {
    int count = min(lanes, elements - place.first);
    bool done = false;
    if (fast && count == lanes)
      done =
          updateVector<P, G, M1, M2, HasMaster>(tensor, s, inverseBias, place);
    if (!done)
      updateAny<P, G, M1, M2, HasMaster>(tensor, shared, place, count);
  }
}

template <typename P, typename G, typename M1, typename M2>
cudaError_t run(const AdamWArgs &args, const LaunchContext &context) {
  Carver carver(context.table.data());
  TensorTable table(carver, args.params, adamWBlock,
                    !args.firstElements.empty());
  if (table.blocks == 0)
    return cudaSuccess;
  Launch launch{table.entries,
                table.tensorOfBlock,
                table.slices,
                args.hyper.as<float>(),
                args.stats.as<float>(),
                args.rng.as<int>(),
                args.decay};
  if (args.masters.empty())
    adamW<P, G, M1, M2, false>
        <<<table.blocks, threads, 0, context.stream>>>(launch);
  else
    adamW<P, G, M1, M2, true>
        <<<table.blocks, threads, 0, context.stream>>>(launch);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::launch(const AdamWArgs &args,
                               const LaunchContext &context) {
  // A rank may hold none of the tensors.
  if (args.params.empty())
    return cudaSuccess;
  return withStorage(args.params[0].dtype, [&](auto param) {
    return withStorage(args.grads[0].dtype, [&](auto grad) {
      return withStorage(args.moments1[0].dtype, [&](auto moment1) {
        return withStorage(args.moments2[0].dtype, [&](auto moment2) {
          return run<decltype(param), decltype(grad), decltype(moment1),
                     decltype(moment2)>(args, context);
        });
      });
    });
  });
}
