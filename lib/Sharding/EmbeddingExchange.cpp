//===- EmbeddingExchange.cpp - Rows instead of whole tables ---------------===//
//
// A step looks up few rows of the embedding. Where these are fewer bytes than
// the table, ranks exchange them instead of gathering the table and scattering
// its gradient.
//
//===----------------------------------------------------------------------===//

#include "lib/Sharding/ProgramSharding.h"

using namespace mlir;
using namespace qwen;

static int64_t bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Bytes of the rows of all ranks' tokens and of the table decide; `rowElement`
/// and `tableElement` are what would be sent.
bool ProgramSharding::sendsRows(RankedTensorType rows, Type rowElement,
                                RankedTensorType table,
                                Type tableElement) const {
  if (options.embeddingExchange != EmbeddingExchange::Auto)
    return options.embeddingExchange == EmbeddingExchange::Rows;
  return rows.getDimSize(0) * options.worldSize * bytesOf(rowElement) <
         table.getDimSize(0) * bytesOf(tableElement);
}

/// The bucket that holds nothing but the table `parameters`; null if there is
/// none. Overwriting the gradient of a table would touch what is beside it.
BucketOp ProgramSharding::tableBucket(ArrayAttr parameters) const {
  if (parameters.size() != 1)
    return {};
  BucketOp bucket = units.bucket(units.home(parameters[0]).bucket);
  return bucket.getParameters().size() == 1 ? bucket : BucketOp();
}

void ProgramSharding::exchangeRows(EmbeddingOp op,
                                   SmallVectorImpl<CollectiveNote> &notes) {
  auto get = op.getTable().getDefiningOp<GetParameterOp>();
  BucketOp bucket = get ? tableBucket(get.getParameters()) : BucketOp();
  RankedTensorType rows = typeOf(op.getY()), table = typeOf(op.getTable());
  Type element = rows.getElementType(), wide = wideType(element);
  if (!bucket || !sendsRows(rows, wide, table, element))
    return;
  auto name = cast<SymbolRefAttr>(get.getParameters()[0]);
  OpBuilder builder(op);
  auto exchange = ShardedEmbeddingOp::create(
      builder, op.getLoc(), rows, bucket.getSymName(), name, op.getIds());
  notes.push_back({units.home(name).unit, CollectiveNote::Rows,
                   rows.getNumElements() * options.worldSize * bytesOf(wide),
                   program, exchange});
  op.getY().replaceAllUsesWith(exchange.getY());
  op.erase();
}

void ProgramSharding::exchangeRows(AccumulateGradOp op,
                                   SmallVectorImpl<CollectiveNote> &notes) {
  auto grad = op.getGrad().getDefiningOp<EmbeddingGradOp>();
  BucketOp bucket =
      grad && grad->hasOneUse() ? tableBucket(op.getParameters()) : BucketOp();
  if (!bucket)
    return;
  RankedTensorType rows = typeOf(grad.getDy()), table = typeOf(op.getGrad());
  if (!sendsRows(rows, rows.getElementType(), table, table.getElementType()))
    return;
  auto name = cast<SymbolRefAttr>(op.getParameters()[0]);
  OpBuilder builder(op);
  auto exchange = ShardedEmbeddingGradOp::create(
      builder, op.getLoc(), bucket.getSymName(), name, grad.getDy(),
      grad.getIds(), op->hasAttr("overwrite"));
  notes.push_back({units.home(name).unit, CollectiveNote::RowGradients,
                   rows.getNumElements() * options.worldSize *
                       bytesOf(rows.getElementType()),
                   program, exchange});
  op.erase();
  grad.erase();
}

void ProgramSharding::exchangeRows(SmallVectorImpl<CollectiveNote> &notes) {
  SmallVector<EmbeddingOp> lookups(program.getOps<EmbeddingOp>());
  for (EmbeddingOp op : lookups)
    exchangeRows(op, notes);
  SmallVector<AccumulateGradOp> gradients(program.getOps<AccumulateGradOp>());
  for (AccumulateGradOp op : gradients)
    exchangeRows(op, notes);
}
