//===- ObjectCompiler.h - LLVM IR to a loadable object ---------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_OBJECTCOMPILER_H
#define QWEN_LIB_CODEGEN_OBJECTCOMPILER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace qwen {

/// Optimises `module`, emits x86-64 code for `cpu` (an LLVM CPU name such as
/// x86-64-v3) and links it into an ELF shared object, whose bytes it returns.
/// The same input gives the same bytes. Fails on an unknown CPU or where the
/// linker or the file system refuses.
llvm::Expected<std::string> compileToSharedObject(llvm::Module &module,
                                                  llvm::StringRef cpu);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_OBJECTCOMPILER_H
