//===- Laws.cpp - What must be the same however it is computed ------------===//

#include "Laws.h"

#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Tolerance.h"
#include "test/e2e/DrawnWeights.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace qwen;
using namespace qwen::property;
using e2e::Generator;
using e2e::Model;
using e2e::PlanSpec;
using e2e::Tensors;
using e2e::TestDocument;

//===----------------------------------------------------------------------===//
// Drawing
//===----------------------------------------------------------------------===//

/// Another way to compile the same.
static void drawPolicy(Generator &generator, PlanSpec &spec) {
  constexpr const char *policies[] = {"none", "cheap", "full"};
  spec.recompute = policies[e2e::draw(generator, 3)];
  if (!e2e::testOptions().isCuda())
    spec.fuse = chance(generator, 65);
}

static PlanSpec drawRanks(const Case &drawn, Generator &generator,
                          int32_t least) {
  PlanSpec spec = drawn.spec;
  drawPolicy(generator, spec);
  spec.worldSize = chance(generator, 10) ? between(generator, 5, 8)
                                         : between(generator, least, 4);
  if (spec.worldSize > 1) {
    spec.prefetch = e2e::draw(generator, 4);
    spec.reshardAfterForward = chance(generator, 60);
    constexpr const char *exchanges[] = {"auto", "rows", "table"};
    spec.embeddingExchange = exchanges[e2e::draw(generator, 3)];
    // Gradients in bf16 are for one micro-batch a step.
    bool isNarrow = chance(generator, 35);
    if (isNarrow && int64_t(drawn.split.size()) <= spec.worldSize)
      spec.gradType = "bf16";
  }
  return spec;
}

static std::vector<PlanSpec> drawNothing(const Case &, Generator &) {
  return {};
}

static std::vector<PlanSpec> drawPolicies(const Case &drawn,
                                          Generator &generator) {
  PlanSpec spec = drawn.spec;
  while (spec == drawn.spec)
    drawPolicy(generator, spec);
  return {spec};
}

static std::vector<PlanSpec> drawPacking(const Case &drawn,
                                         Generator &generator) {
  PlanSpec spec = drawn.spec;
  drawPolicy(generator, spec);
  // The size is that of a case whose documents are not left out.
  CaseName whole = drawn.name;
  whole.documents.reset();
  drawPackSize(generator, drawCase(whole).documents, spec);
  return {spec};
}

static std::vector<PlanSpec> drawWorld(const Case &drawn,
                                       Generator &generator) {
  return {drawRanks(drawn, generator, 2)};
}

/// Two numbers of ranks, one of which may be one, or twice the same.
static std::vector<PlanSpec> drawTwoWorlds(const Case &drawn,
                                           Generator &generator) {
  PlanSpec first = drawRanks(drawn, generator, 1);
  if (chance(generator, 30))
    return {first, first};
  return {first, drawRanks(drawn, generator, 1)};
}

static std::vector<PlanSpec> drawReplay(const Case &drawn,
                                        Generator &generator) {
  PlanSpec spec = drawn.spec;
  drawPolicy(generator, spec);
  return {spec};
}

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

/// Recomputation, fusion and threads change no bit of anything.
static void checkPolicy(Check &check) {
  int threads = between(check.generator, 1, 3);
  check.variant =
      fmt::format("{}, {} threads", describePlan(check.specs[0]), threads);
  auto plan = check.compile(0);
  if (!plan)
    return;
  auto trained = train(*plan, executorOptions(threads), check.variantInputs(),
                       check.optimizer, 2);
  if (!check.succeeded(trained.status()))
    return;
  for (size_t i = 0; i < trained->steps.size(); ++i)
    check.expectSameStep(fmt::format("step {}:", i + 1),
                         check.reference.steps[i], trained->steps[i]);
}

/// Replayed graphs and plain launches are the same.
static void checkReplay(Check &check) {
  check.variant = describePlan(check.specs[0]) + ", graphs and plain launches";
  auto plan = check.compile(0);
  if (!plan)
    return;
  ExecutorOptions options = executorOptions(1);
  auto replayed = train(*plan, options, check.inputs, check.optimizer, 2);
  options.graph = false;
  auto plain = train(*plan, options, check.variantInputs(), check.optimizer, 2);
  if (!check.succeeded(replayed.status()) || !check.succeeded(plain.status()))
    return;
  for (size_t i = 0; i < plain->steps.size(); ++i)
    check.expectSameStep(fmt::format("step {}:", i + 1), replayed->steps[i],
                         plain->steps[i]);
}

