//===- HyperParameters.h - Scalars of the optimizer ------------*- C++ -*-===//
//
// Reads and writes the small float buffers that grad_norm and adamw share; the
// order of the entries is that of KernelOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_HYPERPARAMETERS_H
#define QWEN_RUNTIME_KERNELS_CPU_HYPERPARAMETERS_H

#include "qwen/Plan/Buffer.h"

namespace qwen::cpu {

inline double readScalar(const ConstBuffer &buffer, int64_t i) {
  return buffer.dtype == DType::F64
             ? buffer.as<double>()[i]
             : static_cast<double>(buffer.as<float>()[i]);
}

inline void writeScalar(const Buffer &buffer, int64_t i, double value) {
  if (buffer.dtype == DType::F64)
    buffer.as<double>()[i] = value;
  else
    buffer.as<float>()[i] = static_cast<float>(value);
}

/// The entries of `hyper`. It holds 1 - beta and not beta: of a float32 0.999
/// the difference to 1 has four digits only.
struct HyperParameters {
  double lr, oneMinusBeta1, oneMinusBeta2, eps, weightDecay, maxGradNorm, bias1,
      bias2;
  explicit HyperParameters(const ConstBuffer &hyper)
      : lr(readScalar(hyper, 0)), oneMinusBeta1(readScalar(hyper, 1)),
        oneMinusBeta2(readScalar(hyper, 2)), eps(readScalar(hyper, 3)),
        weightDecay(readScalar(hyper, 4)), maxGradNorm(readScalar(hyper, 5)),
        bias1(readScalar(hyper, 6)), bias2(readScalar(hyper, 7)) {}
};

/// Entries of `stats`.
enum StatsEntry {
  statsNorm = 0,
  statsClip = 1,
  statsFinite = 2,
  statsUnused = 3
};

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_HYPERPARAMETERS_H
