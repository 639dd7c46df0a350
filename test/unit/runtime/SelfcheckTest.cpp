//===- SelfcheckTest.cpp - A check that cannot fail is none ---------------===//
//
// Right kernels and engines pass every check; one with a fault in one result
// fails the check of that result.
//
//===----------------------------------------------------------------------===//

#include "SampleShapes.h"
#include "TemporaryFolder.h"
#include "TinyPlan.h"
#include "runtime/selfcheck/Agreement.h"
#include "runtime/selfcheck/EngineChecks.h"
#include "runtime/selfcheck/StateBits.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/PlanEngine.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace qwen;

namespace {

using Rows = std::vector<CheckRow>;
using Outcome = CheckRow::Outcome;

/// "name: what, found" of the missed rows.
std::string misses(const Rows &rows) {
  std::string text;
  for (const CheckRow &row : rows)
    if (row.outcome == Outcome::Missed)
      text += fmt::format("{}: {}, found {} of {}\n", row.check, row.what,
                          row.found, row.bound);
  return text;
}

bool missed(const Rows &rows, const std::string &check) {
  return std::ranges::any_of(rows, [&](const CheckRow &row) {
    return row.check == check && row.outcome == Outcome::Missed;
  });
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Small operators.
OperatorShapes smallShapes(DType dtype) {
  return sampleShapes(dtype, {.keyHeads = 1,
                              .valueHeads = 2,
                              .keyDim = 16,
                              .valueDim = 8,
                              .queryHeads = 4,
                              .attentionKeyHeads = 2,
                              .headDim = 16,
                              .channels = 24,
                              .hidden = 16,
                              .classes = 50,
                              .slots = 3,
                              .scale = 0.25,
                              .attentionScale = 0.25,
                              .eps = 1e-6});
}

/// What goes wrong in a result.
struct Fault {
  std::string kernel, result;
  enum class Kind { Scaled, OneElement, NotANumber, OutsideDocuments } kind;
};

double read(const Buffer &view, int64_t i) {
  return view.dtype == DType::F64 ? view.as<double>()[i]
                                  : double(view.as<float>()[i]);
}
void write(const Buffer &view, int64_t i, double value) {
  if (view.dtype == DType::F64)
    view.as<double>()[i] = value;
  else
    view.as<float>()[i] = float(value);
}

/// Contiguous float32 and float64 results only.
void apply(Fault::Kind kind, const Buffer &view) {
  double largest = 0;
  for (int64_t i = 0; i < view.elements(); ++i)
    largest = std::max(largest, std::fabs(read(view, i)));
  switch (kind) {
  case Fault::Kind::Scaled:
    for (int64_t i = 0; i < view.elements(); ++i)
      write(view, i, 1.03 * read(view, i));
    return;
  case Fault::Kind::OneElement:
    return write(view, 7, read(view, 7) + largest / 2);
  case Fault::Kind::NotANumber:
    return write(view, 7, std::nan(""));
  case Fault::Kind::OutsideDocuments:
    return write(view, view.elements() - 1, 1e-6);
  }
}

/// The CPU's kernels with a fault.
class FaultyRunner final : public KernelRunner {
public:
  explicit FaultyRunner(std::optional<Fault> fault) : fault(fault) {}
  const char *name() const override { return "faulty"; }
#define QWEN_DEFINE_LAUNCH(Name)                                               \
  Status launch(const Name##Args &args) override { return run(args); }
  QWEN_CHECKED_KERNELS(QWEN_DEFINE_LAUNCH)
#undef QWEN_DEFINE_LAUNCH

private:
  template <typename Args> Status run(Args args) {
    QWEN_RETURN_IF_ERROR(cpu->launch(args));
    if (fault && fault->kernel == Args::kernelName)
      args.forEachOperand([&](const char *name, auto &view, bool, bool) {
        if constexpr (std::is_same_v<std::decay_t<decltype(view)>, Buffer>)
          if (name == fault->result)
            apply(fault->kind, view);
      });
    return okStatus();
  }

  std::unique_ptr<KernelRunner> cpu = createCpuKernelRunner();
  std::optional<Fault> fault;
};

const std::pair<const char *, const char *> results[] = {
    {"gated_delta", "o"},
    {"gated_delta_grad", "dq"},
    {"gated_delta_grad", "dk"},
    {"gated_delta_grad", "dv"},
    {"gated_delta_grad", "dg"},
    {"gated_delta_grad", "dbeta"},
    {"attention", "o"},
    {"attention", "lse"},
    {"attention_grad", "dq"},
    {"attention_grad", "dk"},
    {"attention_grad", "dv"},
    {"causal_conv1d", "y"},
    {"causal_conv1d_grad", "dx"},
    {"causal_conv1d_grad", "dweight"},
    {"linear_cross_entropy", "nll"},
    {"linear_cross_entropy_grad", "nll"},
    {"linear_cross_entropy_grad", "dx"},
    {"linear_cross_entropy_grad", "dweight"}};

/// Runs a check with each fault in each result; all must be found there.
template <typename Check>
void expectFaultsFound(
    Check &&check, std::vector<Fault::Kind> kinds,
    bool (*isChecked)(std::string_view, std::string_view) =
        [](std::string_view, std::string_view) { return true; }) {
  for (const auto &[kernel, result] : results)
    for (Fault::Kind kind : kinds) {
      if (!isChecked(kernel, result))
        continue;
      SCOPED_TRACE(fmt::format("{} {} {}", kernel, result, int(kind)));
      FaultyRunner runner(Fault{kernel, result, kind});
      StatusOr<Rows> rows = check(runner);
      ASSERT_OK(rows.status());
      EXPECT_TRUE(missed(*rows, fmt::format("{} {}", kernel, result)))
          << checkTable(*rows);
    }
}

} // namespace

TEST(OperatorChecksTest, RightKernelsPass) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    OperatorShapes shapes = smallShapes(dtype);
    FaultyRunner runner(std::nullopt);
    auto wide = checkAgainstDouble(shapes, runner, {});
    ASSERT_OK(wide.status());
    EXPECT_EQ(wide->size(), std::size(results));
    EXPECT_EQ(misses(*wide), "");
    auto differences = checkAgainstDifferences(shapes, runner, {});
    ASSERT_OK(differences.status());
    EXPECT_EQ(differences->size(), 12u);
    EXPECT_EQ(misses(*differences), "");
    auto twin = checkAgainstCpu(shapes, runner, {});
    ASSERT_OK(twin.status());
    EXPECT_EQ(twin->size(), std::size(results));
    EXPECT_EQ(misses(*twin), "");
  }
}

