//===- PtxCompiler.cpp - LLVM IR to PTX -----------------------------------===//

#include "GpuCompiler.h"
#include "Optimize.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

/// The first PTX version that knows sm_90a, so that every later toolkit takes
/// the text.
static constexpr StringLiteral ptxVersion = "+ptx80";

static Expected<std::unique_ptr<TargetMachine>> createMachine(StringRef arch) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, arch, ptxVersion, options, Reloc::PIC_));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(arch))
    return createStringError("unknown GPU architecture '" + arch + "'");
  return machine;
}

Expected<std::string> qwen::compileToPtx(Module &module, StringRef arch) {
  auto machine = createMachine(arch);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (Function &function : module)
    if (!function.isDeclaration()) {
      function.setDoesNotThrow();
      // Numbers below 2^-126 become 0: otherwise every exponential and every
      // quotient takes instructions to scale them.
      function.addFnAttr("denormal-fp-math-f32", "preserve-sign,preserve-sign");
    }
  qwen::optimize(module, **machine);
  SmallString<0> text;
  raw_svector_ostream os(text);
  legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, os, nullptr,
                                      CodeGenFileType::AssemblyFile))
    return createStringError("the target cannot write PTX");
  codegen.run(module);
  return text.str().str();
}
