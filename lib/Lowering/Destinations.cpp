//===- Destinations.cpp - Which buffer a value is written to --------------===//
//
// A value is written where it is wanted: by its function's result, in a joined
// buffer, in gradient storage. Only one such use can have it; others copy.
//
//===----------------------------------------------------------------------===//

#include "FunctionLowering.h"
#include "Layouts.h"

#include "dialects/Qwen/Specialization.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Allocations, views, copies
//===----------------------------------------------------------------------===//

/// A name for dumps and memory maps.
static std::string valueName(Value value) {
  Operation *op = value.getDefiningOp();
  std::string name = op->getName().stripDialect().str();
  if (auto group = dyn_cast<GroupOp>(op))
    name = group.getLabel().value_or(name).str();
  else if (auto call = dyn_cast<func::CallOp>(op))
    name = originalName(SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
                            call, call.getCalleeAttr()))
               .str();
  if (op->getNumResults() > 1)
    name += llvm::formatv(".{0}", cast<OpResult>(value).getResultNumber());
  return name;
}

Value FunctionLowering::createAlloc(Value value) {
  auto alloc = memref::AllocOp::create(builder, value.getLoc(),
                                       contiguousType(value.getType()));
  alloc->setAttr("qwen.name", builder.getStringAttr(valueName(value)));
  return alloc;
}

Value FunctionLowering::createView(Location loc, Value source, int64_t offset,
                                   MemRefType type) {
  if (offset == 0 && source.getType() == type)
    return source;
  return kernel::ViewOp::create(builder, loc, type, source, offset);
}

void FunctionLowering::createCopy(Location loc, Value from, Value to,
                                  StringRef why) {
  kernel::CopyOp::create(builder, loc, from, to);
  ++context.copies;
  if (context.remarks)
    emitRemark(loc) << "in @" << func.getSymName() << " a copy of "
                    << from.getType() << ": " << why;
}

void FunctionLowering::createFill(Location loc, arith::ConstantOp constant,
                                  Value to) {
  auto splat = cast<SplatElementsAttr>(constant.getValue());
  double value = splat.getSplatValue<APFloat>().convertToDouble();
  kernel::FillOp::create(builder, loc, to, builder.getF64FloatAttr(value));
}

Value FunctionLowering::buffer(Value value) {
  if (Value known = bufferOf.lookup(value))
    return known;
  // Everything else is written before it is read.
  Value alloc = createAlloc(value);
  createFill(value.getLoc(), value.getDefiningOp<arith::ConstantOp>(), alloc);
  bufferOf[value] = alloc;
  return alloc;
}

Value FunctionLowering::contiguousBuffer(Value value, StringRef why) {
  Value source = buffer(value);
  if (cast<MemRefType>(source.getType()).getLayout().isIdentity())
    return source;
  auto alloc = memref::AllocOp::create(builder, value.getLoc(),
                                       contiguousType(value.getType()));
  alloc->setAttr("qwen.name", builder.getStringAttr("copy"));
  createCopy(value.getLoc(), source, alloc, why);
  return alloc;
}

//===----------------------------------------------------------------------===//
// Joined buffers
//===----------------------------------------------------------------------===//

Value FunctionLowering::joinedBuffer(ConcatOp concat) {
  Value joined = concat.getY();
  if (Value known = bufferOf.lookup(joined))
    return known;
  std::optional<Destination> wanted = claim(joined);
  Value result = wanted ? wanted->buffer : createAlloc(joined);
  bufferOf[joined] = result;
  return result;
}

Value FunctionLowering::pieceView(ConcatOp concat, unsigned piece) {
  Value joined = joinedBuffer(concat);
  auto type = cast<MemRefType>(joined.getType());
  int64_t offset = 0;
  for (Value before : concat.getPieces().take_front(piece))
    offset += cast<RankedTensorType>(before.getType()).getShape().back();
  auto shape =
      cast<RankedTensorType>(concat.getPieces()[piece].getType()).getShape();
  return createView(concat.getLoc(), joined, offset,
                    stridedType(shape, type.getElementType(), stridesOf(type)));
}

//===----------------------------------------------------------------------===//
// Claims
//===----------------------------------------------------------------------===//