TEST(OperatorChecksTest, FaultsShowAgainstDouble) {
  OperatorShapes shapes = smallShapes(DType::F32);
  expectFaultsFound(
      [&](KernelRunner &runner) {
        return checkAgainstDouble(shapes, runner, {.tokens = 120, .packs = 2});
      },
      {Fault::Kind::Scaled, Fault::Kind::OneElement, Fault::Kind::NotANumber});
}

TEST(OperatorChecksTest, FaultsShowAgainstTheTwin) {
  OperatorShapes shapes = smallShapes(DType::F32);
  expectFaultsFound(
      [&](KernelRunner &runner) {
        return checkAgainstCpu(shapes, runner, {.tokens = 120, .packs = 2});
      },
      {Fault::Kind::Scaled, Fault::Kind::OneElement, Fault::Kind::NotANumber});
}

TEST(OperatorChecksTest, FaultsShowInDifferences) {
  OperatorShapes shapes = smallShapes(DType::F32);
  expectFaultsFound(
      [&](KernelRunner &runner) {
        return checkAgainstDifferences(shapes, runner, {});
      },
      {Fault::Kind::Scaled},
      [](std::string_view kernel, std::string_view result) {
        return kernel.ends_with("_grad") && result != "nll";
      });
}

TEST(OperatorChecksTest, RowsOfNoDocumentMustBeZeros) {
  OperatorShapes shapes = smallShapes(DType::F32);
  FaultyRunner runner(
      Fault{"gated_delta_grad", "dv", Fault::Kind::OutsideDocuments});
  auto rows = checkAgainstDouble(shapes, runner, {.packs = 4});
  ASSERT_OK(rows.status());
  EXPECT_TRUE(missed(*rows, "gated_delta_grad dv")) << checkTable(*rows);
}