static std::string embeddingName(const Inputs &inputs) {
  for (const auto &[name, values] : inputs.weights)
    if (name.ends_with("embed_tokens.weight"))
      return name;
  return {};
}

/// The embedding table, where it is the head too: its gradient has two sums.
static std::string tiedName(const Inputs &inputs) {
  return inputs.weights.count("lm_head.weight") ? "" : embeddingName(inputs);
}

/// A matrix product that accumulates goes on where the last one ended, so that
/// other borders between the same documents are the same sum.
static void checkMatrices(Check &check, const Model &model, const Step &step) {
  Tensors expected, found;
  for (const std::string &name : model.matrices()) {
    // A tied embedding has two sums that alternate.
    if (name == tiedName(check.inputs))
      continue;
    expected[name] = check.reference.steps[0].gradients.at(name);
    found[name] = step.gradients.at(name);
  }
  check.expectSameBits("in the same order, gradient of", expected, found);
}

/// Masters or parameters in float32, of a state.
static Tensors weightsOf(const Tensors &state) {
  Tensors result;
  for (const char *kind : {"master ", "parameter "})
    for (const auto &[name, values] : state)
      if (name.starts_with(kind))
        result.emplace(name.substr(name.find(' ') + 1), values);
  return result;
}

static bool hasExactWeights(const PlanSpec &spec) {
  return (spec.dtype == "f32" || spec.masters == "f32") &&
         spec.momentType == "f32";
}

/// Losses of evaluation are those of training.
static void checkEvaluation(Check &check, Model &model, const Inputs &inputs) {
  Step evaluated;
  evaluated.nll.resize(inputs.documents.size());
  for (const std::vector<size_t> &members : inputs.split) {
    std::vector<TestDocument> chosen;
    for (size_t member : members)
      chosen.push_back(inputs.documents[member]);
    Batch pack = e2e::makePack(chosen, model.limits());
    std::vector<float> losses = model.evaluate(pack);
    for (size_t i = 0; i < members.size() && !losses.empty(); ++i)
      evaluated.nll[members[i]] = e2e::sliceOf(losses, pack, i);
  }
  check.expectSameLosses(check.reference.steps[0], evaluated);
}

/// Packs of other documents, in another order, of another size: losses to the
/// bit, gradients and weights within the rounding of sums over tokens.
static void checkPacking(Check &check) {
  const PlanSpec &spec = check.specs[0];
  Inputs inputs = check.variantInputs();
  bool isSameOrder = chance(check.generator, 40);
  std::vector<size_t> order;
  for (const std::vector<size_t> &members : inputs.split)
    order.insert(order.end(), members.begin(), members.end());
  if (!isSameOrder)
    order = drawOrder(check.generator, order.size());
  inputs.split = drawSplit(check.generator, inputs.documents, order, spec);
  check.variant =
      fmt::format("{}, {} packs in {} order", describePlan(spec),
                  inputs.split.size(), isSameOrder ? "the same" : "another");
  auto plan = check.compile(0);
  if (!plan)
    return;
  auto model = Model::create(*plan, executorOptions(1));
  if (!check.succeeded(model.status()) ||
      !check.succeeded(model->setWeights(inputs.weights)))
    return;
  const Step &expected = check.reference.steps[0];
  checkEvaluation(check, *model, inputs);
  Step step = runMicroSteps(*model, inputs);
  check.expectSameLosses(expected, step);
  e2e::Bounds bounds = check.gradientBounds();
  if (bounds.empty())
    return;
  check.expectClose("gradient of", expected.gradients, step.gradients, bounds);
  if (isSameOrder && !e2e::testOptions().isCuda())
    checkMatrices(check, *model, step);
  runUpdate(*model, check.optimizer, 0, step);
  if (check.optimizer.isSmooth && hasExactWeights(spec)) {
    Tensors updated = weightsOf(expected.state);
    check.expectClose("updated", updated, weightsOf(step.state),
                      e2e::updateBounds(updated, expected.gradients, bounds,
                                        check.optimizer.adamw));
  }
}

