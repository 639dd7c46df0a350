//===- LowerKernelOps.cpp - Tensor ops that are one kernel call -----------===//

#include "FunctionLowering.h"
#include "Layouts.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qwen;

/// Fails the enclosing function where a destination cannot be had.
#define QWEN_ASSIGN_OR_FAIL(name, expression)                                  \
  auto name##OrFailure = (expression);                                         \
  if (failed(name##OrFailure))                                                 \
    return failure();                                                          \
  auto name = *name##OrFailure

//===----------------------------------------------------------------------===//
// Ops without a kernel
//===----------------------------------------------------------------------===//

/// The nearest form that has a kernel.
static StringRef nearestForm(Operation *op) {
  if (isa<RmsNormOp>(op))
    return "its parts, which qwen-decompose and qwen-fuse-groups make a group";
  if (isa<ReduceSumOp>(op))
    return "a sum over the last dimension or over all leading ones, in a "
           "qwen.group";
  StringRef dialect = op->getName().getDialectNamespace();
  if (dialect == "arith" || dialect == "math" ||
      isa<SigmoidOp, SoftplusOp, BroadcastOp, RopeOp>(op))
    return "the same op in a qwen.group, which qwen-fuse-groups makes";
  return "an op of the qwen dialect";
}

LogicalResult FunctionLowering::lowerKernelOp(Operation *op) {
  Location loc = op->getLoc();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](LinearOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(y, output(op->getResult(0)));
        kernel::GemmOp::create(builder, loc, buffer(op.getX()),
                               buffer(op.getW()), /*addend=*/ValueRange(), y,
                               /*transpose_a=*/false, /*transpose_b=*/true,
                               /*accumulate=*/false);
        return success();
      })
      .Case([&](LinearAddOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(y, output(op->getResult(0)));
        kernel::GemmOp::create(builder, loc, buffer(op.getX()),
                               buffer(op.getW()), buffer(op.getAddend()), y,
                               /*transpose_a=*/false, /*transpose_b=*/true,
                               /*accumulate=*/false);
        return success();
      })
      .Case([&](MatmulOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(
            c, destination(op->getResult(0), /*canAccumulate=*/true));
        kernel::GemmOp::create(builder, loc, buffer(op.getA()),
                               buffer(op.getB()), /*addend=*/ValueRange(),
                               c.buffer, op.getTransposeA(), op.getTransposeB(),
                               c.accumulate);
        return success();
      })
      .Case([&](EmbeddingOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(y, output(op->getResult(0)));
        kernel::EmbeddingOp::create(builder, loc, buffer(op.getTable()),
                                    buffer(op.getIds()), y);
        return success();
      })
      .Case([&](EmbeddingGradOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(
            table, destination(op->getResult(0), /*canAccumulate=*/true));
        kernel::EmbeddingGradOp::create(builder, loc, buffer(op.getDy()),
                                        buffer(op.getIds()), table.buffer,
                                        table.accumulate);
        return success();
      })
      .Case([&](RopeAnglesOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(angles, output(op->getResult(0)));
        kernel::RopeAnglesOp::create(builder, loc, buffer(op.getPositions()),
                                     angles, op.getThetaAttr());
        return success();
      })
      .Case<CausalConv1dOp, CausalConv1dGradOp, GatedDeltaOp, GatedDeltaGradOp,
            AttentionOp, AttentionGradOp>(
          [&](Operation *op) { return lowerRegionOp(op); })
      .Case<LinearCrossEntropyOp, LinearCrossEntropyGradOp>(
          [&](Operation *op) { return lowerLossOp(op); })
      .Case<GradNormOp, AdamWOp>(
          [&](Operation *op) { return lowerOptimizerOp(op); })
      .Default([&](Operation *op) {
        return op->emitOpError()
               << "in @" << func.getSymName()
               << " has no kernel; the nearest form that has one is "
               << nearestForm(op);
      });
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerRegionOp(Operation *op) {
  Location loc = op->getLoc();
  auto in = [&](Value value) { return buffer(value); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](CausalConv1dOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(y, output(op->getResult(0)));
        kernel::CausalConv1dOp::create(builder, loc, in(op.getX()),
                                       in(op.getW()), in(op.getCuSeqlens()), y);
        return success();
      })
      .Case([&](CausalConv1dGradOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(dx, output(op->getResult(0)));
        QWEN_ASSIGN_OR_FAIL(
            dw, destination(op->getResult(1), /*canAccumulate=*/true));
        kernel::CausalConv1dGradOp::create(
            builder, loc, in(op.getX()), in(op.getW()), in(op.getDy()),
            in(op.getCuSeqlens()), dx, dw.buffer, dw.accumulate);
        return success();
      })
      .Case([&](GatedDeltaOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(o, output(op->getResult(0)));
        kernel::GatedDeltaOp::create(
            builder, loc, in(op.getQ()), in(op.getK()), in(op.getV()),
            in(op.getG()), in(op.getBeta()), in(op.getCuSeqlens()), o,
            op.getScaleAttr(), op.getL2normEpsAttr(), op.getChunkAttr());
        return success();
      })
      .Case([&](GatedDeltaGradOp op) -> LogicalResult {
        SmallVector<Value> outs;
        for (OpResult result : op->getResults()) {
          QWEN_ASSIGN_OR_FAIL(out, output(result));
          outs.push_back(out);
        }
        kernel::GatedDeltaGradOp::create(
            builder, loc, in(op.getQ()), in(op.getK()), in(op.getV()),
            in(op.getG()), in(op.getBeta()), in(op.getDout()),
            in(op.getCuSeqlens()), outs[0], outs[1], outs[2], outs[3], outs[4],
            op.getScaleAttr(), op.getL2normEpsAttr(), op.getChunkAttr());
        return success();
      })
      .Case([&](AttentionOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(o, output(op->getResult(0)));
        QWEN_ASSIGN_OR_FAIL(lse, output(op->getResult(1)));
        kernel::AttentionOp::create(builder, loc, in(op.getQ()), in(op.getK()),
                                    in(op.getV()), in(op.getCuSeqlens()), o,
                                    lse, op.getScaleAttr());
        return success();
      })
      .Case([&](AttentionGradOp op) -> LogicalResult {
        QWEN_ASSIGN_OR_FAIL(dq, output(op->getResult(0)));
        QWEN_ASSIGN_OR_FAIL(dk, output(op->getResult(1)));
        QWEN_ASSIGN_OR_FAIL(dv, output(op->getResult(2)));
        kernel::AttentionGradOp::create(
            builder, loc, in(op.getQ()), in(op.getK()), in(op.getV()),
            in(op.getO()), in(op.getLse()), in(op.getDout()),
            in(op.getCuSeqlens()), dq, dk, dv, op.getScaleAttr());
        return success();
      });
}

