//===- PlanSlots.cpp - Mutations of a plan's numbers ----------------------===//
//
// Tags of unions stay: a table of another kind may be broken in structure,
// which is what mutations of bytes are for.
//
//===----------------------------------------------------------------------===//

#include "PlanSlots.h"
#include "plan_bfbs_generated.h"

#include <flatbuffers/reflection.h>

#include <cstring>
#include <map>

using namespace qwen;
using namespace qwen::fuzz;
using reflection::BaseType;

namespace {

/// Where a number stands.
struct Slot {
  uint8_t *address;
  BaseType type;
};

/// All numbers of a buffer by the field that they belong to.
class Slots {
public:
  explicit Slots(std::span<uint8_t> body)
      : left(16 * body.size()),
        schema(*reflection::GetSchema(plan::PlanBinarySchema::data())) {
    addTable(*schema.root_table(),
             flatbuffers::GetMutableRoot<flatbuffers::Table>(body.data()));
  }

  std::map<const reflection::Field *, std::vector<Slot>> fields;

  /// Whether the walk ended early: parts are shared too often.
  bool isCut() const { return cut; }

private:
  /// Whether a part may be walked, once more perhaps.
  bool spend(size_t bytes) {
    cut |= bytes > left;
    left -= cut ? 0 : bytes;
    return !cut;
  }

  const reflection::Object &object(const reflection::Type &type) {
    return *schema.objects()->Get(static_cast<uint32_t>(type.index()));
  }

  void addTable(const reflection::Object &kind, flatbuffers::Table *table) {
    if (!spend(sizeof(flatbuffers::soffset_t)))
      return;
    for (const reflection::Field *field : *kind.fields()) {
      auto offset = table->GetOptionalFieldOffset(field->offset());
      if (offset)
        addField(*field, table, reinterpret_cast<uint8_t *>(table) + offset);
    }
  }

  void addField(const reflection::Field &field, flatbuffers::Table *table,
                uint8_t *address) {
    const reflection::Type &type = *field.type();
    switch (type.base_type()) {
    case BaseType::UType:
      return;
    case BaseType::String:
      spend(stringBytes(target(address)));
      return;
    case BaseType::Obj:
      return addTable(object(type), target(address));
    case BaseType::Union: {
      // The tag is the field before.
      auto tag = table->GetField<uint8_t>(
          static_cast<flatbuffers::voffset_t>(field.offset() - 2), 0);
      for (const reflection::EnumVal *value :
           *schema.enums()->Get(static_cast<uint32_t>(type.index()))->values())
        if (value->value() == tag && tag != 0)
          addTable(object(*value->union_type()), target(address));
      return;
    }
    case BaseType::Vector:
      return addVector(field, address);
    default:
      fields[&field].push_back({address, type.base_type()});
    }
  }

  static flatbuffers::Table *target(uint8_t *address) {
    return reinterpret_cast<flatbuffers::Table *>(
        address + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(address));
  }

  /// With the bytes of its length.
  static size_t stringBytes(flatbuffers::Table *string) {
    return sizeof(flatbuffers::uoffset_t) +
           flatbuffers::ReadScalar<flatbuffers::uoffset_t>(string);
  }

  void addVector(const reflection::Field &field, uint8_t *address) {
    auto *vector = reinterpret_cast<uint8_t *>(target(address));
    auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
    BaseType element = field.type()->element();
    uint8_t *data = vector + sizeof(flatbuffers::uoffset_t);
    if (element == BaseType::String) {
      for (uint32_t i = 0; i < count && !cut; ++i)
        spend(stringBytes(target(data + i * sizeof(flatbuffers::uoffset_t))));
      return;
    }
    if (element == BaseType::Obj) {
      const reflection::Object &kind = object(*field.type());
      for (uint32_t i = 0; i < count && !cut; ++i)
        if (kind.is_struct())
          addStruct(kind, data + i * static_cast<uint32_t>(kind.bytesize()));
        else
          addTable(kind, target(data + i * sizeof(flatbuffers::uoffset_t)));
      return;
    }
    size_t size = flatbuffers::GetTypeSize(element);
    if (!spend(count * size))
      return;
    for (uint32_t i = 0; i < count; ++i)
      fields[&field].push_back({data + i * size, element});
  }

