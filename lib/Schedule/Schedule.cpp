//===- Schedule.cpp - Programs with places become the plan dialect --------===//
//
// Builds the tables, then moves the launches of each program in order.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "lib/Schedule/Passes.h"
#include "lib/Schedule/PlanTables.h"

namespace qwen {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "lib/Schedule/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;
using kernel::KernelOpInterface;

namespace {

class SchedulePass : public qwen::impl::SchedulePassBase<SchedulePass> {
public:
  using SchedulePassBase::SchedulePassBase;
  void runOnOperation() override;

private:
  LogicalResult createHeader(OpBuilder &builder);
  LogicalResult createProgram(func::FuncOp program, PlanTables &tables);
  LogicalResult moveLaunches(func::FuncOp program, PlanTables &tables,
                             plan::ProgramOp target);
};

LogicalResult SchedulePass::createHeader(OpBuilder &builder) {
  ModuleOp module = getOperation();
  auto tokens = module->getAttrOfType<IntegerAttr>("qwen.tokens");
  auto documents = module->getAttrOfType<IntegerAttr>("qwen.max_documents");
  auto model = module->getAttrOfType<DictionaryAttr>("qwen.model");
  auto vocabulary =
      model ? model.getAs<IntegerAttr>("vocab_size") : IntegerAttr();
  if (!tokens || !documents || !vocabulary)
    return module.emitError(
        "the module needs the attributes qwen.tokens, "
        "qwen.max_documents and qwen.model with vocab_size");
  StringRef planTarget = target;
  SmallVector<kernel::BinaryOp> binaries(module.getOps<kernel::BinaryOp>());
  if (binaries.size() > 1)
    return binaries[1].emitOpError("is the second one; a plan has one");
  if (!binaries.empty())
    planTarget = binaries.front().getTarget();
  SmallVector<NamedAttribute> facts;
  DictionaryAttr flops;
  for (NamedAttribute fact : model)
    if (fact.getName() == "flops")
      flops = dyn_cast<DictionaryAttr>(fact.getValue());
    else
      facts.push_back(fact);
  auto ranks = module->getAttrOfType<IntegerAttr>("qwen.world_size");
  IntegerAttr worldSize = ranks ? ranks : builder.getI64IntegerAttr(1);
  plan::HeaderOp::create(builder, module.getLoc(),
                         builder.getStringAttr(planTarget), tokens, documents,
                         vocabulary, builder.getDictionaryAttr(facts), flops,
                         worldSize);
  return success();
}

LogicalResult SchedulePass::moveLaunches(func::FuncOp program,
                                         PlanTables &tables,
                                         plan::ProgramOp target) {
  Block &body = target.getBody().front();
  SmallVector<KernelOpInterface> launches(
      program.getBody().front().getOps<KernelOpInterface>());
  for (KernelOpInterface launch : launches) {
    for (OpOperand &operand : launch->getOpOperands()) {
      Value view = tables.viewOf(operand.get());
      if (!view)
        return launch.emitOpError()
               << "operand #" << operand.getOperandNumber() << " has no place";
      operand.set(view);
    }
    launch->removeAttr("qwen.call");
    launch->removeAttr("qwen.callee");
    launch->moveBefore(&body, body.end());
    ++numLaunches;
  }
  return success();
}

LogicalResult SchedulePass::createProgram(func::FuncOp program,
                                          PlanTables &tables) {
  SmallVector<Attribute> names[2];
  SmallVector<Value> views[2];
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    auto input = program.getArgAttrOfType<StringAttr>(i, "qwen.input");
    auto output = program.getArgAttrOfType<StringAttr>(i, "qwen.output");
    if (!input == !output)
      return program.emitOpError() << "argument #" << i
                                   << " must be named by qwen.input or by "
                                      "qwen.output";
    names[input ? 0 : 1].push_back(input ? input : output);
    views[input ? 0 : 1].push_back(tables.viewOf(program.getArgument(i)));
  }
  OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
  auto target = plan::ProgramOp::create(
      builder, program.getLoc(), program.getSymName(),
      builder.getArrayAttr(names[0]), builder.getArrayAttr(names[1]), views[0],
      views[1]);
  target.getBody().emplaceBlock();
  return moveLaunches(program, tables, target);
}

void SchedulePass::runOnOperation() {
  ModuleOp module = getOperation();
  SmallVector<func::FuncOp> programs = programsOf(module);
  // Tables go before everything else, in the order of the schema.
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToStart(module.getBody());
  PlanTables tables(module, builder);
  if (failed(createHeader(builder)) || failed(tables.createPersistent()))
    return signalPassFailure();
  for (func::FuncOp program : programs)
    if (failed(tables.createBuffers(program)))
      return signalPassFailure();
  tables.createParameters();
  for (func::FuncOp program : programs)
    if (failed(createProgram(program, tables)))
      return signalPassFailure();
  for (func::FuncOp program : programs)
    program.erase();
  for (auto parameter :
       llvm::make_early_inc_range(module.getOps<ParameterOp>()))
    parameter.erase();
  for (auto bucket : llvm::make_early_inc_range(module.getOps<BucketOp>()))
    bucket.erase();
  for (StringRef name : {"qwen.memory", "qwen.tokens", "qwen.max_documents",
                         "qwen.model", "qwen.world_size"})
    module->removeAttr(name);
}

} // namespace
