//===- Interpreter.cpp - Runs tensor-level functions in double ------------===//

#include "Interpreter.h"

#include "KernelGradients.h"
#include "NaiveOps.h"
#include "TensorOps.h"

#include "dialects/Qwen/Qwen.h"

using namespace mlir;

namespace qwen::gradcheck {

static std::vector<int64_t> shapeOf(Type type) {
  return cast<RankedTensorType>(type).getShape().vec();
}

Interpreter::Interpreter(ModuleOp module) : module(module) {
  for (auto parameter : module.getOps<ParameterOp>()) {
    std::string name = parameter.getSymName().str();
    parameters.emplace(name, Tensor(shapeOf(parameter.getType())));
    gradients.emplace(name, Tensor(shapeOf(parameter.getType())));
  }
}

Tensor Interpreter::readParameters(ArrayAttr names, Type type) {
  Tensor result(shapeOf(type));
  auto to = result.values.begin();
  for (auto name : names.getAsRange<FlatSymbolRefAttr>()) {
    const Tensor &parameter = parameters.at(name.getValue().str());
    to = std::copy(parameter.values.begin(), parameter.values.end(), to);
  }
  return result;
}

void Interpreter::accumulate(ArrayAttr names, const Tensor &gradient,
                             bool overwrite) {
  auto from = gradient.values.begin();
  for (auto name : names.getAsRange<FlatSymbolRefAttr>())
    for (double &value : gradients.at(name.getValue().str()).values)
      value = (overwrite ? 0.0 : value) + *from++;
}

FailureOr<std::vector<Tensor>>
Interpreter::evaluate(Operation *op, const std::vector<Tensor> &in) {
  using Results = std::vector<Tensor>;
  if (std::optional<Tensor> result = evaluateElementwise(op, in))
    return Results{std::move(*result)};
  if (std::optional<Results> results = evaluateStructured(op, in))
    return std::move(*results);
  if (isa<CausalConv1dOp>(op))
    return Results{causalConv1d(in[0], in[1], in[2])};
  if (auto rule = dyn_cast<GatedDeltaOp>(op))
    return Results{gatedDelta(in[0], in[1], in[2], in[3], in[4], in[5],
                              rule.getScale().convertToDouble(),
                              rule.getL2normEps().convertToDouble())};
  if (auto heads = dyn_cast<AttentionOp>(op)) {
    AttentionResult result = attention(in[0], in[1], in[2], in[3],
                                       heads.getScale().convertToDouble());
    return Results{result.o, result.lse};
  }
  if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
    return Results{
        linearCrossEntropy(in[0], in[1], in[2], loss.getIgnoreIndex())};
  if (auto get = dyn_cast<GetParameterOp>(op))
    return Results{readParameters(get.getParameters(), get.getType())};
  if (auto add = dyn_cast<AccumulateGradOp>(op)) {
    accumulate(add.getParameters(), in[0], add.getOverwrite());
    return Results{};
  }
  if (auto call = dyn_cast<func::CallOp>(op))
    return run(call.getCallee(), in);
  Results results = kernelGradient(op, in);
  if (results.empty())
    return op->emitOpError("is not known to the reference interpreter");
  return results;
}

FailureOr<std::vector<Tensor>>
Interpreter::run(StringRef function, const std::vector<Tensor> &arguments) {
  auto func = module.lookupSymbol<func::FuncOp>(function);
  if (!func)
    return module.emitError("has no function '@") << function << "'";
  Block &body = func.getBody().front();
  Frame frame;
  for (auto [value, tensor] : llvm::zip_equal(body.getArguments(), arguments))
    frame.try_emplace(value, tensor);
  auto read = [&](ValueRange values) {
    std::vector<Tensor> tensors;
    for (Value value : values)
      tensors.push_back(frame.find(value)->second);
    return tensors;
  };
  for (Operation &op : body.without_terminator()) {
    FailureOr<std::vector<Tensor>> results =
        evaluate(&op, read(op.getOperands()));
    if (failed(results))
      return failure();
    for (auto [value, tensor] : llvm::zip_equal(op.getResults(), *results))
      frame.try_emplace(value, std::move(tensor));
  }
  return read(body.getTerminator()->getOperands());
}

} // namespace qwen::gradcheck
