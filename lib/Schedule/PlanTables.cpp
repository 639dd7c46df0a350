//===- PlanTables.cpp - Arenas, buffers and views of a module -------------===//
//
// From the attributes of the memory stage to ops of the plan dialect.
//
//===----------------------------------------------------------------------===//

#include "lib/Schedule/PlanTables.h"

#include <map>

using namespace mlir;
using namespace qwen;
using plan::MemoryClass;

/// The classes of storages have the numbers of the storage roles.
static constexpr unsigned numRoles = 5;
static_assert(static_cast<unsigned>(MemoryClass::Master) + 1 == numRoles);

/// An entry of the place of a parameter or bucket.
static std::optional<int64_t> placeEntry(Operation *op, StringRef name) {
  auto place = op->getAttrOfType<DictionaryAttr>("qwen.place");
  auto entry = place ? place.getAs<IntegerAttr>(name) : IntegerAttr();
  if (!entry)
    return std::nullopt;
  return entry.getInt();
}

/// Element type of one of a parameter's tensors.
static Type elementType(ParameterOp parameter, unsigned role) {
  if (role == 0)
    return cast<RankedTensorType>(parameter.getType()).getElementType();
  auto place = parameter->getAttrOfType<DictionaryAttr>("qwen.place");
  std::string name =
      (plan::stringifyMemoryClass(static_cast<MemoryClass>(role)) + "_type")
          .str();
  return cast<TypeAttr>(place.get(name)).getValue();
}

static int64_t parameterBytes(ParameterOp parameter, unsigned role) {
  return cast<RankedTensorType>(parameter.getType()).getNumElements() *
         (elementType(parameter, role).getIntOrFloatBitWidth() / 8);
}

Value PlanTables::buffer(MemoryClass holds, int64_t offset, int64_t size) {
  return plan::BufferOp::create(
      builder, module.getLoc(), plan::PlanBufferType::get(builder.getContext()),
      FlatSymbolRefAttr::get(builder.getContext(),
                             plan::stringifyMemoryClass(holds)),
      builder.getI64IntegerAttr(offset), builder.getI64IntegerAttr(size),
      FlatSymbolRefAttr(), IntegerAttr(), IntegerAttr());
}

Value PlanTables::view(Value buffer, int64_t offset, MemRefType type) {
  Value &known = views[{{buffer, offset}, type}];
  if (!known)
    known = plan::ViewOp::create(builder, module.getLoc(), type, buffer,
                                 builder.getI64IntegerAttr(offset));
  return known;
}

LogicalResult PlanTables::createArenas() {
  auto sizes = module->getAttrOfType<DictionaryAttr>("qwen.memory");
  if (!sizes)
    return module.emitError("the module has no attribute qwen.memory; run "
                            "qwen-assign-offsets first");
  for (unsigned i = 0; i <= plan::getMaxEnumValForMemoryClass(); ++i) {
    auto holds = static_cast<MemoryClass>(i);
    StringRef name = plan::stringifyMemoryClass(holds);
    auto size = sizes.getAs<IntegerAttr>(name);
    if (!size || size.getInt() == 0)
      continue;
    plan::ArenaOp::create(builder, module.getLoc(), name, holds, size.getInt());
    if (holds == MemoryClass::Workspace)
      plan::WorkspaceOp::create(builder, module.getLoc(),
                                buffer(holds, 0, size.getInt()));
  }
  return success();
}

LogicalResult PlanTables::createParameterBuffers() {
  // stack -> first offset and end, by role
  std::map<std::pair<unsigned, int64_t>, std::pair<int64_t, int64_t>> extents;
  for (auto parameter : module.getOps<ParameterOp>()) {
    parameters[parameter.getSymName()] = parameter;
    std::optional<int64_t> stack = placeEntry(parameter, "stack");
    if (!stack || !placeEntry(parameter, "stack_index"))
      return parameter.emitOpError(
          "has no place; run qwen-assign-offsets first");
    for (unsigned role = 0; role < numRoles; ++role) {
      auto name = plan::stringifyMemoryClass(static_cast<MemoryClass>(role));
      std::optional<int64_t> offset = placeEntry(parameter, name);
      if (!offset)
        continue;
      int64_t end = *offset + parameterBytes(parameter, role);
      auto [entry, isNew] = extents.try_emplace({role, *stack}, *offset, end);
      entry->second.first = std::min(entry->second.first, *offset);
      entry->second.second = std::max(entry->second.second, end);
    }
  }
  for (auto &[key, extent] : extents)
    stackBuffers[key] = {buffer(static_cast<MemoryClass>(key.first),
                                extent.first, extent.second - extent.first),
                         extent.first};
  return success();
}

