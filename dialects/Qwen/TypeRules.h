//===- TypeRules.h - Type rules of qwen ops --------------------*- C++ -*-===//
//
// What operands must look like and what result follows: shared by result type
// inference and the verifiers. A rule returns null after it has reported what
// was expected and what was found.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_QWEN_TYPERULES_H
#define QWEN_DIALECTS_QWEN_TYPERULES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace qwen {

/// Begins an error at the op under check.
using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;
using TensorTypes = llvm::ArrayRef<mlir::RankedTensorType>;

inline mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape,
                                     mlir::Type element) {
  return mlir::RankedTensorType::get(shape, element);
}

/// Fails with "<name> must be <wanted>, but is <found>".
llvm::LogicalResult expectType(EmitError emit, llvm::StringRef name,
                               mlir::Type found, mlir::Type wanted);

/// Fails unless the rank is that of `shape`, a text such as "[tokens, heads]".
llvm::LogicalResult expectRank(EmitError emit, llvm::StringRef name,
                               mlir::RankedTensorType type, int64_t rank,
                               llvm::StringRef shape);

/// i32 [slots], at least two slots: the begin and end of one document.
llvm::LogicalResult expectBoundaries(EmitError emit,
                                     mlir::RankedTensorType type);

/// Fails unless `count` is a multiple of `groups`.
llvm::LogicalResult expectDivisible(EmitError emit, llvm::StringRef name,
                                    int64_t count, llvm::StringRef groupsName,
                                    int64_t groups);

/// Operands x [T, K], w [N, K] -> y [T, N].
mlir::RankedTensorType linearType(EmitError emit, TensorTypes operands);
/// Operands table [V, H], ids [T] -> y [T, H].
mlir::RankedTensorType embeddingType(EmitError emit, TensorTypes operands);
/// Operands x [T, C], w [C, 1, width], cu_seqlens [S] -> y [T, C].
mlir::RankedTensorType causalConv1dType(EmitError emit, TensorTypes operands);
/// Operands q, k [T, Hk, K], v [T, Hv, V], g, beta [T, Hv], cu_seqlens [S]
/// -> o [T, Hv, V].
mlir::RankedTensorType gatedDeltaType(EmitError emit, TensorTypes operands);
/// Operands q [T, Hq, D], k, v [T, Hkv, D], cu_seqlens [S] -> o [T, Hq, D].
mlir::RankedTensorType attentionType(EmitError emit, TensorTypes operands);
/// Operands x [T, H], w [V, H], labels [T] -> nll [T].
mlir::RankedTensorType linearCrossEntropyType(EmitError emit,
                                              TensorTypes operands);

} // namespace qwen

#endif // QWEN_DIALECTS_QWEN_TYPERULES_H
