//===- KernelDialect.cpp - The kernel dialect: registration and checks ----===//
//
// A kernel call is legal where KernelChecks.h says so; this file turns its
// answer into a located diagnostic, after checking what the argument structs
// cannot even express (dynamic shapes, foreign layouts).
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "qwen/Plan/KernelChecks.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qwen;
using namespace qwen::kernel;

namespace qwen::kernel {
/// A list such as [1, 2] in an attribute.
static FailureOr<SmallVector<int64_t>> parseNumbers(AsmParser &parser) {
  SmallVector<int64_t> numbers;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(numbers.emplace_back());
      }))
    return failure();
  return numbers;
}
} // namespace qwen::kernel

#include "dialects/Kernel/KernelDialect.cpp.inc"
#include "dialects/Kernel/KernelEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.cpp.inc"
#include "dialects/Kernel/KernelInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.cpp.inc"

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Kernel/KernelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Kernel/KernelOps.cpp.inc"
      >();
}

LogicalResult
CodeSymbolAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                       StringRef name, int64_t, ArrayRef<int64_t> operandBytes,
                       ArrayRef<int64_t> operandAlignments, ArrayRef<int64_t>,
                       int64_t, int64_t, int64_t) {
  if (operandBytes.size() != operandAlignments.size())
    return emitError() << "code symbol '" << name << "' has "
                       << operandBytes.size() << " operand_bytes and "
                       << operandAlignments.size()
                       << " operand_alignments, expected as many";
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Whether a memref is one that BufferType can describe; if not, says why.
static std::string bufferFault(MemRefType type) {
  Type element = type.getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF64() &&
      !element.isInteger(32))
    return "must have f32, bf16, f64 or i32 elements";
  if (type.getRank() > maxRank)
    return "must have at most " + std::to_string(maxRank) + " dimensions";
  if (!type.hasStaticShape())
    return "must have a static shape";
  int64_t elements = 1;
  for (int64_t size : type.getShape()) {
    if (size < 1 || size > maxDimension)
      return "must have dimensions between 1 and " +
             std::to_string(maxDimension);
    if (size > maxElements / elements)
      return "must have at most " + std::to_string(maxElements) + " elements";
    elements *= size;
  }
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (failed(type.getStridesAndOffset(strides, offset)) || offset != 0)
    return "must have an identity layout or strides with offset 0";
  for (int64_t stride : strides)
    if (stride < 0 || stride > maxElements)
      return "must have static strides between 0 and " +
             std::to_string(maxElements);
  return {};
}

static LogicalResult verifyBuffer(Operation *op, const Twine &name, Type type) {
  std::string fault = bufferFault(cast<MemRefType>(type));
  if (fault.empty())
    return success();
  return op->emitOpError() << name << " " << fault << ", but is " << type;
}

static LogicalResult verifyBuffers(Operation *op) {
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes()))
    if (failed(verifyBuffer(op, "operand #" + Twine(index), type)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Kernel calls
//===----------------------------------------------------------------------===//

template <typename KernelOp> static LogicalResult verifyKernel(KernelOp op) {
  if (failed(verifyBuffers(op)))
    return failure();
  Status status = checkKernel(toArgs(op));
  if (!status.ok())
    return op.emitOpError() << status.message();
  return success();
}

#define QWEN_VERIFY(Name)                                                      \
  LogicalResult Name##Op::verify() { return verifyKernel(*this); }
QWEN_KERNELS(QWEN_VERIFY)
#undef QWEN_VERIFY

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult StorageOp::verify() {
  if (getParameters().empty())
    return emitOpError("must name at least one parameter");
  if (getBucket() && (getParameters().size() != 1 ||
                      cast<MemRefType>(getBuffer().getType()).getRank() != 1))
    return emitOpError("of a bucket must name one bucket and be a flat memref");
  return verifyBuffer(*this, "the buffer", getBuffer().getType());
}

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto result = cast<MemRefType>(getResult().getType());
  if (failed(verifyBuffer(*this, "the source", source)) ||
      failed(verifyBuffer(*this, "the result", result)))
    return failure();
  if (source.getElementType() != result.getElementType())
    return emitOpError() << "must keep the element type, but the source is "
                         << source << " and the result " << result;
  int64_t offset = getOffset();
  if (offset < 0 || offset > maxElements)
    return emitOpError() << "offset must be between 0 and " << maxElements
                         << ", but is " << offset;
  // A view of a view may reach beyond its source inside the root buffer; a
  // view of a whole buffer may not reach beyond it.
  if (getSource().getDefiningOp<ViewOp>())
    return success();
  int64_t end = offset + toBufferType(getResult()).extent();
  int64_t limit = toBufferType(getSource()).extent();
  if (end > limit)
    return emitOpError() << "must stay inside its source of " << limit
                         << " elements, but reaches element " << end - 1;
  return success();
}

LogicalResult GroupFunctionOp::verify() {
  int64_t rank = getDomain().size();
  if (rank < 1 || rank > 3)
    return emitOpError() << "domain must have 1 to 3 dimensions, but has "
                         << rank;
  if (static_cast<int64_t>(getRowsPerBlock()) < 1)
    return emitOpError() << "rows_per_block must be at least 1, but is "
                         << static_cast<int64_t>(getRowsPerBlock());
  for (ArrayAttr types : {getInputTypes(), getOutputTypes()})
    for (auto [index, attribute] : llvm::enumerate(types)) {
      Type type = cast<TypeAttr>(attribute).getValue();
      if (!isa<MemRefType>(type))
        return emitOpError() << "input_types and output_types must be memrefs, "
                                "but one is "
                             << type;
      if (failed(
              verifyBuffer(*this,
                           (types == getInputTypes() ? "input #" : "output #") +
                               Twine(index),
                           type)))
        return failure();
    }
  for (int64_t output : getColumnSums())
    if (output < 0 || output >= static_cast<int64_t>(getOutputTypes().size()))
      return emitOpError() << "column_sums must number one of the "
                           << getOutputTypes().size() << " outputs, but has "
                           << output;
  return verifyBody();
}

/// The body's arguments and yielded values are the inputs and outputs as
/// tensors.
LogicalResult GroupFunctionOp::verifyBody() {
  auto matches = [](TypeRange tensors, ArrayAttr memrefs) {
    if (tensors.size() != memrefs.size())
      return false;
    for (auto [tensor, attribute] : llvm::zip_equal(tensors, memrefs)) {
      auto memref = cast<MemRefType>(cast<TypeAttr>(attribute).getValue());
      if (tensor !=
          RankedTensorType::get(memref.getShape(), memref.getElementType()))
        return false;
    }
    return true;
  };
  Block &body = getBody().front();
  if (!matches(body.getArgumentTypes(), getInputTypes()))
    return emitOpError() << "must have one block argument, as a tensor, for "
                            "each of its "
                         << getInputTypes().size() << " inputs";
  if (body.empty() || !body.back().hasTrait<OpTrait::IsTerminator>() ||
      !matches(body.back().getOperandTypes(), getOutputTypes()))
    return emitOpError() << "must yield one value, as a tensor, for each of "
                            "its "
                         << getOutputTypes().size() << " outputs";
  return success();
}
