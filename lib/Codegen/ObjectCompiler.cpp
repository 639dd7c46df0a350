//===- ObjectCompiler.cpp - LLVM IR to a loadable object ------------------===//

#include "ObjectCompiler.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

static Error makeError(const Twine &text) {
  return createStringError(inconvertibleErrorCode(), text);
}

static Expected<std::unique_ptr<TargetMachine>> createMachine(StringRef cpu) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return makeError(message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, cpu, /*Features=*/"", options, Reloc::PIC_));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(cpu))
    return makeError("unknown x86-64 level '" + cpu + "'");
  return machine;
}

static void optimize(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2)
      .run(module, modules);
}

static Error emitObject(Module &module, TargetMachine &machine,
                        raw_pwrite_stream &os) {
  legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, os, nullptr,
                                  CodeGenFileType::ObjectFile))
    return makeError("the target cannot write object files");
  codegen.run(module);
  return Error::success();
}

/// Links one object file in process; lld reads and writes files only.
static Expected<std::string> link(StringRef object) {
  SmallString<128> in, out;
  if (std::error_code error = sys::fs::createTemporaryFile("qwenc", "o", in))
    return makeError("cannot create a temporary file: " + error.message());
  FileRemover removeIn(in);
  if (std::error_code error = sys::fs::createTemporaryFile("qwenc", "so", out))
    return makeError("cannot create a temporary file: " + error.message());
  FileRemover removeOut(out);
  std::error_code error;
  raw_fd_ostream file(in, error);
  if (error)
    return makeError("cannot write " + in + ": " + error.message());
  file << object;
  file.close();
  if (file.has_error())
    return makeError("cannot write " + in + ": " + file.error().message());

  // No build id, no time stamps: the same code gives the same plan. The
  // mathematical functions of f64 code (exp, log1p …) stay undefined and are
  // found in the runtime's C library.
  const char *arguments[] = {"ld.lld",    "-shared",     "--hash-style=gnu",
                             "-z",        "noexecstack", "--build-id=none",
                             "-soname",   "qwen_groups", "-o",
                             out.c_str(), in.c_str()};
  std::string text;
  raw_string_ostream messages(text);
  lld::Result result = lld::lldMain(arguments, messages, messages,
                                    {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return makeError("linking the generated code failed: " + text);
  auto linked = MemoryBuffer::getFile(out);
  if (!linked)
    return makeError("cannot read " + out + ": " + linked.getError().message());
  return (*linked)->getBuffer().str();
}

Expected<std::string> qwen::compileToSharedObject(Module &module,
                                                  StringRef cpu) {
  auto machine = createMachine(cpu);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", cpu);
      function.setDoesNotThrow();
    }
  optimize(module, **machine);
  SmallString<0> object;
  raw_svector_ostream os(object);
  if (Error error = emitObject(module, **machine, os))
    return error;
  return link(object);
}
