//===- FunctionLowering.cpp - One function from tensors to buffers --------===//

#include "FunctionLowering.h"
#include "Layouts.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Signature
//===----------------------------------------------------------------------===//

/// Inputs, then one output argument a result, which takes over its attributes.
void FunctionLowering::changeSignature() {
  Location loc = func.getLoc();
  Block *body = &func.getBody().emplaceBlock();
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  auto add = [&](Type type, DictionaryAttr attrs) {
    types.push_back(contiguousType(type));
    attributes.push_back(attrs ? attrs : builder.getDictionaryAttr({}));
    return body->addArgument(types.back(), loc);
  };
  for (BlockArgument argument : func.getArguments())
    bufferOf[argument] =
        add(argument.getType(), func.getArgAttrDict(argument.getArgNumber()));
  auto accumulated = context.accumulatedResults.find(func.getSymName());
  for (auto [i, type] : llvm::enumerate(func.getResultTypes())) {
    NamedAttrList attrs(func.getResultAttrDict(i));
    if (accumulated->second[i])
      attrs.set("qwen.accumulate", builder.getUnitAttr());
    outputArguments.push_back(
        add(type, attrs.getDictionary(func.getContext())));
  }
  func.removeResAttrsAttr();
  func.removeArgAttrsAttr();
  func.setFunctionType(builder.getFunctionType(types, {}));
  func.setAllArgAttrs(attributes);
  builder.setInsertionPointToStart(body);
}

LogicalResult FunctionLowering::run() {
  Block &tensors = func.getBody().front();
  changeSignature();
  for (Operation &op : tensors)
    if (failed(lowerOp(&op)))
      return failure();
  tensors.dropAllDefinedValueUses();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(tensors)))
    op.erase();
  tensors.erase();
  return success();
}

LogicalResult FunctionLowering::lowerOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](func::ReturnOp op) { return lowerReturn(op); })
      .Case([&](func::CallOp op) { return lowerCall(op); })
      .Case([&](GroupOp op) { return lowerGroup(op); })
      .Case([&](SplitOp op) { return lowerSplit(op), success(); })
      .Case([&](ConcatOp op) { return lowerConcat(op), success(); })
      .Case([&](ReshapeOp op) { return lowerReshape(op), success(); })
      .Case([&](GetParameterOp op) {
        bufferOf[op.getValue()] =
            storage(op.getLoc(), kernel::StorageRole::Parameter,
                    op.getParameters(), contiguousType(op.getType()));
        return success();
      })
      .Case([&](AccumulateGradOp op) -> LogicalResult {
        if (inPlace.contains(&op.getGradMutable()) && op.getGrad().hasOneUse())
          return success();
        return op.emitOpError()
               << "in @" << func.getSymName()
               << " adds a value that no kernel can write to the gradient: it "
                  "is an input, a view, or used elsewhere too";
      })
      .Case([&](AllGatherOp op) { return lowerAllGather(op); })
      .Case([&](BucketPartOp op) { return lowerBucketPart(op), success(); })
      .Case([&](ReduceScatterOp op) { return lowerReduceScatter(op); })
      .Case([&](ShardedEmbeddingOp op) {
        return lowerShardedEmbedding(op), success();
      })
      .Case([&](ShardedEmbeddingGradOp op) {
        return lowerShardedEmbeddingGrad(op), success();
      })
      .Case([&](arith::ConstantOp op) -> LogicalResult {
        auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
        if (splat && isa<FloatType>(splat.getElementType()))
          return success(); // written where it is read
        return op.emitOpError()
               << "in @" << func.getSymName()
               << " has no kernel; a float tensor constant needs "
                  "one value everywhere";
      })
      .Default([&](Operation *op) { return lowerKernelOp(op); });
}

Value FunctionLowering::storage(Location loc, kernel::StorageRole role,
                                ArrayAttr parameters, MemRefType type) {
  return kernel::StorageOp::create(builder, loc, type, role, parameters,
                                   /*bucket=*/false);
}

