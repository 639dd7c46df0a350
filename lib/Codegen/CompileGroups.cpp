//===- CompileGroups.cpp - Compile the lowered groups to machine code -----===//

#include "ObjectCompiler.h"
#include "lib/Codegen/Passes.h"

#include "dialects/Kernel/Kernel.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;

namespace qwen {
#define GEN_PASS_DEF_COMPILEGROUPSPASS
#include "lib/Codegen/Passes.h.inc"

namespace {

/// Replaces the f32 functions by polynomials, so that vectors stay vectors; f64
/// ones become calls of the C library.
LogicalResult approximateMath(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
    return llvm::is_contained({"math.exp", "math.expm1", "math.log",
                               "math.log1p", "math.log2", "math.tanh",
                               "math.sin", "math.cos", "math.erf"},
                              name);
  });
  return applyPatternsGreedily(module, std::move(patterns));
}

struct CompileGroupsPass : impl::CompileGroupsPassBase<CompileGroupsPass> {
  using impl::CompileGroupsPassBase<CompileGroupsPass>::CompileGroupsPassBase;

  static void buildPipeline(OpPassManager &pm) {
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertMathToLLVMPass());
    // What has no LLVM intrinsic (erf of f64); it takes vectors apart.
    pm.addPass(createConvertMathToLibmPass());
    pm.addPass(createConvertVectorToLLVMPass());
    pm.addPass(createArithToLLVMConversionPass());
    pm.addPass(createConvertControlFlowToLLVMPass());
    pm.addPass(createConvertFuncToLLVMPass());
    pm.addPass(createReconcileUnrealizedCastsPass());
  }

  /// The nested pipeline's dialects must be loaded before it runs.
  void getDependentDialects(DialectRegistry &registry) const override {
    OpPassManager pm(ModuleOp::getOperationName());
    buildPipeline(pm);
    pm.getDependentDialects(registry);
    registry.insert<kernel::KernelDialect>();
  }

  LogicalResult toLLVMDialect(ModuleOp groups) {
    if (failed(approximateMath(groups)))
      return failure();
    OpPassManager pm(ModuleOp::getOperationName());
    buildPipeline(pm);
    return runPipeline(pm, groups);
  }

  void runOnOperation() override {
    auto groups = getOperation().lookupSymbol<ModuleOp>("qwen_groups");
    if (!groups)
      return;
    if (failed(toLLVMDialect(groups)))
      return signalPassFailure();
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> code =
        translateModuleToLLVMIR(groups, context, "qwen_groups");
    if (!code)
      return signalPassFailure();
    auto object = compileToSharedObject(*code, cpu);
    if (!object) {
      getOperation().emitError() << llvm::toString(object.takeError());
      return signalPassFailure();
    }
    OpBuilder builder(groups);
    kernel::BinaryOp::create(builder, groups.getLoc(), "code", cpu, *object);
    groups.erase();
  }
};

} // namespace

void registerCodegenDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}
} // namespace qwen
