//===- KernelGradients.h - Gradient ops by the CPU kernels -----*- C++ -*-===//
//
// Evaluates qwen's `*_grad` ops with the runtime's float64 CPU kernels, so that
// a gradient check holds for the kernels too.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_GRADCHECK_KERNELGRADIENTS_H
#define QWEN_TEST_GRADCHECK_KERNELGRADIENTS_H

#include "Tensor.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace qwen::gradcheck {

/// Results of a `*_grad` op on `operands`; empty for any other op.
std::vector<Tensor> kernelGradient(mlir::Operation *op,
                                   const std::vector<Tensor> &operands);

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_KERNELGRADIENTS_H
