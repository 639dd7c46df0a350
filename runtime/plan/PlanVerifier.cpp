//===- PlanVerifier.cpp - Header and memory of a plan ---------------------===//
//
// Checks everything of a plan but its parameter table and its launches.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/PlanVerifier.h"
#include "qwen/Plan/KernelAbi.h"
#include "qwen/Plan/Sharding.h"
#include "runtime/plan/Plan.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <map>

using namespace qwen;

namespace {

Status checkCount(std::string_view what, uint64_t value) {
  if (value < 1 || value > uint64_t(planLimit))
    return dataLoss("{} is {}, expected 1 to {}", what, value, planLimit);
  return okStatus();
}

/// The FlatBuffers verifier does not look at the alignment of structs.
template <typename T>
Status checkAligned(std::string_view table, const flatbuffers::Vector<T> *v) {
  if (v && reinterpret_cast<uintptr_t>(v->Data()) % 8 != 0)
    return dataLoss("the table of {} is not aligned", table);
  return okStatus();
}

Status verifyArenas(const plan::Plan &plan) {
  uint64_t total = 0;
  for (size_t i = 0; i < count(plan.arenas()); ++i) {
    const plan::Arena &arena = *plan.arenas()->Get(i);
    if (arena.holds() > plan::BufferClass::MAX)
      return dataLoss("arena {}: unknown class {}", i,
                      static_cast<int>(arena.holds()));
    if (arena.size() > uint64_t(planLimit) || arena.size() % 64 != 0)
      return dataLoss("arena {}: size {}, expected a multiple of 64 up to {}",
                      i, arena.size(), planLimit);
    total += arena.size();
    if (total > uint64_t(planLimit))
      return dataLoss("arena {}: all arenas up to it have {} bytes, more than "
                      "{}",
                      i, total, planLimit);
  }
  return okStatus();
}

Status verifyBuffer(const plan::Plan &plan, size_t i) {
  const plan::Buffer &buffer = *plan.buffers()->Get(i);
  if (buffer.arena() >= count(plan.arenas()))
    return dataLoss("buffer {}: arena {}, the plan has {}", i, buffer.arena(),
                    count(plan.arenas()));
  const plan::Arena &arena = *plan.arenas()->Get(buffer.arena());
  if (buffer.size() == 0 || buffer.size() > arena.size() ||
      buffer.offset() > arena.size() - buffer.size())
    return dataLoss("buffer {}: {} bytes at {} are not inside arena {} of {} "
                    "bytes",
                    i, buffer.size(), buffer.offset(), buffer.arena(),
                    arena.size());
  if (buffer.offset() % 64 != 0)
    return dataLoss("buffer {}: offset {} is no multiple of 64", i,
                    buffer.offset());
  bool local = arena.holds() == plan::BufferClass::Activation;
  if (!local) {
    if (buffer.program() != -1)
      return dataLoss("buffer {}: persistent, but belongs to program {}", i,
                      buffer.program());
    return okStatus();
  }
  if (buffer.program() < 0 ||
      size_t(buffer.program()) >= count(plan.programs()))
    return dataLoss("buffer {}: program {}, the plan has {}", i,
                    buffer.program(), count(plan.programs()));
  size_t steps = count(plan.programs()->Get(buffer.program())->steps());
  if (buffer.first() > buffer.last() || buffer.last() >= steps)
    return dataLoss("buffer {}: lives from step {} to {} of {} steps", i,
                    buffer.first(), buffer.last(), steps);
  return okStatus();
}

/// Sweeps one arena (and, for activations, one program) over time. `ids` come
/// sorted by first step; at each start the live buffers are held by offset.
Status verifyNoOverlap(const plan::Plan &plan, std::vector<uint32_t> &ids) {
  const auto &buffers = *plan.buffers();
  std::map<uint64_t, uint32_t> live;            // offset -> buffer
  std::multimap<uint64_t, uint32_t> byLastStep; // last step -> buffer
  for (uint32_t id : ids) {
    const plan::Buffer &buffer = *buffers.Get(id);
    while (!byLastStep.empty() && byLastStep.begin()->first < buffer.first()) {
      live.erase(buffers.Get(byLastStep.begin()->second)->offset());
      byLastStep.erase(byLastStep.begin());
    }
    auto next = live.lower_bound(buffer.offset());
    auto conflict = [&](uint32_t other) {
      return dataLoss("buffers {} and {} overlap in arena {} while both live "
                      "(offsets {} and {}, sizes {} and {})",
                      other, id, buffer.arena(), buffers.Get(other)->offset(),
                      buffer.offset(), buffers.Get(other)->size(),
                      buffer.size());
    };
    if (next != live.end() && next->first < buffer.offset() + buffer.size())
      return conflict(next->second);
    if (next != live.begin()) {
      uint32_t before = std::prev(next)->second;
      const plan::Buffer &other = *buffers.Get(before);
      if (other.offset() + other.size() > buffer.offset())
        return conflict(before);
    }
    live.emplace(buffer.offset(), id);
    byLastStep.emplace(buffer.last(), id);
  }
  return okStatus();
}

Status verifyBuffers(const plan::Plan &plan) {
  if (count(plan.buffers()) >= noPlanId)
    return dataLoss("{} buffers are too many", count(plan.buffers()));
  std::map<std::pair<uint32_t, int32_t>, std::vector<uint32_t>> groups;
  for (size_t i = 0; i < count(plan.buffers()); ++i) {
    QWEN_RETURN_IF_ERROR(verifyBuffer(plan, i));
    const plan::Buffer &buffer = *plan.buffers()->Get(i);
    groups[{buffer.arena(), buffer.program()}].push_back(i);
  }
  for (auto &[key, ids] : groups) {
    // Persistent buffers all live at once, whatever their steps say.
    if (key.second < 0) {
      for (uint32_t id : ids)
        if (plan.buffers()->Get(id)->first() != 0 ||
            plan.buffers()->Get(id)->last() != 0)
          return dataLoss("buffer {}: persistent, but has a lifetime", id);
    }
    std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) {
      return plan.buffers()->Get(a)->first() < plan.buffers()->Get(b)->first();
    });
    QWEN_RETURN_IF_ERROR(verifyNoOverlap(plan, ids));
  }
  return okStatus();
}

