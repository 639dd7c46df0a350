//===- Pipelines.cpp - Which passes run in which order --------------------===//

#include "lib/Pipelines/Pipelines.h"

#include "lib/Autodiff/Passes.h"
#include "lib/Codegen/Passes.h"
#include "lib/Fusion/Passes.h"
#include "lib/Import/Passes.h"
#include "lib/Lowering/Passes.h"
#include "lib/Memory/Passes.h"
#include "lib/Schedule/Passes.h"
#include "lib/Sharding/Passes.h"
#include "qwen/Plan/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace qwen;

static void buildAutodiff(OpPassManager &pm, const CompileOptions &options) {
  // Before differentiation, so that one rewrite merges the forward, the input
  // gradient and the weight gradient GEMMs.
  pm.addPass(createMergeProjectionsPass());
  pm.addPass(createAutodiffPass());
  // Rules repeat views and conversions of the same values.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createFirstMicroStepPass());
  OptimizerPassOptions optimizer;
  optimizer.momentType = options.momentType;
  optimizer.masters = options.masters;
  llvm::append_range(optimizer.noDecay, options.noDecay);
  pm.addPass(createOptimizerPass(optimizer));
  pm.addPass(createVerifyAutodiffPass());
}

static void buildSharding(OpPassManager &pm, const CompileOptions &options) {
  if (options.worldSize > 1) {
    ShardingPassOptions sharding;
    sharding.worldSize = options.worldSize;
    sharding.prefetch = options.prefetch;
    sharding.reshardAfterForward = options.reshardAfterForward;
    sharding.gradType = options.gradType;
    sharding.embeddingExchange = options.embeddingExchange;
    sharding.remarks = options.shardingRemarks;
    pm.addPass(createShardingPass(sharding));
  }
  VerifyShardingPassOptions verify;
  verify.worldSize = options.worldSize;
  pm.addPass(createVerifyShardingPass(verify));
}

static void buildFusion(OpPassManager &pm, const CompileOptions &options) {
  // Before the groups, which end at the loss.
  pm.addNestedPass<func::FuncOp>(createFuseLossPass());
  // The library of CUDA adds in its epilogue; a CPU's residual sums are groups.
  if (options.fuse && targetKind(options.target) == TargetKind::Cuda)
    pm.addNestedPass<func::FuncOp>(createFuseResidualsPass());
  pm.addNestedPass<func::FuncOp>(createDecomposePass());
  // Views in the middle of a chain would end it.
  pm.addNestedPass<func::FuncOp>(createNormalizeShapesPass());
  pm.addPass(createCSEPass());
  FuseGroupsPassOptions groups;
  groups.fuse = options.fuse;
  groups.remarks = options.fusionRemarks;
  pm.addNestedPass<func::FuncOp>(createFuseGroupsPass(groups));
  pm.addPass(createVerifyFusionPass());
}

static void buildLowering(OpPassManager &pm, const CompileOptions &options) {
  // After fusion, which orders ops anew; launches keep the order from here on.
  if (options.worldSize > 1)
    pm.addNestedPass<func::FuncOp>(createHoistScattersPass());
  pm.addPass(createLowerToKernelsPass());
  if (targetKind(options.target) == TargetKind::Cuda)
    pm.addPass(createChooseAlgorithmsPass({options.tuning}));
  VerifyLoweringPassOptions verify;
  verify.target = options.target;
  pm.addPass(createVerifyLoweringPass(verify));
  // After the verifier, which looks at group functions; code says nothing.
  if (targetKind(options.target) == TargetKind::Cuda) {
    pm.addPass(createLowerGroupsGpuPass());
    CompileGroupsGpuPassOptions code;
    code.target = options.target;
    pm.addPass(createCompileGroupsGpuPass(code));
    return;
  }
  pm.addPass(createLowerGroupsPass());
  CompileGroupsPassOptions code;
  code.target = options.target;
  pm.addPass(createCompileGroupsPass(code));
}

static void buildMemory(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(createInlineCallsPass());
  // After inlining: it works on the launches of pairs of forward and backward
  // calls, which inlining has labelled.
  RecomputePassOptions recompute;
  recompute.policy = options.recompute;
  pm.addPass(createRecomputePass(recompute));
  // After recomputation, which adds launches; before the offsets, as memory
  // that collectives touch lives until they are waited for.
  AssignStreamsPassOptions streams;
  streams.remarks = options.shardingRemarks;
  pm.addPass(createAssignStreamsPass(streams));
  AssignOffsetsPassOptions offsets;
  offsets.target = options.target;
  pm.addPass(createAssignOffsetsPass(offsets));
  pm.addPass(createVerifyMemoryPass());
}

void qwen::buildStage(OpPassManager &pm, Stage stage,
                      const CompileOptions &options) {
  switch (stage) {
  case Stage::Import:
    pm.addPass(createVerifyImportPass());
    return;
  case Stage::Autodiff:
    return buildAutodiff(pm, options);
  case Stage::Sharding:
    return buildSharding(pm, options);
  case Stage::Fusion:
    return buildFusion(pm, options);
  case Stage::Lowering:
    return buildLowering(pm, options);
  case Stage::Memory:
    return buildMemory(pm, options);
  case Stage::Schedule:
    pm.addPass(createSchedulePass(SchedulePassOptions{options.target}));
    pm.addPass(createVerifySchedulePass());
    return;
  case Stage::Emit:
    return;
  }
}
