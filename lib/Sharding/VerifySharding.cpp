//===- VerifySharding.cpp - What holds after stage sharding ---------------===//

#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Units.h"
#include "qwen/Plan/Sharding.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_VERIFYSHARDINGPASS
#include "lib/Sharding/Passes.h.inc"

namespace {

struct VerifyShardingPass : impl::VerifyShardingPassBase<VerifyShardingPass> {
  using VerifyShardingPassBase::VerifyShardingPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(worldSize == 1 ? verifyOneRank(module)
                              : verifySeveralRanks(module)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static LogicalResult verifyOneRank(ModuleOp module) {
    WalkResult result = module.walk([](Operation *op) {
      if (!isa<BucketOp, AllGatherOp, BucketPartOp, ReduceScatterOp,
               ShardedEmbeddingOp, ShardedEmbeddingGradOp>(op))
        return WalkResult::advance();
      op->emitOpError("is for several ranks, but there is one");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult verifySeveralRanks(ModuleOp module) {
    auto ranks = module->getAttrOfType<IntegerAttr>("qwen.world_size");
    if (!ranks || ranks.getInt() != worldSize)
      return module.emitError("should have qwen.world_size = ")
             << int64_t(worldSize);
    if (failed(verifyBuckets(module)))
      return failure();
    WalkResult result = module.walk([&](Operation *op) {
      return succeeded(verifyOp(op)) ? WalkResult::advance()
                                     : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return failure();
    for (func::FuncOp program : shardedPrograms(module))
      if (failed(verifyScatters(program)))
        return failure();
    return success();
  }

  /// Every parameter is in one bucket; all shards are as long.
  LogicalResult verifyBuckets(ModuleOp module) {
    llvm::StringSet<> held;
    for (auto bucket : module.getOps<BucketOp>()) {
      int64_t elements =
          cast<RankedTensorType>(bucket.getType()).getNumElements();
      if (elements % (bucketAlignment * worldSize) != 0)
        return bucket.emitOpError()
               << "length must be a multiple of " << bucketAlignment
               << " for each of the " << int64_t(worldSize) << " ranks, but is "
               << elements;
      for (auto name : bucket.getParameters().getAsRange<SymbolRefAttr>())
        if (!held.insert(name.getRootReference().getValue()).second)
          return bucket.emitOpError()
                 << "holds " << name << ", which another one holds";
    }
    for (auto parameter : module.getOps<ParameterOp>())
      if (!held.contains(parameter.getSymName()))
        return parameter.emitOpError("is in no bucket");
    return success();
  }

  LogicalResult verifyOp(Operation *op) {
    if (isa<GetParameterOp, AccumulateGradOp>(op))
      return op->emitOpError()
             << (isa<GetParameterOp>(op) ? "reads a whole parameter"
                                         : "adds to a whole gradient")
             << ", but " << int64_t(worldSize) << " ranks hold it in parts";
    if (isa<AllGatherOp, ReduceScatterOp, ShardedEmbeddingOp,
            ShardedEmbeddingGradOp>(op) &&
        !op->getParentOp()->hasAttr("qwen.program"))
      return op->emitOpError("must stand in a program");
    if (isa<AllGatherOp>(op))
      for (Operation *user : op->getUsers())
        if (!isa<BucketPartOp>(user))
          return user->emitOpError("reads a gathered bucket, but is no "
                                   "qwen.bucket_part");
    return success();
  }

  /// A later op must not overwrite what an earlier one has left.
  static LogicalResult verifyScatters(func::FuncOp program) {
    llvm::StringSet<> begun;
    auto check = [&](auto op) -> LogicalResult {
      bool isFirst = begun.insert(op.getBucket()).second;
      if (isFirst || !op.getOverwrite())
        return success();
      return op.emitOpError("overwrites the gradient that an earlier one has "
                            "left");
    };
    for (Operation &op : program.getOps()) {
      LogicalResult status = success();
      if (auto scatter = dyn_cast<ReduceScatterOp>(op))
        status = check(scatter);
      else if (auto exchange = dyn_cast<ShardedEmbeddingGradOp>(op))
        status = check(exchange);
      if (failed(status))
        return failure();
    }
    return success();
  }
};

} // namespace
} // namespace qwen
