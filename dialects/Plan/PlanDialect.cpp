//===- PlanDialect.cpp - The plan dialect: registration and checks --------===//
//
// Local rules of each op. Rules that need the whole plan (overlap, hazards)
// are the plan verifier's, which the stage `emit` runs.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelStreams.h"
#include "dialects/Plan/Plan.h"
#include "qwen/Plan/ParameterInit.h"
#include "qwen/Plan/Sharding.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qwen;
using namespace qwen::plan;

#include "dialects/Plan/PlanDialect.cpp.inc"
#include "dialects/Plan/PlanEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Plan/PlanTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
}

/// I64Attr getters of ODS are unsigned; these numbers are not.
static int64_t number(uint64_t value) { return static_cast<int64_t>(value); }

LogicalResult ArenaOp::verify() {
  int64_t size = number(getSize());
  if (size < 0 || size % 64 != 0)
    return emitOpError() << "size must be a multiple of 64, but is " << size;
  return success();
}

LogicalResult BufferOp::verify() {
  if (number(getOffset()) < 0 || getOffset() % 64 != 0)
    return emitOpError() << "offset must be a multiple of 64, but is "
                         << number(getOffset());
  if (number(getSize()) < 1)
    return emitOpError() << "size must be at least 1, but is "
                         << number(getSize());
  if (getProgram() && (number(*getFirst()) < 0 || *getFirst() > *getLast()))
    return emitOpError() << "must live from an earlier step to a later one, "
                            "but lives from "
                         << number(*getFirst()) << " to " << number(*getLast());
  return success();
}

LogicalResult BufferOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto arena = symbols.lookupNearestSymbolFrom<ArenaOp>(*this, getArenaAttr());
  if (!arena)
    return emitOpError() << "no arena " << getArenaAttr();
  if (getSize() > arena.getSize() || getOffset() > arena.getSize() - getSize())
    return emitOpError() << "must lie inside arena " << getArenaAttr() << " of "
                         << arena.getSize() << " bytes, but is " << getSize()
                         << " bytes at " << getOffset();
  if (getProgram().has_value() != (arena.getHolds() == MemoryClass::Activation))
    return emitOpError() << "must name a program exactly where its arena holds "
                            "activations, but arena "
                         << getArenaAttr() << " holds "
                         << stringifyMemoryClass(arena.getHolds());
  if (getProgram() &&
      !symbols.lookupNearestSymbolFrom<ProgramOp>(*this, getProgramAttr()))
    return emitOpError() << "no program " << getProgramAttr();
  return success();
}

LogicalResult ViewOp::verify() {
  auto type = cast<MemRefType>(getView().getType());
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (!type.hasStaticShape() ||
      failed(type.getStridesAndOffset(strides, offset)) || offset != 0 ||
      type.getRank() > maxRank)
    return emitOpError() << "must be a static memref of at most " << maxRank
                         << " dimensions with layout offset 0, but is " << type;
  auto buffer = getBuffer().getDefiningOp<BufferOp>();
  if (!buffer)
    return emitOpError("must view the result of a plan.buffer");
  BufferType view = kernel::toBufferType(getView());
  int64_t bytes = view.extent() * dtypeBytes(view.dtype);
  if (number(getByteOffset()) < 0 || bytes > number(buffer.getSize()) ||
      number(getByteOffset()) > number(buffer.getSize()) - bytes)
    return emitOpError() << "must lie inside its buffer of " << buffer.getSize()
                         << " bytes, but reaches from byte "
                         << number(getByteOffset()) << " over " << bytes;
  return success();
}

LogicalResult HeaderOp::verify() {
  if (number(getTokens()) < 1 || number(getMaxDocuments()) < 1 ||
      number(getVocabSize()) < 1)
    return emitOpError() << "tokens, max_documents and vocab_size must be at "
                            "least 1";
  if (number(getWorldSize()) < 1 || number(getWorldSize()) > maxWorldSize)
    return emitOpError() << "world_size must be between 1 and " << maxWorldSize
                         << ", but is " << number(getWorldSize());
  DictionaryAttr terms = getFlopsAttr();
  for (NamedAttribute term :
       terms ? terms.getValue() : ArrayRef<NamedAttribute>()) {
    auto pair = dyn_cast<ArrayAttr>(term.getValue());
    if (!pair || pair.size() != 2 || !isa<FloatAttr>(pair[0]) ||
        !isa<FloatAttr>(pair[1]))
      return emitOpError() << "flops of '" << term.getName().getValue()
                           << "' must be two floats, but is "
                           << term.getValue();
  }
  return success();
}

/// The state of a parameter or bucket has its shape, and both moments or none.
template <typename Op> static LogicalResult verifyState(Op op) {
  auto value = cast<MemRefType>(op.getValue().getType());
  for (Value state :
       {op.getGradient(), op.getMoment1(), op.getMoment2(), op.getMaster()})
    if (state &&
        cast<MemRefType>(state.getType()).getShape() != value.getShape())
      return op.emitOpError() << "all its tensors must have the shape of "
                              << value << ", but one is " << state.getType();
  if (!op.getMoment1() != !op.getMoment2())
    return op.emitOpError("must have both moments or none");
  return success();
}

LogicalResult BucketOp::verify() {
  auto value = cast<MemRefType>(getValue().getType());
  int64_t elements = number(getElements());
  if (value.getRank() != 1 || elements < 1 ||
      elements % value.getDimSize(0) != 0)
    return emitOpError() << "must consist of flat shards like " << value
                         << ", but has " << elements << " elements";
  return verifyState(*this);
}

LogicalResult ParameterOp::verify() {
  if (bool(getValue()) == getBucket().has_value())
    return emitOpError("must have either a value or a place in a bucket");
  if (getValue() && failed(verifyState(*this)))
    return failure();
  if (getBucket() &&
      (getGradient() || getMoment1() || getMoment2() || getMaster()))
    return emitOpError("in a bucket has its state there too");
  if (getBucket() &&
      (!isa<RankedTensorType>(*getType()) || number(*getBucketOffset()) < 0))
    return emitOpError() << "must be a tensor at an element of its bucket, but "
                            "is "
                         << *getType() << " at " << number(*getBucketOffset());
  if (!parameterInitByName(getInit()))
    return emitOpError() << "init must be normal, zero, one or a_log, but is '"
                         << getInit() << "'";
  return success();
}

LogicalResult ProgramOp::verify() {
  if (getInputNames().size() != getInputs().size() ||
      getOutputNames().size() != getOutputs().size())
    return emitOpError("must have one name for each input and output");
  for (ArrayAttr names : {getInputNames(), getOutputNames()}) {
    llvm::StringSet<> seen;
    for (StringAttr name : names.getAsRange<StringAttr>())
      if (!seen.insert(name.getValue()).second)
        return emitOpError()
               << "has two ports named '" << name.getValue() << "'";
  }
  SmallVector<kernel::KernelOpInterface> launches;
  for (Operation &op : getBody().front()) {
    auto launch = dyn_cast<kernel::KernelOpInterface>(op);
    if (!launch)
      return op.emitOpError("is no launch and must not stand in a program");
    launches.push_back(launch);
    for (Value operand : op.getOperands())
      if (!operand.getDefiningOp<ViewOp>())
        return op.emitOpError(
            "operands in a program must be results of plan.view");
  }
  return kernel::verifyStreams(launches);
}
