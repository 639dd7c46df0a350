//===- RegionKernels.cpp - Times of kernels that work inside documents ----===//

#include "KernelBench.h"
#include "KernelShapes.h"

#include <cmath>

using namespace qwen;
using namespace qwen::bench;

/// Calls f(model, pack) for each model on the documents and on one document of
/// as many tokens.
template <typename F>
static Status forEachCase(const KernelsOptions &options, F &&f) {
  Pack ragged{options.documents};
  for (const std::string &name : options.models)
    for (const Pack &pack : {ragged, Pack{{ragged.tokens()}}})
      QWEN_RETURN_IF_ERROR(f(*findModelShape(name), pack));
  return okStatus();
}

static KernelLine lineOf(const ModelShape &model, const Pack &pack,
                         std::string shape) {
  KernelLine line;
  line.model = model.name;
  line.shape = std::move(shape);
  line.tokens = pack.tokens();
  line.documents = pack.documents();
  line.contextPairs = pack.contextPairs();
  return line;
}

/// Random numbers on the device.
static StatusOr<DeviceArray> randomArray(DType dtype, int64_t elements,
                                         double low, double high) {
  QWEN_ASSIGN_OR_RETURN(DeviceArray made,
                        DeviceArray::create(elements * dtypeBytes(dtype)));
  QWEN_RETURN_IF_ERROR(made.fillUniform(dtype, low, high));
  return made;
}

/// Heads that lie side by side in rows of `row` elements, `step` apart.
static Buffer headsIn(const DeviceArray &rows, int64_t tokens, int64_t row,
                      int64_t first, int64_t heads, int64_t dim, int64_t step) {
  Buffer view = rows.view(DType::BF16, {tokens, heads, dim}, first);
  view.strides = {row, step, 1};
  return view;
}

