//===- GatedDeltaTest.cpp - Gated delta rule against its recurrence -===//
//
// The reference walks token by token in float64 and differentiates that walk.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

#include <cmath>

using namespace qwen;
using namespace qwen::parity;

namespace {

struct Dims {
  int64_t keyHeads, valueHeads, keyDim, valueDim, chunk;
};

/// All operands of the forward and the backward kernel.
struct GatedDeltaCase {
  Pack pack;
  Dims dims;
  double scale, eps = 1e-6;
  Tensor cu, q, k, v, g, beta, dout, o, dq, dk, dv, dg, dbeta;

  GatedDeltaCase(const Pack &pack, const Dims &d, DType dtype, Spacing spacing,
                 uint64_t seed)
      : pack(pack), dims(d), scale(1 / std::sqrt(double(d.keyDim))),
        cu(pack.tensor()), q(dtype, key(), spacing), k(dtype, key(), spacing),
        v(dtype, value(), spacing), g(wide(dtype), gates(), spacing),
        beta(dtype, gates(), spacing), dout(dtype, value(), spacing),
        o(dtype, value(), spacing), dq(dtype, key(), spacing),
        dk(dtype, key(), spacing), dv(dtype, value(), spacing),
        dg(wide(dtype), gates(), spacing), dbeta(dtype, gates(), spacing) {
    std::mt19937_64 random(seed);
    q.uniform(random, -1, 1);
    k.uniform(random, -1, 1);
    v.uniform(random, -1, 1);
    g.uniform(random, -0.5, 0);
    beta.uniform(random, 0, 1);
    dout.uniform(random, -1, 1);
    for (Tensor *out : {&o, &dq, &dk, &dv, &dg, &dbeta})
      out->fill(77);
  }

  static DType wide(DType dtype) { return accumulationType(dtype); }
  std::vector<int64_t> key() const {
    return {pack.tokens, dims.keyHeads, dims.keyDim};
  }
  std::vector<int64_t> value() const {
    return {pack.tokens, dims.valueHeads, dims.valueDim};
  }
  std::vector<int64_t> gates() const { return {pack.tokens, dims.valueHeads}; }

  void forward() {
    launchKernel(
        GatedDeltaArgs{q, k, v, g, beta, cu, o, scale, eps, dims.chunk});
  }
  void backward() {
    launchKernel(GatedDeltaGradArgs{q, k, v, g, beta, dout, cu, dq, dk, dv, dg,
                                    dbeta, scale, eps, dims.chunk});
  }
  double forwardBound() const {
    return bounds::gatedDelta(q.dtype(), pack.longest(), dims.keyDim,
                              dims.valueDim);
  }
  double backwardBound() const {
    return bounds::gatedDeltaGrad(q.dtype(), pack.longest(), dims.keyDim,
                                  dims.valueDim);
  }
};

/// The recurrence of one value head of one document, and its derivative.
class Recurrence {
public:
  Recurrence(const GatedDeltaCase &c, int64_t document, int64_t head)
      : c(c), begin(c.pack.begin(document)),
        length(c.pack.end(document) - begin), head(head),
        keyHead(head / (c.dims.valueHeads / c.dims.keyHeads)), K(c.dims.keyDim),
        V(c.dims.valueDim), states((length + 1) * K * V), written(length * V),
        raw(length * V) {}

  void forward(Values &o) {
    for (int64_t t = 0; t < length; ++t) {
      Values q = normalised(c.q, t), k = normalised(c.k, t);
      const double *before = state(t);
      double *after = state(t + 1);
      double decay = std::exp(gate(c.g, t)), beta = gate(c.beta, t);
      for (int64_t j = 0; j < V; ++j) {
        double read = 0;
        for (int64_t i = 0; i < K; ++i)
          read += decay * before[i * V + j] * k[i];
        raw[t * V + j] = c.v.get(valueIndex(t) + j) - read;
        written[t * V + j] = beta * raw[t * V + j];
        double out = 0;
        for (int64_t i = 0; i < K; ++i) {
          after[i * V + j] =
              decay * before[i * V + j] + k[i] * written[t * V + j];
          out += after[i * V + j] * q[i];
        }
        o[valueIndex(t) + j] = c.scale * out;
      }
    }
  }