/// A document that has tokens.
static size_t drawDocument(Check &check) {
  std::vector<size_t> members;
  for (size_t i = 0; i < check.inputs.documents.size(); ++i)
    if (check.inputs.documents[i].length() > 0)
      members.push_back(i);
  return members.empty() ? 0
                         : members[size_t(e2e::draw(check.generator,
                                                    int32_t(members.size())))];
}

/// Another document with no label changes no bit of anybody's loss and of no
/// gradient.
static void checkIsolation(Check &check) {
  size_t changed = drawDocument(check);
  check.variant = fmt::format("document {} is another one", changed);
  auto model = Model::create(*check.plan, executorOptions(1));
  if (!check.succeeded(model.status()) ||
      !check.succeeded(model->setWeights(check.inputs.weights)))
    return;
  Inputs inputs = check.inputs;
  TestDocument document = inputs.documents[changed].withoutLabels();
  inputs.documents[changed] = document;
  Step before = runMicroSteps(*model, inputs);
  inputs = check.variantInputs();
  inputs.documents[changed] =
      document.withOtherTokens(check.generator, model->vocabulary());
  if (!check.succeeded(model->setWeights(inputs.weights)))
    return;
  Step after = runMicroSteps(*model, inputs);
  check.expectSameLosses(before, after);
  check.expectSameBits("gradient of", before.gradients, after.gradients);
}

//===----------------------------------------------------------------------===//
// Several ranks
//===----------------------------------------------------------------------===//

/// Norm and clipping of N ranks are those of one but for the order of a sum in
/// float64, which rounding to float32 may show; with the same ones everything
/// else is the same to the bit. False where they are not.
static bool expectSameUpdate(Check &check, const std::string &what,
                             const Step &expected, const Step &found) {
  bool isSame = bool(e2e::sameBits(expected.stats, found.stats));
  if (isSame) {
    check.expectSameBits(what + " updated", expected.state, found.state);
    return true;
  }
  for (size_t i = 0; i < expected.stats.size(); ++i) {
    double want = double(expected.stats[i]), got = double(found.stats[i]);
    // The norm's rounding, and that of its quotient.
    double bound = 4 * unitRoundoff(DType::F32) * std::abs(want);
    if (!(std::abs(got - want) <= bound))
      check.add(fmt::format("{} number {} of norm, clip, finite: expected {} "
                            "within {:.3g}, found {}",
                            what, i, want, bound, got));
  }
  return false;
}

/// One rank adds both sums of a tied embedding pack by pack; several add each
/// of them over the ranks first, which is another order. So is that of ranks
/// which exchange rows of the embedding: they add the tokens of all packs one
/// by one. Where ranks hold gradients in bf16, each of them is rounded once
/// more.
static void expectRankGradients(Check &check, const std::string &what,
                                const Step &expected, const Step &found) {
  Tensors exact = expected.gradients, others = found.gradients;
  bool isNarrow = check.specs[0].gradType == "bf16";
  if (isNarrow)
    for (auto &[name, values] : exact)
      for (float &value : values)
        value = toFloat(toBFloat16(value));
  bool mayExchange = check.specs[0].embeddingExchange != "table";
  std::string table =
      mayExchange ? embeddingName(check.inputs) : tiedName(check.inputs);
  if (!table.empty()) {
    e2e::Bounds all = check.gradientBounds();
    if (all.empty())
      return;
    double bound = all.at(table);
    // The first sum is rounded, and so is that of both, here and there.
    if (isNarrow)
      bound += 3 * unitRoundoff(DType::BF16) * check.gradientSizes().at(table);
    check.expectClose(what + " gradient of", exact, others, {{table, bound}});
    exact.erase(table);
    others.erase(table);
  }
  check.expectSameBits(what + " gradient of", exact, others);
}

