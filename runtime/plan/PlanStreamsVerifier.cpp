//===- PlanStreamsVerifier.cpp - Order of launches on streams -------------===//
//
// Checks that waits order any two launches of different streams that touch the
// same bytes, where one writes. Knows of the plan what a device does: streams,
// waits and addresses.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Streams.h"
#include "qwen/Plan/Workspace.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <array>
#include <span>

using namespace qwen;

namespace {

/// Bytes of an arena that a launch touches.
struct Access {
  uint32_t arena;
  uint64_t begin, end;
  bool writes;
};

/// By stream: the steps before this one are done; 0 where nothing is known.
using Clock = std::array<uint32_t, planStreams>;

class StreamsVerifier {
public:
  explicit StreamsVerifier(const plan::Plan &plan) : plan(plan) {}
  Status verify(const plan::Program &program);

private:
  Status verifyStep(uint32_t step);
  Status collectAccesses(const plan::Step &step);
  template <typename Args> Status noteAccesses(Args &args);
  void noteAccess(const plan::Buffer &buffer, uint64_t offset, uint64_t bytes,
                  bool writes);
  Status verifyWaits(uint32_t step);
  Status verifyOrder(uint32_t step) const;
  std::span<const Access> accessesOf(uint32_t step) const {
    return std::span(accesses).subspan(
        firstAccess[step], firstAccess[step + 1] - firstAccess[step]);
  }
  const plan::Step &stepAt(uint32_t step) const { return *steps->Get(step); }

  const plan::Plan &plan;
  TargetKind kind = *targetKind(plan.target()->string_view());
  const flatbuffers::Vector<flatbuffers::Offset<plan::Step>> *steps = nullptr;
  std::vector<Access> accesses; // of all steps up to the current one
  std::vector<size_t> firstAccess;
  bool isCollectiveStep = false;
  std::vector<uint32_t> viewIds;
  std::array<Clock, planStreams> now;                     // by stream
  std::vector<Clock> started;                             // by step
  std::array<std::vector<uint32_t>, planStreams> members; // by stream
};

void StreamsVerifier::noteAccess(const plan::Buffer &buffer, uint64_t offset,
                                 uint64_t bytes, bool writes) {
  uint64_t begin = buffer.offset() + offset;
  accesses.push_back({buffer.arena(), begin, begin + bytes, writes});
}

template <typename Args> Status StreamsVerifier::noteAccesses(Args &args) {
  isCollectiveStep = isCollective<Args>;
  size_t next = 0;
  args.forEachOperand(
      [&](const char *, const BufferType &type, bool, bool writes) {
        const plan::View &view = *plan.views()->Get(viewIds[next++]);
        noteAccess(*plan.buffers()->Get(view.buffer()), view.byte_offset(),
                   uint64_t(type.extent() * dtypeBytes(type.dtype)), writes);
      });
  if (workspaceBytes(kind, args) > 0) {
    const plan::Buffer &scratch = *plan.buffers()->Get(plan.workspace());
    noteAccess(scratch, 0, scratch.size(), /*writes=*/true);
  }
  return okStatus();
}

Status StreamsVerifier::collectAccesses(const plan::Step &step) {
  viewIds.clear();
  auto resolve = [&](uint32_t id, auto &buffer) {
    static_cast<BufferType &>(buffer) =
        toBufferType(*plan.types()->Get(plan.views()->Get(id)->type()));
    viewIds.push_back(id);
    return okStatus();
  };
  return visitStep(step, resolve,
                   [&](auto &args) { return noteAccesses(args); });
}

/// Joins what the steps that this one waits for know.
Status StreamsVerifier::verifyWaits(uint32_t step) {
  const plan::Step &entry = stepAt(step);
  Clock &known = now[entry.stream()];
  for (size_t i = 0; i < count(entry.waits()); ++i) {
    uint32_t earlier = entry.waits()->Get(uint32_t(i));
    if (earlier >= step)
      return dataLoss("waits for step {}, which is no earlier one", earlier);
    uint32_t stream = stepAt(earlier).stream();
    if (stream == entry.stream())
      return dataLoss("waits for step {} of its own stream {}", earlier,
                      stream);
    for (uint32_t s = 0; s < planStreams; ++s)
      known[s] = std::max(known[s], started[earlier][s]);
    known[stream] = std::max(known[stream], earlier + 1);
  }
  started.push_back(known);
  return okStatus();
}

/// Looks at the steps of other streams that may still run.
Status StreamsVerifier::verifyOrder(uint32_t step) const {
  uint32_t own = stepAt(step).stream();
  for (uint32_t stream = 0; stream < planStreams; ++stream) {
    if (stream == own)
      continue;
    auto pending =
        std::ranges::lower_bound(members[stream], started[step][stream]);
    for (; pending != members[stream].end(); ++pending)
      for (const Access &mine : accessesOf(step))
        for (const Access &other : accessesOf(*pending))
          if (mine.arena == other.arena && mine.begin < other.end &&
              other.begin < mine.end && (mine.writes || other.writes))
            return dataLoss(
                "does not wait for step {} ({}) of stream {}, which {} bytes "
                "[{}, {}) of arena {} that it {}",
                *pending, plan::EnumNameKernel(stepAt(*pending).kernel_type()),
                stream, other.writes ? "writes" : "reads",
                std::max(mine.begin, other.begin),
                std::min(mine.end, other.end), mine.arena,
                mine.writes ? "writes" : "reads");
  }
  return okStatus();
}

Status StreamsVerifier::verifyStep(uint32_t step) {
  const plan::Step &entry = stepAt(step);
  if (entry.stream() >= planStreams)
    return dataLoss("stream {}, a plan has {}", entry.stream(), planStreams);
  QWEN_RETURN_IF_ERROR(collectAccesses(entry));
  firstAccess.push_back(accesses.size());
  uint32_t expected = isCollectiveStep ? collectiveStream : computeStream;
  if (entry.stream() != expected)
    return dataLoss("stream {}, expected {} for a kernel that {}",
                    entry.stream(), expected,
                    isCollectiveStep ? "talks to other ranks" : "computes");
  QWEN_RETURN_IF_ERROR(verifyWaits(step));
  QWEN_RETURN_IF_ERROR(verifyOrder(step));
  members[entry.stream()].push_back(step);
  return okStatus();
}

Status StreamsVerifier::verify(const plan::Program &program) {
  steps = program.steps();
  accesses.clear();
  firstAccess.assign(1, 0);
  started.clear();
  now = {};
  for (std::vector<uint32_t> &list : members)
    list.clear();
  for (uint32_t step = 0; step < count(steps); ++step)
    if (Status status = verifyStep(step); !status.ok())
      return status.withContext(
          fmt::format("step {} ({})", step,
                      plan::EnumNameKernel(stepAt(step).kernel_type())));
  return okStatus();
}

} // namespace

Status qwen::verifyPlanStreams(const plan::Plan &plan) {
  StreamsVerifier verifier(plan);
  for (uint32_t i = 0; i < count(plan.programs()); ++i) {
    const plan::Program &program = *plan.programs()->Get(i);
    QWEN_RETURN_IF_ERROR(verifier.verify(program).withContext(fmt::format(
        "program {} '{}'", i, printable(program.name()->string_view()))));
  }
  return okStatus();
}
