//===- GroupCases.cpp - Generated kernels of a plan, alone ----------------===//

#include "GroupCases.h"

#include "qwen/Plan/KernelCosts.h"
#include "runtime/plan/PlanSteps.h"

#include <algorithm>
#include <map>

using namespace qwen;
using namespace qwen::bench;

double GroupCase::bytes() const { return double(kernelBytes(args)); }

namespace {

/// Adds the calls of one plan to what is known.
class Collector {
public:
  explicit Collector(const Plan &plan) : plan(plan.raw()) {}

  Status visit(const plan::Step &step) {
    std::vector<uint32_t> ids;
    auto resolve = [&](uint32_t id, BufferType &buffer) {
      buffer = toBufferType(*plan.types()->Get(plan.views()->Get(id)->type()));
      ids.push_back(id);
      return okStatus();
    };
    return visitStep(step, resolve, [&](auto &args) {
      if constexpr (std::is_same_v<std::decay_t<decltype(args)>, GroupArgs>)
        add(args, ids);
      return okStatus();
    });
  }

  std::vector<GroupCase> groups;

private:
  void add(const GroupArgs &args, const std::vector<uint32_t> &ids) {
    auto [entry, isNew] = indexOf.emplace(args.symbol, groups.size());
    if (isNew)
      groups.push_back({args, 0, {}});
    GroupCase &group = groups[entry->second];
    ++group.calls;
    if (!group.inPlace.empty())
      return;
    size_t inputs = args.inputs.size();
    for (size_t i = 0; i < inputs; ++i)
      for (size_t j = 0; j < args.outputs.size(); ++j)
        if (sameMemory(ids[i], ids[inputs + j]))
          group.inPlace.emplace_back(i, j);
  }

  bool sameMemory(uint32_t a, uint32_t b) const {
    const plan::View &x = *plan.views()->Get(a), &y = *plan.views()->Get(b);
    return x.buffer() == y.buffer() && x.byte_offset() == y.byte_offset();
  }

  const plan::Plan &plan;
  std::map<std::string, size_t> indexOf;
};

/// Random numbers for an operand that is read.
Status fillOperand(const DeviceArray &array, DType dtype) {
  return dtype == DType::BF16 ? array.fillUniform(dtype, -1, 1)
                              : array.fillUniform(dtype, 0.5, 1.5);
}

} // namespace

StatusOr<std::vector<GroupCase>> bench::collectGroups(const Plan &plan) {
  Collector collector(plan);
  if (plan.raw().programs())
    for (const plan::Program *program : *plan.raw().programs())
      if (program->steps())
        for (const plan::Step *step : *program->steps())
          QWEN_RETURN_IF_ERROR(collector.visit(*step));
  return std::move(collector.groups);
}

StatusOr<GroupMemory> GroupMemory::create(const GroupCase &group,
                                          bool inPlace) {
  GroupMemory memory;
  memory.args = group.args;
  GroupArgs &args = memory.args;
  auto allocate = [&](const BufferType &type, bool isRead) -> StatusOr<void *> {
    int64_t bytes = type.extent() * dtypeBytes(type.dtype);
    QWEN_ASSIGN_OR_RETURN(DeviceArray array, DeviceArray::create(bytes));
    if (isRead)
      QWEN_RETURN_IF_ERROR(fillOperand(array, type.dtype));
    memory.arrayOf.push_back(memory.arrays.size());
    memory.arrays.push_back(std::move(array));
    return memory.arrays.back().data();
  };
  for (ConstBuffer &input : args.inputs) {
    QWEN_ASSIGN_OR_RETURN(input.data, allocate(input, true));
  }
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    Buffer &output = args.outputs[i];
    auto pair = std::find_if(group.inPlace.begin(), group.inPlace.end(),
                             [&](auto &p) { return p.second == i; });
    if (inPlace && pair != group.inPlace.end()) {
      memory.arrayOf.push_back(memory.arrayOf[pair->first]);
      output.data = memory.arrays[memory.arrayOf.back()].data();
      continue;
    }
    bool accumulates = std::count(args.accumulate.begin(),
                                  args.accumulate.end(), int64_t(i)) > 0;
    QWEN_ASSIGN_OR_RETURN(output.data, allocate(output, accumulates));
  }
  return memory;
}

StatusOr<GroupMemory> GroupMemory::clone() const {
  GroupMemory copy;
  copy.args = args;
  copy.arrayOf = arrayOf;
  for (const DeviceArray &array : arrays) {
    QWEN_ASSIGN_OR_RETURN(DeviceArray made,
                          DeviceArray::create(int64_t(array.bytes().size())));
    QWEN_RETURN_IF_ERROR(made.copyFrom(array.bytes()));
    copy.arrays.push_back(std::move(made));
  }
  size_t operand = 0;
  for (ConstBuffer &input : copy.args.inputs)
    input.data = copy.arrays[arrayOf[operand++]].data();
  for (Buffer &output : copy.args.outputs)
    output.data = copy.arrays[arrayOf[operand++]].data();
  return copy;
}

StatusOr<std::vector<std::vector<std::byte>>> GroupMemory::read() const {
  std::vector<std::vector<std::byte>> contents;
  for (size_t array : arrayOf) {
    std::span<std::byte> bytes = arrays[array].bytes();
    std::vector<std::byte> &copy = contents.emplace_back(bytes.size());
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaMemcpy(copy.data(), bytes.data(), copy.size(),
                              cudaMemcpyDeviceToHost),
                   "copy from the device"));
  }
  return contents;
}

Status
GroupMemory::write(const std::vector<std::vector<std::byte>> &contents) const {
  // Inputs last: where an output shares their memory, they are what counts.
  for (size_t i = contents.size(); i-- > 0;)
    QWEN_RETURN_IF_ERROR(arrays[arrayOf[i]].copyFrom(contents[i]));
  return okStatus();
}
