//===- PlanStepsVerifier.cpp - Launches of a plan -------------------------===//
//
// Checks each launch against its kernel's rules and the memory it touches: the
// buffers live, inputs are never written, nothing is read before it is written,
// operands of one launch do not collide.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelChecks.h"
#include "qwen/Plan/KernelCosts.h"
#include "qwen/Plan/Workspace.h"
#include "qwen/Support/Saturating.h"
#include "runtime/plan/CodeTable.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/plan/ViewOverlap.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <map>

using namespace qwen;

namespace {

/// An operand of the launch at hand.
struct Operand {
  const char *name;
  uint32_t view, buffer;
  BufferType type;
  int64_t offset;
  bool reads, writes;
};

/// Bytes of the address range that a view covers at most.
int64_t coveredBytes(const BufferType &type) {
  return std::min(type.bytes(), type.extent() * dtypeBytes(type.dtype));
}

/// A view that some launch of the program wrote.
struct Written {
  int64_t begin, end, bytes;
  auto operator<=>(const Written &) const = default;
};

class StepsVerifier {
public:
  StepsVerifier(const plan::Plan &plan, const CodeTable &code)
      : plan(plan), code(code) {}

  Status verify(uint32_t index);
  /// Bytes of the device tables of all launches verified so far.
  int64_t tableBytes() const { return tables; }

private:
  template <typename Args> Status verifyLaunch(Args &args);
  template <typename Args> void collectOperands(Args &args);
  Status verifyOperand(const Operand &operand);
  Status verifyCollisions(bool isGroup);
  Status verifyWorkspace(int64_t bytes);
  template <typename Args> Status verifyRanks(const Args &args);
  Status verifyBuckets(const AdamWArgs &args);
  Status verifyTable(const BufferType &shard, int64_t begin, int64_t rows,
                     int64_t width);
  Status verifyClass(const Operand &operand,
                     std::initializer_list<plan::BufferClass> allowed);
  static Status verifyWideGradients(const AdamWArgs &args);
  bool isWritten(const Operand &operand) const;
  void noteWritten(const Operand &operand);
  void noteDestroyed(const Operand &operand);
  plan::BufferClass classOf(uint32_t buffer) const {
    return plan.arenas()->Get(plan.buffers()->Get(buffer)->arena())->holds();
  }

