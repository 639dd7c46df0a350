//===- GpuThreads.cpp - Threads, shuffles and memory of a GPU -------------===//

#include "GpuThreads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace qwen;

Value GpuThreads::thread() {
  return NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
}

Value GpuThreads::block() {
  return NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
}

Value GpuThreads::exchange(Value value, int64_t mask) {
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, loc,
                                     b.getI32IntegerAttr(static_cast<int>(n)));
  };
  return NVVM::ShflOp::create(b, loc, value.getType(), number(0xffffffff),
                              value, number(mask), number(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

Value GpuThreads::sumOfLanes(Value value, int64_t lanes) {
  // a + b and b + a are the same bits, so the lanes agree.
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2)
    value = arith::AddFOp::create(b, loc, value, exchange(value, mask));
  return value;
}

void GpuThreads::blockBarrier() { NVVM::BarrierOp::create(b, loc); }

void GpuThreads::warpBarrier() {
  NVVM::SyncWarpOp::create(
      b, loc, arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-1)));
}

void GpuThreads::teamBarrier(Value number, int64_t threads) {
  Value id = arith::TruncIOp::create(b, loc, b.getI32Type(), number);
  Value count = arith::ConstantOp::create(
      b, loc, b.getI32IntegerAttr(static_cast<int32_t>(threads)));
  NVVM::BarrierOp::create(b, loc, TypeRange(), id, count,
                          NVVM::BarrierReductionAttr(), Value());
}

Value GpuThreads::address(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(b, loc, base.getType(), element, base,
                             ArrayRef<LLVM::GEPArg>{index});
}

/// Alignment that the geometry has chosen the width for: whole units up to the
/// 16 bytes of the widest access.
static unsigned alignmentOf(Type element, int64_t width) {
  int64_t bytes =
      element.getIntOrFloatBitWidth() / 8 * std::max<int64_t>(1, width);
  return static_cast<unsigned>(std::min<int64_t>(16, bytes));
}

Value GpuThreads::load(Value from, Type element, int64_t width) {
  Type type = width ? VectorType::get({width}, element) : element;
  return LLVM::LoadOp::create(b, loc, type, from, alignmentOf(element, width));
}

void GpuThreads::store(Value value, Value to, int64_t width) {
  LLVM::StoreOp::create(b, loc, value, to,
                        alignmentOf(getElementTypeOrSelf(value), width));
}