  void backward(Values &dq, Values &dk, Values &dv, Values &dg, Values &dbeta) {
    Values ds(K * V, 0.0);
    for (int64_t t = length - 1; t >= 0; --t) {
      Values q = normalised(c.q, t), k = normalised(c.k, t);
      Values gradQ(K, 0.0), gradK(K, 0.0), dd(V, 0.0);
      double decay = std::exp(gate(c.g, t)), beta = gate(c.beta, t);
      const double *before = state(t), *after = state(t + 1);
      for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < V; ++j) {
          double dout = c.scale * c.dout.get(valueIndex(t) + j);
          gradQ[i] += after[i * V + j] * dout;
          ds[i * V + j] += q[i] * dout;
          gradK[i] += ds[i * V + j] * written[t * V + j];
          dd[j] += ds[i * V + j] * k[i];
        }
      double gateGradient = 0, betaGradient = 0;
      for (int64_t j = 0; j < V; ++j) {
        betaGradient += dd[j] * raw[t * V + j];
        dv[valueIndex(t) + j] = beta * dd[j];
      }
      for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < V; ++j) {
          gradK[i] -= decay * before[i * V + j] * beta * dd[j];
          ds[i * V + j] -= beta * dd[j] * k[i];
          gateGradient += decay * before[i * V + j] * ds[i * V + j];
          ds[i * V + j] *= decay;
        }
      dg[gateIndex(t)] = gateGradient;
      dbeta[gateIndex(t)] = betaGradient;
      addNormalisation(c.q, t, q, gradQ, dq);
      addNormalisation(c.k, t, k, gradK, dk);
    }
  }

private:
  double *state(int64_t t) { return states.data() + t * K * V; }
  int64_t gateIndex(int64_t t) const {
    return (begin + t) * c.dims.valueHeads + head;
  }
  int64_t valueIndex(int64_t t) const { return gateIndex(t) * V; }
  int64_t keyIndex(int64_t t) const {
    return ((begin + t) * c.dims.keyHeads + keyHead) * K;
  }
  double gate(const Tensor &tensor, int64_t t) const {
    return tensor.get(gateIndex(t));
  }
  double norm(const Tensor &x, int64_t t) const {
    double squares = c.eps;
    for (int64_t i = 0; i < K; ++i)
      squares += x.get(keyIndex(t) + i) * x.get(keyIndex(t) + i);
    return std::sqrt(squares);
  }
  Values normalised(const Tensor &x, int64_t t) const {
    Values y(K);
    double length = norm(x, t);
    for (int64_t i = 0; i < K; ++i)
      y[i] = x.get(keyIndex(t) + i) / length;
    return y;
  }
  void addNormalisation(const Tensor &x, int64_t t, const Values &y,
                        const Values &dy, Values &dx) const {
    double along = 0;
    for (int64_t i = 0; i < K; ++i)
      along += y[i] * dy[i];
    for (int64_t i = 0; i < K; ++i)
      dx[keyIndex(t) + i] += (dy[i] - y[i] * along) / norm(x, t);
  }

  const GatedDeltaCase &c;
  int64_t begin, length, head, keyHead, K, V;
  Values states, written, raw;
};

/// Reference results of a case.
struct Exact {
  Values o, dq, dk, dv, dg, dbeta;
  explicit Exact(const GatedDeltaCase &c)
      : o(c.o.size()), dq(c.q.size()), dk(c.k.size()), dv(c.v.size()),
        dg(c.g.size()), dbeta(c.beta.size()) {
    for (int64_t d = 0; d < c.pack.documents(); ++d)
      for (int64_t head = 0; head < c.dims.valueHeads; ++head) {
        Recurrence recurrence(c, d, head);
        recurrence.forward(o);
        recurrence.backward(dq, dk, dv, dg, dbeta);
      }
  }
};

void expectParity(GatedDeltaCase &c) {
  c.forward();
  c.backward();
  Exact exact(c);
  expectClose(c.o, exact.o, c.forwardBound(), "o");
  expectClose(c.dq, exact.dq, c.backwardBound(), "dq");
  expectClose(c.dk, exact.dk, c.backwardBound(), "dk");
  expectClose(c.dv, exact.dv, c.backwardBound(), "dv");
  expectClose(c.dg, exact.dg, c.backwardBound(), "dg",
              bounds::gateGradientTerms);
  expectClose(c.dbeta, exact.dbeta, c.backwardBound(), "dbeta");
}

const Dims oneToOne{2, 2, 16, 24, 64};
const Dims oneToThree{1, 3, 20, 9, 64};
const Dims shortChunk{2, 4, 33, 32, 16};

std::vector<std::vector<uint8_t>> resultBits(GatedDeltaCase &c) {
  c.forward();
  c.backward();
  std::vector<std::vector<uint8_t>> bits;
  for (Tensor *out : {&c.o, &c.dq, &c.dk, &c.dv, &c.dg, &c.dbeta})
    bits.push_back(out->bits());
  return bits;
}

} // namespace

TEST(GatedDelta, MatchesRecurrenceOnRaggedPacks) {
  for (DType dtype : storageTypes)
    for (const Dims &dims : {oneToOne, oneToThree, shortChunk}) {
      GatedDeltaCase c(raggedPack(), dims, dtype, Spacing::Dense, 1);
      expectParity(c);
    }
}

TEST(GatedDelta, TakesSlicesOfWiderRows) {
  for (DType dtype : storageTypes) {
    GatedDeltaCase c(packOf({70, 0, 31}, 1, 5), oneToThree, dtype,
                     Spacing::Sliced, 2);
    expectParity(c);
  }
}

TEST(GatedDelta, MatchesRecurrenceOnRandomPacks) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 4; ++i) {
    GatedDeltaCase c(randomPack(random, 300), oneToOne, DType::F32,
                     Spacing::Dense, 4 + i);
    expectParity(c);
  }
}

