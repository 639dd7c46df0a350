//===- Optimize.h - From LLVM IR to code of a processor --------*- C++ -*-===//
//
// What the compilers of CPU and GPU code have in common: the machine, LLVM's
// passes over generated code, and its output.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_OPTIMIZE_H
#define QWEN_LIB_CODEGEN_OPTIMIZE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
class Triple;
} // namespace llvm

namespace qwen {

/// The machine of a processor by LLVM's name (x86-64-v3, sm_90a); the target
/// of `triple` must be initialised. Products and sums are never contracted.
/// Fails on an unknown processor.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(const llvm::Triple &triple, llvm::StringRef processor,
              llvm::StringRef features);

/// Optimises the module for the machine by the default pipeline of level 2 and
/// emits it. For a GPU loops stay as they were written: their bodies fill the
/// registers. The same input gives the same bytes.
llvm::Expected<std::string> emitCode(llvm::Module &module,
                                     llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_OPTIMIZE_H