  const plan::Plan &plan;
  const CodeTable &code;
  TargetKind kind = *targetKind(plan.target()->string_view());
  int64_t tables = 0;
  uint32_t program = 0, step = 0;
  std::vector<uint32_t> viewIds;
  std::vector<Operand> operands;
  std::map<uint32_t, std::vector<Written>> written;
};

Status StepsVerifier::verify(uint32_t index) {
  program = index;
  written.clear();
  const plan::Program &table = *plan.programs()->Get(index);
  for (step = 0; step < count(table.steps()); ++step) {
    const plan::Step &entry = *table.steps()->Get(step);
    auto resolve = [&](uint32_t id, auto &buffer) {
      if (id >= count(plan.views()))
        return dataLoss("view {}, the plan has {}", id, count(plan.views()));
      const plan::View &view = *plan.views()->Get(id);
      static_cast<BufferType &>(buffer) =
          toBufferType(*plan.types()->Get(view.type()));
      // Arenas start at multiples of 256 bytes, so the place tells the
      // alignment. Nothing is read there.
      buffer.data = reinterpret_cast<std::byte *>(
          plan.buffers()->Get(view.buffer())->offset() + view.byte_offset());
      viewIds.push_back(id);
      return okStatus();
    };
    viewIds.clear();
    Status status = okStatus();
    if (entry.label() != noPlanId && entry.label() >= count(plan.labels()))
      status = dataLoss("label {}, the plan has {}", entry.label(),
                        count(plan.labels()));
    else
      status = visitStep(entry, resolve,
                         [&](auto &args) { return verifyLaunch(args); });
    if (!status.ok())
      return status.withContext(
          fmt::format("program {} '{}', step {} ({})", index,
                      printable(table.name()->string_view()), step,
                      plan::EnumNameKernel(entry.kernel_type())));
  }
  for (size_t i = 0; i < count(table.outputs()); ++i) {
    const plan::Port &port = *table.outputs()->Get(i);
    const plan::View &view = *plan.views()->Get(port.view());
    if (!written.contains(view.buffer()))
      return dataLoss("program {} '{}': nothing writes output '{}'", index,
                      printable(table.name()->string_view()),
                      printable(port.name()->string_view()));
  }
  return okStatus();
}

template <typename Args> void StepsVerifier::collectOperands(Args &args) {
  operands.clear();
  size_t next = 0;
  forEachAccess(args, [&](const char *name, const BufferType &type, bool reads,
                          bool writes) {
    uint32_t id = viewIds[next++];
    const plan::View &view = *plan.views()->Get(id);
    operands.push_back({name, id, view.buffer(), type,
                        static_cast<int64_t>(view.byte_offset()), reads,
                        writes});
  });
}

template <typename Args> Status StepsVerifier::verifyLaunch(Args &args) {
  if (Status status = checkKernel(args); !status.ok())
    return dataLoss("{}", status.message());
  constexpr bool isGroup = std::is_same_v<Args, GroupArgs>;
  collectOperands(args);
  if constexpr (isGroup) {
    std::vector<int64_t> offsets;
    for (const Operand &operand : operands)
      offsets.push_back(operand.offset);
    QWEN_RETURN_IF_ERROR(code.checkCall(args, offsets));
  }
  for (const Operand &operand : operands)
    QWEN_RETURN_IF_ERROR(verifyOperand(operand).withContext(
        fmt::format("operand {} (view {})", operand.name, operand.view)));
  QWEN_RETURN_IF_ERROR(verifyCollisions(isGroup));
  QWEN_RETURN_IF_ERROR(verifyRanks(args));
  for (const Operand &operand : operands)
    if (operand.writes)
      noteWritten(operand);
  if constexpr (std::is_same_v<Args, ReduceScatterArgs>)
    noteDestroyed(operands.front());
  if (kind == TargetKind::Cuda) {
    if (std::string reason = cuda::unsupportedReason(args); !reason.empty())
      return dataLoss("no kernel for {}: {}",
                      printable(plan.target()->string_view()), reason);
    tables += cuda::tableBytes(args);
  }
  return verifyWorkspace(workspaceBytes(kind, args));
}

Status StepsVerifier::verifyOperand(const Operand &operand) {
  const plan::Buffer &buffer = *plan.buffers()->Get(operand.buffer);
  plan::BufferClass holds = classOf(operand.buffer);
  switch (holds) {
  case plan::BufferClass::Activation:
    if (buffer.program() != static_cast<int64_t>(program))
      return dataLoss("buffer {} belongs to program {}", operand.buffer,
                      buffer.program());
    if (step < buffer.first() || step > buffer.last())
      return dataLoss("buffer {} lives from step {} to {}", operand.buffer,
                      buffer.first(), buffer.last());
    break;
  case plan::BufferClass::Output:
    break;
  case plan::BufferClass::Input:
    if (operand.writes)
      return dataLoss("writes buffer {}, which is an input", operand.buffer);
    return okStatus();
  case plan::BufferClass::Workspace:
    return dataLoss("buffer {} is workspace", operand.buffer);
  default: // Persistent state: written by an earlier run or the trainer.
    return okStatus();
  }
  if (operand.reads && !isWritten(operand))
    return dataLoss("reads buffer {} where nothing has written it",
                    operand.buffer);
  return okStatus();
}

/// A written operand may share bytes with another one only where a group
/// replaces an input in place: same view, element by element.
Status StepsVerifier::verifyCollisions(bool isGroup) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand &out = operands[i];
    if (!out.writes)
      continue;
    for (size_t j = 0; j < operands.size(); ++j) {
      const Operand &other = operands[j];
      if (j == i || other.buffer != out.buffer || (other.writes && j < i) ||
          provenDisjoint(out.type, out.offset, other.type, other.offset))
        continue;
      bool inPlace = isGroup && !other.writes && other.offset == out.offset &&
                     other.type == out.type;
      if (!inPlace)
        return dataLoss("operands {} (view {}) and {} (view {}) share bytes of "
                        "buffer {}",
                        out.name, out.view, other.name, other.view, out.buffer);
    }
  }
  return okStatus();
}