LogicalResult PlanTables::createBucketViews() {
  for (auto bucket : module.getOps<BucketOp>()) {
    auto place = bucket->getAttrOfType<DictionaryAttr>("qwen.place");
    if (!place)
      return bucket.emitOpError("has no place; run qwen-assign-offsets first");
    int64_t elements =
        cast<RankedTensorType>(bucket.getType()).getNumElements() / worldSize;
    for (unsigned role = 0; role < numRoles; ++role) {
      auto holds = static_cast<MemoryClass>(role);
      StringRef name = plan::stringifyMemoryClass(holds);
      std::optional<int64_t> offset = placeEntry(bucket, name);
      if (!offset)
        continue;
      Type element =
          cast<TypeAttr>(place.get((name + "_type").str())).getValue();
      int64_t size = elements * (element.getIntOrFloatBitWidth() / 8);
      bucketViews[bucket.getSymName()][role] =
          view(buffer(holds, *offset, size), 0,
               MemRefType::get({elements}, element));
    }
  }
  return success();
}

LogicalResult PlanTables::createPersistent() {
  if (failed(createArenas()))
    return failure();
  return worldSize > 1 ? createBucketViews() : createParameterBuffers();
}

LogicalResult PlanTables::createPort(func::FuncOp program, unsigned index) {
  auto offset = program.getArgAttrOfType<IntegerAttr>(index, "qwen.offset");
  auto input = program.getArgAttrOfType<StringAttr>(index, "qwen.input");
  if (!offset)
    return program.emitOpError() << "argument #" << index
                                 << " has no place; run qwen-assign-offsets "
                                    "first";
  Value argument = program.getArgument(index);
  int64_t size = reachedBytes(argument);
  Value placed;
  if (input) {
    Value &known = inputs[input.getValue()];
    if (!known)
      known = buffer(MemoryClass::Input, offset.getInt(), size);
    placed = known;
  } else {
    placed = buffer(MemoryClass::Output, offset.getInt(), size);
  }
  places[argument] = {placed, 0};
  return success();
}

/// One buffer for all allocations of a slot, for as long as one of them lives.
void PlanTables::createSlots(func::FuncOp program) {
  struct Slot {
    int64_t offset, size, first, last;
    SmallVector<Value> allocations;
  };
  ProgramMemory memory(program);
  StreamOrder order = memory.order();
  std::map<int64_t, Slot> slots;
  for (memref::AllocOp alloc : memory.allocations()) {
    ArrayRef<Touch> touches = memory.touches(alloc);
    if (touches.empty())
      continue;
    int64_t number = cast<IntegerAttr>(alloc->getAttr("qwen.slot")).getInt();
    int64_t offset = cast<IntegerAttr>(alloc->getAttr("qwen.offset")).getInt();
    Slot now{offset,
             reachedBytes(alloc),
             touches.front().step,
             memory.lastStep(alloc, order),
             {}};
    Slot &slot = slots.try_emplace(number, now).first->second;
    slot.size = std::max(slot.size, now.size);
    slot.first = std::min(slot.first, now.first);
    slot.last = std::max(slot.last, now.last);
    slot.allocations.push_back(alloc);
  }
  for (auto &[number, slot] : slots) {
    Value placed = plan::BufferOp::create(
        builder, program.getLoc(),
        plan::PlanBufferType::get(builder.getContext()),
        FlatSymbolRefAttr::get(
            builder.getContext(),
            plan::stringifyMemoryClass(MemoryClass::Activation)),
        builder.getI64IntegerAttr(slot.offset),
        builder.getI64IntegerAttr(slot.size),
        FlatSymbolRefAttr::get(program.getSymNameAttr()),
        builder.getI64IntegerAttr(slot.first),
        builder.getI64IntegerAttr(slot.last));
    for (Value alloc : slot.allocations)
      places[alloc] = {placed, 0};
  }
}

