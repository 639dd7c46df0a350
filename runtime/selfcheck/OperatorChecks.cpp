//===- OperatorChecks.cpp - Kernels one by one against a reference --------===//

#include "runtime/selfcheck/OperatorChecks.h"

#include "qwen/Support/Tolerance.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/selfcheck/OperatorRules.h"

#include <cmath>
#include <limits>

using namespace qwen;

namespace {

/// Products of fewer classes are other products: their algorithms are those of
/// the library, not the plan's.
template <typename Args> void takeFirstClasses(Args &args) {
  constexpr int64_t fewClasses = 1024;
  args.weight.shape[0] = std::min(args.weight.shape[0], fewClasses);
  args.logitsAlgorithm.clear();
  if constexpr (requires { args.dweight; }) {
    args.dweight.shape[0] = args.weight.shape[0];
    args.dxAlgorithm.clear();
    args.dweightAlgorithm.clear();
  }
}

/// Takes the arguments where nothing is there yet.
template <typename Args>
void keepFirst(std::optional<Args> &slot, const Args &args) {
  if (slot)
    return;
  slot = args;
  // Sums into what was there before are a matter of the whole step.
  if constexpr (requires { slot->accumulate; })
    slot->accumulate = false;
  if constexpr (requires { slot->labels; })
    takeFirstClasses(*slot);
}
template <typename Slot, typename Args> void keepFirst(Slot &, const Args &) {}

} // namespace

OperatorShapes OperatorShapes::of(const Plan &plan) {
  OperatorShapes shapes;
  const plan::Plan &raw = plan.raw();
  auto resolve = [&](uint32_t id, auto &buffer) {
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
    return okStatus();
  };
  for (unsigned program = 0; program < plan.programs().size(); ++program) {
    const auto *steps = raw.programs()->Get(program)->steps();
    for (unsigned i = 0; steps && i < steps->size(); ++i) {
      // The plan is verified: every step has a known kernel.
      Status status = visitStep(*steps->Get(i), resolve, [&](auto &args) {
        keepFirst(shapes.conv, args);
        keepFirst(shapes.convGrad, args);
        keepFirst(shapes.gatedDelta, args);
        keepFirst(shapes.gatedDeltaGrad, args);
        keepFirst(shapes.attention, args);
        keepFirst(shapes.attentionGrad, args);
        keepFirst(shapes.loss, args);
        keepFirst(shapes.lossGrad, args);
        return okStatus();
      });
      assert(status.ok());
      (void)status;
    }
  }
  return shapes;
}

//===----------------------------------------------------------------------===//
// Against another implementation
//===----------------------------------------------------------------------===//

namespace {

/// Agreement over the packs, by "kernel result".
using Findings = std::vector<std::pair<std::string, Agreement>>;

void addFinding(Findings &findings, const std::string &name,
                const Agreement &agreement) {
  for (auto &[known, worst] : findings)
    if (known == name)
      return worst.merge(agreement);
  findings.emplace_back(name, agreement);
}

std::string number(double value) {
  return value == 0 ? "0" : fmt::format("{:.2e}", value);
}

void addRows(const Findings &findings, const std::string &what,
             std::vector<CheckRow> &rows) {
  for (const auto &[name, agreement] : findings)
    rows.push_back(checkRow(name, what, number(agreement.bound),
                            number(agreement.found), agreement.passed()));
}

/// Who is compared with whom.
struct Comparison {
  KernelRunner &subject, &reference;
  ComparedWith with;
  const char *text; ///< for the table

