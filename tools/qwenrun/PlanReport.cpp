//===- PlanReport.cpp - What qwenrun says of a plan -----------------------===//

#include "PlanReport.h"

#include "runtime/checkpoint/Staging.h"
#include "runtime/plan/PlanText.h"
#include "runtime/profile/Implementations.h"
#include "runtime/support/Format.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace qwen;

static std::string describeFlops(const PlanInfo &info) {
  std::string text;
  double perToken = 0, perPair = 0;
  for (const PlanFlopsTerm &term : info.flops) {
    text += fmt::format("  {:<24} {:.4g} a token", term.name, term.perToken);
    if (term.perTokenContext > 0)
      text += fmt::format(" + {:.4g} a pair of tokens", term.perTokenContext);
    text += "\n";
    perToken += term.perToken;
    perPair += term.perTokenContext;
  }
  return fmt::format(
      "model FLOPs, forward and backward: {:.4g} tokens + {:.4g} "
      "pairs, a pair being a token and one at or before it in "
      "its document\n{}",
      perToken, perPair, text);
}

std::string qwen::describePlan(const Plan &plan, const std::string &path) {
  const PlanInfo &info = plan.info();
  int64_t elements = 0;
  for (const PlanParameter &parameter : plan.parameters())
    elements += parameter.type.elements();
  std::string text = fmt::format(
      "plan {} ({}, content {:016x})\n"
      "schema {} (this runtime reads {}), kernel ABI {:016x}\n"
      "made by qwenc {} with {}\n"
      "target {}, {} rank{}\n"
      "micro-batch: {} tokens, at most {} documents; vocabulary {}\n"
      "parameters: {} tensors, {} elements\n",
      path, formatBytes(double(plan.fileBytes())), info.contentHash,
      info.schemaVersion, planSchemaVersion, info.kernelAbi,
      info.compilerVersion,
      info.compilerFlags.empty() ? "no flags" : info.compilerFlags, info.target,
      info.worldSize, info.worldSize == 1 ? "" : "s", info.tokens,
      info.maxDocuments, info.vocabSize, plan.parameters().size(), elements);
  for (const PlanFact &fact : info.model)
    // A fact may be a whole file.
    if (fact.text.find('\n') == fact.text.npos)
      text += fmt::format("  {:<24} {}\n", fact.name, fact.text);
  for (const PlanProgram &program : plan.programs())
    text += fmt::format("program {:<16} {} launches\n", program.name,
                        program.launches);
  return text + describeForecast(info) + "\n" + describeFlops(info);
}

StatusOr<std::string> qwen::kernelTable(const Plan &plan) {
  QWEN_ASSIGN_OR_RETURN(std::vector<KernelUse> uses, kernelUses(plan));
  size_t width = 14;
  for (const KernelUse &use : uses)
    width = std::max(width, use.implementation.size());
  std::string text = fmt::format("{:<26} {:<{}}", "kernel", "runs as", width);
  for (const PlanProgram &program : plan.programs())
    text += fmt::format(" {:>10}", program.name);
  for (const KernelUse &use : uses) {
    text +=
        fmt::format("\n{:<26} {:<{}}", use.kernel, use.implementation, width);
    for (int64_t count : use.launches)
      text += fmt::format(" {:>10}", count);
    if (use.readsBoundaries)
      text += "  documents from input 'cu_seqlens'";
  }
  return text;
}

/// "model.layers.3.mlp.up_proj.weight" as "model.layers.*.mlp.up_proj.weight".
static std::string foldNumbers(const std::string &name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    size_t end = std::min(name.find('.', i), name.size());
    std::string_view part = std::string_view(name).substr(i, end - i);
    bool number = !part.empty() &&
                  std::all_of(part.begin(), part.end(),
                              [](char c) { return c >= '0' && c <= '9'; });
    out += number ? "*" : part;
    if (end < name.size())
      out += '.';
    i = end + 1;
  }
  return out;
}