LogicalResult FunctionLowering::lowerLossOp(Operation *op) {
  Location loc = op->getLoc();
  if (auto loss = dyn_cast<LinearCrossEntropyOp>(op)) {
    QWEN_ASSIGN_OR_FAIL(nll, output(op->getResult(0)));
    kernel::LinearCrossEntropyOp::create(
        builder, loc, buffer(loss.getX()), buffer(loss.getW()),
        buffer(loss.getLabels()), nll, loss.getIgnoreIndexAttr());
    return success();
  }
  auto gradient = cast<LinearCrossEntropyGradOp>(op);
  QWEN_ASSIGN_OR_FAIL(nll, output(op->getResult(0)));
  QWEN_ASSIGN_OR_FAIL(dx, output(op->getResult(1)));
  QWEN_ASSIGN_OR_FAIL(dw,
                      destination(op->getResult(2), /*canAccumulate=*/true));
  kernel::LinearCrossEntropyGradOp::create(
      builder, loc, buffer(gradient.getX()), buffer(gradient.getW()),
      buffer(gradient.getLabels()), buffer(gradient.getDnll()), nll, dx,
      dw.buffer, gradient.getIgnoreIndexAttr(),
      builder.getBoolAttr(dw.accumulate));
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerOptimizerOp(Operation *op) {
  if (auto adamw = dyn_cast<AdamWOp>(op))
    return context.buckets.empty() ? lowerAdamW(adamw)
                                   : lowerShardedAdamW(adamw);
  auto norm = cast<GradNormOp>(op);
  if (!context.buckets.empty())
    return lowerShardedGradNorm(norm);
  QWEN_ASSIGN_OR_FAIL(stats, output(op->getResult(0)));
  SymbolTable symbols(context.module);
  SmallVector<Value> gradients;
  for (Attribute name : norm.getParameters()) {
    auto parameter = symbols.lookup<ParameterOp>(
        cast<SymbolRefAttr>(name).getLeafReference());
    auto type = cast<RankedTensorType>(parameter.getType());
    gradients.push_back(storage(
        op->getLoc(), kernel::StorageRole::Gradient, builder.getArrayAttr(name),
        contiguousType(type.clone(wideType(type.getElementType())))));
  }
  kernel::GradNormOp::create(builder, op->getLoc(), gradients,
                             buffer(norm.getHyper()), stats);
  return success();
}

LogicalResult FunctionLowering::lowerAdamW(AdamWOp op) {
  using kernel::StorageRole;
  SymbolTable symbols(context.module);
  SmallVector<Value> params, grads, moments1, moments2, masters;
  SmallVector<int64_t> numbers;
  for (Attribute name : op.getParameters()) {
    auto parameter = symbols.lookup<ParameterOp>(
        cast<SymbolRefAttr>(name).getLeafReference());
    auto type = cast<RankedTensorType>(parameter.getType());
    auto store = [&](StorageRole role, Type element) {
      return storage(op.getLoc(), role, builder.getArrayAttr(name),
                     contiguousType(type.clone(element)));
    };
    params.push_back(store(StorageRole::Parameter, type.getElementType()));
    grads.push_back(
        store(StorageRole::Gradient, wideType(type.getElementType())));
    moments1.push_back(store(StorageRole::Moment1, op.getMomentType()));
    moments2.push_back(store(StorageRole::Moment2, op.getMomentType()));
    if (std::optional<Type> master = op.getMasterType())
      masters.push_back(store(StorageRole::Master, *master));
    numbers.push_back(context.parameterNumbers.lookup(parameter.getSymName()));
  }
  kernel::AdamWOp::create(builder, op.getLoc(), params, grads, moments1,
                          moments2, masters, buffer(op.getHyper()),
                          buffer(op.getStats()), buffer(op.getRng()), numbers,
                          op.getDecay());
  return success();
}