static Status timeGatedDelta(const KernelBench &bench, const ModelShape &model,
                             const Pack &pack) {
  int64_t tokens = pack.tokens(), row = model.channels();
  int64_t keys = model.keyHeads, values = model.valueHeads;
  QWEN_ASSIGN_OR_RETURN(DeviceArray conv,
                        randomArray(DType::BF16, tokens * row, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dconv,
                        DeviceArray::create(tokens * row * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray o,
                        DeviceArray::create(tokens * values * 256));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dout,
                        randomArray(DType::BF16, tokens * values * 128, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray g,
                        randomArray(DType::F32, tokens * values, -0.5, 0));
  QWEN_ASSIGN_OR_RETURN(DeviceArray beta,
                        randomArray(DType::BF16, tokens * values, 0, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dg,
                        DeviceArray::create(tokens * values * 4));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dbeta,
                        DeviceArray::create(tokens * values * 2));
  std::vector<int32_t> boundaries = pack.boundaries();
  QWEN_ASSIGN_OR_RETURN(DeviceArray cu, DeviceArray::copyOf(boundaries));
  auto part = [&](const DeviceArray &rows, int64_t first, int64_t heads) {
    return headsIn(rows, tokens, row, first * 128, heads, 128, 128);
  };
  auto gate = [&](const DeviceArray &array, DType dtype) {
    return array.view(dtype, {tokens, values});
  };
  GatedDeltaArgs forward;
  forward.q = part(conv, 0, keys);
  forward.k = part(conv, keys, keys);
  forward.v = part(conv, 2 * keys, values);
  forward.g = gate(g, DType::F32);
  forward.beta = gate(beta, DType::BF16);
  forward.cuSeqlens = cu.view(DType::I32, {int64_t(boundaries.size())});
  forward.o = o.view(DType::BF16, {tokens, values, 128});
  forward.scale = 1 / std::sqrt(128.0);
  forward.l2normEps = 1e-6;
  forward.chunk = 64;
  KernelLine line = lineOf(model, pack, fmt::format("{}/{}x128", keys, values));
  QWEN_RETURN_IF_ERROR(bench.measure(forward, line));
  GatedDeltaGradArgs backward{forward.q,
                              forward.k,
                              forward.v,
                              forward.g,
                              forward.beta,
                              dout.view(DType::BF16, {tokens, values, 128}),
                              forward.cuSeqlens,
                              part(dconv, 0, keys),
                              part(dconv, keys, keys),
                              part(dconv, 2 * keys, values),
                              gate(dg, DType::F32),
                              gate(dbeta, DType::BF16),
                              forward.scale,
                              forward.l2normEps,
                              forward.chunk};
  return bench.measure(backward, line);
}

Status bench::benchGatedDelta(const KernelBench &bench,
                              const KernelsOptions &options) {
  return forEachCase(options, [&](const ModelShape &model, const Pack &pack) {
    return timeGatedDelta(bench, model, pack);
  });
}

static Status timeConv(const KernelBench &bench, const ModelShape &model,
                       const Pack &pack) {
  int64_t tokens = pack.tokens(), channels = model.channels();
  const std::vector<int64_t> shape = {tokens, channels};
  const std::vector<int64_t> taps = {channels, 1, 4};
  int64_t elements = tokens * channels;
  QWEN_ASSIGN_OR_RETURN(DeviceArray x,
                        randomArray(DType::BF16, elements, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dy,
                        randomArray(DType::BF16, elements, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray weight,
                        randomArray(DType::BF16, channels * 4, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray y, DeviceArray::create(elements * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dx, DeviceArray::create(elements * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dweight,
                        DeviceArray::create(channels * 16));
  std::vector<int32_t> boundaries = pack.boundaries();
  QWEN_ASSIGN_OR_RETURN(DeviceArray cu, DeviceArray::copyOf(boundaries));
  CausalConv1dArgs forward;
  forward.x = x.view(DType::BF16, shape);
  forward.weight = weight.view(DType::BF16, taps);
  forward.cuSeqlens = cu.view(DType::I32, {int64_t(boundaries.size())});
  forward.y = y.view(DType::BF16, shape);
  KernelLine line = lineOf(model, pack, fmt::format("{}", channels));
  QWEN_RETURN_IF_ERROR(bench.measure(forward, line));
  CausalConv1dGradArgs backward;
  backward.x = forward.x;
  backward.weight = forward.weight;
  backward.dy = dy.view(DType::BF16, shape);
  backward.cuSeqlens = forward.cuSeqlens;
  backward.dx = dx.view(DType::BF16, shape);
  backward.dweight = dweight.view(DType::F32, taps);
  return bench.measure(backward, line);
}

Status bench::benchConv(const KernelBench &bench,
                        const KernelsOptions &options) {
  return forEachCase(options, [&](const ModelShape &model, const Pack &pack) {
    return timeConv(bench, model, pack);
  });
}

/// Every query is followed by its gate, keys by values, as projections leave
/// them.
static Status timeAttention(const KernelBench &bench, const ModelShape &model,
                            const Pack &pack) {
  constexpr int64_t dim = 256;
  int64_t tokens = pack.tokens(), heads = model.queryHeads;
  int64_t pairs = model.pairHeads;
  int64_t queryRow = heads * 2 * dim, pairRow = pairs * 2 * dim;
  QWEN_ASSIGN_OR_RETURN(DeviceArray queries,
                        randomArray(DType::BF16, tokens * queryRow, -2, 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray keys,
                        randomArray(DType::BF16, tokens * pairRow, -2, 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dout,
                        randomArray(DType::BF16, tokens * heads * dim, -1, 1));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dqueries,
                        DeviceArray::create(tokens * queryRow * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dkeys,
                        DeviceArray::create(tokens * pairRow * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray o,
                        DeviceArray::create(tokens * heads * dim * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray lse,
                        DeviceArray::create(tokens * heads * 4));
  std::vector<int32_t> boundaries = pack.boundaries();
  QWEN_ASSIGN_OR_RETURN(DeviceArray cu, DeviceArray::copyOf(boundaries));
  auto query = [&](const DeviceArray &rows) {
    return headsIn(rows, tokens, queryRow, 0, heads, dim, 2 * dim);
  };
  auto key = [&](const DeviceArray &rows, int64_t part) {
    return headsIn(rows, tokens, pairRow, part * pairs * dim, pairs, dim, dim);
  };
  AttentionArgs forward;
  forward.q = query(queries);
  forward.k = key(keys, 0);
  forward.v = key(keys, 1);
  forward.cuSeqlens = cu.view(DType::I32, {int64_t(boundaries.size())});
  forward.o = o.view(DType::BF16, {tokens, heads, dim});
  forward.lse = lse.view(DType::F32, {tokens, heads});
  forward.scale = 1 / std::sqrt(double(dim));
  KernelLine line =
      lineOf(model, pack, fmt::format("{}/{}x{}", heads, pairs, dim));
  line.matrixFlops = kernelFlopsPerPair(forward) * line.contextPairs;
  QWEN_RETURN_IF_ERROR(bench.measure(forward, line));
  AttentionGradArgs backward{
      forward.q,         forward.k,
      forward.v,         forward.o,
      forward.lse,       dout.view(DType::BF16, {tokens, heads, dim}),
      forward.cuSeqlens, query(dqueries),
      key(dkeys, 0),     key(dkeys, 1),
      forward.scale};
  line.matrixFlops = kernelFlopsPerPair(backward) * line.contextPairs;
  return bench.measure(backward, line);
}

Status bench::benchAttention(const KernelBench &bench,
                             const KernelsOptions &options) {
  return forEachCase(options, [&](const ModelShape &model, const Pack &pack) {
    return timeAttention(bench, model, pack);
  });
}
