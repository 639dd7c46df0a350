//===- NaiveOps.h - Region ops by their definitions ------------*- C++ -*-===//
//
// Forward results in plain loops, straight from each op's description: the
// gated delta rule token by token, attention with all scores. The compiler and
// the kernels share no code with them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_GRADCHECK_NAIVEOPS_H
#define QWEN_TEST_GRADCHECK_NAIVEOPS_H

#include "Tensor.h"

namespace qwen::gradcheck {

/// x [T, C], w [C, 1, width].
Tensor causalConv1d(const Tensor &x, const Tensor &w, const Tensor &cuSeqlens);

/// q, k [T, Hk, K], v [T, Hv, V], g, beta [T, Hv].
Tensor gatedDelta(const Tensor &q, const Tensor &k, const Tensor &v,
                  const Tensor &g, const Tensor &beta, const Tensor &cuSeqlens,
                  double scale, double l2normEps);

/// q [T, Hq, D], k, v [T, Hkv, D].
struct AttentionResult {
  Tensor o, lse;
};
AttentionResult attention(const Tensor &q, const Tensor &k, const Tensor &v,
                          const Tensor &cuSeqlens, double scale);

/// x [T, H], w [V, H], labels [T].
Tensor linearCrossEntropy(const Tensor &x, const Tensor &w,
                          const Tensor &labels, int64_t ignoreIndex);

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_NAIVEOPS_H
