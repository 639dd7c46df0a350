//===- LaunchFacts.cpp - Work of the launches of a plan -------------------===//
//
// Looks at each step the way the executor does, without addresses.
//
//===----------------------------------------------------------------------===//

#include "runtime/profile/LaunchFacts.h"
#include "qwen/Plan/KernelCosts.h"
#include "runtime/plan/PlanSteps.h"

#include <algorithm>

using namespace qwen;

namespace {

template <typename Args>
void addOperands(LaunchFacts &facts, Args &args,
                 const std::vector<uint32_t> &views) {
  size_t next = 0;
  forEachAccess(args, [&](const char *name, const BufferType &type, bool reads,
                          bool writes) {
    facts.operands.push_back({name, views[next++], type, reads, writes});
  });
}

std::string dimensions(const BufferType &type) {
  std::string text;
  for (int i = 0; i < type.rank; ++i)
    text += fmt::format("{}{}", i ? "x" : "", type.dim(i));
  return text;
}

std::string shapeOf(const GemmArgs &args) {
  int64_t k = args.a.dim(args.transposeA ? 0 : 1);
  return fmt::format("{}x{}x{} {}{}{}", args.c.dim(0), args.c.dim(1), k,
                     args.transposeA ? 't' : 'n', args.transposeB ? 't' : 'n',
                     args.accumulate ? " +=" : "");
}
std::string shapeOf(const GroupArgs &args) { return args.symbol; }
std::string shapeOf(const GradNormArgs &args) {
  return fmt::format("{} tensors", args.grads.size());
}
std::string shapeOf(const AdamWArgs &args) {
  return fmt::format("{} tensors{}", args.params.size(),
                     args.decay ? ", decay" : "");
}
std::string shapeOf(const FillArgs &args) { return dimensions(args.out); }
std::string shapeOf(const RopeAnglesArgs &args) {
  return dimensions(args.angles);
}
std::string shapeOf(const EmbeddingArgs &args) { return dimensions(args.out); }
/// Where there are keys and values they tell more than the first operand.
template <typename Args> std::string shapeOf(const Args &args) {
  if constexpr (requires { args.v; })
    return dimensions(args.q) + ", " + dimensions(args.v);
  if constexpr (requires { args.labels; })
    return dimensions(args.x) + ", " + dimensions(args.weight);
  std::string first;
  Args(args).forEachOperand(
      [&](const char *, const BufferType &type, bool, bool) {
        if (first.empty())
          first = dimensions(type);
      });
  return first;
}

/// Drops `suffix` where the text has it.
bool consumeBack(std::string_view &text, std::string_view suffix) {
  if (!text.ends_with(suffix))
    return false;
  text.remove_suffix(suffix.size());
  return true;
}

/// "model.layers.3 attention_layer_backward recomputed".
LaunchPlace parseLabel(std::string_view label) {
  LaunchPlace place;
  bool recomputed = consumeBack(label, " recomputed");
  size_t space = label.rfind(' ');
  if (space != label.npos) {
    place.layer = label.substr(0, space);
    label.remove_prefix(space + 1);
  }
  bool backward = consumeBack(label, "_backward");
  if (!backward)
    consumeBack(label, "_forward");
  place.kind = label;
  place.stage = recomputed ? Stage::Recompute
                : backward ? Stage::Backward
                           : Stage::Forward;
  return place;
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
    facts.stream = step->stream();
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
      facts.shape = shapeOf(std::as_const(args));
      facts.flops = kernelFlops(args);
      facts.flopsPerPair = kernelFlopsPerPair(args);
      facts.bytes = kernelBytes(args);
      addOperands(facts, args, views);
      return okStatus();
    });
    assert(status.ok());
    (void)status;
    result.push_back(std::move(facts));
  }
  return result;
}

const char *qwen::stageName(Stage stage) {
  constexpr const char *names[stageCount] = {"forward", "loss", "backward",
                                             "recompute", "update"};
  return names[int(stage)];
}

std::vector<LaunchPlace>
qwen::launchPlaces(const std::vector<LaunchFacts> &launches) {
  std::vector<LaunchPlace> places;
  bool afterLoss = false;
  for (const LaunchFacts &launch : launches) {
    LaunchPlace place;
    if (launch.kernel.starts_with("linear_cross_entropy")) {
      place.stage = Stage::Loss;
      afterLoss = true;
    } else if (launch.kernel == "grad_norm" || launch.kernel == "adamw") {
      place.stage = Stage::Update;
    } else if (!launch.label.empty()) {
      place = parseLabel(launch.label);
    } else {
      place.stage = afterLoss ? Stage::Backward : Stage::Forward;
    }
    places.push_back(std::move(place));
  }
  return places;
}
