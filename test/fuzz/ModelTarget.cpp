//===- ModelTarget.cpp - Hostile model.mlir -------------------------------===//
//
// Text check, parser, verifiers and the import stage, as qwenc runs them, with
// the project's dialects and those of models. Every diagnostic is one line.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "dialects/Kernel/Kernel.h"
#include "dialects/Plan/Plan.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Import/DiagnosticText.h"
#include "lib/Import/ModelFile.h"
#include "lib/Import/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace qwen;

/// The context outlives the inputs, as making one takes longer than most.
static MLIRContext &context() {
  static MLIRContext *made = [] {
    DialectRegistry registry;
    registry.insert<QwenDialect, kernel::KernelDialect, plan::PlanDialect,
                    arith::ArithDialect, func::FuncDialect, math::MathDialect,
                    memref::MemRefDialect>();
    registerArithDerivatives(registry);
    auto *context = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    context->printOpOnDiagnostic(false);
    return context;
  }();
  return *made;
}

fuzz::Outcome fuzz::run(std::span<const uint8_t> input) {
  std::string text(reinterpret_cast<const char *>(input.data()), input.size());
  if (Status status = checkModelText(text, "model.mlir"); !status.ok()) {
    expectOneLine(status.message());
    return Outcome::Refused;
  }
  bool reported = false;
  ScopedDiagnosticHandler handler(&context(), [&](Diagnostic &diagnostic) {
    expectOneLine(diagnosticText(diagnostic));
    reported |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context()), "model.mlir");
  bool ok = static_cast<bool>(module);
  if (ok) {
    PassManager passes(&context());
    passes.addPass(createVerifyImportPass());
    ok = succeeded(passes.run(*module));
  }
  if (!ok && !reported)
    breakPromise("a model is refused without a word", "");
  return ok ? Outcome::Accepted : Outcome::Refused;
}
