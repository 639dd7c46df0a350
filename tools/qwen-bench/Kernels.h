//===- Kernels.h - Times of the hand-written CUDA kernels ------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWEN_BENCH_KERNELS_H
#define QWEN_TOOLS_QWEN_BENCH_KERNELS_H

#include "qwen/Support/Status.h"
#include "runtime/benchmark/Documents.h"

#include <string>
#include <vector>

namespace qwen::bench {

struct KernelsOptions {
  /// Lengths of the pack's documents. Each kernel that works inside documents
  /// is timed on them and on one document of as many tokens.
  std::vector<int64_t> documents = sevenRagged;
  std::vector<std::string> models = {"27B", "9B", "0.8B"};
  /// Names of kernels, gradients beside their kernel ("attention"); empty: all.
  std::vector<std::string> only;
  int samples = 30;
  /// Each kernel is launched once and nothing is timed; for profilers.
  bool once = false;
};

/// The models whose shapes there are.
std::vector<std::string> kernelModels();

/// Prints a line of JSON for the card's ceilings and one for each kernel and
/// shape.
Status benchKernels(const KernelsOptions &options);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_KERNELS_H