  CaseTypes referenceTypes() const {
    return with == ComparedWith::Exact ? CaseTypes::Double : CaseTypes::Plan;
  }
};

/// Runs one kernel on both sides and compares its results.
template <typename Args>
Status compareKernel(const Comparison &comparison, const Args &prototype,
                     KernelCase<Args> &own, KernelCase<Args> &other,
                     const CheckPack &pack, Findings &findings) {
  QWEN_RETURN_IF_ERROR(comparison.subject.launch(own.args()));
  QWEN_RETURN_IF_ERROR(comparison.reference.launch(other.args()));
  for (const OutputRule &output :
       outputRules(prototype, pack, comparison.with)) {
    HostTensor &result = own[output.name];
    int64_t rows = own.has("cu_seqlens") && isPerToken(output.name)
                       ? pack.used()
                       : result.type().dim(0);
    addFinding(findings, fmt::format("{} {}", Args::kernelName, output.name),
               compare(result, other[output.name], rows, output.rule));
  }
  return okStatus();
}

/// Compares an operator and its gradients on one pack.
template <typename Forward, typename Gradient>
Status comparePack(const Comparison &comparison, const Forward &forward,
                   const Gradient &gradient, const CheckPack &pack,
                   std::mt19937_64 &random, Findings &findings) {
  CaseTypes types = comparison.referenceTypes();
  KernelCase<Forward> own(forward, pack, CaseTypes::Plan);
  KernelCase<Forward> other(forward, pack, types);
  own.draw(random, pack);
  other.take(own);
  QWEN_RETURN_IF_ERROR(
      compareKernel(comparison, forward, own, other, pack, findings));
  KernelCase<Gradient> ownGradient(gradient, pack, CaseTypes::Plan);
  KernelCase<Gradient> otherGradient(gradient, pack, types);
  ownGradient.draw(random, pack);
  otherGradient.take(ownGradient);
  // What the forward leaves for its gradients: exact results are those of an
  // exact forward; twins start from the same one.
  ownGradient.take(comparison.with == ComparedWith::CpuTwin ? other : own);
  otherGradient.take(other);
  return compareKernel(comparison, gradient, ownGradient, otherGradient, pack,
                       findings);
}

template <typename Forward, typename Gradient>
Status compareOperator(const Comparison &comparison,
                       const std::optional<Forward> &forward,
                       const std::optional<Gradient> &gradient,
                       const OperatorCheckOptions &options,
                       std::vector<CheckRow> &rows) {
  if (!forward || !gradient) {
    rows.push_back(skippedRow(Forward::kernelName, "the plan has none"));
    return okStatus();
  }
  std::mt19937_64 random(options.seed);
  Findings findings;
  for (int i = 0; i < options.packs; ++i)
    QWEN_RETURN_IF_ERROR(comparePack(comparison, *forward, *gradient,
                                     CheckPack::random(random, options.tokens),
                                     random, findings));
  addRows(findings,
          fmt::format("{}; {}, {} packs of {} tokens", comparison.text,
                      describeSizes(*forward), options.packs, options.tokens),
          rows);
  return okStatus();
}

StatusOr<std::vector<CheckRow>>
compareAll(const Comparison &comparison, const OperatorShapes &shapes,
           const OperatorCheckOptions &options) {
  std::vector<CheckRow> rows;
  QWEN_RETURN_IF_ERROR(compareOperator(comparison, shapes.gatedDelta,
                                       shapes.gatedDeltaGrad, options, rows));
  QWEN_RETURN_IF_ERROR(compareOperator(comparison, shapes.attention,
                                       shapes.attentionGrad, options, rows));
  QWEN_RETURN_IF_ERROR(
      compareOperator(comparison, shapes.conv, shapes.convGrad, options, rows));
  QWEN_RETURN_IF_ERROR(
      compareOperator(comparison, shapes.loss, shapes.lossGrad, options, rows));
  return rows;
}

} // namespace

StatusOr<std::vector<CheckRow>>
qwen::checkAgainstCpu(const OperatorShapes &shapes, KernelRunner &gpu,
                      const OperatorCheckOptions &options) {
  auto cpu = createCpuKernelRunner();
  return compareAll(
      {gpu, *cpu, ComparedWith::CpuTwin, "CUDA kernel against the CPU's"},
      shapes, options);
}

StatusOr<std::vector<CheckRow>>
qwen::checkAgainstDouble(const OperatorShapes &shapes, KernelRunner &cpu,
                         const OperatorCheckOptions &options) {
  auto exact = createCpuKernelRunner();
  return compareAll({cpu, *exact, ComparedWith::Exact,
                     "CPU kernel against itself in float64"},
                    shapes, options);
}

//===----------------------------------------------------------------------===//
// Against differences
//===----------------------------------------------------------------------===//