TEST(GatedDelta, TakesExtremeGates) {
  using Setter = std::function<void(GatedDeltaCase &)>;
  const std::pair<const char *, Setter> gates[] = {
      {"no decay", [](GatedDeltaCase &c) { c.g.fill(0); }},
      {"-80 a token", [](GatedDeltaCase &c) { c.g.fill(-80); }},
      {"one -1e4",
       [](GatedDeltaCase &c) {
         for (int64_t i = 0; i < c.g.size(); ++i)
           c.g.set(i, i / c.dims.valueHeads % 50 == 20 ? -1e4 : -0.01);
       }},
      {"beta 0", [](GatedDeltaCase &c) { c.beta.fill(0); }},
      {"beta 1", [](GatedDeltaCase &c) { c.beta.fill(1); }},
      {"one key",
       [](GatedDeltaCase &c) {
         for (int64_t i = 0; i < c.k.size(); ++i)
           c.k.set(i, c.k.get(i % c.dims.keyDim));
         c.beta.fill(1);
         c.g.fill(0);
       }},
      {"zero keys and queries",
       [](GatedDeltaCase &c) {
         c.k.fill(0);
         c.q.fill(0);
       }},
  };
  for (const auto &[name, set] : gates) {
    SCOPED_TRACE(name);
    for (DType dtype : {DType::F32, DType::F64}) {
      GatedDeltaCase c(packOf({130, 1, 64}), oneToOne, dtype, Spacing::Dense,
                       5);
      set(c);
      expectParity(c);
    }
  }
}

TEST(GatedDelta, GradientsMatchDifferences) {
  GatedDeltaCase c(packOf({19, 0, 33}, 1, 2), {1, 2, 6, 5, 16}, DType::F64,
                   Spacing::Dense, 6);
  c.backward();
  auto loss = [&] {
    c.forward();
    return weightedSum(c.o, c.dout);
  };
  double length = double(c.o.size());
  expectDifferences(c.q, c.dq, 40, length, loss, "dq");
  expectDifferences(c.k, c.dk, 40, length, loss, "dk");
  expectDifferences(c.v, c.dv, 40, length, loss, "dv");
  expectDifferences(c.g, c.dg, 40, length, loss, "dg");
  expectDifferences(c.beta, c.dbeta, 40, length, loss, "dbeta");
}

TEST(GatedDelta, DocumentsDoNotSeeEachOther) {
  for (int64_t length : {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129}) {
    Pack pack = packOf({length, 100, 37}, 0, 3);
    GatedDeltaCase first(pack, oneToThree, DType::BF16, Spacing::Dense, 7);
    GatedDeltaCase second(pack, oneToThree, DType::BF16, Spacing::Dense, 7);
    for (Tensor *in : {&second.q, &second.k, &second.v, &second.dout}) {
      int64_t row = in->size() / pack.tokens;
      for (int64_t i = 0; i < length * row; ++i)
        in->set(i, 3 - in->get(i));
    }
    resultBits(first);
    resultBits(second);
    for (auto [a, b] : {std::pair{&first.o, &second.o},
                        {&first.dq, &second.dq},
                        {&first.dk, &second.dk},
                        {&first.dv, &second.dv},
                        {&first.dg, &second.dg},
                        {&first.dbeta, &second.dbeta}}) {
      EXPECT_EQ(a->bits(length, pack.tokens), b->bits(length, pack.tokens));
    }
    EXPECT_NE(first.o.bits(0, length), second.o.bits(0, length));
  }
}

TEST(GatedDelta, PlaceInThePackDoesNotMatter) {
  GatedDeltaCase late(packOf({77, 100}), oneToOne, DType::F32, Spacing::Dense,
                      8);
  GatedDeltaCase alone(packOf({100}, 1, 77), oneToOne, DType::F32,
                       Spacing::Dense, 9);
  for (auto [from, to] : {std::pair{&late.q, &alone.q},
                          {&late.k, &alone.k},
                          {&late.v, &alone.v},
                          {&late.g, &alone.g},
                          {&late.beta, &alone.beta},
                          {&late.dout, &alone.dout}}) {
    int64_t row = from->size() / 177;
    for (int64_t i = 0; i < 100 * row; ++i)
      to->set(i, from->get(77 * row + i));
  }
  resultBits(late);
  resultBits(alone);
  EXPECT_EQ(late.o.bits(77, 177), alone.o.bits(0, 100));
  EXPECT_EQ(late.dk.bits(77, 177), alone.dk.bits(0, 100));
  EXPECT_EQ(late.dg.bits(77, 177), alone.dg.bits(0, 100));
}

TEST(GatedDelta, ThreadCountDoesNotMatter) {
  GatedDeltaCase c(raggedPack(), oneToThree, DType::F32, Spacing::Dense, 10);
  setThreads(1);
  auto one = resultBits(c);
  for (int threads : {2, 3}) {
    setThreads(threads);
    EXPECT_EQ(resultBits(c), one) << threads << " threads";
  }
}
