//===- Documents.h - Documents of a benchmark's pack -----------*- C++ -*-===//
//
// The numbers stand in files that the scripts of tools/bench read too.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_BENCHMARK_DOCUMENTS_H
#define QWEN_RUNTIME_BENCHMARK_DOCUMENTS_H

#include <cstdint>
#include <vector>

namespace qwen::bench {

/// Lengths of the documents that a comparison runs on unless told otherwise:
/// seven uneven ones that fill a pack of 8192 tokens.
inline const std::vector<int64_t> sevenRagged = {
#include "tools/bench/seven_ragged.inc"
};

/// The same for several ranks: any number of these seven are packed as so many
/// full packs of 8192 tokens, as each document is more than half of what the
/// longer ones leave of a pack.
inline const std::vector<int64_t> sevenHalving = {
#include "tools/bench/seven_halving.inc"
};

} // namespace qwen::bench

#endif // QWEN_RUNTIME_BENCHMARK_DOCUMENTS_H
