//===- LowerGroupsGpu.cpp - Turn group functions into GPU kernels ---------===//

#include "GpuGroupEmitter.h"
#include "OperandAlignment.h"
#include "lib/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace qwen {
#define GEN_PASS_DEF_LOWERGROUPSGPUPASS
#include "lib/Codegen/Passes.h.inc"

namespace {
struct LowerGroupsGpuPass : impl::LowerGroupsGpuPassBase<LowerGroupsGpuPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto groups = llvm::to_vector(module.getOps<kernel::GroupFunctionOp>());
    if (groups.empty())
      return;
    OperandAlignment alignment(module);
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto nested = ModuleOp::create(builder, module.getLoc(), "qwen_groups");
    builder.setInsertionPointToEnd(nested.getBody());
    llvm::StringMap<int64_t> rowsPerBlock;
    for (kernel::GroupFunctionOp group : groups) {
      auto rows = emitGpuGroup(builder, group, alignment.of(group));
      if (failed(rows))
        return signalPassFailure();
      rowsPerBlock[group.getSymName()] = *rows;
      group.erase();
    }
    // Calls say how many rows have one partial column sum.
    module.walk([&](kernel::GroupOp call) {
      auto rows = rowsPerBlock.find(call.getSymbol());
      if (rows != rowsPerBlock.end())
        call.setRowsPerBlock(rows->second);
    });
  }
};
} // namespace
} // namespace qwen
