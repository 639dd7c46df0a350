//===- GpuCompiler.h - LLVM IR to a cubin ----------------------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_GPUCOMPILER_H
#define QWEN_LIB_CODEGEN_GPUCOMPILER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace qwen {

/// Optimises `module` and emits PTX for `arch` (an LLVM CPU name such as
/// sm_90a). The same input gives the same text. Fails on an unknown
/// architecture.
llvm::Expected<std::string> compileToPtx(llvm::Module &module,
                                         llvm::StringRef arch);

/// Assembles PTX into a CUDA ELF object (cubin) with nvJitLink, a library of
/// the CUDA toolkit that needs no GPU and is loaded here, when it is needed.
/// Fails where it is missing (the message says where it was looked for) or
/// refuses the text.
llvm::Expected<std::string> linkPtx(llvm::StringRef ptx, llvm::StringRef arch);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GPUCOMPILER_H
