//===- PtxCompiler.cpp - LLVM IR to PTX -----------------------------------===//

#include "GpuCompiler.h"
#include "Optimize.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

/// The first PTX version that knows sm_90a, so that every later toolkit takes
/// the text.
static constexpr StringLiteral ptxVersion = "+ptx80";

Expected<std::string> qwen::compileToPtx(Module &module, StringRef arch) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  auto machine = createMachine(Triple("nvptx64-nvidia-cuda"), arch, ptxVersion);
  if (!machine)
    return machine.takeError();
  for (Function &function : module)
    if (!function.isDeclaration()) {
      function.setDoesNotThrow();
      // Numbers below 2^-126 become 0: otherwise every exponential and every
      // quotient takes instructions to scale them.
      function.addFnAttr("denormal-fp-math-f32", "preserve-sign,preserve-sign");
    }
  return emitCode(module, **machine, CodeGenFileType::AssemblyFile);
}
