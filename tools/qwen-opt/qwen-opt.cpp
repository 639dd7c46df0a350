//===- qwen-opt.cpp - Runs single passes on IR text -----------------------===//
//
// mlir-opt with the project's dialects and passes: for tests and for looking at
// one step of the compiler.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"
#ifdef QWEN_HAS_PLAN
#include "dialects/Plan/Plan.h"
#endif

#ifdef QWEN_HAS_IMPORT
#include "lib/Import/Passes.h"
#endif
#ifdef QWEN_HAS_AUTODIFF
#include "lib/Autodiff/Passes.h"
#endif
#ifdef QWEN_HAS_FUSION
#include "lib/Fusion/Passes.h"
#endif
#ifdef QWEN_HAS_LOWERING
#include "lib/Lowering/Passes.h"
#endif
#ifdef QWEN_HAS_CODEGEN
#include "lib/Codegen/Passes.h"
#endif
#ifdef QWEN_HAS_MEMORY
#include "lib/Memory/Passes.h"
#endif
#ifdef QWEN_HAS_SCHEDULE
#include "lib/Schedule/Passes.h"
#endif
#ifdef QWEN_HAS_EMIT
#include "lib/Emit/Passes.h"
#endif

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

static void registerPasses() {
  mlir::registerTransformsPasses();
#ifdef QWEN_HAS_IMPORT
  qwen::registerQwenImportPasses();
#endif
#ifdef QWEN_HAS_AUTODIFF
  qwen::registerQwenAutodiffPasses();
#endif
#ifdef QWEN_HAS_FUSION
  qwen::registerQwenFusionPasses();
#endif
#ifdef QWEN_HAS_LOWERING
  qwen::registerQwenLoweringPasses();
#endif
#ifdef QWEN_HAS_CODEGEN
  qwen::registerQwenCodegenPasses();
#endif
#ifdef QWEN_HAS_MEMORY
  qwen::registerQwenMemoryPasses();
#endif
#ifdef QWEN_HAS_SCHEDULE
  qwen::registerQwenSchedulePasses();
#endif
#ifdef QWEN_HAS_EMIT
  qwen::registerQwenEmitPasses();
#endif
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<qwen::QwenDialect, qwen::kernel::KernelDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect>();
#ifdef QWEN_HAS_PLAN
  registry.insert<qwen::plan::PlanDialect>();
#endif
  mlir::func::registerInlinerExtension(registry);
  qwen::registerArithDerivatives(registry);
#ifdef QWEN_HAS_CODEGEN
  qwen::registerCodegenDialects(registry);
#endif
  registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "qwen compiler passes\n", registry));
}
