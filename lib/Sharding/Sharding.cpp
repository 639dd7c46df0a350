//===- Sharding.cpp - Spread parameters over ranks ------------------------===//

#include "qwen/Plan/Sharding.h"
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/ProgramSharding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_SHARDINGPASS
#include "lib/Sharding/Passes.h.inc"

namespace {

/// "call @gdn_layer_forward" or the op's name: what is about to run.
std::string describe(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return "call @" + call.getCallee().str();
  return op->getName().getStringRef().str();
}

struct ShardingPass : impl::ShardingPassBase<ShardingPass> {
  using ShardingPassBase::ShardingPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions(module)))
      return signalPassFailure();
    Type gradient;
    if (gradType == "bf16")
      gradient = BFloat16Type::get(module.getContext());
    FailureOr<ShardingUnits> units =
        ShardingUnits::create(module, worldSize, gradient);
    if (failed(units))
      return signalPassFailure();
    ShardingOptions options{worldSize, prefetch, reshardAfterForward,
                            *parseExchange(embeddingExchange)};
    SmallVector<CollectiveNote> notes;
    for (func::FuncOp program : shardedPrograms(module))
      if (failed(ProgramSharding(program, *units, options).run(notes)))
        return signalPassFailure();
    for (const CollectiveNote &note : notes)
      ++*statisticOf(note.kind);
    module->setAttr("qwen.world_size",
                    OpBuilder(module).getI64IntegerAttr(worldSize));
    if (remarks)
      report(*units, notes);
  }

private:
  static std::optional<EmbeddingExchange> parseExchange(StringRef text) {
    return llvm::StringSwitch<std::optional<EmbeddingExchange>>(text)
        .Case("auto", EmbeddingExchange::Auto)
        .Case("rows", EmbeddingExchange::Rows)
        .Case("table", EmbeddingExchange::Table)
        .Default(std::nullopt);
  }

  Statistic *statisticOf(CollectiveNote::Kind kind) {
    switch (kind) {
    case CollectiveNote::Gather:
      return &numGathers;
    case CollectiveNote::Scatter:
      return &numScatters;
    case CollectiveNote::Rows:
    case CollectiveNote::RowGradients:
      return &numExchanges;
    }
    llvm_unreachable("unknown kind of collective");
  }

  LogicalResult checkOptions(ModuleOp module) {
    if (worldSize < 2 || worldSize > maxWorldSize)
      return module.emitError("option world-size should be between 2 and ")
             << maxWorldSize << ", found " << int64_t(worldSize);
    if (prefetch < 0)
      return module.emitError("option prefetch should be at least 0, found ")
             << int64_t(prefetch);
    if (gradType != "f32" && gradType != "bf16")
      return module.emitError("option grad-type should be f32 or bf16, found ")
             << gradType;
    if (!parseExchange(embeddingExchange))
      return module.emitError("option embedding-exchange should be auto, rows "
                              "or table, found ")
             << embeddingExchange;
    return success();
  }

  /// One remark a unit with a note for each gather and scatter.
  void report(const ShardingUnits &units, ArrayRef<CollectiveNote> notes) {
    for (auto [number, unit] : llvm::enumerate(units.units())) {
      BucketOp first = units.bucket(unit.buckets.front());
      InFlightDiagnostic remark = first.emitRemark() << "unit " << unit.name;
      for (int64_t bucket : unit.buckets) {
        BucketOp op = units.bucket(bucket);
        int64_t elements =
            cast<RankedTensorType>(op.getType()).getNumElements();
        remark << ", bucket " << op.getSymName() << " of " << elements
               << " elements, " << elements / worldSize << " on each rank";
      }
      for (const CollectiveNote &note : notes)
        if (note.unit == static_cast<int64_t>(number))
          attach(remark, note);
    }
  }

  void attach(InFlightDiagnostic &remark, const CollectiveNote &note) {
    func::FuncOp program = note.program;
    Diagnostic &text = remark.attachNote(note.op->getLoc());
    text << "@" << program.getSymName();
    switch (note.kind) {
    case CollectiveNote::Gather:
      text << " gathers " << note.bytes << " bytes before " << describe(note.op)
           << ", " << note.ahead
           << (note.ahead == 1 ? " unit ahead" : " units ahead");
      break;
    case CollectiveNote::Scatter:
      text << " scatters " << note.bytes
           << " bytes after the last of their gradients";
      break;
    case CollectiveNote::Rows:
      text << " looks up the rows of all ranks' tokens, scatters " << note.bytes
           << " bytes";
      break;
    case CollectiveNote::RowGradients:
      text << " gathers " << note.bytes
           << " bytes, the gradients of all ranks' rows";
      break;
    }
  }
};

} // namespace
} // namespace qwen
