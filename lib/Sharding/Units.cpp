//===- Units.cpp - Which parameters travel together -----------------------===//
//
// Groups parameters by the calls that use them and lays out their buckets.
//
//===----------------------------------------------------------------------===//

#include "lib/Sharding/Units.h"
#include "qwen/Plan/Buffer.h"
#include "qwen/Plan/Sharding.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace qwen;

SmallVector<func::FuncOp> qwen::shardedPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto func : module.getOps<func::FuncOp>())
    if (func->hasAttr("qwen.program"))
      programs.push_back(func);
  return programs;
}

static StringRef nameOf(Attribute parameter) {
  return cast<SymbolRefAttr>(parameter).getRootReference().getValue();
}

namespace {

/// One bucket before it is an op.
struct BucketDraft {
  Type element;
  bool isTrained;
  SmallVector<ParameterOp> parameters;
  SmallVector<int64_t> offsets;
  int64_t elements = 0;
};

/// Collects what the programs say about parameters.
class UnitFinder {
public:
  explicit UnitFinder(ModuleOp module) : module(module) {}

  LogicalResult run();
  /// Parameters of each unit in layout order, units by first parameter.
  SmallVector<SmallVector<ParameterOp>> units();
  bool isTrained(ParameterOp parameter) const {
    return trained.contains(parameter.getSymName());
  }
  /// Whether `parameter` lies right behind `before`, its stack's member.
  bool follows(ParameterOp before, ParameterOp parameter) const {
    auto found = predecessor.find(parameter.getSymName());
    return found != predecessor.end() && found->second == before.getSymName();
  }

private:
  LogicalResult noteStack(Operation *op, ArrayAttr names);
  void noteCalls(func::FuncOp program);
  void noteOthers(func::FuncOp program);