/// The layout of the place that claim would give, or nothing.
std::optional<MemRefType> FunctionLowering::wantedType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  for (Operation *user : value.getUsers())
    if (isa<AccumulateGradOp, func::ReturnOp>(user))
      return contiguousType(type);
  for (Operation *user : value.getUsers())
    if (auto concat = dyn_cast<ConcatOp>(user)) {
      Value joined = concat.getY();
      MemRefType joinedType =
          bufferOf.contains(joined)
              ? cast<MemRefType>(bufferOf[joined].getType())
              : wantedType(joined).value_or(contiguousType(joined.getType()));
      return stridedType(type.getShape(), type.getElementType(),
                         stridesOf(joinedType));
    }
  for (Operation *user : value.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user))
      if (std::optional<MemRefType> wanted = wantedType(reshape.getY()))
        if (auto view = reshapedType(*wanted, type.getShape()))
          return view;
  return std::nullopt;
}

/// The place that a use of the reshaped value wants, seen in the shape from
/// before the reshape.
std::optional<Destination>
FunctionLowering::claimThroughReshape(OpOperand &use) {
  auto reshape = cast<ReshapeOp>(use.getOwner());
  auto shape = cast<RankedTensorType>(use.get().getType()).getShape();
  std::optional<MemRefType> type = wantedType(reshape.getY());
  if (!type || !(type = reshapedType(*type, shape)))
    return std::nullopt;
  std::optional<Destination> wanted = claim(reshape.getY());
  bufferOf[reshape.getY()] = wanted->buffer;
  wanted->buffer = createView(reshape.getLoc(), wanted->buffer, 0, *type);
  return wanted;
}

std::optional<Destination> FunctionLowering::claim(Value value) {
  // Use lists run backwards; the first use in the function has precedence.
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    uses.push_back(&use);
  std::reverse(uses.begin(), uses.end());

  for (OpOperand *use : uses)
    if (auto accumulate = dyn_cast<AccumulateGradOp>(use->getOwner())) {
      inPlace.insert(use);
      return Destination{
          storage(accumulate.getLoc(), kernel::StorageRole::Gradient,
                  accumulate.getParameters(), contiguousType(value.getType())),
          /*accumulate=*/!accumulate.getOverwrite()};
    }
  for (OpOperand *use : uses)
    if (isa<func::ReturnOp>(use->getOwner())) {
      inPlace.insert(use);
      unsigned result = use->getOperandNumber();
      return Destination{outputArguments[result],
                         context.accumulatedResults[func.getSymName()][result]};
    }
  for (OpOperand *use : uses)
    if (auto concat = dyn_cast<ConcatOp>(use->getOwner())) {
      inPlace.insert(use);
      return Destination{pieceView(concat, use->getOperandNumber())};
    }
  for (OpOperand *use : uses)
    if (isa<ReshapeOp>(use->getOwner()))
      if (auto wanted = claimThroughReshape(*use)) {
        inPlace.insert(use);
        return wanted;
      }
  return std::nullopt;
}

FailureOr<Destination> FunctionLowering::destination(OpResult result,
                                                     bool canAccumulate) {
  Destination chosen;
  if (std::optional<Destination> wanted = claim(result))
    chosen = *wanted;
  else
    chosen.buffer = createAlloc(result);
  if (chosen.accumulate && !result.hasOneUse())
    return result.getOwner()->emitOpError()
           << "result #" << result.getResultNumber()
           << " is added to a gradient and used elsewhere too, in @"
           << func.getSymName();
  if (chosen.accumulate && !canAccumulate)
    return result.getOwner()->emitOpError()
           << "result #" << result.getResultNumber()
           << " is added to a gradient, but its kernel cannot accumulate, in @"
           << func.getSymName()
           << "; matrix products, column sums and the weight results of "
              "gradient kernels can";
  bufferOf[result] = chosen.buffer;
  return chosen;
}

FailureOr<Value> FunctionLowering::output(OpResult result) {
  FailureOr<Destination> chosen = destination(result, /*canAccumulate=*/false);
  if (failed(chosen))
    return failure();
  return chosen->buffer;
}
