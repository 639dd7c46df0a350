//===- PersistentMemory.cpp - Places that outlive a program ---------------===//
//
// Parameters keep their order; a stack stands where its first member stands.
// With several ranks, shards of buckets take the place of parameters.
//
//===----------------------------------------------------------------------===//

#include "lib/Memory/PersistentMemory.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Memory/ProgramMemory.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace qwen;
using kernel::StorageOp;

namespace {

/// What the programs say about one parameter.
struct ParameterFacts {
  ParameterOp op;
  ArrayAttr stack;      // the storage's names where there are several
  Type element[5] = {}; // by storage role; null: no such storage
  int64_t stackNumber = 0, stackIndex = 0;
};

class ParameterPlacer {
public:
  explicit ParameterPlacer(ModuleOp module) : module(module) {}
  LogicalResult run(ClassSizes &sizes);

private:
  LogicalResult readStorage(StorageOp storage);
  LogicalResult checkStorage(StorageOp storage);
  LogicalResult numberStacks();
  void place(ClassSizes &sizes);
  int64_t elements(ParameterFacts &facts) {
    return cast<RankedTensorType>(facts.op.getType()).getNumElements();
  }

  ModuleOp module;
  llvm::MapVector<StringRef, ParameterFacts> parameters;
  /// Members of each stack, single parameters included, in layout order.
  SmallVector<SmallVector<ParameterFacts *>> stacks;
};

LogicalResult ParameterPlacer::checkStorage(StorageOp storage) {
  auto memref = cast<MemRefType>(storage.getBuffer().getType());
  int64_t total = 0;
  for (auto name : storage.getParameters().getAsRange<SymbolRefAttr>()) {
    auto found = parameters.find(name.getRootReference().getValue());
    if (found == parameters.end())
      return storage.emitOpError()
             << "names " << name << ", which is no qwen.parameter";
    total += elements(found->second);
  }
  if (!memref.getLayout().isIdentity() || memref.getNumElements() != total)
    return storage.emitOpError()
           << "must be a contiguous memref of the " << total
           << " elements of its parameters, but is " << memref;
  return success();
}

LogicalResult ParameterPlacer::readStorage(StorageOp storage) {
  if (failed(checkStorage(storage)))
    return failure();
  Type element =
      cast<MemRefType>(storage.getBuffer().getType()).getElementType();
  unsigned role = static_cast<unsigned>(storage.getRole());
  ArrayAttr names = storage.getParameters();
  for (auto name : names.getAsRange<SymbolRefAttr>()) {
    ParameterFacts &facts =
        parameters.find(name.getRootReference().getValue())->second;
    if (names.size() > 1) {
      if (facts.stack && facts.stack != names)
        return storage.emitOpError()
               << "stacks " << name << ", which is also part of the stack "
               << facts.stack;
      facts.stack = names;
    }
    Type &known = facts.element[role];
    if (known && known != element)
      return storage.emitOpError() << "has element type " << element << " for "
                                   << name << ", elsewhere " << known;
    known = element;
  }
  return success();
}

LogicalResult ParameterPlacer::numberStacks() {
  llvm::DenseSet<ParameterFacts *> done;
  for (auto &[name, facts] : parameters) {
    if (done.contains(&facts))
      continue;
    SmallVector<ParameterFacts *> members;
    if (facts.stack)
      for (auto member : facts.stack.getAsRange<SymbolRefAttr>())
        members.push_back(
            &parameters.find(member.getRootReference().getValue())->second);
    else
      members.push_back(&facts);
    for (auto [index, member] : llvm::enumerate(members)) {
      if (!done.insert(member).second || member->stack != facts.stack)
        return member->op.emitOpError()
               << "stands twice in the stack " << facts.stack;
      member->stackNumber = stacks.size();
      member->stackIndex = index;
      for (unsigned role = 0; role < 5; ++role)
        if (member->element[role] != members.front()->element[role])
          return member->op.emitOpError()
                 << "has other "
                 << stringifyStorageRole(static_cast<kernel::StorageRole>(role))
                 << " storage than its stack " << facts.stack;
    }
    stacks.push_back(members);
  }
  return success();
}

void ParameterPlacer::place(ClassSizes &sizes) {
  llvm::DenseMap<ParameterFacts *, SmallVector<NamedAttribute>> places;
  Builder builder(module.getContext());
  for (unsigned role = 0; role < 5; ++role) {
    StringRef name =
        stringifyStorageRole(static_cast<kernel::StorageRole>(role));
    int64_t offset = 0;
    for (SmallVector<ParameterFacts *> &members : stacks) {
      offset = alignBytes(offset);
      for (ParameterFacts *facts : members) {
        if (!facts->element[role])
          continue;
        places[facts].push_back(
            builder.getNamedAttr(name, builder.getI64IntegerAttr(offset)));
        offset += elements(*facts) *
                  (facts->element[role].getIntOrFloatBitWidth() / 8);
      }
    }
    sizes[name] = alignBytes(offset);
  }
  for (auto &[name, facts] : parameters) {
    SmallVector<NamedAttribute> &place = places[&facts];
    place.push_back(builder.getNamedAttr(
        "stack", builder.getI64IntegerAttr(facts.stackNumber)));
    place.push_back(builder.getNamedAttr(
        "stack_index", builder.getI64IntegerAttr(facts.stackIndex)));
    for (unsigned role = 1; role < 5; ++role)
      if (facts.element[role])
        place.push_back(builder.getNamedAttr(
            (stringifyStorageRole(static_cast<kernel::StorageRole>(role)) +
             "_type")
                .str(),
            TypeAttr::get(facts.element[role])));
    facts.op->setAttr("qwen.place", builder.getDictionaryAttr(place));
  }
}

LogicalResult ParameterPlacer::run(ClassSizes &sizes) {
  for (auto op : module.getOps<ParameterOp>()) {
    ParameterFacts &facts = parameters[op.getSymName()];
    facts.op = op;
    // A parameter that no program reads still has a value in the checkpoint.
    facts.element[0] = cast<RankedTensorType>(op.getType()).getElementType();
  }
  for (func::FuncOp program : programsOf(module))
    for (auto storage : program.getOps<StorageOp>())
      if (failed(readStorage(storage)))
        return failure();
  if (failed(numberStacks()))
    return failure();
  place(sizes);
  return success();
}

/// Places the shards of buckets, which are all that a rank holds of the
/// parameters.
class BucketPlacer {
public:
  explicit BucketPlacer(ModuleOp module) : module(module) {}
  LogicalResult run(int64_t worldSize, ClassSizes &sizes);

private:
  struct Facts {
    int64_t elements = 0;
    Type element[5] = {}; // by storage role; null: no such storage
  };
  LogicalResult readStorage(StorageOp storage);

