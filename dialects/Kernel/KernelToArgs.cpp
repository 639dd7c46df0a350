//===- KernelToArgs.cpp - Kernel ops as argument structs ------------------===//
//
// What KernelChecks, Workspace and the plan see of an op: types without
// addresses.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"

using namespace mlir;

namespace qwen::kernel {

static DType toDType(Type type) {
  if (type.isBF16())
    return DType::BF16;
  if (type.isF64())
    return DType::F64;
  return type.isInteger(32) ? DType::I32 : DType::F32;
}

BufferType toBufferType(Value value) {
  return toBufferType(cast<MemRefType>(value.getType()));
}

BufferType toBufferType(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  // The verifiers have refused layouts without static strides.
  if (failed(type.getStridesAndOffset(strides, offset)))
    llvm_unreachable("buffer without strides");
  BufferType buffer;
  buffer.dtype = toDType(type.getElementType());
  buffer.rank = type.getRank();
  llvm::copy(type.getShape(), buffer.shape.begin());
  llvm::copy(strides, buffer.strides.begin());
  return buffer;
}

#include "dialects/Kernel/KernelToArgs.cpp.inc"

} // namespace qwen::kernel
