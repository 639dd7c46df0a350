//===- CheckBatch.h - Micro-batches of random documents --------*- C++ -*-===//

#ifndef QWEN_RUNTIME_SELFCHECK_CHECKBATCH_H
#define QWEN_RUNTIME_SELFCHECK_CHECKBATCH_H

#include "runtime/data/Batch.h"

#include <random>
#include <span>
#include <vector>

namespace qwen {

/// The tokens of a document.
using CheckDocument = std::vector<int32_t>;

/// Random tokens.
CheckDocument randomDocument(std::mt19937 &random, int64_t length,
                             int64_t vocabulary);

/// Documents one behind the other, every token but the last of each with its
/// label; what is left is padding. They must fit.
Batch makeBatch(std::span<const CheckDocument> documents, PackLimits limits);

/// Lengths around the sizes of blocks that fit a pack, at most eight and the
/// last of which takes what is left.
std::vector<int64_t> raggedLengths(PackLimits limits);

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_CHECKBATCH_H