/// N ranks are one rank that adds the gradients of the packs as they do.
static void checkRanks(Check &check) {
  const PlanSpec &spec = check.specs[0];
  check.variant = describePlan(spec);
  auto plan = check.compile(0);
  if (!plan)
    return;
  auto model = Model::create(*check.plan, executorOptions(1));
  if (!check.succeeded(model.status()) ||
      !check.succeeded(model->setWeights(check.inputs.weights)))
    return;
  auto found = trainOnRanks(*plan, check.variantInputs(), check.optimizer, {});
  if (!check.succeeded(found.status()))
    return;
  for (int i = 0; i < 2; ++i) {
    std::string what = fmt::format("step {}:", i + 1);
    const Step &step = found->steps[size_t(i)];
    Step expected = runAsRanks(*model, check.inputs, int(spec.worldSize));
    check.expectSameLosses(expected, step);
    expectRankGradients(check, what, expected, step);
    // The update of the same gradients.
    if (!check.succeeded(model->setGradients(step.gradients)))
      return;
    runUpdate(*model, check.optimizer, i, expected);
    if (!expectSameUpdate(check, what, expected, step))
      return;
  }
}

/// Everything but the gradients, which belong to a step.
static Tensors lasting(const Tensors &state) {
  Tensors result;
  for (const auto &[name, values] : state)
    if (!name.starts_with("gradient "))
      result[name] = values;
  return result;
}

static StatusOr<Trained> trainOn(const Plan &plan, const Inputs &inputs,
                                 const Optimizer &optimizer, RankRun run) {
  return trainOnRanks(plan, inputs, optimizer, run);
}

/// A run that is saved after its first step and goes on, on the same number of
/// ranks or another, has lost no bit; on the same number, with gradients in the
/// same type and the same sent of the embedding, it trains as if it had never
/// stopped.
static void checkRestart(Check &check) {
  check.variant =
      describePlan(check.specs[0]) + "; then " + describePlan(check.specs[1]);
  auto saving = check.compile(0), going = check.compile(1);
  if (!saving || !going)
    return;
  TemporaryFolder folder;
  RankRun begin, rest;
  begin.steps = rest.steps = rest.firstStep = 1;
  begin.saveTo = rest.resumeFrom = folder.path;
  auto first = trainOn(*saving, check.inputs, check.optimizer, begin);
  auto whole = trainOn(*saving, check.inputs, check.optimizer, {});
  if (!check.succeeded(first.status()) || !check.succeeded(whole.status()))
    return;
  auto second = trainOn(*going, check.variantInputs(), check.optimizer, rest);
  if (!check.succeeded(second.status()))
    return;
  check.expectSameStep("step 1:", whole->steps[0], first->steps[0]);
  check.expectSameBits("resumed", lasting(first->steps[0].state),
                       lasting(second->start));
  const PlanSpec &before = check.specs[0], &after = check.specs[1];
  if (before.worldSize == after.worldSize &&
      before.gradType == after.gradType &&
      before.embeddingExchange == after.embeddingExchange)
    check.expectSameStep("step 2:", whole->steps[1], second->steps[0]);
  else
    check.expectSameLosses(whole->steps[1], second->steps[0]);
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

static constexpr Law everyLaw[] = {
    {"policy", true, true, 70, drawPolicies, checkPolicy},
    {"packing", true, true, 80, drawPacking, checkPacking},
    {"isolation", true, true, 50, drawNothing, checkIsolation},
    {"ranks", false, true, 60, drawWorld, checkRanks},
    {"restart", false, true, 35, drawTwoWorlds, checkRestart},
    {"replay", true, false, 80, drawReplay, checkReplay},
};

std::vector<Law> qwen::property::laws() {
  std::vector<Law> result;
  for (const Law &law : everyLaw)
    if (e2e::testOptions().isCuda() ? law.isForCuda : law.isForCpu)
      result.push_back(law);
  return result;
}

/// The sequence of a law, the same whichever others are checked.
static Generator lawGenerator(const Law &law, const Case &drawn) {
  return generatorOf(drawn.name, Part::Law, e2e::hashName(law.name));
}

std::vector<PlanSpec> qwen::property::specsOf(const Law &law,
                                              const Case &drawn) {
  Generator generator = lawGenerator(law, drawn);
  return law.draw(drawn, generator);
}

void qwen::property::runLaw(const Law &law, Check &check) {
  check.generator = lawGenerator(law, check.drawn);
  check.specs = law.draw(check.drawn, check.generator);
  law.check(check);
}