std::string qwen::describeDecay(Engine &engine, double weightDecay) {
  enum { NoDecay, Decay, NotTrained, Kinds };
  std::map<std::string, int64_t> names[Kinds];
  int64_t tensors[Kinds] = {};
  for (size_t i = 0; const ParameterView &view : engine.parameters()) {
    const ParameterRole &role = engine.roles()[i++];
    int kind = !role.gradient.data ? NotTrained : role.decay ? Decay : NoDecay;
    ++names[kind][foldNumbers(view.name)];
    ++tensors[kind];
  }
  auto list = [&](std::string_view what, int kind) {
    std::string text = fmt::format("{} {} tensors", what, tensors[kind]);
    const char *separator = ": ";
    for (auto &[name, count] : names[kind]) {
      text += separator + name + (count > 1 ? fmt::format(" x{}", count) : "");
      separator = ", ";
    }
    return text;
  };
  std::string text =
      list(fmt::format("weight decay {} on", weightDecay), Decay) + "\n" +
      list("no decay on", NoDecay);
  return tensors[NotTrained] == 0
             ? text
             : text + "\n" + list("not trained:", NotTrained);
}

namespace {
/// Norm weights of one convention.
struct Norms {
  double mean = 0;
  int64_t count = 0;
};
} // namespace

/// The norm weights that start at `init`.
static StatusOr<Norms> measureNorms(Engine &engine, ParameterInit init) {
  double sum = 0;
  int64_t count = 0;
  Staging staging(engine.memory());
  for (size_t i = 0; const ParameterView &view : engine.parameters())
    if (engine.roles()[i++].init == init &&
        view.name.ends_with("norm.weight")) {
      QWEN_ASSIGN_OR_RETURN(double mean, staging.mean(view.value));
      auto elements = std::accumulate(view.shape.begin(), view.shape.end(),
                                      int64_t(1), std::multiplies<>());
      // A rank's slice counts as what it is of the tensor.
      sum += mean * (double(view.value.elements()) / double(elements));
      ++count;
    }
  if (count == 0)
    return Norms();
  QWEN_ASSIGN_OR_RETURN(sum, engine.ranks().sum(sum));
  return Norms{sum / double(count), count};
}

static std::string describeNorms(const Norms &norms, std::string_view what) {
  return norms.count == 0 ? ""
                          : fmt::format("; {} mean {:.3f} over {} tensors",
                                        what, norms.mean, norms.count);
}

StatusOr<std::string> qwen::describeLoad(Engine &engine,
                                         const LoadReport &report,
                                         const std::string &from) {
  std::string text =
      fmt::format("weights: {} tensors from '{}'", report.loadedTensors, from);
  for (const LoadReport::Cast &cast : report.casts)
    text += fmt::format("; {} cast {} -> {} ({}{})", cast.tensors,
                        fileDTypeName(cast.from), dtypeName(cast.to),
                        cast.example, cast.tensors > 1 ? ", …" : "");
  if (report.casts.empty())
    text += ", none cast";
  if (report.carriedTensors > 0)
    text += fmt::format("; {} not trained, carried through ({})",
                        report.carriedTensors,
                        formatBytes(double(report.carriedBytes)));
  QWEN_ASSIGN_OR_RETURN(Norms zero, measureNorms(engine, ParameterInit::Zero));
  QWEN_ASSIGN_OR_RETURN(Norms one, measureNorms(engine, ParameterInit::One));
  text += describeNorms(zero, "norms of 1 + w:") +
          describeNorms(one, "gated norms:");
  // Training moves both, by no known amount; that both are nearer to where the
  // other one starts is no accident.
  bool isExchanged =
      zero.count > 0 && one.count > 0 && zero.mean > 0.5 && one.mean < 0.5;
  return isExchanged ? "warning: norms of 1 + w have means near 1 and gated "
                       "norms near 0, as if one was taken for the other\n" +
                           text
                     : text;
}

std::string qwen::describeDevice(const Executor &executor) {
  if (executor.plan().info().targetKind == TargetKind::Cpu)
    return fmt::format("device: {}", executor.deviceName());
  MemoryReport memory = executor.memoryReport();
  std::string text = fmt::format(
      "device: {}; memory: plan {}, driver and other programs before it {}, "
      "kernels, graphs and libraries {}\nreplays:",
      executor.deviceName(), formatBytes(double(memory.plan)),
      formatBytes(double(memory.before)),
      formatBytes(double(memory.libraries)));
  for (int i = 0; i < int(executor.plan().programs().size()); ++i) {
    LaunchCounts counts = executor.launchCounts(i);
    text += fmt::format("{} {} {} kernels, {} driver calls", i ? ";" : "",
                        executor.plan().programs()[size_t(i)].name,
                        counts.kernels, counts.driverCalls);
  }
  return text;
}
