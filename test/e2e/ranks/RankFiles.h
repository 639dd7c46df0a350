//===- RankFiles.h - What RankTrainer leaves for a test --------*- C++ -*-===//

#ifndef QWEN_TEST_E2E_RANKS_RANKFILES_H
#define QWEN_TEST_E2E_RANKS_RANKFILES_H

#include "runtime/checkpoint/Checkpoint.h"

#include <string>
#include <vector>

namespace qwen::ranktest {

inline constexpr double learningRate = 0.05, epsilon = 1;

/// A rank's part of a tensor, widened to float32.
struct Slice {
  std::string name;
  int64_t elements = 0; ///< of the whole tensor
  int64_t rows = 1;     ///< of the whole tensor; 1 where it has one dimension
  int64_t first = 0;    ///< of the part, in the tensor
  std::vector<float> values;
};

/// What a step reported, as numbers that files hold exactly.
struct Step {
  double loss, gradNorm, packs, tokens, supervised, contextPairs, microBatches,
      updates, evaluation;
};

/// The master of a parameter, or its value where it has none.
StatusOr<Slice> sliceOf(const ParameterView &view);

Status writeSlices(const std::string &path, const std::vector<Slice> &before,
                   const std::vector<Slice> &after);
StatusOr<std::vector<Slice>> readSlices(const std::string &path,
                                        std::string_view when);
Status writeSteps(const std::string &path, const std::vector<Step> &steps);
StatusOr<std::vector<Step>> readSteps(const std::string &path);

} // namespace qwen::ranktest

#endif // QWEN_TEST_E2E_RANKS_RANKFILES_H
