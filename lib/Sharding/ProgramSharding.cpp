//===- ProgramSharding.cpp - One program on shards ------------------------===//
//
// Finds the stretches in which a unit is in use, places gathers and scatters.
//
//===----------------------------------------------------------------------===//

#include "lib/Sharding/ProgramSharding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qwen;

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// A call that gets parameters is a stretch of the program, and so is what
/// stands between two of them.
void ProgramSharding::findPhases() {
  llvm::DenseMap<int64_t, size_t> open; // by unit
  int64_t stretch = 0;
  for (Operation &op : program.getBody().front()) {
    bool isUnit = isa<func::CallOp>(op) &&
                  llvm::any_of(op.getOperands(), [](Value operand) {
                    return operand.getDefiningOp<GetParameterOp>() != nullptr;
                  });
    stretch += isUnit;
    for (OpOperand &operand : op.getOpOperands()) {
      auto get = operand.get().getDefiningOp<GetParameterOp>();
      if (!get)
        continue;
      int64_t unit = units.home(get.getParameters()[0]).unit;
      auto [known, isNew] = open.try_emplace(unit, phases.size());
      bool isNear =
          !isNew && (!options.reshardAfterForward ||
                     stretch - phases[known->second].lastStretch <= 1);
      if (!isNear) {
        known->second = phases.size();
        phases.push_back({unit, stretch, {}});
      }
      phases[known->second].lastStretch = stretch;
      phases[known->second].uses.push_back(&operand);
    }
    stretch += isUnit;
  }
}

/// Replaces the phase's uses by parts of the gathered buckets.
void ProgramSharding::readParts(Phase &phase, ArrayRef<Value> flats) {
  OpBuilder builder(phase.uses.front()->getOwner());
  ArrayRef<int64_t> buckets = units.units()[phase.unit].buckets;
  llvm::DenseMap<Value, Value> parts;
  for (OpOperand *use : phase.uses) {
    Value &part = parts[use->get()];
    if (!part) {
      auto get = use->get().getDefiningOp<GetParameterOp>();
      const ParameterHome &home = units.home(get.getParameters()[0]);
      Value flat = flats[llvm::find(buckets, home.bucket) - buckets.begin()];
      part = BucketPartOp::create(builder, get.getLoc(), get.getType(), flat,
                                  builder.getI64IntegerAttr(home.offset),
                                  get.getParameters());
    }
    use->set(part);
  }
}

void ProgramSharding::gather(SmallVectorImpl<CollectiveNote> &notes) {
  // Where to insert is known before any use is rewritten.
  SmallVector<Operation *> firstUses;
  for (Phase &phase : phases)
    firstUses.push_back(phase.uses.front()->getOwner());
  for (auto [i, phase] : llvm::enumerate(phases)) {
    auto number = static_cast<int64_t>(i);
    int64_t ahead = std::min(number, options.prefetch);
    Operation *place = firstUses[number - ahead];
    OpBuilder builder(place);
    SmallVector<Value> flats;
    for (int64_t bucket : units.units()[phase.unit].buckets) {
      bool isUsed = llvm::any_of(phase.uses, [&](OpOperand *use) {
        auto get = use->get().getDefiningOp<GetParameterOp>();
        return units.home(get.getParameters()[0]).bucket == bucket;
      });
      if (!isUsed) {
        flats.emplace_back();
        continue;
      }
      BucketOp op = units.bucket(bucket);
      auto type = cast<RankedTensorType>(op.getType());
      flats.push_back(
          AllGatherOp::create(builder, place->getLoc(), type, op.getSymName()));
      notes.push_back({phase.unit, CollectiveNote::Gather, bytesOf(type),
                       program, place, ahead});
    }
    readParts(phase, flats);
  }
  for (auto get : llvm::make_early_inc_range(program.getOps<GetParameterOp>()))
    get.erase();
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// The bucket's gradient: the contributions in their places, zeros elsewhere.
Value ProgramSharding::join(OpBuilder &builder, BucketOp bucket, Round &round) {
  auto flat = cast<RankedTensorType>(bucket.getType());
  Type element = wideType(flat.getElementType());
  Location loc = round.back().op.getLoc();
  SmallVector<Value> pieces;
  int64_t end = 0;
  auto padTo = [&](int64_t offset) {
    if (offset == end)
      return;
    auto type = RankedTensorType::get({offset - end}, element);
    pieces.push_back(arith::ConstantOp::create(builder, loc, type,
                                               builder.getZeroAttr(type)));
    end = offset;
  };
  llvm::sort(round, [](const Contribution &a, const Contribution &b) {
    return a.offset < b.offset;
  });
  for (Contribution &part : round) {
    padTo(part.offset);
    Value grad = part.op.getGrad();
    auto type = cast<RankedTensorType>(grad.getType());
    if (type.getRank() != 1)
      grad = ReshapeOp::create(
          builder, loc, RankedTensorType::get({type.getNumElements()}, element),
          grad);
    pieces.push_back(grad);
    end += type.getNumElements();
  }
  padTo(flat.getNumElements());
  if (pieces.size() == 1)
    return pieces.front();
  return ConcatOp::create(builder, loc, flat.clone(element), pieces);
}

/// Scatters behind the round's last gradient and behind `last`, the bucket's
/// scatter before.
LogicalResult
ProgramSharding::scatterRound(int64_t bucket, Round &round, Operation *&last,
                              SmallVectorImpl<CollectiveNote> &notes) {
  AccumulateGradOp latest = round.back().op; // contributions are in order
  bool overwrites = latest->hasAttr("overwrite");
  for (Contribution &part : round)
    if (part.op->hasAttr("overwrite") != overwrites)
      return part.op.emitOpError("overwrites a gradient, but others of its "
                                 "bucket are added to, or the other way round");
  Operation *place = latest;
  if (last && latest->isBeforeInBlock(last))
    place = last;
  OpBuilder builder(program.getContext());
  builder.setInsertionPointAfter(place);
  BucketOp op = units.bucket(bucket);
  Value flat = join(builder, op, round);
  auto scatter = ReduceScatterOp::create(builder, latest.getLoc(),
                                         op.getSymName(), flat, overwrites);
  notes.push_back(
      {units.home(op.getParameters()[0]).unit, CollectiveNote::Scatter,
       bytesOf(cast<RankedTensorType>(flat.getType())), program, scatter});
  last = scatter;
  return success();
}

LogicalResult ProgramSharding::scatter(SmallVectorImpl<CollectiveNote> &notes) {
  llvm::MapVector<int64_t, SmallVector<Round, 2>> rounds; // by bucket
  llvm::DenseMap<Attribute, size_t> count;
  SmallVector<AccumulateGradOp> done(program.getOps<AccumulateGradOp>());
  for (AccumulateGradOp op : done) {
    Attribute first = op.getParameters()[0];
    const ParameterHome &home = units.home(first);
    auto &list = rounds[home.bucket];
    size_t number = count[first]++;
    if (number == list.size())
      list.emplace_back();
    list[number].push_back({op, home.offset});
  }
  for (auto &[bucket, list] : rounds) {
    Operation *last = nullptr;
    for (Round &round : list)
      if (failed(scatterRound(bucket, round, last, notes)))
        return failure();
  }
  for (AccumulateGradOp op : done)
    op.erase();
  return success();
}

LogicalResult ProgramSharding::run(SmallVectorImpl<CollectiveNote> &notes) {
  if (!program.getBody().hasOneBlock())
    return program.emitOpError("needs a body of one block to be sharded");
  exchangeRows(notes);
  findPhases();
  gather(notes);
  return scatter(notes);
}
