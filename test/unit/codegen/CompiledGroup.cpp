//===- CompiledGroup.cpp - Compile and call group functions ---------------===//

#include "CompiledGroup.h"

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace qwen::test;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registry.insert<qwen::QwenDialect, qwen::kernel::KernelDialect,
                  arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect>();
  qwen::registerCodegenDialects(registry);
  return registry;
}

std::unique_ptr<CompiledGroups> CompiledGroups::compile(const std::string &text,
                                                        std::string &error) {
  MLIRContext context(makeRegistry());
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return nullptr;
  PassManager pm(&context);
  pm.addPass(qwen::createLowerGroupsPass());
  pm.addPass(qwen::createCompileGroupsPass());
  if (failed(pm.run(*module)))
    return nullptr;
  auto binaries = llvm::to_vector(module->getOps<qwen::kernel::BinaryOp>());
  if (binaries.size() != 1) {
    error += "expected one kernel.binary";
    return nullptr;
  }
  auto result = std::make_unique<CompiledGroups>();
  result->bytes = binaries[0].getObject().str();
  int file = memfd_create("qwen_groups", 0);
  if (write(file, result->bytes.data(), result->bytes.size()) !=
      static_cast<ssize_t>(result->bytes.size()))
    error += "cannot write the object";
  result->handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(),
                          RTLD_NOW | RTLD_LOCAL);
  close(file);
  if (!result->handle) {
    error += dlerror();
    return nullptr;
  }
  return result;
}

CompiledGroups::~CompiledGroups() {
  if (handle)
    dlclose(handle);
}

void CompiledGroups::call(const std::string &symbol,
                          std::vector<void *> operands, int64_t begin,
                          int64_t end, void *partials) const {
  using Function = void (*)(void *const *, void *, int64_t, int64_t);
  auto function = reinterpret_cast<Function>(dlsym(handle, symbol.c_str()));
  function(operands.data(), partials, begin, end);
}
