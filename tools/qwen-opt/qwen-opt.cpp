//===- qwen-opt.cpp - Runs single passes on IR text -----------------------===//
//
// mlir-opt with the project's dialects and passes: for tests and for looking at
// one step of the compiler.
//
//===----------------------------------------------------------------------===//

#include "lib/Autodiff/Passes.h"
#include "lib/Codegen/Passes.h"
#include "lib/Emit/Passes.h"
#include "lib/Fusion/Passes.h"
#include "lib/Import/Passes.h"
#include "lib/Lowering/Passes.h"
#include "lib/Memory/Passes.h"
#include "lib/Pipelines/Pipelines.h"
#include "lib/Schedule/Passes.h"
#include "lib/Sharding/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  qwen::registerCompilerDialects(registry);
  // What qwen-lower-groups writes, to be read again.
  registry.insert<mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  qwen::registerQwenImportPasses();
  qwen::registerQwenAutodiffPasses();
  qwen::registerQwenShardingPasses();
  qwen::registerQwenFusionPasses();
  qwen::registerQwenLoweringPasses();
  qwen::registerQwenCodegenPasses();
  qwen::registerQwenMemoryPasses();
  qwen::registerQwenSchedulePasses();
  qwen::registerQwenEmitPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "qwen compiler passes\n", registry));
}
