//===- ElementwiseOps.cpp - Elementwise ops in double ---------------------===//

#include "TensorOps.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <functional>
#include <map>

using namespace mlir;

namespace qwen::gradcheck {

using Unary = std::function<double(double)>;
using Binary = std::function<double(double, double)>;

static const std::map<std::string, Unary> &unaryOps() {
  static const std::map<std::string, Unary> ops = {
      {"arith.negf", [](double x) { return -x; }},
      {"arith.extf", [](double x) { return x; }},
      {"arith.truncf", [](double x) { return x; }},
      {"math.exp", [](double x) { return std::exp(x); }},
      {"math.expm1", [](double x) { return std::expm1(x); }},
      {"math.log", [](double x) { return std::log(x); }},
      {"math.log1p", [](double x) { return std::log1p(x); }},
      {"math.sqrt", [](double x) { return std::sqrt(x); }},
      {"math.rsqrt", [](double x) { return 1.0 / std::sqrt(x); }},
      {"math.tanh", [](double x) { return std::tanh(x); }},
      {"math.sin", [](double x) { return std::sin(x); }},
      {"math.cos", [](double x) { return std::cos(x); }},
      {"math.erf", [](double x) { return std::erf(x); }},
      {"math.round", [](double x) { return std::round(x); }},
      {"math.absf", [](double x) { return std::fabs(x); }},
      {"qwen.sigmoid", [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
      {"qwen.softplus",
       [](double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }}};
  return ops;
}

static const std::map<std::string, Binary> &binaryOps() {
  static const std::map<std::string, Binary> ops = {
      {"arith.addf", [](double a, double b) { return a + b; }},
      {"arith.subf", [](double a, double b) { return a - b; }},
      {"arith.mulf", [](double a, double b) { return a * b; }},
      {"arith.divf", [](double a, double b) { return a / b; }},
      {"arith.maximumf", [](double a, double b) { return std::max(a, b); }},
      {"arith.minimumf", [](double a, double b) { return std::min(a, b); }}};
  return ops;
}

static bool compare(arith::CmpFPredicate predicate, double a, double b) {
  switch (predicate) {
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  default:
    llvm_unreachable("a predicate that no rule and no test uses");
  }
}

static Tensor constant(arith::ConstantOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  Tensor result(type.getShape().vec());
  auto values = cast<DenseElementsAttr>(op.getValue()).getValues<APFloat>();
  for (auto [to, from] : llvm::zip_equal(result.values, values)) {
    APFloat wide = from;
    bool inexact;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    to = wide.convertToDouble();
  }
  return result;
}

std::optional<Tensor> evaluateElementwise(Operation *op,
                                          const std::vector<Tensor> &operands) {
  std::string name = op->getName().getStringRef().str();
  if (auto found = unaryOps().find(name); found != unaryOps().end()) {
    Tensor result(operands[0].shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.at(i) = found->second(operands[0].at(i));
    return result;
  }
  if (auto found = binaryOps().find(name); found != binaryOps().end()) {
    Tensor result(operands[0].shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.at(i) = found->second(operands[0].at(i), operands[1].at(i));
    return result;
  }
  if (auto cmp = dyn_cast<arith::CmpFOp>(op)) {
    Tensor result(operands[0].shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.at(i) =
          compare(cmp.getPredicate(), operands[0].at(i), operands[1].at(i));
    return result;
  }
  if (isa<arith::SelectOp>(op)) {
    Tensor result(operands[1].shape);
    bool scalar = operands[0].rank() == 0;
    for (int64_t i = 0; i < result.size(); ++i)
      result.at(i) =
          operands[operands[0].at(scalar ? 0 : i) != 0.0 ? 1 : 2].at(i);
    return result;
  }
  if (auto cst = dyn_cast<arith::ConstantOp>(op))
    return constant(cst);
  return std::nullopt;
}

} // namespace qwen::gradcheck
