//===- Dialects.cpp - Dialects and interfaces of the compiler -------------===//

#include "lib/Pipelines/Pipelines.h"

#include "dialects/Kernel/Kernel.h"
#include "dialects/Plan/Plan.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

void qwen::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<QwenDialect, kernel::KernelDialect, plan::PlanDialect,
                  arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect>();
  func::registerInlinerExtension(registry);
  registerArithDerivatives(registry);
  registerCodegenDialects(registry);
}