  void addStruct(const reflection::Object &kind, uint8_t *data) {
    if (!spend(static_cast<size_t>(kind.bytesize())))
      return;
    for (const reflection::Field *field : *kind.fields()) {
      const reflection::Type &type = *field->type();
      bool isArray = type.base_type() == BaseType::Array;
      BaseType element = isArray ? type.element() : type.base_type();
      for (uint32_t i = 0; i < (isArray ? type.fixed_length() : 1u); ++i)
        fields[field].push_back(
            {data + field->offset() + i * flatbuffers::GetTypeSize(element),
             element});
    }
  }

  size_t left; ///< bytes that may be walked
  bool cut = false;
  const reflection::Schema &schema;
};

template <typename T> T changedInteger(T before, T other, Random &random) {
  using Bits = std::make_unsigned_t<T>;
  constexpr unsigned width = sizeof(T) * 8;
  Bits value = static_cast<Bits>(before);
  switch (random.below(8)) {
  case 0:
    return static_cast<T>(value + 1);
  case 1:
    return static_cast<T>(value - 1);
  case 2:
  case 3:
    return other;
  case 4:
    return static_cast<T>((Bits(1) << random.below(width)) -
                          Bits(random.below(2)));
  case 5:
    return static_cast<T>(value * 2);
  case 6:
    return static_cast<T>(random.below(64));
  default:
    return static_cast<T>(~Bits(0) >> random.below(width));
  }
}

double changedDouble(double other, Random &random) {
  const double values[] = {other, 0, -1, 1e-300, 1e300, 0.5, -0.0, 1e6, 1e31};
  uint64_t choice = random.below(std::size(values) + 3);
  if (choice < std::size(values))
    return values[choice];
  double zero = 0;
  return choice % 3 == 0 ? zero / zero : choice % 3 == 1 ? 1e308 * 10 : -1e308;
}

template <typename T>
void changeAt(uint8_t *address, const uint8_t *other, Random &random) {
  T before, model;
  std::memcpy(&before, address, sizeof(T));
  std::memcpy(&model, other, sizeof(T));
  T after;
  if constexpr (std::is_integral_v<T>)
    after = changedInteger<T>(before, model, random);
  else
    after = changedDouble(model, random);
  std::memcpy(address, &after, sizeof(T));
}

void change(const Slot &slot, const Slot &other, Random &random) {
  switch (flatbuffers::GetTypeSize(slot.type)) {
  case 1:
    return changeAt<uint8_t>(slot.address, other.address, random);
  case 2:
    return changeAt<uint16_t>(slot.address, other.address, random);
  case 4:
    return changeAt<uint32_t>(slot.address, other.address, random);
  default:
    if (slot.type == BaseType::Double)
      return changeAt<double>(slot.address, other.address, random);
    return changeAt<uint64_t>(slot.address, other.address, random);
  }
}

} // namespace

bool fuzz::isPlain(std::span<uint8_t> body) {
  Slots slots(body);
  if (slots.isCut())
    return false;
  for (auto &[field, all] : slots.fields)
    for (const Slot &slot : all)
      if (reinterpret_cast<uintptr_t>(slot.address) %
              flatbuffers::GetTypeSize(slot.type) !=
          0)
        return false;
  return true;
}

void fuzz::mutateSlots(std::span<uint8_t> body, Random &random) {
  Slots slots(body);
  for (uint64_t n = random.below(4); n > 0 && !slots.fields.empty(); --n) {
    // The order of the map is that of the schema in memory.
    auto field =
        std::next(slots.fields.begin(),
                  static_cast<ptrdiff_t>(random.below(slots.fields.size())));
    const std::vector<Slot> &all = field->second;
    change(all[random.below(all.size())], all[random.below(all.size())],
           random);
  }
}
