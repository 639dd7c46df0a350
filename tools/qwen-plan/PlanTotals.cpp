//===- PlanTotals.cpp - Work of the launches of a plan --------------------===//
//
// Looks at each step the way the executor does, without addresses.
//
//===----------------------------------------------------------------------===//

#include "PlanTotals.h"
#include "qwen/Plan/KernelCosts.h"
#include "qwen/Support/Saturating.h"
#include "runtime/plan/PlanSteps.h"

using namespace qwen;

namespace {

template <typename Args>
void addOperands(LaunchFacts &facts, Args &args,
                 const std::vector<uint32_t> &views) {
  int64_t outputs = 0, output = 0;
  args.forEachOperand([&](const char *, const BufferType &, bool, bool writes) {
    outputs += writes;
  });
  size_t next = 0;
  args.forEachOperand([&](const char *name, const BufferType &type, bool reads,
                          bool writes) {
    reads |= writes && accumulatesInto(args, output++, outputs);
    facts.operands.push_back({name, views[next++], type, reads, writes});
    facts.bytes =
        saturatingAdd(facts.bytes, type.bytes() * (int(reads) + int(writes)));
  });
}

} // namespace

std::vector<LaunchFacts> qwen::launchFacts(const Plan &plan, int program) {
  const plan::Plan &raw = plan.raw();
  const auto *steps = raw.programs()->Get(program)->steps();
  std::vector<LaunchFacts> result;
  if (!steps)
    return result;
  for (const plan::Step *step : *steps) {
    LaunchFacts facts;
    if (step->label() != noPlanId)
      facts.label = raw.labels()->Get(step->label())->str();
    std::vector<uint32_t> views;
    auto resolve = [&](uint32_t id, BufferType &type) {
      type = toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
      views.push_back(id);
      return okStatus();
    };
    // The plan is verified: every step has a known kernel.
    Status status = visitStep(*step, resolve, [&](auto &args) {
      using Args = std::decay_t<decltype(args)>;
      facts.kernel = Args::kernelName;
      if constexpr (std::is_same_v<Args, GroupArgs>)
        facts.symbol = args.symbol;
      facts.flops = kernelFlops(args);
      facts.flopsVary = std::is_same_v<Args, AttentionArgs> ||
                        std::is_same_v<Args, AttentionGradArgs>;
      addOperands(facts, args, views);
      return okStatus();
    });
    assert(status.ok());
    (void)status;
    result.push_back(std::move(facts));
  }
  return result;
}
