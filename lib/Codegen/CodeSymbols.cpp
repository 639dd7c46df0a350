//===- CodeSymbols.cpp - What generated functions take --------------------===//

#include "CodeSymbols.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace qwen;

static constexpr StringLiteral attributeName = "kernel.code_symbol";

/// Memory types of a group's operands, inputs first.
static SmallVector<MemRefType> operandTypes(kernel::GroupFunctionOp group) {
  SmallVector<MemRefType> types;
  for (ArrayAttr list : {group.getInputTypes(), group.getOutputTypes()})
    for (auto type : list.getAsValueRange<TypeAttr>())
      types.push_back(cast<MemRefType>(type));
  return types;
}

static int64_t elementBytes(MemRefType type) {
  return type.getElementTypeBitWidth() / 8;
}

/// Bytes from the first element to behind the last one.
static int64_t coveredBytes(MemRefType type) {
  auto [strides, offset] = type.getStridesAndOffset();
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    last += (size - 1) * stride;
  return (last + 1) * elementBytes(type);
}

SmallVector<int64_t> qwen::naturalAlignments(kernel::GroupFunctionOp group) {
  return llvm::map_to_vector(operandTypes(group), elementBytes);
}

void qwen::setCodeSymbol(Operation *function, kernel::GroupFunctionOp group,
                         ArrayRef<int64_t> alignments,
                         const LaunchGeometry &geometry) {
  SmallVector<int64_t> bytes =
      llvm::map_to_vector(operandTypes(group), coveredBytes);
  int64_t rows = 1;
  ArrayRef<int64_t> domain = group.getDomain();
  for (int64_t size : domain.size() == 1 ? domain : domain.drop_back())
    rows *= size;
  function->setAttr(attributeName,
                    kernel::CodeSymbolAttr::get(
                        function->getContext(), group.getSymName(), rows, bytes,
                        alignments, group.getColumnSums(), geometry.threads,
                        geometry.blocks, geometry.sharedBytes));
}

SmallVector<Attribute> qwen::takeCodeSymbols(ModuleOp groups) {
  SmallVector<Attribute> symbols;
  for (Operation &op : *groups.getBody())
    if (Attribute symbol = op.removeAttr(attributeName))
      symbols.push_back(symbol);
  return symbols;
}