  ModuleOp module;
  llvm::MapVector<StringRef, Facts> buckets;
};

LogicalResult BucketPlacer::readStorage(StorageOp storage) {
  auto memref = cast<MemRefType>(storage.getBuffer().getType());
  auto name = cast<SymbolRefAttr>(storage.getParameters()[0]);
  auto found = buckets.find(name.getRootReference().getValue());
  if (!storage.getBucket() || found == buckets.end())
    return storage.emitOpError()
           << "names " << name << ", which is no qwen.bucket";
  Facts &facts = found->second;
  if (memref != MemRefType::get({facts.elements}, memref.getElementType()))
    return storage.emitOpError() << "must be a shard of " << facts.elements
                                 << " elements, but is " << memref;
  Type &known = facts.element[static_cast<unsigned>(storage.getRole())];
  if (known && known != memref.getElementType())
    return storage.emitOpError()
           << "has element type " << memref.getElementType() << " for " << name
           << ", elsewhere " << known;
  known = memref.getElementType();
  return success();
}

LogicalResult BucketPlacer::run(int64_t worldSize, ClassSizes &sizes) {
  for (auto bucket : module.getOps<BucketOp>()) {
    auto type = cast<RankedTensorType>(bucket.getType());
    Facts &facts = buckets[bucket.getSymName()];
    facts.elements = type.getNumElements() / worldSize;
    // A bucket that no program reads still has values in the checkpoint.
    facts.element[0] = type.getElementType();
  }
  for (func::FuncOp program : programsOf(module))
    for (auto storage : program.getOps<StorageOp>())
      if (failed(readStorage(storage)))
        return failure();
  Builder builder(module.getContext());
  int64_t offsets[5] = {};
  for (auto bucket : module.getOps<BucketOp>()) {
    const Facts &facts = buckets[bucket.getSymName()];
    SmallVector<NamedAttribute> place;
    for (unsigned role = 0; role < 5; ++role) {
      if (!facts.element[role])
        continue;
      StringRef name =
          stringifyStorageRole(static_cast<kernel::StorageRole>(role));
      place.push_back(
          builder.getNamedAttr(name, builder.getI64IntegerAttr(offsets[role])));
      place.push_back(builder.getNamedAttr((name + "_type").str(),
                                           TypeAttr::get(facts.element[role])));
      offsets[role] += alignBytes(
          facts.elements * (facts.element[role].getIntOrFloatBitWidth() / 8));
    }
    bucket->setAttr("qwen.place", builder.getDictionaryAttr(place));
  }
  for (unsigned role = 0; role < 5; ++role)
    sizes[stringifyStorageRole(static_cast<kernel::StorageRole>(role))] =
        offsets[role];
  return success();
}

/// The place of a named input or output.
struct Port {
  Type type;
  int64_t offset;
};

LogicalResult placePort(func::FuncOp program, unsigned index,
                        llvm::StringMap<Port> &inputs, ClassSizes &sizes) {
  auto type = dyn_cast<MemRefType>(program.getArgumentTypes()[index]);
  auto input = program.getArgAttrOfType<StringAttr>(index, "qwen.input");
  auto output = program.getArgAttrOfType<StringAttr>(index, "qwen.output");
  if (!input == !output)
    return program.emitOpError() << "argument #" << index
                                 << " must be named by qwen.input or by "
                                    "qwen.output";
  if (!type || !type.hasStaticShape() || !type.getLayout().isIdentity())
    return program.emitOpError()
           << "argument #" << index << " must be a static contiguous memref";
  int64_t &size = sizes[input ? "input" : "output"];
  int64_t bytes = alignBytes(reachedBytes(program.getArgument(index)));
  Port port{type, size};
  if (input) {
    auto [known, isNew] = inputs.try_emplace(input.getValue(), port);
    if (!isNew && known->second.type != type)
      return program.emitOpError()
             << "input '" << input.getValue() << "' is " << type
             << ", in another program " << known->second.type;
    port = known->second;
    if (!isNew)
      bytes = 0;
  }
  size += bytes;
  program.setArgAttr(
      index, "qwen.offset",
      IntegerAttr::get(IntegerType::get(program.getContext(), 64),
                       port.offset));
  return success();
}

} // namespace

LogicalResult qwen::placeParameters(ModuleOp module, ClassSizes &sizes) {
  if (auto ranks = module->getAttrOfType<IntegerAttr>("qwen.world_size"))
    return BucketPlacer(module).run(ranks.getInt(), sizes);
  return ParameterPlacer(module).run(sizes);
}

LogicalResult qwen::placePorts(ModuleOp module, ClassSizes &sizes) {
  llvm::StringMap<Port> inputs;
  sizes["input"] = sizes["output"] = 0;
  for (func::FuncOp program : programsOf(module))
    for (unsigned i = 0; i < program.getNumArguments(); ++i)
      if (failed(placePort(program, i, inputs, sizes)))
        return failure();
  return success();
}
