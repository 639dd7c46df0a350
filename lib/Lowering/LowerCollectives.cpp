//===- LowerCollectives.cpp - Buckets, collectives, the sharded update ----===//
//
// Each rank holds a shard of every bucket; what is gathered are allocations
// like any other, so that their memory is planned with the activations'.
//
//===----------------------------------------------------------------------===//

#include "FunctionLowering.h"
#include "Layouts.h"

using namespace mlir;
using namespace qwen;
using kernel::StorageRole;

Value FunctionLowering::shard(Location loc, StorageRole role, BucketOp bucket,
                              Type element) {
  int64_t elements = cast<RankedTensorType>(bucket.getType()).getNumElements();
  auto type = MemRefType::get({elements / context.worldSize}, element);
  ArrayAttr name = builder.getArrayAttr(
      FlatSymbolRefAttr::get(builder.getContext(), bucket.getSymName()));
  return kernel::StorageOp::create(builder, loc, type, role, name,
                                   /*bucket=*/true);
}

/// The buckets of some parameters, in the module's order.
SmallVector<int64_t> FunctionLowering::bucketsOf(ArrayAttr parameters) {
  SmallVector<int64_t> numbers;
  for (auto name : parameters.getAsRange<SymbolRefAttr>())
    numbers.push_back(
        context.bucketNumbers.lookup(name.getRootReference().getValue()));
  llvm::sort(numbers);
  numbers.erase(llvm::unique(numbers), numbers.end());
  return numbers;
}

static Type elementOf(BucketOp bucket) {
  return cast<RankedTensorType>(bucket.getType()).getElementType();
}

LogicalResult FunctionLowering::lowerAllGather(AllGatherOp op) {
  FailureOr<Value> full = output(op->getResult(0));
  if (failed(full))
    return failure();
  auto bucket = context.module.lookupSymbol<BucketOp>(op.getBucket());
  kernel::AllGatherOp::create(
      builder, op.getLoc(),
      shard(op.getLoc(), StorageRole::Parameter, bucket, elementOf(bucket)),
      *full);
  return success();
}

void FunctionLowering::lowerBucketPart(BucketPartOp op) {
  Value part = createView(op.getLoc(), buffer(op.getFlat()), op.getOffset(),
                          contiguousType(op.getType()));
  // The calls that get it are labelled by what they work on.
  if (auto view = part.getDefiningOp<kernel::ViewOp>())
    view->setAttr("qwen.parameters", op.getParameters());
  bufferOf[op.getValue()] = part;
}

/// Whether something reads `value`, or what it is made of without a copy, and
/// does not stand before `end`. `reader` is what leads to `end`.
static bool isReadAfter(Value value, Operation *reader, Operation *end) {
  for (Operation *user : value.getUsers()) {
    bool isView = isa<ReshapeOp, SplitOp, ConcatOp>(user);
    if (user != reader && (isView || !user->isBeforeInBlock(end)))
      return true;
  }
  Operation *maker = value.getDefiningOp();
  return isa_and_nonnull<ReshapeOp, SplitOp, ConcatOp>(maker) &&
         llvm::any_of(maker->getOperands(), [&](Value source) {
           return !source.getDefiningOp<arith::ConstantOp>() &&
                  isReadAfter(source, maker, end);
         });
}

LogicalResult FunctionLowering::lowerReduceScatter(ReduceScatterOp op) {
  auto bucket = context.module.lookupSymbol<BucketOp>(op.getBucket());
  Value full = contiguousBuffer(op.getFlat(),
                                "a gradient to scatter must be contiguous");
  if (isa<BlockArgument>(op.getFlat()) || isReadAfter(op.getFlat(), op, op)) {
    auto copy = memref::AllocOp::create(builder, op.getLoc(),
                                        contiguousType(op.getFlat().getType()));
    copy->setAttr("qwen.name", builder.getStringAttr("copy"));
    createCopy(op.getLoc(), full, copy,
               "a scatter destroys a gradient that is used elsewhere too");
    full = copy;
  }
  kernel::ReduceScatterOp::create(builder, op.getLoc(), full,
                                  shard(op.getLoc(), StorageRole::Gradient,
                                        bucket, bucket.gradientElement()),
                                  /*accumulate=*/!op.getOverwrite());
  return success();
}

/// A flat allocation for intermediate values of all ranks.
static Value allocateFlat(OpBuilder &builder, Location loc, int64_t elements,
                          Type element, StringRef name) {
  auto alloc = memref::AllocOp::create(builder, loc,
                                       MemRefType::get({elements}, element));
  alloc->setAttr("qwen.name", builder.getStringAttr(name));
  return alloc;
}

/// What each rank has in `part`, contiguous, one after the other.
Value FunctionLowering::gatherRanks(Location loc, Value part, StringRef name) {
  auto type = cast<MemRefType>(part.getType());
  int64_t elements = type.getNumElements();
  Value flat = createView(loc, part, 0,
                          MemRefType::get({elements}, type.getElementType()));
  Value all = allocateFlat(builder, loc, context.worldSize * elements,
                           type.getElementType(), name);
  kernel::AllGatherOp::create(builder, loc, flat, all);
  return all;
}

/// Where a table lies in its bucket.
static int64_t offsetIn(BucketOp bucket, SymbolRefAttr table) {
  for (auto [name, offset] :
       llvm::zip_equal(bucket.getParameters(), bucket.getOffsets()))
    if (name == table)
      return offset;
  llvm_unreachable("the verifier has found the table in the bucket");
}