namespace {

/// Elements of each operand that are moved.
constexpr int64_t samples = 12;

/// One group of heads, or a few channels and classes.
template <typename Args> Args reduced(Args args) {
  int64_t groups = 1;
  if constexpr (requires { args.q; })
    groups = std::min({args.q.dim(1), args.k.dim(1), args.v.dim(1)});
  args.forEachOperand([&](const char *name, auto &buffer, bool, bool) {
    if (name == std::string_view("cu_seqlens"))
      return;
    auto cut = [&](int dimension) {
      constexpr int64_t few = 24;
      if (dimension < buffer.rank)
        buffer.shape[dimension] = std::min(buffer.shape[dimension], few);
    };
    bool perToken = isPerToken(name);
    if constexpr (requires { args.q; })
      buffer.shape[1] /= groups;
    else if (!perToken)
      cut(0);
    if constexpr (requires { args.weight; })
      if (perToken || requires { args.labels; })
        cut(1);
  });
  return args;
}

/// Sum of the forward's result, weighted by its gradient.
template <typename Forward>
StatusOr<double> weightedResult(KernelRunner &cpu, KernelCase<Forward> &forward,
                                const char *result, HostTensor &weights) {
  QWEN_RETURN_IF_ERROR(cpu.launch(forward.args()));
  double sum = 0;
  HostTensor &values = forward[result];
  for (int64_t i = 0; i < values.size(); ++i)
    sum += values.get(i) * weights.get(i);
  return sum;
}

/// The forward's result and where its gradient enters.
template <typename Gradient> struct ResultNames {
  static constexpr const char *result = "o", *gradient = "dout";
};
template <> struct ResultNames<CausalConv1dGradArgs> {
  static constexpr const char *result = "y", *gradient = "dy";
};
template <> struct ResultNames<LinearCrossEntropyGradArgs> {
  static constexpr const char *result = "nll", *gradient = "dnll";
};

/// The error of one operand's gradient.
template <typename Forward, typename Gradient>
StatusOr<Agreement> differences(KernelRunner &cpu, KernelCase<Forward> &forward,
                                KernelCase<Gradient> &gradient,
                                const std::string &operand) {
  using Names = ResultNames<Gradient>;
  HostTensor &input = forward[operand],
             &found = gradient[fmt::format("d{}", operand)];
  HostTensor &weights = gradient[Names::gradient];
  auto loss = [&] {
    return weightedResult(cpu, forward, Names::result, weights);
  };
  QWEN_ASSIGN_OR_RETURN(double whole, loss());
  double magnitude = std::max(1.0, std::fabs(whole)), h = differenceStep();
  for (int64_t i = 0; i < found.size(); ++i)
    magnitude = std::max(magnitude, std::fabs(found.get(i)));
  Agreement agreement{differenceTolerance(magnitude, double(weights.size())),
                      0};
  int64_t step = std::max<int64_t>(1, input.size() / samples);
  for (int64_t i = step / 2; i < input.size(); i += step) {
    double old = input.get(i);
    input.set(i, old + h);
    QWEN_ASSIGN_OR_RETURN(double above, loss());
    input.set(i, old - h);
    QWEN_ASSIGN_OR_RETURN(double below, loss());
    input.set(i, old);
    double error = std::fabs((above - below) / (2 * h) - found.get(i));
    agreement.found = std::isnan(error)
                          ? std::numeric_limits<double>::infinity()
                          : std::max(agreement.found, error);
  }
  return agreement;
}

template <typename Forward, typename Gradient>
Status checkDifferences(KernelRunner &cpu,
                        const std::optional<Forward> &planForward,
                        const std::optional<Gradient> &planGradient,
                        std::vector<std::string> operands,
                        const OperatorCheckOptions &options,
                        std::vector<CheckRow> &rows) {
  if (!planForward || !planGradient)
    return okStatus();
  // Two documents, one of which crosses a chunk, and an empty one.
  const int64_t lengths[] = {19, 0, 75};
  CheckPack pack = CheckPack::of(lengths, 1, 0);
  std::mt19937_64 random(options.seed);
  Forward small = reduced(*planForward);
  KernelCase<Forward> forward(small, pack, CaseTypes::Double);
  KernelCase<Gradient> gradient(reduced(*planGradient), pack,
                                CaseTypes::Double);
  forward.draw(random, pack);
  QWEN_RETURN_IF_ERROR(cpu.launch(forward.args()));
  gradient.draw(random, pack);
  gradient.take(forward);
  QWEN_RETURN_IF_ERROR(cpu.launch(gradient.args()));
  Findings findings;
  for (const std::string &operand : operands) {
    QWEN_ASSIGN_OR_RETURN(Agreement agreement,
                          differences(cpu, forward, gradient, operand));
    addFinding(findings, fmt::format("{} d{}", Gradient::kernelName, operand),
               agreement);
  }
  addRows(findings,
          fmt::format("in float64 against central differences; {}, {} tokens",
                      describeSizes(small), pack.tokens),
          rows);
  return okStatus();
}

} // namespace

StatusOr<std::vector<CheckRow>>
qwen::checkAgainstDifferences(const OperatorShapes &shapes, KernelRunner &cpu,
                              const OperatorCheckOptions &options) {
  std::vector<CheckRow> rows;
  QWEN_RETURN_IF_ERROR(
      checkDifferences(cpu, shapes.gatedDelta, shapes.gatedDeltaGrad,
                       {"q", "k", "v", "g", "beta"}, options, rows));
  QWEN_RETURN_IF_ERROR(checkDifferences(cpu, shapes.attention,
                                        shapes.attentionGrad, {"q", "k", "v"},
                                        options, rows));
  QWEN_RETURN_IF_ERROR(checkDifferences(cpu, shapes.conv, shapes.convGrad,
                                        {"x", "weight"}, options, rows));
  QWEN_RETURN_IF_ERROR(checkDifferences(cpu, shapes.loss, shapes.lossGrad,
                                        {"x", "weight"}, options, rows));
  return rows;
}
