//===- Check.cpp - A case's reference and comparisons with it -------------===//

#include "Laws.h"

#include "qwen/Support/Tolerance.h"

#include <algorithm>
#include <cmath>

using namespace qwen;
using namespace qwen::property;
using e2e::Bounds;
using e2e::Model;
using e2e::Tensors;
using e2e::TestDocument;

bool Check::succeeded(const Status &status) {
  if (!status.ok())
    add(status.message());
  return status.ok();
}

std::optional<Plan> Check::compile(size_t index) {
  auto compiled = e2e::compilePlan(specs[index]);
  if (!succeeded(compiled.status()))
    return std::nullopt;
  return *compiled;
}

bool Check::prepare() {
  auto compiled = e2e::compilePlan(drawn.spec);
  if (!succeeded(compiled.status()))
    return false;
  plan.emplace(*compiled);
  e2e::Generator weights = generatorOf(drawn.name, Part::Law, 1000);
  inputs.documents = drawn.documents;
  inputs.split = drawn.split;
  inputs.weights = e2e::drawWeights(*plan, weights(), drawn.keyRows);
  auto labels = std::max<int64_t>(1, e2e::countSupervised(drawn.documents));
  inputs.lossScale = float(1.0 / double(labels));
  optimizer.isSmooth = chance(weights, 60);
  if (!optimizer.isSmooth)
    optimizer.adamw.options.epsilon = 1e-8;
  auto trained = train(*plan, executorOptions(1), inputs, optimizer, 2);
  if (!succeeded(trained.status()))
    return false;
  reference = std::move(*trained);
  for (const Step &step : reference.steps)
    if (!e2e::allFinite(step.state))
      add("the reference is not finite");
  return findings.empty();
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Another token at the first place that has a label.
static void changeToken(std::vector<TestDocument> &documents) {
  for (TestDocument &document : documents)
    for (size_t i = 0; i < document.labels.size(); ++i)
      if (document.labels[i] != ignoredLabel) {
        // Every vocabulary has tokens 0 and 1.
        document.tokens[i] = document.tokens[i] == 0;
        return;
      }
}

Inputs Check::variantInputs() const {
  Inputs result = inputs;
  switch (fault) {
  case Break::None:
    break;
  case Break::Token:
    changeToken(result.documents);
    break;
  case Break::Weight:
    // Of the last norm.
    for (auto &[name, values] : result.weights)
      if (name.ends_with("model.norm.weight"))
        values.front() += 0.5f;
    break;
  case Break::Scale:
    result.lossScale *= 1 + 1.0f / 64;
    break;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

Bounds Check::gradientBounds() {
  double terms = 0;
  // A tied embedding has two terms of a token.
  for (const TestDocument &document : inputs.documents)
    terms += 2 * double(document.length());
  Bounds bounds = gradientSizes();
  for (auto &[name, bound] : bounds)
    bound *= 2 * sumTolerance(DType::F32, terms);
  return bounds;
}

const Bounds &Check::gradientSizes() {
  if (sizes.empty())
    sizes = findSizes();
  return sizes;
}

Bounds Check::findSizes() {
  // The gradient is linear in the labels: the sum of what sixteen random parts
  // of them give. Within a part terms may cancel; that they do in all parts at
  // once is what sixteen of them exclude.
  constexpr int32_t parts = 16;
  auto made = Model::create(*plan, executorOptions(1));
  if (!succeeded(made.status()) || !succeeded(made->setWeights(inputs.weights)))
    return {};
  e2e::Generator owner = generatorOf(drawn.name, Part::Law, 1001);
  std::vector<std::vector<int32_t>> owners;
  for (const TestDocument &document : inputs.documents) {
    std::vector<int32_t> &row = owners.emplace_back();
    for (int64_t i = 0; i < document.length(); ++i)
      row.push_back(e2e::draw(owner, parts));
  }
  Bounds result;
  for (const auto &[name, values] : inputs.weights)
    result[name] = 0;
  for (int32_t part = 0; part < parts; ++part) {
    Inputs some = inputs;
    for (size_t d = 0; d < some.documents.size(); ++d)
      for (size_t i = 0; i < owners[d].size(); ++i)
        if (owners[d][i] != part)
          some.documents[d].labels[i] = ignoredLabel;
    if (e2e::countSupervised(some.documents) == 0)
      continue;
    for (const auto &[name, values] : runMicroSteps(*made, some).gradients)
      result[name] += e2e::norm(values);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

void Check::expectSameLosses(const Step &expected, const Step &found) {
  for (size_t i = 0; i < expected.nll.size(); ++i)
    if (auto same = e2e::sameBits(expected.nll[i], found.nll[i]); !same)
      add(fmt::format("losses of document {} (of {} tokens), expected and "
                      "found: {}",
                      i, expected.nll[i].size(), same.message()));
}

void Check::expectSameBits(const std::string &what, const Tensors &expected,
                           const Tensors &found) {
  if (expected.size() != found.size())
    add(fmt::format("{}: expected {} tensors, found {}", what, expected.size(),
                    found.size()));
  for (const auto &[name, values] : expected) {
    auto other = found.find(name);
    if (other == found.end())
      add(fmt::format("{}: no {} found", what, name));
    else if (auto same = e2e::sameBits(values, other->second); !same)
      add(fmt::format("{} {}, expected and found: {}", what, name,
                      same.message()));
  }
}

void Check::expectClose(const std::string &what, const Tensors &expected,
                        const Tensors &found, const Bounds &bounds) {
  for (const auto &[name, bound] : bounds) {
    auto other = found.find(name);
    if (other == found.end()) {
      add(fmt::format("{}: no {} found", what, name));
      continue;
    }
    const std::vector<float> &values = expected.at(name);
    // Also where it is not a number.
    if (double off = e2e::distance(values, other->second); !(off <= bound))
      add(fmt::format("{} {}: expected within {:.3g} of a tensor of norm "
                      "{:.3g}, found {:.3g} from it",
                      what, name, bound, e2e::norm(values), off));
  }
}

void Check::expectSameStep(const std::string &what, const Step &expected,
                           const Step &found) {
  expectSameLosses(expected, found);
  expectSameBits(what + " gradient of", expected.gradients, found.gradients);
  if (auto same = e2e::sameBits(expected.stats, found.stats); !same)
    add(fmt::format("{} norm and clipping, expected and found: {}", what,
                    same.message()));
  expectSameBits(what + " updated", expected.state, found.state);
}
