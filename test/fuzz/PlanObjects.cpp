//===- PlanObjects.cpp - Mutations of a plan's objects --------------------===//
//
// Ids stay as they are where objects move, so that they name something else.
//
//===----------------------------------------------------------------------===//

#include "PlanObjects.h"

#include <algorithm>
#include <array>
#include <map>

using namespace qwen;
using namespace qwen::fuzz;

namespace {

template <typename T> T copyOf(const T &value) { return value; }
template <typename T>
std::unique_ptr<T> copyOf(const std::unique_ptr<T> &table) {
  return std::make_unique<T>(*table);
}

/// Removes, doubles, swaps or moves an element.
template <typename T> void mutateVector(std::vector<T> &list, Random &random) {
  if (list.empty())
    return;
  size_t a = random.below(list.size()), b = random.below(list.size());
  switch (random.below(4)) {
  case 0:
    list.erase(list.begin() + static_cast<ptrdiff_t>(a));
    break;
  case 1:
    list.insert(list.begin() + static_cast<ptrdiff_t>(b), copyOf(list[a]));
    break;
  case 2:
    std::swap(list[a], list[b]);
    break;
  default:
    std::rotate(list.begin() + static_cast<ptrdiff_t>(std::min(a, b)),
                list.begin() + static_cast<ptrdiff_t>(std::max(a, b)),
                list.end());
  }
}

/// Another stream or other waits of a step: missing, late, or in a circle.
void mutateOrder(plan::ProgramT &program, Random &random) {
  if (program.steps.empty())
    return;
  plan::StepT &step = *program.steps[random.below(program.steps.size())];
  switch (random.below(4)) {
  case 0:
    step.stream = static_cast<uint8_t>(random.below(3));
    return;
  case 1:
    step.waits.push_back(
        static_cast<uint32_t>(random.below(program.steps.size() + 1)));
    return;
  default:
    return mutateVector(step.waits, random);
  }
}

void mutateProgram(plan::ProgramT &program, Random &random) {
  switch (random.below(7)) {
  case 0:
    return mutateVector(program.inputs, random);
  case 1:
    return mutateVector(program.outputs, random);
  case 2: { // Two launches change kernels, but not places.
    if (program.steps.empty())
      return;
    size_t a = random.below(program.steps.size());
    size_t b = random.below(program.steps.size());
    std::swap(program.steps[a]->kernel, program.steps[b]->kernel);
    return;
  }
  case 3:
    return mutateOrder(program, random);
  default:
    return mutateVector(program.steps, random);
  }
}

/// Lists of views and numbers of a launch.
void mutateLists(plan::KernelUnion &kernel, Random &random) {
  if (auto *group = kernel.AsGroup()) {
    mutateVector(random.below(2) ? group->inputs : group->outputs, random);
    if (random.below(2))
      mutateVector(random.below(2) ? group->column_sums : group->accumulate,
                   random);
  } else if (auto *adamw = kernel.AsAdamW()) {
    std::vector<uint32_t> *lists[] = {&adamw->params, &adamw->grads,
                                      &adamw->moments1, &adamw->moments2,
                                      &adamw->masters};
    mutateVector(*lists[random.below(std::size(lists))], random);
  } else if (auto *norm = kernel.AsGradNorm()) {
    mutateVector(norm->grads, random);
  } else if (auto *gemm = kernel.AsGemm()) {
    if (gemm->addend.empty())
      gemm->addend.push_back(gemm->c);
    else
      mutateVector(gemm->addend, random);
    gemm->algorithm.resize(random.below(12), 1);
  }
}

bool isContiguous(const plan::TensorType &type) {
  int64_t expected = 1;
  for (int i = std::min<int>(type.rank(), 4) - 1; i >= 0; --i) {
    if (type.strides()->Get(i) != expected ||
        __builtin_mul_overflow(expected, type.shape()->Get(i), &expected))
      return false;
  }
  return true;
}

plan::TensorType makeType(std::array<int64_t, 4> shape,
                          std::array<int64_t, 4> strides,
                          const plan::TensorType &like) {
  return {flatbuffers::span<const int64_t, 4>(shape.data(), 4),
          flatbuffers::span<const int64_t, 4>(strides.data(), 4), like.dtype(),
          like.rank()};
}

/// Replaces a size by another in all types that have it.
void resize(plan::PlanT &plan, Random &random) {
  if (plan.types.empty())
    return;
  const plan::TensorType &chosen = plan.types[random.below(plan.types.size())];
  int64_t before = chosen.shape()->Get(static_cast<uint16_t>(
      random.below(std::max<uint64_t>(1, std::min<int>(chosen.rank(), 4)))));
  int64_t after = static_cast<int64_t>(
      random.below(4) ? 1 + random.below(uint64_t(before) % 256 * 2 + 2)
                      : random.bits() >> random.below(64));
  for (plan::TensorType &type : plan.types) {
    bool contiguous = isContiguous(type);
    std::array<int64_t, 4> shape{}, strides{};
    for (uint16_t i = 0; i < 4; ++i) {
      shape[i] = type.shape()->Get(i);
      strides[i] = type.strides()->Get(i);
      if (i < type.rank() && shape[i] == before)
        shape[i] = after;
    }
    if (contiguous) {
      uint64_t next = 1;
      for (int i = std::min<int>(type.rank(), 4) - 1; i >= 0; --i) {
        strides[i] = static_cast<int64_t>(next);
        next *= static_cast<uint64_t>(shape[i]);
      }
    }
    type = makeType(shape, strides, type);
  }
}

/// Bytes from the first to behind the last element, or 0 where there is no
/// sensible answer.
uint64_t extentBytes(const plan::TensorType &type) {
  constexpr uint64_t widths[] = {4, 2, 8, 4};
  constexpr int64_t most = int64_t(1) << 40;
  int64_t last = 0;
  for (uint16_t i = 0; i < std::min<int>(type.rank(), 4); ++i) {
    int64_t steps, extent;
    if (__builtin_sub_overflow(type.shape()->Get(i), 1, &steps) ||
        __builtin_mul_overflow(steps, type.strides()->Get(i), &extent) ||
        __builtin_add_overflow(last, extent, &last))
      return 0;
  }
  if (last < 0 || last > most)
    return 0;
  return (static_cast<uint64_t>(last) + 1) *
         widths[static_cast<size_t>(type.dtype()) % 4];
}

/// Lays all buffers out anew, each as large as its views need.
void layOut(plan::PlanT &plan) {
  std::vector<uint64_t> sizes(plan.buffers.size());
  for (const plan::View &view : plan.views)
    if (view.buffer() < sizes.size() && view.type() < plan.types.size())
      sizes[view.buffer()] = std::max(sizes[view.buffer()],
                                      view.byte_offset() % (uint64_t(1) << 40) +
                                          extentBytes(plan.types[view.type()]));
  if (plan.workspace < sizes.size())
    sizes[plan.workspace] = uint64_t(1) << 30;
  std::vector<uint64_t> used(plan.arenas.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const plan::Buffer &b = plan.buffers[i];
    uint64_t size = std::max<uint64_t>(64, (sizes[i] + 63) / 64 * 64);
    uint64_t offset = b.offset();
    if (b.arena() < used.size()) {
      offset = used[b.arena()];
      used[b.arena()] += size;
    }
    plan.buffers[i] =
        plan::Buffer(offset, size, b.arena(), b.program(), b.first(), b.last());
  }
  for (size_t i = 0; i < used.size(); ++i)
    plan.arenas[i] = plan::Arena(used[i], plan.arenas[i].holds());
}

void repairForecast(plan::PlanT &plan) {
  std::array<uint64_t, 256> sums{};
  for (const plan::Arena &arena : plan.arenas)
    sums[static_cast<uint8_t>(arena.holds())] += arena.size();
  if (!plan.forecast)
    return;
  plan::ForecastT &f = *plan.forecast;
  f.parameters = sums[0];
  f.gradients = sums[1];
  f.optimizer = sums[2] + sums[3] + sums[4];
  f.io = sums[5] + sums[6];
  f.activations = sums[7];
  f.workspace = sums[8];
  f.code = plan.code ? plan.code->object.size() : 0;
}

/// Makes a symbol of generated code agree with a launch of it.
void describe(const plan::PlanT &plan, const plan::GroupT &group,
              plan::CodeSymbolT &symbol) {
  symbol.rows = static_cast<uint64_t>(group.rows);
  symbol.column_sums.assign(group.column_sums.begin(), group.column_sums.end());
  std::vector<uint32_t> views = group.inputs;
  views.insert(views.end(), group.outputs.begin(), group.outputs.end());
  symbol.operands.resize(views.size(), plan::CodeOperand(4, 4));
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i] >= plan.views.size() ||
        plan.views[views[i]].type() >= plan.types.size())
      continue;
    uint64_t bytes = extentBytes(plan.types[plan.views[views[i]].type()]);
    symbol.operands[i] =
        plan::CodeOperand(bytes, symbol.operands[i].alignment());
  }
}

} // namespace