  ModuleOp module;
  llvm::StringMap<ParameterOp> parameters;
  llvm::EquivalenceClasses<StringRef> classes;
  llvm::StringSet<> inCalls, trained, placed;
  llvm::StringMap<ArrayAttr> stacks;
  llvm::StringMap<StringRef> predecessor;
  /// First parameter that is first used after that many calls.
  llvm::DenseMap<int64_t, StringRef> between;
};

LogicalResult UnitFinder::noteStack(Operation *op, ArrayAttr names) {
  if (!op->getParentOp()->hasAttr("qwen.program"))
    return op->emitOpError("stands in a function that is no program; only "
                           "programs can be sharded");
  StringRef first = nameOf(names[0]);
  for (auto [i, name] : llvm::enumerate(names)) {
    classes.unionSets(first, nameOf(name));
    if (names.size() > 1)
      stacks[nameOf(name)] = names;
    if (i > 0)
      predecessor[nameOf(name)] = nameOf(names[i - 1]);
    if (isa<AccumulateGradOp>(op))
      trained.insert(nameOf(name));
  }
  return success();
}

/// All parameters that a call gets are one unit.
void UnitFinder::noteCalls(func::FuncOp program) {
  for (auto call : program.getOps<func::CallOp>()) {
    StringRef first;
    for (Value operand : call.getOperands())
      if (auto get = operand.getDefiningOp<GetParameterOp>())
        for (Attribute name : get.getParameters()) {
          if (first.empty())
            first = nameOf(name);
          classes.unionSets(first, nameOf(name));
          inCalls.insert(nameOf(name));
        }
  }
}

/// The others by the number of calls before their first use.
void UnitFinder::noteOthers(func::FuncOp program) {
  int64_t calls = 0;
  for (Operation &op : program.getBody().front()) {
    bool isUnit = false;
    for (Value operand : op.getOperands()) {
      auto get = operand.getDefiningOp<GetParameterOp>();
      if (!get)
        continue;
      for (Attribute attribute : get.getParameters()) {
        StringRef name = nameOf(attribute);
        if (inCalls.contains(name)) {
          isUnit = true;
          continue;
        }
        if (!placed.insert(name).second)
          continue;
        auto [entry, isNew] = between.try_emplace(calls, name);
        classes.unionSets(entry->second, name);
      }
    }
    calls += isUnit;
  }
}

LogicalResult UnitFinder::run() {
  for (auto parameter : module.getOps<ParameterOp>()) {
    parameters[parameter.getSymName()] = parameter;
    classes.insert(parameter.getSymName());
  }
  WalkResult result = module.walk([&](Operation *op) {
    LogicalResult status = success();
    if (auto get = dyn_cast<GetParameterOp>(op))
      status = noteStack(op, get.getParameters());
    else if (auto accumulate = dyn_cast<AccumulateGradOp>(op))
      status = noteStack(op, accumulate.getParameters());
    return succeeded(status) ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  for (func::FuncOp program : shardedPrograms(module))
    noteCalls(program);
  for (func::FuncOp program : shardedPrograms(module))
    noteOthers(program);
  return success();
}

SmallVector<SmallVector<ParameterOp>> UnitFinder::units() {
  llvm::MapVector<StringRef, SmallVector<ParameterOp>> found;
  llvm::StringSet<> done;
  for (auto parameter : module.getOps<ParameterOp>()) {
    StringRef name = parameter.getSymName();
    auto &unit = found[classes.getLeaderValue(name)];
    auto add = [&](StringRef member) {
      if (done.insert(member).second)
        unit.push_back(parameters.lookup(member));
    };
    // A stack stands where its first member stands.
    if (ArrayAttr stack =
            done.contains(name) ? ArrayAttr() : stacks.lookup(name))
      for (Attribute member : stack)
        add(nameOf(member));
    add(name);
  }
  SmallVector<SmallVector<ParameterOp>> result;
  for (auto &[leader, unit] : found)
    result.push_back(std::move(unit));
  return result;
}

/// "model.layers.3" of "model.layers.3.mlp.up" and "model.layers.3.norm"; what
/// is before the last dot of the first name where nothing is common.
std::string unitName(ArrayRef<ParameterOp> unit) {
  StringRef first = ParameterOp(unit.front()).getSymName().rsplit('.').first;
  StringRef common = first;
  auto covers = [](StringRef name, StringRef prefix) {
    return name.starts_with(prefix) &&
           name.drop_front(prefix.size()).starts_with(".");
  };
  for (ParameterOp parameter : unit)
    while (!common.empty() && !covers(parameter.getSymName(), common))
      common = common.contains('.') ? common.rsplit('.').first : StringRef();
  return (common.empty() ? first : common).str();
}

std::string typeName(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

SmallVector<BucketDraft> draftBuckets(const UnitFinder &finder,
                                      ArrayRef<ParameterOp> unit,
                                      int64_t worldSize) {
  SmallVector<BucketDraft> drafts;
  for (ParameterOp parameter : unit) {
    auto type = cast<RankedTensorType>(parameter.getType());
    bool isTrained = finder.isTrained(parameter);
    auto *draft = llvm::find_if(drafts, [&](BucketDraft &other) {
      return other.element == type.getElementType() &&
             other.isTrained == isTrained;
    });
    if (draft == drafts.end())
      draft = &drafts.emplace_back(
          BucketDraft{type.getElementType(), isTrained, {}, {}});
    bool inStack = !draft->parameters.empty() &&
                   finder.follows(draft->parameters.back(), parameter);
    if (!inStack)
      draft->elements = paddedElements(draft->elements, bucketAlignment);
    draft->parameters.push_back(parameter);
    draft->offsets.push_back(draft->elements);
    draft->elements += type.getNumElements();
  }
  for (BucketDraft &draft : drafts)
    draft.elements =
        paddedElements(draft.elements, bucketAlignment * worldSize);
  return drafts;
}

} // namespace

const ParameterHome &ShardingUnits::home(Attribute parameter) const {
  return homes.find(nameOf(parameter))->second;
}

FailureOr<ShardingUnits>
ShardingUnits::create(ModuleOp module, int64_t worldSize, Type gradient) {
  UnitFinder finder(module);
  if (failed(finder.run()))
    return failure();
  SymbolTable symbols(module);
  ShardingUnits result;
  Operation *last = nullptr;
  for (auto parameter : module.getOps<ParameterOp>())
    last = parameter;
  if (!last)
    return module.emitError("has no qwen.parameter to shard");
  OpBuilder builder(module.getContext());
  builder.setInsertionPointAfter(last);
  for (ArrayRef<ParameterOp> members : finder.units()) {
    ShardingUnit &unit = result.unitList.emplace_back();
    unit.name = unitName(members);
    for (BucketDraft &draft : draftBuckets(finder, members, worldSize)) {
      if (draft.elements > maxDimension)
        return draft.parameters.front().emitOpError()
               << "is in a unit of " << draft.elements
               << " elements, more than the " << maxDimension
               << " that can be gathered at once";
      std::string name = unit.name + "." + typeName(draft.element) +
                         (draft.isTrained ? "" : ".frozen");
      for (int64_t n = 2; symbols.lookup(name); ++n)
        name =
            unit.name + "." + std::to_string(n) + "." + typeName(draft.element);
      SmallVector<Attribute> names;
      for (auto [parameter, offset] :
           llvm::zip_equal(draft.parameters, draft.offsets)) {
        result.homes[parameter.getSymName()] = {
            static_cast<int64_t>(result.unitList.size()) - 1,
            static_cast<int64_t>(result.bucketList.size()), offset};
        names.push_back(FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
      }
      unit.buckets.push_back(result.bucketList.size());
      auto bucket = BucketOp::create(
          builder, draft.parameters.front().getLoc(), name,
          RankedTensorType::get({draft.elements}, draft.element),
          builder.getArrayAttr(names), draft.offsets,
          gradient && !draft.element.isF64() ? TypeAttr::get(gradient)
                                             : TypeAttr());
      symbols.insert(bucket);
      result.bucketList.push_back(bucket);
    }
  }
  return result;
}