/// Proves that neither the number of elements nor the extent overflows.
Status verifyType(const plan::TensorType &type, size_t i) {
  if (type.dtype() > plan::ElementType::MAX)
    return dataLoss("type {}: unknown element type {}", i,
                    static_cast<int>(type.dtype()));
  if (type.rank() > maxRank)
    return dataLoss("type {}: rank {}, at most {}", i, type.rank(), maxRank);
  int64_t elements = 1, last = 0;
  for (int d = 0; d < maxRank; ++d) {
    int64_t size = type.shape()->Get(d), stride = type.strides()->Get(d);
    if (d >= type.rank()) {
      if (size != 0 || stride != 0)
        return dataLoss("type {}: dimension {} of rank {} is not empty", i, d,
                        type.rank());
      continue;
    }
    if (size < 1 || size > planLimit || stride < 0 || stride > planLimit)
      return dataLoss("type {}: dimension {} has size {} and stride {}", i, d,
                      size, stride);
    int64_t reach = 0;
    if (__builtin_mul_overflow(elements, size, &elements) ||
        elements > planLimit ||
        __builtin_mul_overflow(size - 1, stride, &reach) ||
        reach > planLimit - last)
      return dataLoss("type {}: more than {} elements", i, planLimit);
    last += reach;
  }
  return okStatus();
}

Status verifyViews(const plan::Plan &plan) {
  if (count(plan.views()) >= noPlanId)
    return dataLoss("{} views are too many", count(plan.views()));
  for (size_t i = 0; i < count(plan.views()); ++i) {
    const plan::View &view = *plan.views()->Get(i);
    if (view.buffer() >= count(plan.buffers()))
      return dataLoss("view {}: buffer {}, the plan has {}", i, view.buffer(),
                      count(plan.buffers()));
    if (view.type() >= count(plan.types()))
      return dataLoss("view {}: type {}, the plan has {}", i, view.type(),
                      count(plan.types()));
    const plan::TensorType &raw = *plan.types()->Get(view.type());
    uint64_t element = dtypeBytes(static_cast<DType>(raw.dtype()));
    int64_t extent = 1;
    for (int d = 0; d < raw.rank(); ++d)
      extent += (raw.shape()->Get(d) - 1) * raw.strides()->Get(d);
    uint64_t bytes = uint64_t(extent) * element;
    uint64_t size = plan.buffers()->Get(view.buffer())->size();
    if (bytes > size || view.byte_offset() > size - bytes)
      return dataLoss("view {}: {} bytes at {} are not inside buffer {} of {} "
                      "bytes",
                      i, bytes, view.byte_offset(), view.buffer(), size);
    if (view.byte_offset() % element != 0)
      return dataLoss("view {}: byte offset {} is no multiple of {}", i,
                      view.byte_offset(), element);
  }
  return okStatus();
}