//===----------------------------------------------------------------------===//
// Calls and returns
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerReturn(func::ReturnOp op) {
  const SmallVector<bool> &accumulated =
      context.accumulatedResults[func.getSymName()];
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    bool written = inPlace.contains(&operand);
    if (accumulated[i] && (!written || !operand.get().hasOneUse()))
      return op.emitOpError()
             << "in @" << func.getSymName() << " result #" << i
             << " is added to a gradient by every caller, but no kernel can "
                "write it there: it is an input, a view, or used elsewhere too";
    if (!written)
      createCopy(op.getLoc(), buffer(operand.get()), outputArguments[i],
                 "the result is an input or a view, or returned twice");
  }
  func::ReturnOp::create(builder, op.getLoc());
  return success();
}

LogicalResult FunctionLowering::lowerCall(func::CallOp op) {
  SmallVector<Value> operands;
  for (Value operand : op.getOperands())
    operands.push_back(contiguousBuffer(operand, "an argument of @" +
                                                     op.getCallee().str() +
                                                     " must be contiguous"));
  const SmallVector<bool> &accumulated =
      context.accumulatedResults[op.getCallee()];
  for (OpResult result : op->getResults()) {
    std::optional<MemRefType> wanted = wantedType(result);
    if (wanted && !wanted->getLayout().isIdentity()) {
      // Its use finds it not in place and copies.
      bufferOf[result] = createAlloc(result);
      operands.push_back(bufferOf[result]);
      continue;
    }
    FailureOr<Destination> chosen =
        destination(result, accumulated[result.getResultNumber()]);
    if (failed(chosen))
      return failure();
    operands.push_back(chosen->buffer);
  }
  func::CallOp::create(builder, op.getLoc(), op.getCallee(), TypeRange(),
                       operands);
  return success();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerGroup(GroupOp op) {
  SmallVector<Value> inputs, outputs;
  for (Value input : op.getInputs())
    inputs.push_back(buffer(input));
  SmallVector<int64_t> sums = columnSums(op), accumulated;
  for (OpResult result : op->getResults()) {
    int64_t i = result.getResultNumber();
    FailureOr<Destination> chosen =
        destination(result, llvm::is_contained(sums, i));
    if (failed(chosen))
      return failure();
    outputs.push_back(chosen->buffer);
    if (chosen->accumulate)
      accumulated.push_back(i);
  }
  kernel::GroupFunctionOp function = context.groups.get(
      op, TypeRange(ValueRange(inputs)), TypeRange(ValueRange(outputs)));
  int64_t rows = 1;
  for (int64_t size : op.getDomain().drop_back())
    rows *= size;
  kernel::GroupOp::create(
      builder, op.getLoc(), inputs, outputs, function.getSymName(), rows,
      function.getRowsPerBlock(), sums, accumulated, countFlopsPerRow(op));
  return success();
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

void FunctionLowering::lowerSplit(SplitOp op) {
  Value source = buffer(op.getX());
  auto type = cast<MemRefType>(source.getType());
  int64_t offset = 0;
  for (Value piece : op.getPieces()) {
    auto shape = cast<RankedTensorType>(piece.getType()).getShape();
    bufferOf[piece] =
        createView(op.getLoc(), source, offset,
                   stridedType(shape, type.getElementType(), stridesOf(type)));
    offset += shape.back();
  }
}

void FunctionLowering::lowerConcat(ConcatOp op) {
  joinedBuffer(op);
  for (OpOperand &piece : op->getOpOperands()) {
    if (inPlace.contains(&piece))
      continue;
    Value place = pieceView(op, piece.getOperandNumber());
    auto constant = piece.get().getDefiningOp<arith::ConstantOp>();
    if (constant)
      createFill(op.getLoc(), constant, place);
    else
      createCopy(op.getLoc(), buffer(piece.get()), place,
                 "a piece of a concat is an input or a view, or wanted "
                 "elsewhere too");
  }
}

void FunctionLowering::lowerReshape(ReshapeOp op) {
  if (inPlace.contains(&op.getXMutable()))
    return;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getY().getType()).getShape();
  Value source = buffer(op.getX());
  auto type = reshapedType(cast<MemRefType>(source.getType()), shape);
  if (!type) {
    source = contiguousBuffer(op.getX(), "no strides describe the reshape");
    type = reshapedType(cast<MemRefType>(source.getType()), shape);
  }
  bufferOf[op.getY()] = createView(op.getLoc(), source, 0, *type);
}