LogicalResult PlanTables::createBuffers(func::FuncOp program) {
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (failed(createPort(program, i)))
      return failure();
  for (auto alloc : program.getOps<memref::AllocOp>())
    if (!alloc->hasAttr("qwen.slot") || !alloc->hasAttr("qwen.offset"))
      return alloc.emitOpError("has no place; run qwen-assign-offsets first");
  createSlots(program);
  for (auto storage : program.getOps<kernel::StorageOp>()) {
    unsigned role = static_cast<unsigned>(storage.getRole());
    StringRef name = cast<SymbolRefAttr>(storage.getParameters()[0])
                         .getRootReference()
                         .getValue();
    if (storage.getBucket()) {
      Value shard = bucketViews[name][role];
      if (!shard)
        return storage.emitOpError() << "has no place for '" << name << "'";
      places[storage] = {shard.getDefiningOp<plan::ViewOp>().getBuffer(), 0};
      continue;
    }
    ParameterOp parameter = parameters.lookup(name);
    std::optional<int64_t> offset;
    if (parameter)
      offset = placeEntry(parameter, stringifyStorageRole(storage.getRole()));
    if (!offset)
      return storage.emitOpError() << "has no place for '" << name << "'";
    auto [placed, base] = stackBuffers[{role, *placeEntry(parameter, "stack")}];
    places[storage] = {placed, *offset - base};
  }
  return success();
}

Value PlanTables::viewOf(Value value) {
  RootedView rooted = rootOf(value);
  auto found = places.find(rooted.root);
  if (found == places.end())
    return {};
  return view(found->second.buffer, found->second.offset + rooted.byteOffset,
              cast<MemRefType>(value.getType()));
}

Value PlanTables::parameterView(ParameterOp parameter, unsigned role) {
  auto name = plan::stringifyMemoryClass(static_cast<MemoryClass>(role));
  std::optional<int64_t> offset = placeEntry(parameter, name);
  if (!offset)
    return {};
  auto [placed, base] = stackBuffers[{role, *placeEntry(parameter, "stack")}];
  auto shape = cast<RankedTensorType>(parameter.getType()).getShape();
  return view(placed, *offset - base,
              MemRefType::get(shape, elementType(parameter, role)));
}

/// The tables of a plan for several ranks.
void PlanTables::createBuckets() {
  llvm::StringMap<std::pair<BucketOp, int64_t>> homes;
  for (auto bucket : module.getOps<BucketOp>()) {
    auto &views = bucketViews[bucket.getSymName()];
    plan::BucketOp::create(
        builder, bucket.getLoc(), bucket.getSymNameAttr(),
        builder.getI64IntegerAttr(
            cast<RankedTensorType>(bucket.getType()).getNumElements()),
        views[0], views[1], views[2], views[3], views[4]);
    for (auto [name, offset] :
         llvm::zip_equal(bucket.getParameters().getAsRange<SymbolRefAttr>(),
                         bucket.getOffsets()))
      homes[name.getRootReference().getValue()] = {bucket, offset};
  }
  for (auto [i, parameter] : llvm::enumerate(module.getOps<ParameterOp>())) {
    auto [bucket, offset] = homes.lookup(parameter.getSymName());
    plan::ParameterOp::create(
        builder, parameter.getLoc(), parameter.getSymNameAttr(),
        /*stack=*/builder.getI64IntegerAttr(i),
        /*stack_index=*/builder.getI64IntegerAttr(0), parameter.getInitAttr(),
        parameter.getStdAttr(), parameter.getDecayAttr(),
        bucket.getSymNameAttr(), builder.getI64IntegerAttr(offset),
        parameter.getTypeAttr(), Value(), Value(), Value(), Value(), Value());
  }
}

void PlanTables::createParameters() {
  if (worldSize > 1)
    return createBuckets();
  for (auto parameter : module.getOps<ParameterOp>()) {
    Value tensors[numRoles];
    for (unsigned role = 0; role < numRoles; ++role)
      tensors[role] = parameterView(parameter, role);
    plan::ParameterOp::create(
        builder, parameter.getLoc(), parameter.getSymNameAttr(),
        builder.getI64IntegerAttr(*placeEntry(parameter, "stack")),
        builder.getI64IntegerAttr(*placeEntry(parameter, "stack_index")),
        parameter.getInitAttr(), parameter.getStdAttr(),
        parameter.getDecayAttr(), /*bucket=*/StringAttr(),
        /*bucket_offset=*/IntegerAttr(), /*type=*/TypeAttr(), tensors[0],
        tensors[1], tensors[2], tensors[3], tensors[4]);
  }
}
