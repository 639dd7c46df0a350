//===- PlanMutator.cpp - Mutations of a plan's structure ------------------===//
//
// libFuzzer's bytes alone rarely make another sound plan. Here a plan becomes
// objects, loses, doubles or swaps some, or changes a size everywhere; then
// single numbers of the written file change (ids, sizes, offsets, strides,
// geometry, attributes). What follows from the rest (layout, forecast, operands
// of code) is put right most of the time, so that the change itself is what the
// verifier has to judge.
//
//===----------------------------------------------------------------------===//

#include "PlanObjects.h"
#include "PlanSlots.h"

#include <algorithm>
#include <cstring>
#include <span>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

using namespace qwen;

namespace {

constexpr size_t trailerBytes = 16;

size_t mutateBytes(uint8_t *data, size_t size, size_t maxSize) {
  if (size <= trailerBytes || maxSize <= trailerBytes)
    return LLVMFuzzerMutate(data, size, maxSize);
  size_t body =
      LLVMFuzzerMutate(data, size - trailerBytes, maxSize - trailerBytes);
  std::memset(data + body, 0, trailerBytes); // The target writes its own.
  return body + trailerBytes;
}

/// Whether each step has a kernel this schema knows. FlatBuffers' verifier lets
/// unknown ones pass, for readers older than a file; as objects they are none,
/// and a step without a kernel cannot be written again.
bool hasKnownKernels(const plan::Plan &plan) {
  if (!plan.programs())
    return true;
  for (const plan::Program *program : *plan.programs()) {
    if (!program->steps())
      continue;
    for (const plan::Step *step : *program->steps())
      if (step->kernel_type() == plan::Kernel::NONE ||
          step->kernel_type() > plan::Kernel::MAX)
        return false;
  }
  return true;
}

/// Whether objects can be read from a FlatBuffer and written again.
bool hasObjects(std::span<uint8_t> body) {
  flatbuffers::Verifier verifier(body.data(), body.size(), 16, 100'000);
  return body.size() > 8 && plan::VerifyPlanBuffer(verifier) &&
         fuzz::isPlain(body) && hasKnownKernels(*plan::GetPlan(body.data()));
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  fuzz::Random random(seed);
  std::vector<uint64_t> aligned(size / 8 + 1);
  std::memcpy(aligned.data(), data, size);
  auto *copy = reinterpret_cast<uint8_t *>(aligned.data());
  size_t bodyBytes = size - std::min(size, trailerBytes);
  if (random.below(16) == 0 || !hasObjects({copy, bodyBytes}))
    return mutateBytes(data, size, maxSize);

  plan::PlanT objects;
  plan::GetPlan(copy)->UnPackTo(&objects);
  for (uint64_t n = random.below(3); n > 0; --n)
    fuzz::mutateObjects(objects, random);
  if (random.below(8) != 0)
    fuzz::repair(objects, random);
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true); // else a number that is 0 has no place
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &objects));
  std::span<uint8_t> body(builder.GetBufferPointer(), builder.GetSize());
  fuzz::mutateSlots(body, random);
  if (body.size() + trailerBytes > maxSize)
    return mutateBytes(data, size, maxSize);
  std::memcpy(data, body.data(), body.size());
  std::memset(data + body.size(), 0, trailerBytes);
  return body.size() + trailerBytes;
}