/// What depends on the number of ranks.
template <typename Args> Status StepsVerifier::verifyRanks(const Args &args) {
  constexpr bool isCombine = std::is_same_v<Args, GradNormCombineArgs>;
  int64_t ranks = plan.world_size();
  if constexpr (isCollective<Args> || isCombine ||
                std::is_same_v<Args, GradNormLocalArgs> ||
                holdsPartOfTable<Args>)
    if (ranks == 1)
      return dataLoss("is for several ranks, but the plan is for one");
  if constexpr (isCollective<Args>)
    if (args.full.dim(0) != ranks * args.shard.dim(0))
      return dataLoss("full has {} elements, expected {} shards of {}",
                      args.full.dim(0), ranks, args.shard.dim(0));
  if constexpr (isCombine)
    if (args.partials.dim(0) != ranks)
      return dataLoss("partials of {} ranks, the plan is for {}",
                      args.partials.dim(0), ranks);
  if constexpr (std::is_same_v<Args, ReduceScatterArgs>) {
    QWEN_RETURN_IF_ERROR(
        verifyClass(operands.front(), {plan::BufferClass::Activation}));
    QWEN_RETURN_IF_ERROR(
        verifyClass(operands.back(), {plan::BufferClass::Gradient,
                                      plan::BufferClass::Activation}));
  }
  if constexpr (std::is_same_v<Args, EmbeddingShardArgs>) {
    QWEN_RETURN_IF_ERROR(
        verifyClass(operands.front(), {plan::BufferClass::Parameter}));
    return verifyTable(args.shard, args.begin, args.rows, args.out.dim(1));
  }
  if constexpr (std::is_same_v<Args, EmbeddingGradShardArgs>) {
    QWEN_RETURN_IF_ERROR(
        verifyClass(operands.back(), {plan::BufferClass::Gradient}));
    return verifyTable(args.shard, args.begin, args.rows, args.dout.dim(1));
  }
  if constexpr (std::is_same_v<Args, AdamWArgs>)
    return verifyBuckets(args);
  return okStatus();
}

Status
StepsVerifier::verifyClass(const Operand &operand,
                           std::initializer_list<plan::BufferClass> allowed) {
  plan::BufferClass found = classOf(operand.buffer);
  if (std::find(allowed.begin(), allowed.end(), found) != allowed.end())
    return okStatus();
  std::string expected;
  for (plan::BufferClass holds : allowed)
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ",
                            plan::EnumNameBufferClass(holds));
  return dataLoss("{} lies in a buffer of class {}, expected {}", operand.name,
                  plan::EnumNameBufferClass(found), expected);
}

/// A table lies within the shards of all ranks.
Status StepsVerifier::verifyTable(const BufferType &shard, int64_t begin,
                                  int64_t rows, int64_t width) {
  int64_t held = saturatingMultiply(plan.world_size(), shard.dim(0));
  int64_t elements = saturatingMultiply(rows, width);
  if (begin >= 0 && elements <= held && begin <= held - elements)
    return okStatus();
  return dataLoss("a table of {} rows of {} elements from element {} on is not "
                  "within the {} elements of {} shards",
                  rows, width, begin, held, plan.world_size());
}

/// One rank adds its micro-batches to gradients, which are wide therefore.
Status StepsVerifier::verifyWideGradients(const AdamWArgs &args) {
  for (size_t i = 0; i < args.grads.size(); ++i)
    if (args.grads[i].dtype == DType::BF16)
      return dataLoss("grads[{}] is bf16 in a plan for one rank", i);
  return okStatus();
}

