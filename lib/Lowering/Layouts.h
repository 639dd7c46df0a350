//===- Layouts.h - Where the elements of a view lie ------------*- C++ -*-===//

#ifndef QWEN_LIB_LOWERING_LAYOUTS_H
#define QWEN_LIB_LOWERING_LAYOUTS_H

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace qwen {

/// Row-major memref without gaps for a tensor type.
mlir::MemRefType contiguousType(mlir::Type tensor);

/// Strides of a memref whose layout is static and has offset 0.
llvm::SmallVector<int64_t> stridesOf(mlir::MemRefType type);

/// Memref of this shape and these strides; identity layout where they are
/// row-major without gaps.
mlir::MemRefType stridedType(llvm::ArrayRef<int64_t> shape, mlir::Type element,
                             llvm::ArrayRef<int64_t> strides);

/// The same elements in row-major order under another shape, or nothing where
/// no strides describe that.
std::optional<mlir::MemRefType> reshapedType(mlir::MemRefType source,
                                             llvm::ArrayRef<int64_t> shape);

} // namespace qwen

#endif // QWEN_LIB_LOWERING_LAYOUTS_H
