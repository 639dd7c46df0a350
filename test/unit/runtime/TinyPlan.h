//===- TinyPlan.h - A training plan made by hand ---------------*- C++ -*-===//
//
// Embedding and vocabulary projection with the real kernels: the next token
// from the last one. Lets qwenrun be tested without the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_RUNTIME_TINYPLAN_H
#define QWEN_TEST_UNIT_RUNTIME_TINYPLAN_H

#include "qwen/Plan/Buffer.h"

#include <cstdint>
#include <string>

namespace qwen {

/// What the plan is to be.
struct TinyPlanOptions {
  int64_t tokens = 16;
  int64_t documents = 4;
  int64_t vocab = 32;
  int64_t hidden = 8;
  DType parameters = DType::F32;
  bool masters = false;
  std::string target = "x86-64-v3";
  bool withEval = true;
  bool withRng = true;
};

/// The bytes of a plan file. Parameters: `model.embed_tokens.weight`, which
/// decays, and `lm_head.weight`, which does not.
std::string makeTinyPlan(const TinyPlanOptions &options);

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_TINYPLAN_H