/// The operands of a sharded update are the shards of the buckets it names.
Status StepsVerifier::verifyBuckets(const AdamWArgs &args) {
  if (args.buckets.empty() != (plan.world_size() == 1))
    return dataLoss("{} buckets in a plan for {} ranks", args.buckets.size(),
                    plan.world_size());
  if (args.buckets.empty())
    return verifyWideGradients(args);
  for (size_t i = 0; i < args.buckets.size(); ++i) {
    int64_t number = args.buckets[i];
    if (number < 0 || size_t(number) >= count(plan.buckets()))
      return dataLoss("bucket {}, the plan has {}", number,
                      count(plan.buckets()));
    const plan::Bucket &bucket = *plan.buckets()->Get(uint32_t(number));
    uint32_t expected[] = {bucket.value(), bucket.gradient(), bucket.moment1(),
                           bucket.moment2(), bucket.master()};
    size_t lists = args.masters.empty() ? 4 : 5;
    for (size_t list = 0; list < lists; ++list) {
      const Operand &operand = operands[list * args.buckets.size() + i];
      if (operand.view != expected[list])
        return dataLoss("{}[{}] is view {}, bucket {} has view {}",
                        operand.name, i, operand.view, number, expected[list]);
    }
    if (args.masters.empty() != (bucket.master() == noPlanId))
      return dataLoss("masters differ from those of bucket {}", number);
  }
  return okStatus();
}

Status StepsVerifier::verifyWorkspace(int64_t bytes) {
  if (bytes <= 0)
    return okStatus();
  uint64_t has = plan.workspace() == noPlanId
                     ? 0
                     : plan.buffers()->Get(plan.workspace())->size();
  if (uint64_t(bytes) > has)
    return dataLoss("needs {} bytes of workspace, the plan has {}", bytes, has);
  return okStatus();
}

/// Whether the distinct views written so far can cover the operand. Counts
/// bytes in its address range, so a strided hole may go unseen, never the
/// other way round.
bool StepsVerifier::isWritten(const Operand &operand) const {
  auto found = written.find(operand.buffer);
  if (found == written.end())
    return false;
  int64_t begin = operand.offset;
  int64_t end = begin + operand.type.extent() * dtypeBytes(operand.type.dtype);
  int64_t bytes = 0;
  for (const Written &w : found->second)
    if (w.begin < end && w.end > begin)
      bytes +=
          std::min(w.bytes, std::min(w.end, end) - std::max(w.begin, begin));
  return bytes >= coveredBytes(operand.type);
}

void StepsVerifier::noteWritten(const Operand &operand) {
  int64_t bytes = coveredBytes(operand.type);
  Written entry{operand.offset,
                operand.offset +
                    operand.type.extent() * dtypeBytes(operand.type.dtype),
                bytes};
  auto &list = written[operand.buffer];
  if (std::find(list.begin(), list.end(), entry) == list.end())
    list.push_back(entry);
}

/// What a view shares a byte with counts as unwritten again.
void StepsVerifier::noteDestroyed(const Operand &operand) {
  int64_t begin = operand.offset;
  int64_t end = begin + operand.type.extent() * dtypeBytes(operand.type.dtype);
  std::erase_if(written[operand.buffer], [&](const Written &w) {
    return w.begin < end && begin < w.end;
  });
}

} // namespace

Status qwen::verifyPlanSteps(const plan::Plan &plan) {
  QWEN_ASSIGN_OR_RETURN(CodeTable code, CodeTable::create(plan));
  StepsVerifier verifier(plan, code);
  for (uint32_t i = 0; i < count(plan.programs()); ++i)
    QWEN_RETURN_IF_ERROR(verifier.verify(i));
  if (plan.forecast()->tables() != uint64_t(verifier.tableBytes()))
    return dataLoss("forecast of tables: {} bytes, the launches need {}",
                    plan.forecast()->tables(), verifier.tableBytes());
  return okStatus();
}
