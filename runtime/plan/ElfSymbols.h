//===- ElfSymbols.h - Functions that an ELF object exports -----*- C++ -*-===//
//
// Lets the verifier compare the launches of a plan with its machine code
// without loading the code.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_ELFSYMBOLS_H
#define QWEN_RUNTIME_PLAN_ELFSYMBOLS_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <span>
#include <string>
#include <unordered_set>

namespace qwen {

/// Names of the defined global functions of an x86-64 ELF shared object.
/// DataLoss where the bytes are no such thing.
StatusOr<std::unordered_set<std::string>>
exportedFunctions(std::span<const std::byte> object);

/// The same of a CUDA ELF object (cubin), whose kernels are its global
/// functions.
StatusOr<std::unordered_set<std::string>>
cubinFunctions(std::span<const std::byte> object);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_ELFSYMBOLS_H
