//===- CompileGroups.cpp - Compile the lowered groups to machine code -----===//

#include "CodeSymbols.h"
#include "GpuCompiler.h"
#include "LowerToLLVM.h"
#include "ObjectCompiler.h"
#include "lib/Codegen/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;

namespace qwen {
#define GEN_PASS_DEF_COMPILEGROUPSPASS
#define GEN_PASS_DEF_COMPILEGROUPSGPUPASS
#include "lib/Codegen/Passes.h.inc"

namespace {

/// Makes machine code of the optimised module's functions.
using Compiler =
    llvm::function_ref<llvm::Expected<std::string>(llvm::Module &)>;

/// The nested pipeline's dialects must be loaded before it runs.
void addDependentDialects(DialectRegistry &registry) {
  OpPassManager pm(ModuleOp::getOperationName());
  buildToLLVMDialect(pm);
  pm.getDependentDialects(registry);
  registry.insert<kernel::KernelDialect>();
}

/// Replaces the nested module of `module`, if it has one, by its machine code.
/// `runPipeline` runs passes on it.
LogicalResult compile(
    ModuleOp module, StringRef target, Compiler compiler,
    llvm::function_ref<LogicalResult(OpPassManager &, ModuleOp)> runPipeline) {
  auto groups = module.lookupSymbol<ModuleOp>("qwen_groups");
  if (!groups)
    return success();
  SmallVector<Attribute> symbols = takeCodeSymbols(groups);
  OpPassManager pm(ModuleOp::getOperationName());
  buildToLLVMDialect(pm);
  if (failed(approximateMath(groups)) || failed(runPipeline(pm, groups)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateGroups(groups, context);
  if (!code)
    return failure();
  auto object = compiler(*code);
  if (!object)
    return module.emitError() << llvm::toString(object.takeError());
  OpBuilder builder(groups);
  kernel::BinaryOp::create(builder, groups.getLoc(), "code", target, *object,
                           builder.getArrayAttr(symbols));
  groups.erase();
  return success();
}

struct CompileGroupsPass : impl::CompileGroupsPassBase<CompileGroupsPass> {
  using impl::CompileGroupsPassBase<CompileGroupsPass>::CompileGroupsPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    addDependentDialects(registry);
  }

  void runOnOperation() override {
    auto compiler = [&](llvm::Module &code) {
      return compileToSharedObject(code, target);
    };
    auto run = [&](OpPassManager &pm, ModuleOp groups) {
      return runPipeline(pm, groups);
    };
    if (failed(compile(getOperation(), target, compiler, run)))
      signalPassFailure();
  }
};

struct CompileGroupsGpuPass
    : impl::CompileGroupsGpuPassBase<CompileGroupsGpuPass> {
  using impl::CompileGroupsGpuPassBase<
      CompileGroupsGpuPass>::CompileGroupsGpuPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    addDependentDialects(registry);
  }

  void runOnOperation() override {
    auto compiler = [&](llvm::Module &code) -> llvm::Expected<std::string> {
      auto text = compileToPtx(code, target);
      if (!text || ptx)
        return text;
      return linkPtx(*text, target);
    };
    auto run = [&](OpPassManager &pm, ModuleOp groups) {
      return runPipeline(pm, groups);
    };
    if (failed(compile(getOperation(), target, compiler, run)))
      signalPassFailure();
  }
};

} // namespace

void registerCodegenDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}
} // namespace qwen
