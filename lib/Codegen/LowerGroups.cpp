//===- LowerGroups.cpp - Turn group functions into loops ------------------===//

#include "GroupEmitter.h"
#include "lib/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace qwen {
#define GEN_PASS_DEF_LOWERGROUPSPASS
#include "lib/Codegen/Passes.h.inc"

namespace {
struct LowerGroupsPass : impl::LowerGroupsPassBase<LowerGroupsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto groups = llvm::to_vector(module.getOps<kernel::GroupFunctionOp>());
    if (groups.empty())
      return;
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto nested = ModuleOp::create(builder, module.getLoc(), "qwen_groups");
    builder.setInsertionPointToEnd(nested.getBody());
    for (kernel::GroupFunctionOp group : groups) {
      if (failed(emitGroup(builder, group)))
        return signalPassFailure();
      group.erase();
    }
  }
};
} // namespace
} // namespace qwen