Status verifyWorkspace(const plan::Plan &plan) {
  if (plan.workspace() == noPlanId)
    return okStatus();
  if (plan.workspace() >= count(plan.buffers()))
    return dataLoss("workspace: buffer {}, the plan has {}", plan.workspace(),
                    count(plan.buffers()));
  const plan::Buffer &buffer = *plan.buffers()->Get(plan.workspace());
  if (plan.arenas()->Get(buffer.arena())->holds() !=
      plan::BufferClass::Workspace)
    return dataLoss("workspace: buffer {} is not of class workspace",
                    plan.workspace());
  return okStatus();
}

Status verifyForecast(const plan::Plan &plan) {
  uint64_t sums[static_cast<int>(plan::BufferClass::MAX) + 1] = {};
  for (size_t i = 0; i < count(plan.arenas()); ++i) {
    const plan::Arena &arena = *plan.arenas()->Get(i);
    sums[static_cast<int>(arena.holds())] += arena.size();
  }
  auto sum = [&](plan::BufferClass c) { return sums[static_cast<int>(c)]; };
  using enum plan::BufferClass;
  const plan::Forecast &f = *plan.forecast();
  const std::tuple<std::string_view, uint64_t, uint64_t> rows[] = {
      {"parameters", f.parameters(), sum(Parameter)},
      {"gradients", f.gradients(), sum(Gradient)},
      {"optimizer", f.optimizer(), sum(Moment1) + sum(Moment2) + sum(Master)},
      {"activations", f.activations(), sum(Activation)},
      {"workspace", f.workspace(), sum(Workspace)},
      {"io", f.io(), sum(Input) + sum(Output)},
      {"code", f.code(),
       plan.code() ? uint64_t(count(plan.code()->object())) : 0}};
  for (auto &[name, said, found] : rows)
    if (said != found)
      return dataLoss("forecast of {}: {} bytes, the plan holds {}", name, said,
                      found);
  return okStatus();
}

} // namespace

Status qwen::verifyPlanHeader(const plan::Plan &plan) {
  if (plan.schema_version() != planSchemaVersion)
    return makeError(StatusCode::FailedPrecondition,
                     "plan format {} made by qwenc {} ({}); this runtime reads "
                     "format {}",
                     plan.schema_version(),
                     printable(plan.compiler_version()->string_view()),
                     printable(plan.compiler_flags()->string_view()),
                     planSchemaVersion);
  if (plan.kernel_abi() != kernelAbiVersion)
    return makeError(
        StatusCode::FailedPrecondition,
        "plan for kernel tables {:016x} made by qwenc {} ({}); "
        "this runtime has {:016x}",
        plan.kernel_abi(), printable(plan.compiler_version()->string_view()),
        printable(plan.compiler_flags()->string_view()), kernelAbiVersion);
  std::string_view target = plan.target()->string_view();
  if (!targetKind(target))
    return makeError(StatusCode::FailedPrecondition,
                     "plan for target '{}'; this runtime runs {}",
                     printable(target), listTargets());
  if (plan.world_size() < 1 || plan.world_size() > maxWorldSize)
    return dataLoss("world_size is {}, expected 1 to {}", plan.world_size(),
                    maxWorldSize);
  QWEN_RETURN_IF_ERROR(checkCount("tokens", plan.tokens()));
  QWEN_RETURN_IF_ERROR(checkCount("max_documents", plan.max_documents()));
  return checkCount("vocab_size", plan.vocab_size());
}

Status qwen::verifyPlanMemory(const plan::Plan &plan) {
  QWEN_RETURN_IF_ERROR(checkAligned("arenas", plan.arenas()));
  QWEN_RETURN_IF_ERROR(checkAligned("buffers", plan.buffers()));
  QWEN_RETURN_IF_ERROR(checkAligned("types", plan.types()));
  QWEN_RETURN_IF_ERROR(checkAligned("views", plan.views()));
  QWEN_RETURN_IF_ERROR(verifyArenas(plan));
  QWEN_RETURN_IF_ERROR(verifyBuffers(plan));
  for (size_t i = 0; i < count(plan.types()); ++i)
    QWEN_RETURN_IF_ERROR(verifyType(*plan.types()->Get(i), i));
  QWEN_RETURN_IF_ERROR(verifyViews(plan));
  QWEN_RETURN_IF_ERROR(verifyWorkspace(plan));
  return verifyForecast(plan);
}

Status qwen::verifyPlan(const plan::Plan &plan) {
  QWEN_RETURN_IF_ERROR(verifyPlanHeader(plan));
  QWEN_RETURN_IF_ERROR(verifyPlanMemory(plan));
  QWEN_RETURN_IF_ERROR(verifyPlanTables(plan));
  QWEN_RETURN_IF_ERROR(verifyPlanSteps(plan));
  return verifyPlanStreams(plan);
}
