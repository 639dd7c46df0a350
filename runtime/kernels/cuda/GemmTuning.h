//===- GemmTuning.h - Algorithms of products, measured ---------*- C++ -*-===//
//
// A tuning table as text: what `qwen-bench tune` writes and qwenc reads. Lines
// that start with # are comments. Any other line is a product, its algorithm in
// the order of gemmAlgorithmFields (or "first": the library's first choice was
// best and cannot be named), and what was measured, by the best algorithm and
// by the first choice:
//
//   8192x5120x17408 nt bf16 bf16 set: 66 394 36 1 0 0 0 0 3 = 730.2 703.1
//
// Needs no CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GEMMTUNING_H
#define QWEN_RUNTIME_KERNELS_CUDA_GEMMTUNING_H

#include "GemmShape.h"
#include "qwen/Support/Status.h"

#include <map>
#include <string_view>

namespace qwen::cuda {

struct TunedGemm {
  GemmAlgorithm algorithm;
  double tflops = 0, firstTflops = 0;
};

/// Products in their order, each with its algorithm.
using TuningTable = std::map<GemmShape, TunedGemm>;

/// `where` begins messages: the file's name.
StatusOr<TuningTable> parseTuningTable(std::string_view text,
                                       std::string_view where);
/// Text of the lines that parseTuningTable reads.
std::string formatTuningTable(const TuningTable &table);

/// The table that is built in, for H200.
std::string_view shippedTuningTable();

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GEMMTUNING_H
