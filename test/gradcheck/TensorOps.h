//===- TensorOps.h - Plain ops of the reference interpreter ----*- C++ -*-===//

#ifndef QWEN_TEST_GRADCHECK_TENSOROPS_H
#define QWEN_TEST_GRADCHECK_TENSOROPS_H

#include "Tensor.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace qwen::gradcheck {

/// Results of an elementwise arith, math or qwen op, or of a constant; nothing
/// for other ops.
std::optional<Tensor> evaluateElementwise(mlir::Operation *op,
                                          const std::vector<Tensor> &operands);

/// Results of a matrix product, row-wise op or one that moves elements; nothing
/// for other ops.
std::optional<std::vector<Tensor>>
evaluateStructured(mlir::Operation *op, const std::vector<Tensor> &operands);

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_TENSOROPS_H
