//===- Layers.cpp - Layers of the Qwen hybrid models ----------------------===//
//
// The gated delta layer and the gated attention layer, each with its MLP, as
// the transformers library defines them.
//
//===----------------------------------------------------------------------===//

#include "models/Layers.h"
#include "dialects/Qwen/Qwen.h"

#include <cmath>

using namespace mlir;
using namespace qwen;

namespace {

/// The l2 norms of the gated delta rule add this, whatever rms_norm_eps is.
constexpr double l2normEpsilon = 1e-6;
/// Tokens of a chunk of the gated delta rule.
constexpr int64_t deltaChunk = 64;
/// Layer, query, key and final norms scale by 1 + w, the gated norm by w.
constexpr double centredNorm = 1, plainNorm = 0;

/// The arguments of a layer function by name.
class Arguments {
public:
  void append(StringRef name, BlockArgument argument) {
    byName[name] = argument;
  }
  Value operator[](StringRef name) const { return byName.at(name); }

private:
  llvm::StringMap<BlockArgument> byName;
};

} // namespace

StringRef qwen::layerFunctionName(LayerKind kind) {
  return kind == LayerKind::GatedDelta ? "gdn_layer" : "attention_layer";
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static Weight matrix(StringRef name, int64_t rows, int64_t columns) {
  return {name.str(), {rows, columns}, ParameterInit::Normal, true, false};
}

static Weight norm(StringRef name, int64_t width,
                   ParameterInit init = ParameterInit::Zero) {
  return {name.str(), {width}, init, false, false};
}

static void appendGatedDelta(const ModelConfig &config,
                             std::vector<Weight> &weights) {
  int64_t hidden = config.hiddenSize, heads = config.deltaValueHeads;
  int64_t valueWidth = heads * config.deltaValueDim;
  auto name = [](StringRef rest) { return ("linear_attn." + rest).str(); };
  weights.push_back(
      matrix(name("in_proj_qkv.weight"), config.convChannels(), hidden));
  weights.push_back(matrix(name("in_proj_z.weight"), valueWidth, hidden));
  weights.push_back(matrix(name("in_proj_b.weight"), heads, hidden));
  weights.push_back(matrix(name("in_proj_a.weight"), heads, hidden));
  weights.push_back({name("conv1d.weight"),
                     {config.convChannels(), 1, config.convWidth},
                     ParameterInit::Normal,
                     true,
                     false});
  weights.push_back({name("A_log"), {heads}, ParameterInit::ALog, false, true});
  weights.push_back(
      {name("dt_bias"), {heads}, ParameterInit::One, false, true});
  weights.push_back(
      norm(name("norm.weight"), config.deltaValueDim, ParameterInit::One));
  weights.push_back(matrix(name("out_proj.weight"), hidden, valueWidth));
}

static void appendAttention(const ModelConfig &config,
                            std::vector<Weight> &weights) {
  int64_t hidden = config.hiddenSize;
  int64_t queryWidth = config.attentionHeads * config.headDim;
  int64_t keyWidth = config.keyValueHeads * config.headDim;
  auto name = [](StringRef rest) { return ("self_attn." + rest).str(); };
  // A query and a gate for each head.
  weights.push_back(matrix(name("q_proj.weight"), 2 * queryWidth, hidden));
  weights.push_back(matrix(name("k_proj.weight"), keyWidth, hidden));
  weights.push_back(matrix(name("v_proj.weight"), keyWidth, hidden));
  weights.push_back(norm(name("q_norm.weight"), config.headDim));
  weights.push_back(norm(name("k_norm.weight"), config.headDim));
  weights.push_back(matrix(name("o_proj.weight"), hidden, queryWidth));
}

std::vector<Weight> qwen::layerWeights(const ModelConfig &config,
                                       LayerKind kind) {
  int64_t hidden = config.hiddenSize, inner = config.intermediateSize;
  std::vector<Weight> weights;
  weights.push_back(norm("input_layernorm.weight", hidden));
  if (kind == LayerKind::GatedDelta)
    appendGatedDelta(config, weights);
  else
    appendAttention(config, weights);
  weights.push_back(norm("post_attention_layernorm.weight", hidden));
  weights.push_back(matrix("mlp.gate_proj.weight", inner, hidden));
  weights.push_back(matrix("mlp.up_proj.weight", inner, hidden));
  weights.push_back(matrix("mlp.down_proj.weight", hidden, inner));
  return weights;
}

StringRef qwen::weightArgumentName(StringRef name) {
  for (StringRef module : {"linear_attn.", "self_attn.", "mlp."})
    if (name.consume_front(module))
      break;
  return name;
}

//===----------------------------------------------------------------------===//
// Mixers and MLP
//===----------------------------------------------------------------------===//

/// g = -exp(A_log) softplus(a + dt_bias), the log decay, always wide.
static Value logDecay(GraphBuilder &graph, Value a, Value aLog, Value dtBias) {
  int64_t tokens = cast<RankedTensorType>(a.getType()).getDimSize(0);
  Value rate = graph.negate(graph.exp(aLog));
  Value rates = graph.repeatRows(rate, tokens);
  Value biases = graph.repeatRows(dtBias, tokens);
  Value step = graph.softplus(graph.add(graph.widen(a), biases));
  return graph.multiply(rates, step, "g");
}

static Value gatedDeltaMixer(GraphBuilder &graph, const ModelConfig &config,
                             const Arguments &arguments, Value h) {
  int64_t tokens = cast<RankedTensorType>(h.getType()).getDimSize(0);
  int64_t keyHeads = config.deltaKeyHeads, keyDim = config.deltaKeyDim;
  int64_t valueHeads = config.deltaValueHeads, valueDim = config.deltaValueDim;
  int64_t keyWidth = keyHeads * keyDim, valueWidth = valueHeads * valueDim;
  OpBuilder &ops = graph.ops();

  Value qkv = graph.linear("in_proj_qkv", h, arguments["in_proj_qkv.weight"]);
  Value z = graph.linear("in_proj_z", h, arguments["in_proj_z.weight"]);
  Value b = graph.linear("in_proj_b", h, arguments["in_proj_b.weight"]);
  Value a = graph.linear("in_proj_a", h, arguments["in_proj_a.weight"]);

  Value cuSeqlens = arguments["cu_seqlens"];
  Value conv = CausalConv1dOp::create(ops, graph.name("conv1d"), qkv,
                                      arguments["conv1d.weight"], cuSeqlens);
  auto pieces = graph.split("qkv", conv, {keyWidth, keyWidth, valueWidth});
  Value q = graph.reshape("q", pieces[0], {tokens, keyHeads, keyDim});
  Value k = graph.reshape("k", pieces[1], {tokens, keyHeads, keyDim});
  Value v = graph.reshape("v", pieces[2], {tokens, valueHeads, valueDim});

  Value beta = graph.narrow("beta", graph.sigmoid(graph.widen(b)));
  Value g = logDecay(graph, a, arguments["A_log"], arguments["dt_bias"]);
  Value o = GatedDeltaOp::create(
      ops, graph.name("gated_delta"), q, k, v, g, beta, cuSeqlens,
      ops.getF64FloatAttr(1 / std::sqrt(static_cast<double>(keyDim))),
      ops.getF64FloatAttr(l2normEpsilon), ops.getI64IntegerAttr(deltaChunk));

  Value normed =
      graph.rmsNorm("norm", o, arguments["norm.weight"], config.rmsNormEps,
                    plainNorm, /*wideResult=*/true);
  Value gate =
      graph.widen(graph.reshape("z", z, {tokens, valueHeads, valueDim}));
  Value gated = graph.narrow("gated", graph.multiply(normed, graph.silu(gate)));
  return graph.linear("out_proj",
                      graph.reshape("heads", gated, {tokens, valueWidth}),
                      arguments["out_proj.weight"]);
}

/// Query or key heads: norm over the head, then rotation, rounded once.
static Value rotatedHeads(GraphBuilder &graph, const ModelConfig &config,
                          StringRef name, Value x, Value w, Value angles) {
  Value normed = graph.rmsNorm((name + "_norm").str(), x, w, config.rmsNormEps,
                               centredNorm, /*wideResult=*/true);
  Value rotated =
      RopeOp::create(graph.ops(), graph.name((name + "_rope").str()),
                     normed.getType(), normed, angles,
                     /*inverse=*/UnitAttr());
  return graph.narrow(name, rotated);
}

static Value attentionMixer(GraphBuilder &graph, const ModelConfig &config,
                            const Arguments &arguments, Value h) {
  int64_t tokens = cast<RankedTensorType>(h.getType()).getDimSize(0);
  int64_t heads = config.attentionHeads, kvHeads = config.keyValueHeads;
  int64_t dim = config.headDim;
  OpBuilder &ops = graph.ops();

  Value qGate = graph.linear("q_proj", h, arguments["q_proj.weight"]);
  Value kFlat = graph.linear("k_proj", h, arguments["k_proj.weight"]);
  Value vFlat = graph.linear("v_proj", h, arguments["v_proj.weight"]);
  // Within each head the query comes first, then its gate.
  auto pieces = graph.split(
      "q_gate", graph.reshape("q_gate_heads", qGate, {tokens, heads, 2 * dim}),
      {dim, dim});
  Value kHeads = graph.reshape("k_heads", kFlat, {tokens, kvHeads, dim});
  Value v = graph.reshape("v", vFlat, {tokens, kvHeads, dim});

  Value angles = arguments["rope_angles"];
  Value q = rotatedHeads(graph, config, "q", pieces[0],
                         arguments["q_norm.weight"], angles);
  Value k = rotatedHeads(graph, config, "k", kHeads, arguments["k_norm.weight"],
                         angles);
  auto attention = AttentionOp::create(
      ops, graph.name("attention"), q.getType(),
      graph.wideTensor({tokens, heads}), q, k, v, arguments["cu_seqlens"],
      ops.getF64FloatAttr(1 / std::sqrt(static_cast<double>(dim))));

  Value gate = graph.sigmoid(graph.widen(pieces[1]));
  Value wideO = graph.widen(attention.getO());
  Value gated = graph.narrow("gated", graph.multiply(wideO, gate));
  return graph.linear("o_proj",
                      graph.reshape("heads", gated, {tokens, heads * dim}),
                      arguments["o_proj.weight"]);
}

static Value mlp(GraphBuilder &graph, const Arguments &arguments, Value h) {
  Value gate = graph.linear("gate_proj", h, arguments["gate_proj.weight"]);
  Value up = graph.linear("up_proj", h, arguments["up_proj.weight"]);
  Value activated = graph.silu(graph.widen(gate));
  Value wideUp = graph.widen(up);
  Value inner = graph.narrow("inner", graph.multiply(activated, wideUp));
  return graph.linear("down_proj", inner, arguments["down_proj.weight"]);
}

//===----------------------------------------------------------------------===//
// Layer functions
//===----------------------------------------------------------------------===//

func::FuncOp qwen::buildLayer(GraphBuilder &graph, const ModelConfig &config,
                              LayerKind kind, int64_t tokens,
                              int64_t boundaries) {
  Type x = graph.tensor({tokens, config.hiddenSize});
  SmallVector<std::string> names{"x"};
  SmallVector<Type> types{x};
  if (kind == LayerKind::Attention) {
    names.push_back("rope_angles");
    types.push_back(graph.wideTensor({tokens, config.rotaryWidth}));
  }
  names.push_back("cu_seqlens");
  types.push_back(graph.indexTensor({boundaries}));
  for (const Weight &weight : layerWeights(config, kind)) {
    names.push_back(weightArgumentName(weight.name).str());
    types.push_back(weight.wide ? graph.wideTensor(weight.shape)
                                : graph.tensor(weight.shape));
  }

  OpBuilder &ops = graph.ops();
  auto function =
      func::FuncOp::create(ops, ops.getUnknownLoc(), layerFunctionName(kind),
                           ops.getFunctionType(types, {x}));
  function.setPrivate();
  OpBuilder::InsertionGuard guard(ops);
  Block *body = function.addEntryBlock();
  ops.setInsertionPointToStart(body);
  Arguments arguments;
  for (auto [name, argument] : llvm::zip_equal(names, body->getArguments())) {
    argument.setLoc(graph.name(name));
    arguments.append(name, argument);
  }

  Value input = arguments["x"];
  Value h = graph.rmsNorm("h", input, arguments["input_layernorm.weight"],
                          config.rmsNormEps, centredNorm);
  Value mixed = kind == LayerKind::GatedDelta
                    ? gatedDeltaMixer(graph, config, arguments, h)
                    : attentionMixer(graph, config, arguments, h);
  Value middle = graph.residual("mixed", input, mixed);
  Value h2 =
      graph.rmsNorm("h", middle, arguments["post_attention_layernorm.weight"],
                    config.rmsNormEps, centredNorm);
  Value output = graph.residual("out", middle, mlp(graph, arguments, h2));
  func::ReturnOp::create(ops, ops.getUnknownLoc(), output);
  return function;
}
