//===- AttentionCudaTest.cpp - CUDA attention against the CPU -------------===//
//
// Random ragged packs; each result apart; queries interleaved with their gates,
// keys beside values; rows outside documents and the workspace poisoned with
// NaN; documents unmoved by NaN in their neighbours; two runs must give the
// same bits. A program of its own, as it needs a GPU:
//
//   AttentionCudaTest          parity, exit status 1 on a miss
//   AttentionCudaTest small    one small pack (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

using namespace qwen;
using namespace qwen::cudatest;

namespace {

struct Heads {
  int64_t queries, keys, dim;
};

class Case {
public:
  Case(const Pack &pack, Heads heads, uint64_t seed)
      : tokens(pack.tokens), total(pack.total()), heads(heads), random(seed),
        queries(DType::BF16, {tokens, heads.queries * 2 * heads.dim}),
        dqueries(DType::BF16, {tokens, heads.queries * 2 * heads.dim}),
        keys(DType::BF16, {tokens, heads.keys * 2 * heads.dim}),
        dkeys(DType::BF16, {tokens, heads.keys * 2 * heads.dim}),
        o(DType::BF16, {tokens, heads.queries, heads.dim}),
        dout(DType::BF16, {tokens, heads.queries, heads.dim}),
        lse(DType::F32, {tokens, heads.queries}),
        cu(DType::I32, {pack.slots()}) {
    longest = 1;
    for (int64_t i = 1; i < pack.slots(); ++i)
      longest = std::max<int64_t>(longest,
                                  pack.boundaries[i] - pack.boundaries[i - 1]);
    fill(q(), 2);
    fill(k(), 2);
    fill(v(), 1);
    fill(dout.whole(), 1);
    for (Tensor *tensor : {&queries, &keys, &dout})
      tensor->toDevice();
    pack.write(cu);
  }

  /// Every query is followed by its gate.
  View query(Tensor &rows) {
    int64_t d = heads.dim, row = heads.queries * 2 * d;
    return rows.view(
        {DType::BF16, 3, {tokens, heads.queries, d}, {row, 2 * d, 1}});
  }
  /// Part 0: keys; part 1: values.
  View key(Tensor &rows, int64_t part) {
    int64_t d = heads.dim, row = heads.keys * 2 * d;
    return rows.view({DType::BF16, 3, {tokens, heads.keys, d}, {row, d, 1}},
                     part * heads.keys * d);
  }
  View q() { return query(queries); }
  View k() { return key(keys, 0); }
  View v() { return key(keys, 1); }
  View dq() { return query(dqueries); }
  View dk() { return key(dkeys, 0); }
  View dv() { return key(dkeys, 1); }

  template <typename F> AttentionArgs forwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(cu),
            at(o),
            at(lse),
            1 / std::sqrt(double(heads.dim))};
  }
  template <typename F> AttentionGradArgs backwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(o),
            at(lse),
            at(dout),
            at(cu),
            at(dq()),
            at(dk()),
            at(dv()),
            1 / std::sqrt(double(heads.dim))};
  }

  const int64_t tokens, total;
  const Heads heads;
  int64_t longest;

private:
  std::mt19937_64 random;

  void fill(const View &view, float size) {
    std::uniform_real_distribution<float> values(-size, size);
    for (int64_t i = 0; i < view.before(total); ++i)
      view.set(i, values(random));
  }

public:
  Tensor queries, dqueries, keys, dkeys, o, dout, lse, cu;
};

void parity(Case &c) {
  double forward = bounds::attentionOnMatrixUnits(DType::BF16);
  double backward = bounds::attentionGradOnMatrixUnits(DType::BF16);
  double wide = bounds::logSumExpOnMatrixUnits(c.longest, c.heads.dim);
  runOnCpu(c.forwardArgs(onHost));
  runOnCpu(c.backwardArgs(onHost));
  runOnGpu(c.forwardArgs(onDevice));
  expectNear("o", c.o.whole(), c.total, forward);
  expectNear("lse", c.lse.whole(), c.total, wide);
  expectRerunEqual("forward", c.forwardArgs(onDevice), {&c.o, &c.lse});
  // The gradients of the same forward.
  c.o.toDevice();
  c.lse.toDevice();
  runOnGpu(c.backwardArgs(onDevice));
  expectNear("dq", c.dq(), c.total, backward);
  expectNear("dk", c.dk(), c.total, backward);
  expectNear("dv", c.dv(), c.total, backward);
  expectRerunEqual("backward", c.backwardArgs(onDevice),
                   {&c.dqueries, &c.dkeys});
}

void runParity(const Pack &pack, Heads heads, uint64_t seed) {
  std::printf("heads %d/%d of %d, %lld tokens, %lld slots:", int(heads.queries),
              int(heads.keys), int(heads.dim),
              static_cast<long long>(pack.tokens),
              static_cast<long long>(pack.slots()));
  std::fflush(stdout);
  Case c(pack, heads, seed);
  parity(c);
  std::printf("\n");
}

/// The results of the document in rows [begin, end).
std::vector<double> documentResults(Case &c, int64_t begin, int64_t end) {
  runOnGpu(c.forwardArgs(onDevice));
  runOnGpu(c.backwardArgs(onDevice));
  std::vector<double> values;
  for (const View &view :
       {c.o.whole(), c.lse.whole(), c.dq(), c.dk(), c.dv()}) {
    std::vector<uint8_t> bytes = view.tensor->deviceBytes();
    for (int64_t i = view.before(begin); i < view.before(end); ++i)
      values.push_back(view.get(bytes, i));
  }
  return values;
}

/// NaN in the neighbours of a document must not change its bits.
void testIsolation(Heads heads) {
  const int64_t begin = 70, end = 270;
  Case c(Pack({int(begin), int(end - begin), 33}, 1, 17), heads, 11);
  std::vector<double> before = documentResults(c, begin, end);
  for (const View &view : {c.q(), c.k(), c.v(), c.dout.whole()}) {
    for (int64_t i = 0; i < view.size(); ++i)
      if (i < view.before(begin) || i >= view.before(end))
        view.set(i, std::nan(""));
    view.tensor->toDevice();
  }
  report("attention", "reads other documents",
         documentResults(c, begin, end) == before);
}

void allParity() {
  const std::vector<Pack> packs = raggedPacks();
  const Heads heads[] = {{24, 4, 256}, {16, 4, 256}, {8, 2, 256}};
  uint64_t seed = 1;
  for (const Heads &h : heads)
    for (const Pack &pack : packs)
      runParity(pack, h, seed++);
  for (int dim : {64, 128})
    runParity(Pack({1, 129, 200}, 1, 6), {8, 2, dim}, seed++);
  runParity(Pack({1170, 1169}, 1, 29), heads[0], seed++);
  runParity(Pack({64, 5000}, 1, 56), {8, 8, 256}, seed++);
  testIsolation(heads[0]);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  if (argc > 1 && std::string_view(argv[1]) == "small")
    runParity(Pack({65, 0, 1, 130}, 1, 4), {3, 1, 256}, 1);
  else
    allParity();
  return summary();
}
