//===- GatedDeltaCudaTest.cpp - CUDA gated delta rule against the CPU -----===//
//
// Random ragged packs; each result apart; rows outside documents and the
// workspace poisoned with NaN; two runs must give the same bits. A program of
// its own, as it needs a GPU:
//
//   GatedDeltaCudaTest          parity, exit status 1 on a miss
//   GatedDeltaCudaTest small    the same for one small pack (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

using namespace qwen;
using namespace qwen::cudatest;

namespace {

/// How gates and keys are drawn.
enum class Kind { Typical, NoDecay, StrongDecay, ExtremeBeta, SimilarKeys };
constexpr const char *kindNames[] = {"typical", "no decay", "strong decay",
                                     "extreme beta", "similar keys"};

class Case {
public:
  Case(const Pack &pack, int64_t keyHeads, int64_t valueHeads, Kind kind,
       uint64_t seed)
      : tokens(pack.tokens), keyHeads(keyHeads), valueHeads(valueHeads),
        row((2 * keyHeads + valueHeads) * 128), total(pack.total()),
        conv(DType::BF16, {tokens, row}), dconv(DType::BF16, {tokens, row}),
        o(DType::BF16, {tokens, valueHeads, 128}),
        dout(DType::BF16, {tokens, valueHeads, 128}),
        g(DType::F32, {tokens, valueHeads}),
        beta(DType::BF16, {tokens, valueHeads}),
        dg(DType::F32, {tokens, valueHeads}),
        dbeta(DType::BF16, {tokens, valueHeads}),
        cu(DType::I32, {pack.slots()}), kind(kind), random(seed) {
    fillRows();
    fillGates();
    for (Tensor *tensor : {&conv, &dout, &g, &beta})
      tensor->toDevice();
    pack.write(cu);
  }

  /// Heads side by side in the rows that the convolution makes.
  View heads(Tensor &rows, int64_t first, int64_t count) {
    return rows.view({DType::BF16, 3, {tokens, count, 128}, {row, 128, 1}},
                     first * 128);
  }
  View q() { return heads(conv, 0, keyHeads); }
  View k() { return heads(conv, keyHeads, keyHeads); }
  View v() { return heads(conv, 2 * keyHeads, valueHeads); }
  View dq() { return heads(dconv, 0, keyHeads); }
  View dk() { return heads(dconv, keyHeads, keyHeads); }
  View dv() { return heads(dconv, 2 * keyHeads, valueHeads); }

  template <typename F> GatedDeltaArgs forwardArgs(F at) {
    return {at(q()), at(k()), at(v()), at(g), at(beta),
            at(cu),  at(o),   scale,   eps,   64};
  }
  template <typename F> GatedDeltaGradArgs backwardArgs(F at) {
    return {at(q()),  at(k()),   at(v()),  at(g),    at(beta),
            at(dout), at(cu),    at(dq()), at(dk()), at(dv()),
            at(dg),   at(dbeta), scale,    eps,      64};
  }

  const int64_t tokens, keyHeads, valueHeads, row, total;
  Tensor conv, dconv, o, dout, g, beta, dg, dbeta, cu;

private:
  void fillRows() {
    std::uniform_real_distribution<float> unit(-1, 1);
    std::vector<float> common(128);
    for (float &x : common)
      x = unit(random);
    for (const View &view : {q(), k(), v(), dout.whole()})
      for (int64_t i = 0; i < view.before(total); ++i)
        view.set(i, unit(random));
    if (kind != Kind::SimilarKeys)
      return;
    View keys = k();
    for (int64_t i = 0; i < keys.before(total); ++i)
      keys.set(i, common[i % 128] + 0.5f * unit(random));
  }
  void fillGates() {
    std::uniform_real_distribution<float> positive(0, 1);
    for (int64_t i = 0; i < total * valueHeads; ++i) {
      float decay = -0.5f * positive(random), write = positive(random);
      if (kind == Kind::NoDecay)
        decay = 0;
      if (kind == Kind::StrongDecay)
        decay = random() % 4 ? -0.1f * positive(random) : -80;
      if (kind == Kind::ExtremeBeta)
        write = float(random() % 3) / 2;
      g.set(i, decay);
      beta.set(i, write);
    }
  }

  static constexpr double scale = 0.08838834764831845; // 128^-0.5
  static constexpr double eps = 1e-6;
  const Kind kind;
  std::mt19937_64 random;
};

double tolerance(Kind kind) {
  double one = bounds::gatedDeltaOnMatrixUnits(DType::BF16);
  // Solutions of a badly conditioned system lose digits to cancellation.
  return kind == Kind::SimilarKeys ? 4 * one : one;
}

void parity(Case &c, double bound) {
  runOnCpu(c.forwardArgs(onHost));
  runOnCpu(c.backwardArgs(onHost));
  runOnGpu(c.forwardArgs(onDevice));
  expectNear("o", c.o.whole(), c.total, bound);
  expectRerunEqual("forward", c.forwardArgs(onDevice), {&c.o});
  runOnGpu(c.backwardArgs(onDevice));
  expectNear("dq", c.dq(), c.total, bound);
  expectNear("dk", c.dk(), c.total, bound);
  expectNear("dv", c.dv(), c.total, bound);
  expectNear("dg", c.dg.whole(), c.total, bound);
  expectNear("dbeta", c.dbeta.whole(), c.total, bound);
  expectRerunEqual("backward", c.backwardArgs(onDevice),
                   {&c.dconv, &c.dg, &c.dbeta});
}

void runParity(const Pack &pack, std::pair<int, int> heads, Kind kind,
               uint64_t seed) {
  std::printf("heads %d/%d, %lld tokens, %lld slots, %s:", heads.first,
              heads.second, static_cast<long long>(pack.tokens),
              static_cast<long long>(pack.slots()), kindNames[int(kind)]);
  std::fflush(stdout);
  Case c(pack, heads.first, heads.second, kind, seed);
  parity(c, tolerance(kind));
  std::printf("\n");
}

void allParity() {
  const std::vector<Pack> packs = raggedPacks();
  const std::pair<int, int> heads[] = {{16, 48}, {16, 32}, {16, 16}};
  uint64_t seed = 1;
  for (auto h : heads)
    for (const Pack &pack : packs)
      runParity(pack, h, Kind::Typical, seed++);
  for (Kind kind :
       {Kind::NoDecay, Kind::StrongDecay, Kind::ExtremeBeta, Kind::SimilarKeys})
    runParity(Pack({300, 65, 1}, 1, 34), heads[1], kind, seed++);
  runParity(Pack({1170, 1170}, 1, 28), heads[0], Kind::Typical, seed);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  if (argc > 1 && std::string_view(argv[1]) == "small")
    runParity(Pack({65, 0, 1, 130}, 1, 4), {1, 3}, Kind::Typical, 1);
  else
    allParity();
  return summary();
}
