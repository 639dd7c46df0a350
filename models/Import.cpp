//===- Import.cpp - From a model's config to its training graph -----------===//
//
// The module: parameters, one function a layer kind, @forward and, on request,
// @logits.
//
//===----------------------------------------------------------------------===//

#include "models/Import.h"
#include "models/Layers.h"
#include "models/ModelFacts.h"

#include "dialects/Qwen/Qwen.h"
#include "runtime/support/Json.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace qwen;

namespace {

class Importer {
public:
  Importer(OpBuilder &builder, Type element, const ModelConfig &config,
           const ImportOptions &options, std::string prefix)
      : graph(builder, element), config(config), options(options),
        prefix(std::move(prefix)) {}

  /// Fills an empty module.
  void build();

private:
  std::string layerPrefix(size_t layer) const {
    return prefix + "layers." + std::to_string(layer) + ".";
  }
  std::string headName() const {
    return config.tiedEmbeddings ? prefix + "embed_tokens.weight"
                                 : "lm_head.weight";
  }
  void parameter(StringRef name, ArrayRef<int64_t> shape, ParameterInit init,
                 bool decay, bool wide = false);
  void parameters();
  Value weight(StringRef valueName, StringRef name, ArrayRef<int64_t> shape,
               bool wide = false);
  Value callLayer(size_t layer, Value x, Value angles, Value cuSeqlens);
  Value hiddenStates(Value tokens, Value positions, Value cuSeqlens);
  func::FuncOp program(StringRef name, ArrayRef<StringRef> inputs,
                       StringRef output, Type outputType);
  void forward();
  void logits();