void fuzz::mutateObjects(plan::PlanT &plan, Random &random) {
  plan::ProgramT *program =
      plan.programs.empty()
          ? nullptr
          : plan.programs[random.below(plan.programs.size())].get();
  switch (random.below(12)) {
  case 0:
    return mutateVector(plan.arenas, random);
  case 1:
    return mutateVector(plan.buffers, random);
  case 2:
    return mutateVector(plan.types, random);
  case 3:
    return mutateVector(plan.views, random);
  case 4:
    return mutateVector(plan.parameters, random);
  case 5:
    return mutateVector(plan.programs, random);
  case 6:
    if (plan.code)
      mutateVector(plan.code->symbols, random);
    return;
  case 7:
    if (program && !program->steps.empty())
      mutateLists(program->steps[random.below(program->steps.size())]->kernel,
                  random);
    return;
  case 8:
  case 9:
    return resize(plan, random);
  default:
    if (program)
      mutateProgram(*program, random);
  }
}

void fuzz::repair(plan::PlanT &plan, Random &random) {
  if (random.below(4) != 0)
    layOut(plan);
  repairForecast(plan);
  if (!plan.code)
    return;
  std::map<std::string, plan::CodeSymbolT *> symbols;
  for (auto &symbol : plan.code->symbols)
    symbols[symbol->name] = symbol.get();
  for (auto &program : plan.programs)
    for (auto &step : program->steps)
      if (auto *group = step->kernel.AsGroup())
        if (auto found = symbols.find(group->symbol); found != symbols.end())
          describe(plan, *group, *found->second);
}
