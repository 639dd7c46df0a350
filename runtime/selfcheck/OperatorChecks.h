//===- OperatorChecks.h - Kernels one by one against a reference -*- C++
//-*-===//
//
// Forward and each gradient of the convolution, the gated delta rule, attention
// and the loss, with the heads, types and strides of a plan, on random ragged
// packs. CPU kernels are compared with themselves in float64, whose gradients
// are compared with differences; CUDA kernels with the CPU's.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_OPERATORCHECKS_H
#define QWEN_RUNTIME_SELFCHECK_OPERATORCHECKS_H

#include "runtime/plan/Plan.h"
#include "runtime/selfcheck/CheckReport.h"
#include "runtime/selfcheck/KernelRunner.h"

#include <optional>

namespace qwen {

/// The first kernels of each kind in a plan: types, no addresses.
struct OperatorShapes {
  std::optional<CausalConv1dArgs> conv;
  std::optional<CausalConv1dGradArgs> convGrad;
  std::optional<GatedDeltaArgs> gatedDelta;
  std::optional<GatedDeltaGradArgs> gatedDeltaGrad;
  std::optional<AttentionArgs> attention;
  std::optional<AttentionGradArgs> attentionGrad;
  /// With the first classes of the vocabulary only.
  std::optional<LinearCrossEntropyArgs> loss;
  std::optional<LinearCrossEntropyGradArgs> lossGrad;

  static OperatorShapes of(const Plan &plan);
};

struct OperatorCheckOptions {
  int64_t tokens = 320;
  int packs = 3;
  uint64_t seed = 1;
};

/// The kernels of `gpu` against the CPU's.
StatusOr<std::vector<CheckRow>>
checkAgainstCpu(const OperatorShapes &shapes, KernelRunner &gpu,
                const OperatorCheckOptions &options);

/// The kernels of `cpu` against themselves in float64.
StatusOr<std::vector<CheckRow>>
checkAgainstDouble(const OperatorShapes &shapes, KernelRunner &cpu,
                   const OperatorCheckOptions &options);

/// The float64 gradients of `cpu` against central differences of its forward,
/// for one group of heads.
StatusOr<std::vector<CheckRow>>
checkAgainstDifferences(const OperatorShapes &shapes, KernelRunner &cpu,
                        const OperatorCheckOptions &options);

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_OPERATORCHECKS_H
