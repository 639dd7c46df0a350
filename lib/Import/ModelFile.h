//===- ModelFile.h - The text of a model --------------------*- C++ -*-===//
//
// Reads a model.mlir and refuses texts that MLIR's parser would not survive:
// it recurses once a bracket, and once an operator in affine expressions.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_IMPORT_MODELFILE_H
#define QWEN_LIB_IMPORT_MODELFILE_H

#include "qwen/Support/Status.h"

namespace qwen {

/// The largest model text: hundreds of times the 27B model's.
inline constexpr size_t maxModelBytes = size_t(64) << 20;
/// The deepest nesting of brackets; an imported model has 6.
inline constexpr int maxModelNesting = 128;

/// Content of the file, or of standard input for "-", once `checkModelText`
/// accepts it.
StatusOr<std::string> readModelText(const std::string &path);

/// Refuses what is no text for the parser; `name` is what messages call it.
Status checkModelText(std::string_view text, std::string_view name);

} // namespace qwen

#endif // QWEN_LIB_IMPORT_MODELFILE_H