TEST(OperatorChecksTest, WhatAPlanDoesNotHaveIsSkipped) {
  OperatorShapes shapes = smallShapes(DType::F32);
  shapes.attention.reset();
  FaultyRunner runner(std::nullopt);
  auto rows = checkAgainstDouble(shapes, runner, {});
  ASSERT_OK(rows.status());
  auto skipped = std::ranges::find(*rows, Outcome::Skipped, &CheckRow::outcome);
  ASSERT_NE(skipped, rows->end());
  EXPECT_EQ(skipped->check, "attention");
  EXPECT_EQ(countMisses(*rows), 0);
  EXPECT_EQ(countCompared(*rows), int64_t(rows->size()) - 1);
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

namespace {

using Program = EngineRun::Program;

/// An engine whose results somebody changes.
class FaultyEngine final : public Engine {
public:
  explicit FaultyEngine(Engine &engine) : engine(engine) {}
  /// Called with each output before it is read.
  std::function<void(EngineRun, const Buffer &)> fault;

  PackLimits limits() const override { return engine.limits(); }
  int64_t vocabSize() const override { return engine.vocabSize(); }
  std::span<ParameterView> parameters() override { return engine.parameters(); }
  std::span<const ParameterRole> roles() const override {
    return engine.roles();
  }
  const EngineInputs &inputs() const override { return engine.inputs(); }
  DeviceMemory &memory() override { return engine.memory(); }
  double trainingFlops(double tokens, double pairs) const override {
    return engine.trainingFlops(tokens, pairs);
  }
  double launchedFlops(int64_t microBatches, double pairs) const override {
    return engine.launchedFlops(microBatches, pairs);
  }
  StatusOr<EngineRun> start(Program program) override {
    return engine.start(program);
  }
  StatusOr<Buffer> finish(EngineRun run) override {
    QWEN_ASSIGN_OR_RETURN(Buffer output, engine.finish(run));
    if (fault)
      fault(run, output);
    return output;
  }
  int64_t keptRuns() const override { return engine.keptRuns(); }
  StatusOr<NonFiniteFinding> findNonFinite(Program program) override {
    return engine.findNonFinite(program);
  }
  bool runsAhead() const override { return engine.runsAhead(); }

private:
  Engine &engine;
};

/// Hand-made plan with 16 tokens.
class EngineChecksTest : public testing::Test {
protected:
  void SetUp() override {
    std::string bytes = makeTinyPlan({});
    auto plan = Plan::parse(std::as_bytes(std::span(bytes)), "tiny");
    ASSERT_OK(plan.status());
    auto made = PlanEngine::create(*plan, {});
    ASSERT_OK(made.status());
    real.emplace(std::move(*made));
    ASSERT_OK(initializeParameters(*real, 1));
    engine.emplace(*real);
  }

  /// A micro-step again, as single launches would run it.
  StatusOr<Buffer> plainRun(Program program) {
    QWEN_ASSIGN_OR_RETURN(EngineRun run, real->start(program));
    return real->finish(run);
  }
  StatusOr<Rows> replay() {
    return checkReplay(
        *engine, [this](Program program) { return plainRun(program); }, 1);
  }

  std::optional<PlanEngine> real;
  std::optional<FaultyEngine> engine;
};

/// The last bit of the first loss that is not 0.
void flipBit(const Buffer &losses) {
  for (int64_t i = 0; i < losses.elements(); ++i)
    if (float &loss = losses.as<float>()[i]; loss != 0) {
      loss = std::nextafter(loss, 1e9f);
      return;
    }
}

} // namespace

TEST_F(EngineChecksTest, GoodEnginePasses) {
  auto before = parameterBits(*real);
  ASSERT_OK(before.status());
  for (auto rows :
       {checkIsolation(*engine, 1), replay(), checkRepeatability(*engine, 1)}) {
    ASSERT_OK(rows.status());
    EXPECT_EQ(misses(*rows), "");
    EXPECT_EQ(countCompared(*rows), int64_t(rows->size()));
  }
  auto after = parameterBits(*real);
  ASSERT_OK(after.status());
  EXPECT_EQ(before->firstDifference(*after), "");
}

TEST_F(EngineChecksTest, LossesThatDependOnTheNeighbours) {
  engine->fault = [&](EngineRun, const Buffer &losses) {
    // Depends on whether the pack has a second document.
    const int32_t *boundaries = engine->inputs().cuSeqlens.as<int32_t>();
    if (boundaries[2] > boundaries[1])
      flipBit(losses);
  };
  auto rows = checkIsolation(*engine, 1);
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), 1) << checkTable(*rows);
}