static int64_t rowsOf(ModuleOp module, SymbolRefAttr table) {
  auto parameter = module.lookupSymbol<ParameterOp>(table.getRootReference());
  return cast<RankedTensorType>(parameter.getType()).getDimSize(0);
}

/// Every rank looks up all ranks' ids in its shard; of the rows' parts each one
/// gets the sum for its own tokens.
void FunctionLowering::lowerShardedEmbedding(ShardedEmbeddingOp op) {
  Location loc = op.getLoc();
  auto bucket = context.module.lookupSymbol<BucketOp>(op.getBucket());
  auto type = cast<RankedTensorType>(op.getY().getType());
  Value ids = gatherRanks(
      loc, contiguousBuffer(op.getIds(), "ids to gather must be contiguous"),
      "ids.of.ranks");
  int64_t tokens = context.worldSize * type.getDimSize(0);
  int64_t width = type.getDimSize(1);
  Type wide = wideType(type.getElementType());
  Value parts =
      allocateFlat(builder, loc, tokens * width, wide, "rows.of.ranks");
  kernel::EmbeddingShardOp::create(
      builder, loc,
      shard(loc, StorageRole::Parameter, bucket, elementOf(bucket)), ids,
      createView(loc, parts, 0, MemRefType::get({tokens, width}, wide)),
      offsetIn(bucket, op.getTableAttr()),
      rowsOf(context.module, op.getTableAttr()));
  // Its uses find it where it is: a scatter cannot write into a strided place.
  Value rows = createAlloc(op.getY());
  bufferOf[op.getY()] = rows;
  kernel::ReduceScatterOp::create(
      builder, loc, parts,
      createView(
          loc, rows, 0,
          MemRefType::get({type.getNumElements()}, type.getElementType())),
      /*accumulate=*/false);
}

/// Every rank adds those of all ranks' rows that are in its shard.
void FunctionLowering::lowerShardedEmbeddingGrad(ShardedEmbeddingGradOp op) {
  Location loc = op.getLoc();
  auto bucket = context.module.lookupSymbol<BucketOp>(op.getBucket());
  auto type = cast<RankedTensorType>(op.getDy().getType());
  auto gather = [&](Value value, StringRef name) {
    return gatherRanks(
        loc, contiguousBuffer(value, "what is gathered must be contiguous"),
        name);
  };
  Value ids = gather(op.getIds(), "ids.of.ranks");
  Value rows = gather(op.getDy(), "gradients.of.ranks");
  int64_t tokens = context.worldSize * type.getDimSize(0);
  kernel::EmbeddingGradShardOp::create(
      builder, loc,
      createView(
          loc, rows, 0,
          MemRefType::get({tokens, type.getDimSize(1)}, type.getElementType())),
      ids, shard(loc, StorageRole::Gradient, bucket, bucket.gradientElement()),
      offsetIn(bucket, op.getTableAttr()),
      rowsOf(context.module, op.getTableAttr()),
      /*accumulate=*/!op.getOverwrite());
}

/// Sums of squares by rank are gathered, so that each rank adds them in the
/// same order.
LogicalResult FunctionLowering::lowerShardedGradNorm(GradNormOp op) {
  FailureOr<Value> stats = output(op->getResult(0));
  if (failed(stats))
    return failure();
  Location loc = op.getLoc();
  SmallVector<Value> gradients;
  for (int64_t number : bucketsOf(op.getParameters())) {
    BucketOp bucket = context.buckets[number];
    gradients.push_back(
        shard(loc, StorageRole::Gradient, bucket, bucket.gradientElement()));
  }
  auto sums = [&](int64_t count, StringRef name) -> Value {
    auto alloc = memref::AllocOp::create(
        builder, loc, MemRefType::get({count}, builder.getF64Type()));
    alloc->setAttr("qwen.name", builder.getStringAttr(name));
    return alloc;
  };
  Value partial = sums(1, "grad_norm.partial");
  kernel::GradNormLocalOp::create(builder, loc, gradients, partial);
  Value partials = sums(context.worldSize, "grad_norm.partials");
  kernel::AllGatherOp::create(builder, loc, partial, partials);
  kernel::GradNormCombineOp::create(builder, loc, partials,
                                    buffer(op.getHyper()), *stats);
  return success();
}

LogicalResult FunctionLowering::lowerShardedAdamW(AdamWOp op) {
  SmallVector<Value> params, grads, moments1, moments2, masters;
  SmallVector<int64_t> numbers = bucketsOf(op.getParameters());
  for (int64_t number : numbers) {
    BucketOp bucket = context.buckets[number];
    Type element = elementOf(bucket);
    auto store = [&](StorageRole role, Type type) {
      return shard(op.getLoc(), role, bucket, type);
    };
    params.push_back(store(StorageRole::Parameter, element));
    grads.push_back(store(StorageRole::Gradient, bucket.gradientElement()));
    moments1.push_back(store(StorageRole::Moment1, op.getMomentType()));
    moments2.push_back(store(StorageRole::Moment2, op.getMomentType()));
    if (std::optional<Type> master = op.getMasterType())
      masters.push_back(store(StorageRole::Master, *master));
  }
  kernel::AdamWOp::create(
      builder, op.getLoc(), params, grads, moments1, moments2, masters,
      buffer(op.getHyper()), buffer(op.getStats()), buffer(op.getRng()),
      /*tensor_ids=*/ArrayRef<int64_t>(), op.getDecay(), numbers);
  return success();
}