  GraphBuilder graph;
  const ModelConfig &config;
  const ImportOptions &options;
  std::string prefix;
};

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

void Importer::parameter(StringRef name, ArrayRef<int64_t> shape,
                         ParameterInit init, bool decay, bool wide) {
  OpBuilder &ops = graph.ops();
  double deviation =
      init == ParameterInit::Normal ? config.initializerRange : 0;
  ParameterOp::create(ops, ops.getUnknownLoc(), name,
                      wide ? graph.wideTensor(shape) : graph.tensor(shape),
                      StringRef(parameterInitName(init)),
                      llvm::APFloat(deviation), decay);
}

void Importer::parameters() {
  int64_t hidden = config.hiddenSize, vocabulary = config.vocabSize;
  parameter(prefix + "embed_tokens.weight", {vocabulary, hidden},
            ParameterInit::Normal, true);
  for (auto [layer, kind] : llvm::enumerate(config.layers))
    for (const Weight &weight : layerWeights(config, kind))
      parameter(layerPrefix(layer) + weight.name, weight.shape, weight.init,
                weight.decay, weight.wide);
  parameter(prefix + "norm.weight", {hidden}, ParameterInit::Zero, false);
  if (!config.tiedEmbeddings)
    parameter(headName(), {vocabulary, hidden}, ParameterInit::Normal, true);
}

Value Importer::weight(StringRef valueName, StringRef name,
                       ArrayRef<int64_t> shape, bool wide) {
  OpBuilder &ops = graph.ops();
  auto symbol = FlatSymbolRefAttr::get(ops.getContext(), name);
  return GetParameterOp::create(ops, graph.name(valueName),
                                wide ? graph.wideTensor(shape)
                                     : graph.tensor(shape),
                                ops.getArrayAttr({symbol}));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Value Importer::callLayer(size_t layer, Value x, Value angles,
                          Value cuSeqlens) {
  LayerKind kind = config.layers[layer];
  SmallVector<Value> operands{x};
  if (kind == LayerKind::Attention)
    operands.push_back(angles);
  operands.push_back(cuSeqlens);
  for (const Weight &w : layerWeights(config, kind))
    operands.push_back(weight(weightArgumentName(w.name),
                              layerPrefix(layer) + w.name, w.shape, w.wide));
  return func::CallOp::create(graph.ops(),
                              graph.name("layer" + std::to_string(layer)),
                              layerFunctionName(kind), x.getType(), operands)
      .getResult(0);
}

/// Everything up to the final norm.
Value Importer::hiddenStates(Value tokens, Value positions, Value cuSeqlens) {
  OpBuilder &ops = graph.ops();
  Value table = weight("embed_tokens", prefix + "embed_tokens.weight",
                       {config.vocabSize, config.hiddenSize});
  Value x = EmbeddingOp::create(ops, graph.name("embedding"), table, tokens);
  Value angles;
  if (config.countLayers(LayerKind::Attention))
    angles = RopeAnglesOp::create(
        ops, graph.name("rope_angles"),
        graph.wideTensor({options.tokens, config.rotaryWidth}), positions,
        ops.getF64FloatAttr(config.ropeTheta));
  for (size_t layer = 0; layer < config.layers.size(); ++layer)
    x = callLayer(layer, x, angles, cuSeqlens);
  Value w = weight("norm", prefix + "norm.weight", {config.hiddenSize});
  return graph.rmsNorm("hidden", x, w, config.rmsNormEps, /*offset=*/1);
}

/// A function whose i32 inputs and float output carry their names.
func::FuncOp Importer::program(StringRef name, ArrayRef<StringRef> inputs,
                               StringRef output, Type outputType) {
  OpBuilder &ops = graph.ops();
  SmallVector<Type> types;
  for (StringRef input : inputs)
    types.push_back(graph.indexTensor(
        {input == "cu_seqlens" ? options.maxDocuments + 1 : options.tokens}));
  auto function = func::FuncOp::create(
      ops, ops.getUnknownLoc(), name, ops.getFunctionType(types, {outputType}));
  Block *body = function.addEntryBlock();
  for (auto [i, input] : llvm::enumerate(inputs)) {
    body->getArgument(i).setLoc(graph.name(input));
    function.setArgAttr(i, "qwen.input", ops.getStringAttr(input));
  }
  function.setResultAttr(0, "qwen.output", ops.getStringAttr(output));
  ops.setInsertionPointToStart(body);
  return function;
}

void Importer::forward() {
  OpBuilder &ops = graph.ops();
  OpBuilder::InsertionGuard guard(ops);
  func::FuncOp function =
      program("forward", {"tokens", "labels", "positions", "cu_seqlens"}, "nll",
              graph.wideTensor({options.tokens}));
  auto arguments = function.getArguments();
  Value hidden = hiddenStates(arguments[0], arguments[2], arguments[3]);
  Value head =
      weight("lm_head", headName(), {config.vocabSize, config.hiddenSize});
  Value nll = LinearCrossEntropyOp::create(ops, graph.name("nll"),
                                           graph.wideTensor({options.tokens}),
                                           hidden, head, arguments[1]);
  func::ReturnOp::create(ops, ops.getUnknownLoc(), nll);
}

void Importer::logits() {
  OpBuilder &ops = graph.ops();
  OpBuilder::InsertionGuard guard(ops);
  Type type = graph.wideTensor({options.tokens, config.vocabSize});
  func::FuncOp function =
      program("logits", {"tokens", "positions", "cu_seqlens"}, "logits", type);
  auto arguments = function.getArguments();
  Value hidden = hiddenStates(arguments[0], arguments[1], arguments[2]);
  Value head =
      weight("lm_head", headName(), {config.vocabSize, config.hiddenSize});
  Value logits = MatmulOp::create(ops, graph.name("logits"), type, hidden, head,
                                  /*transpose_a=*/UnitAttr(),
                                  /*transpose_b=*/ops.getUnitAttr());
  func::ReturnOp::create(ops, ops.getUnknownLoc(), logits);
}

void Importer::build() {
  parameters();
  for (LayerKind kind : {LayerKind::GatedDelta, LayerKind::Attention})
    if (config.countLayers(kind))
      buildLayer(graph, config, kind, options.tokens, options.maxDocuments + 1);
  forward();
  if (options.logits)
    logits();
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

Status checkCount(StringRef name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most)
    return okStatus();
  return invalidArgument("{}: expected a number between 1 and {}, found {}",
                         name.str(), most, value);
}

/// The dtype by name: the option's, else the config's.
StatusOr<Type> elementType(MLIRContext &context, const ModelConfig &config,
                           const ImportOptions &options) {
  std::string name = options.dtype.empty() ? config.dtype : options.dtype;
  if (name == "f32" || name == "float32")
    return Type(Float32Type::get(&context));
  if (name == "bf16" || name == "bfloat16")
    return Type(BFloat16Type::get(&context));
  if (name == "f64")
    return Type(Float64Type::get(&context));
  if (!options.dtype.empty())
    return invalidArgument("--dtype: expected f32, bf16 or f64, found '{}'",
                           name);
  if (name.empty())
    return invalidArgument("dtype: expected \"float32\" or \"bfloat16\" in the "
                           "config, but the field is missing; --dtype sets it");
  return invalidArgument("dtype: expected \"float32\" or \"bfloat16\", found "
                         "\"{}\"; --dtype sets another",
                         printable(name));
}

} // namespace

StatusOr<OwningOpRef<ModuleOp>>
qwen::importModel(MLIRContext &context, const ModelConfig &config,
                  const ImportOptions &options) {
  QWEN_RETURN_IF_ERROR(checkCount("--tokens", options.tokens, mostTokens));
  QWEN_RETURN_IF_ERROR(
      checkCount("--max-documents", options.maxDocuments, mostDocuments));
  QWEN_ASSIGN_OR_RETURN(Type element, elementType(context, config, options));
  std::string prefix = options.namePrefix.value_or(
      config.isMultimodal() ? "model.language_model." : "model.");

  context.loadDialect<QwenDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  Importer(builder, element, config, options, prefix).build();
  setModelFacts(*module, config, element, options);
  if (failed(verify(*module)))
    return makeError(StatusCode::Internal,
                     "the graph of this config does not verify");
  return module;
}
