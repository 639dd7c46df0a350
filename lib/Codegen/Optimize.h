//===- Optimize.h - LLVM's passes over generated code ----------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_OPTIMIZE_H
#define QWEN_LIB_CODEGEN_OPTIMIZE_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace qwen {

/// Runs the default pipeline of level 2. For a GPU loops stay as they were
/// emitted: their bodies fill the registers.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_OPTIMIZE_H