TEST_F(EngineChecksTest, LossesThatDependOnOtherTokens) {
  int64_t runs = 0;
  engine->fault = [&](EngineRun, const Buffer &losses) {
    const int32_t *boundaries = engine->inputs().cuSeqlens.as<int32_t>();
    float sum = 0;
    for (int32_t t = 0; t < boundaries[1]; ++t)
      sum += float(engine->inputs().tokens.as<int32_t>()[t]);
    for (int32_t t = boundaries[1]; t < boundaries[2]; ++t)
      losses.as<float>()[t] += sum;
    ++runs;
  };
  auto rows = checkIsolation(*engine, 1);
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), 2) << checkTable(*rows);
  EXPECT_GT(runs, 3);
}

TEST_F(EngineChecksTest, LossesThatDependOnNothing) {
  engine->fault = [](EngineRun, const Buffer &losses) {
    std::fill_n(losses.as<float>(), losses.elements(), 1.0f);
  };
  auto rows = checkIsolation(*engine, 1);
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), 1) << checkTable(*rows);
}

TEST_F(EngineChecksTest, LossesThatAreNotNumbers) {
  engine->fault = [](EngineRun, const Buffer &losses) {
    losses.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  auto rows = checkIsolation(*engine, 1);
  ASSERT_OK(rows.status());
  EXPECT_GE(countMisses(*rows), 1) << checkTable(*rows);
}

TEST_F(EngineChecksTest, ReplayWithOtherLosses) {
  engine->fault = [](EngineRun, const Buffer &losses) { flipBit(losses); };
  auto rows = replay();
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), int64_t(rows->size())) << checkTable(*rows);
}

TEST_F(EngineChecksTest, ReplayOfOnePackWithOtherGradients) {
  engine->fault = [&](EngineRun run, const Buffer &) {
    // Three equal documents alone.
    const int32_t *boundaries = engine->inputs().cuSeqlens.as<int32_t>();
    if (boundaries[1] == 5 && boundaries[2] == 10)
      engine->roles()[1].gradient.as<float>()[3] += 1;
  };
  auto rows = replay();
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), 1) << checkTable(*rows);
  EXPECT_NE(misses(*rows).find("gradient of lm_head.weight"),
            std::string::npos);
}

TEST_F(EngineChecksTest, StepsThatDiffer) {
  int64_t updates = 0;
  engine->fault = [&](EngineRun run, const Buffer &) {
    if (run.program == Program::Update && ++updates == 2)
      engine->parameters()[0].moment1.as<float>()[0] += 1;
  };
  auto rows = checkRepeatability(*engine, 1);
  ASSERT_OK(rows.status());
  EXPECT_EQ(countMisses(*rows), 1) << checkTable(*rows);
  EXPECT_NE(misses(*rows).find("first moment of"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Agreement
//===----------------------------------------------------------------------===//

TEST(AgreementTest, MeanSquareFindsOneElementToo) {
  const int64_t shape[] = {1000, 1};
  HostTensor reference(contiguousType(DType::F32, shape)), result = reference;
  reference.fill(1);
  result.fill(1);
  AgreementRule rule{AgreementRule::Kind::MeanSquare, 0.01};
  EXPECT_TRUE(compare(result, reference, 1000, rule).passed());
  result.set(500, 1.05);
  EXPECT_TRUE(compare(result, reference, 1000, rule).passed());
  // 0.1 / sqrt(1000) is within the bound, but no rounding gives that.
  result.set(500, 1.1);
  EXPECT_FALSE(compare(result, reference, 1000, rule).passed());
}

TEST(AgreementTest, WorstOfSeveral) {
  Agreement worst;
  worst.merge({0.1, 0.05});
  worst.merge({0.2, 0.06});
  EXPECT_EQ(worst.found, 0.05);
  worst.merge({0.2, 0.3});
  EXPECT_FALSE(worst.passed());
  worst.merge({0.1, 0.1});
  EXPECT_FALSE(worst.passed());
}
