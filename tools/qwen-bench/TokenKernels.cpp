//===- TokenKernels.cpp - Times of kernels over tokens and parameters -----===//

#include "KernelBench.h"
#include "KernelShapes.h"
#include "runtime/kernels/cuda/GemmShape.h"

#include <cmath>
#include <random>

using namespace qwen;
using namespace qwen::bench;

/// Sets the algorithm of a product as qwenc does.
static Status tune(GemmAlgorithm &algorithm, const cuda::GemmShape &shape) {
  QWEN_ASSIGN_OR_RETURN(algorithm, shippedAlgorithm(shape));
  return okStatus();
}

static StatusOr<DeviceArray> filledArray(DType dtype, int64_t elements,
                                         double low = -1, double high = 1) {
  QWEN_ASSIGN_OR_RETURN(DeviceArray made,
                        DeviceArray::create(elements * dtypeBytes(dtype)));
  QWEN_RETURN_IF_ERROR(made.fillUniform(dtype, low, high));
  return made;
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

namespace {
/// Ids of a batch, and how many of them differ.
struct IdSet {
  const char *kind;
  std::vector<int32_t> ids;
  int64_t unique = 0;
};
} // namespace

/// "natural": frequencies that fall as 1 / rank. "distinct": all differ.
static IdSet drawIds(const char *kind, bool natural, int64_t tokens) {
  IdSet set{kind, {}};
  std::mt19937_64 random(3);
  std::vector<bool> seen(vocabulary);
  for (int64_t t = 0; t < tokens; ++t) {
    double u = double(random() % (1 << 20)) / (1 << 20);
    int64_t id = natural
                     ? int64_t(std::exp(u * std::log(double(vocabulary)))) - 1
                     : t * (vocabulary / tokens);
    set.unique += !seen[size_t(id)];
    seen[size_t(id)] = true;
    set.ids.push_back(int32_t(id));
  }
  return set;
}

static Status timeEmbedding(const KernelBench &bench, const ModelShape &model,
                            const IdSet &set) {
  int64_t tokens = int64_t(set.ids.size()), width = model.width;
  QWEN_ASSIGN_OR_RETURN(DeviceArray table,
                        filledArray(DType::BF16, vocabulary * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray rows,
                        filledArray(DType::BF16, tokens * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dtable,
                        filledArray(DType::F32, vocabulary * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray ids, DeviceArray::copyOf(set.ids));
  KernelLine line;
  line.model = model.name;
  line.tokens = tokens;
  line.shape =
      fmt::format("{} ids, {} differ, {} wide", set.kind, set.unique, width);
  // Rows that are not asked for do not move.
  double rowBytes = 2.0 * double(width);
  EmbeddingArgs forward;
  forward.table = table.view(DType::BF16, {vocabulary, width});
  forward.ids = ids.view(DType::I32, {tokens});
  forward.out = rows.view(DType::BF16, {tokens, width});
  line.bytes = rowBytes * double(set.unique + tokens);
  QWEN_RETURN_IF_ERROR(bench.measure(forward, line));
  EmbeddingGradArgs backward;
  backward.dout = forward.out;
  backward.ids = forward.ids;
  backward.dtable = dtable.view(DType::F32, {vocabulary, width});
  backward.accumulate = true;
  line.bytes = rowBytes * double(tokens + 4 * set.unique);
  return bench.measure(backward, line);
}

Status bench::benchEmbedding(const KernelBench &bench,
                             const KernelsOptions &options) {
  int64_t tokens = Pack{options.documents}.tokens();
  for (const std::string &name : options.models)
    for (const IdSet &set :
         {drawIds("natural", true, tokens), drawIds("distinct", false, tokens)})
      QWEN_RETURN_IF_ERROR(timeEmbedding(bench, *findModelShape(name), set));
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// The three products that the loss is made of, with its operands: logits in
/// bf16, and the gradients out of them.
static Status timeLossProducts(const KernelBench &bench,
                               const LinearCrossEntropyGradArgs &loss,
                               const KernelLine &line) {
  int64_t tokens = loss.x.dim(0);
  QWEN_ASSIGN_OR_RETURN(DeviceArray memory,
                        filledArray(DType::BF16, tokens * vocabulary));
  Buffer logits = memory.view(DType::BF16, {tokens, vocabulary});
  GemmArgs forward, dx, dweight;
  forward.a = loss.x;
  forward.b = loss.weight;
  forward.c = logits;
  forward.transposeB = true;
  dx.a = logits;
  dx.b = loss.weight;
  dx.c = loss.dx;
  dweight.a = logits;
  dweight.b = loss.x;
  dweight.c = loss.dweight;
  dweight.transposeA = true;
  dweight.accumulate = loss.accumulate;
  for (GemmArgs *product : {&forward, &dx, &dweight})
    QWEN_RETURN_IF_ERROR(tune(product->algorithm, cuda::gemmShape(*product)));
  return bench.measureProducts({forward, dx, dweight}, "loss_products", line);
}

static Status timeLoss(const KernelBench &bench, const ModelShape &model,
                       int64_t tokens) {
  int64_t width = model.width;
  QWEN_ASSIGN_OR_RETURN(DeviceArray x,
                        filledArray(DType::BF16, tokens * width));
  QWEN_ASSIGN_OR_RETURN(
      DeviceArray weight,
      filledArray(DType::BF16, vocabulary * width, -0.02, 0.02));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dx,
                        DeviceArray::create(tokens * width * 2));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dweight,
                        filledArray(DType::F32, vocabulary * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray nll, DeviceArray::create(tokens * 4));
  QWEN_ASSIGN_OR_RETURN(DeviceArray dnll, filledArray(DType::F32, tokens));
  QWEN_ASSIGN_OR_RETURN(
      DeviceArray labels,
      DeviceArray::copyOf(drawIds("natural", true, tokens).ids));
  LinearCrossEntropyGradArgs args;
  args.x = x.view(DType::BF16, {tokens, width});
  args.weight = weight.view(DType::BF16, {vocabulary, width});
  args.labels = labels.view(DType::I32, {tokens});
  args.dnll = dnll.view(DType::F32, {tokens});
  args.nll = nll.view(DType::F32, {tokens});
  args.dx = dx.view(DType::BF16, {tokens, width});
  args.dweight = dweight.view(DType::F32, {vocabulary, width});
  args.ignoreIndex = -100;
  args.accumulate = true;
  cuda::LossBlocks blocks(args.x, args.weight);
  QWEN_RETURN_IF_ERROR(tune(args.logitsAlgorithm, blocks.logits()));
  QWEN_RETURN_IF_ERROR(tune(args.dxAlgorithm, blocks.dx()));
  QWEN_RETURN_IF_ERROR(
      tune(args.dweightAlgorithm, blocks.dweight(args.accumulate)));
  KernelLine line;
  line.model = model.name;
  line.tokens = tokens;
  line.shape = fmt::format("{}x{}x{}", tokens, width, vocabulary);
  line.matrixFlops = double(kernelFlops(args));
  QWEN_RETURN_IF_ERROR(bench.measure(args, line));
  QWEN_RETURN_IF_ERROR(timeLossProducts(bench, args, line));
  LinearCrossEntropyArgs forward;
  forward.x = args.x;
  forward.weight = args.weight;
  forward.labels = args.labels;
  forward.nll = args.nll;
  forward.ignoreIndex = args.ignoreIndex;
  forward.logitsAlgorithm = args.logitsAlgorithm;
  line.matrixFlops = double(kernelFlops(forward));
  return bench.measure(forward, line);
}

Status bench::benchLoss(const KernelBench &bench,
                        const KernelsOptions &options) {
  for (const std::string &name : options.models)
    QWEN_RETURN_IF_ERROR(timeLoss(bench, *findModelShape(name),
                                  Pack{options.documents}.tokens()));
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Angles, fill, copy
//===----------------------------------------------------------------------===//

Status bench::benchMoves(const KernelBench &bench,
                         const KernelsOptions &options) {
  constexpr int64_t elements = int64_t(1) << 29;
  int64_t tokens = Pack{options.documents}.tokens();
  QWEN_ASSIGN_OR_RETURN(DeviceArray angles,
                        DeviceArray::create(tokens * 64 * 4));
  QWEN_ASSIGN_OR_RETURN(DeviceArray from, filledArray(DType::BF16, elements));
  QWEN_ASSIGN_OR_RETURN(DeviceArray to, DeviceArray::create(elements * 2));
  std::vector<int32_t> positions;
  for (int64_t length : options.documents)
    for (int32_t at = 0; at < length; ++at)
      positions.push_back(at);
  QWEN_ASSIGN_OR_RETURN(DeviceArray places, DeviceArray::copyOf(positions));
  KernelLine line;
  line.tokens = tokens;
  line.shape = "64";
  QWEN_RETURN_IF_ERROR(
      bench.measure(RopeAnglesArgs{places.view(DType::I32, {tokens}),
                                   angles.view(DType::F32, {tokens, 64}), 1e7},
                    line));
  line.tokens = 0;
  line.shape = "1 GiB";
  Buffer in = from.view(DType::BF16, {elements});
  Buffer out = to.view(DType::BF16, {elements});
  QWEN_RETURN_IF_ERROR(bench.measure(CopyArgs{in, out}, line));
  QWEN_RETURN_IF_ERROR(bench.measure(FillArgs{out, 1.5}, line));
  // The columns of q, k and v out of a merged projection's.
  Buffer slice = from.view(DType::BF16, {elements / 16384, 10240});
  slice.strides[0] = 16384;
  line.shape = "10240 of 16384 columns";
  return bench.measure(
      CopyArgs{slice, to.view(DType::BF16, {elements / 16384, 10240})}, line);
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

namespace {
/// Tensors of an update and what it reads beside them.
struct UpdateMemory {
  std::vector<DeviceArray> arrays;
  GradNormArgs norm;
  AdamWArgs adamw;

  StatusOr<Buffer> add(DType dtype, int64_t elements) {
    QWEN_ASSIGN_OR_RETURN(DeviceArray made, filledArray(dtype, elements, 0, 1));
    Buffer view = made.view(dtype, {elements});
    arrays.push_back(std::move(made));
    return view;
  }
  Status addControls() {
    const std::vector<float> rates = {1e-5f, 0.1f, 0.05f, 1e-8f,
                                      0.1f,  1,    0.9f,  0.9f};
    QWEN_ASSIGN_OR_RETURN(DeviceArray hyper, DeviceArray::copyOf(rates));
    QWEN_ASSIGN_OR_RETURN(DeviceArray stats, DeviceArray::create(16));
    QWEN_ASSIGN_OR_RETURN(DeviceArray rng,
                          DeviceArray::copyOf(std::vector<int32_t>{1, 100}));
    adamw.hyper = norm.hyper = hyper.view(DType::F32, {8});
    norm.stats = stats.view(DType::F32, {4});
    adamw.stats = norm.stats;
    adamw.rng = rng.view(DType::I32, {2});
    adamw.decay = true;
    for (DeviceArray *array : {&hyper, &stats, &rng})
      arrays.push_back(std::move(*array));
    return okStatus();
  }
};
} // namespace

/// Every replay meets the same gradients; the arithmetic does not depend on
/// their values.
static Status timeUpdate(const KernelBench &bench, const char *state,
                         DType moments, bool masters, bool withNorm) {
  constexpr int64_t count = 8, size = int64_t(1) << 27;
  UpdateMemory memory;
  for (int64_t i = 0; i < count; ++i) {
    AdamWArgs &args = memory.adamw;
    QWEN_ASSIGN_OR_RETURN(Buffer param, memory.add(DType::BF16, size));
    QWEN_ASSIGN_OR_RETURN(Buffer grad, memory.add(DType::F32, size));
    QWEN_ASSIGN_OR_RETURN(Buffer moment1, memory.add(moments, size));
    QWEN_ASSIGN_OR_RETURN(Buffer moment2, memory.add(moments, size));
    args.params.push_back(param);
    args.grads.push_back(grad);
    args.moments1.push_back(moment1);
    args.moments2.push_back(moment2);
    if (masters) {
      QWEN_ASSIGN_OR_RETURN(Buffer master, memory.add(DType::F32, size));
      args.masters.push_back(master);
    }
    args.tensorIds.push_back(i);
    memory.norm.grads.push_back(grad);
  }
  QWEN_RETURN_IF_ERROR(memory.addControls());
  KernelLine line;
  line.shape = fmt::format("{}", count * size);
  // Fills the stats that the update reads.
  QWEN_ASSIGN_OR_RETURN(auto norm,
                        KernelRun<GradNormArgs>::create(memory.norm));
  QWEN_RETURN_IF_ERROR(norm.enqueue(nullptr));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaDeviceSynchronize(), "grad_norm"));
  if (withNorm)
    QWEN_RETURN_IF_ERROR(bench.measure(memory.norm, line));
  line.shape += fmt::format(" bf16, {}", state);
  return bench.measure(memory.adamw, line);
}

Status bench::benchOptimizer(const KernelBench &bench, const KernelsOptions &) {
  QWEN_RETURN_IF_ERROR(
      timeUpdate(bench, "bf16 moments", DType::BF16, false, true));
  QWEN_RETURN_IF_ERROR(
      timeUpdate(bench, "f32 moments", DType::F32, false, false));
  return timeUpdate(bench, "f32 moments and masters", DType::F32, true, false);
}
