//===- Shrink.cpp - Which case fails, and its smallest form ---------------===//

#include "Shrink.h"

#include <gtest/gtest-spi.h>

#include <numeric>

using namespace qwen;
using namespace qwen::property;

static std::string &program() {
  static std::string path = "property-test";
  return path;
}

void qwen::property::setProgram(const std::string &path) { program() = path; }

const char *qwen::property::breakName(Break fault) {
  switch (fault) {
  case Break::None:
    break;
  case Break::Token:
    return "token";
  case Break::Weight:
    return "weight";
  case Break::Scale:
    return "scale";
  }
  return "";
}

static std::string listOf(const char *option,
                          const std::optional<std::vector<size_t>> &numbers) {
  if (!numbers)
    return {};
  std::string text;
  for (size_t number : *numbers)
    text += fmt::format("{}{}", text.empty() ? option : ",", number);
  return text;
}

std::string qwen::property::commandOf(const Selection &selection) {
  const CaseName &name = selection.name;
  const e2e::TestOptions &options = e2e::testOptions();
  std::string text =
      fmt::format("{} --seed={} --case={}", program(), name.seed, name.number);
  if (!selection.law.empty())
    text += " --law=" + selection.law;
  text += listOf(" --layers=", name.layers);
  text += listOf(" --documents=", name.documents);
  if (selection.fault != Break::None)
    text += fmt::format(" --break={}", breakName(selection.fault));
  if (options.target != e2e::PlanSpec::defaultTarget)
    text += " --target=" + options.target;
  if (!options.plans.empty())
    text += " --plans=" + options.plans;
  return text;
}

std::vector<Law> qwen::property::lawsOf(const Selection &selection) {
  std::vector<Law> chosen;
  e2e::Generator generator = generatorOf(selection.name, Part::Law);
  for (const Law &law : laws())
    // Drawn for every law, so that one law's share moves no other's.
    if (bool isDrawn = chance(generator, law.percent);
        selection.law.empty() ? isDrawn : selection.law == law.name)
      chosen.push_back(law);
  return chosen;
}

/// Failures of GoogleTest's macros, which the models of the tests use.
static void take(const testing::TestPartResultArray &results, Check &check) {
  for (int i = 0; i < results.size(); ++i)
    if (results.GetTestPartResult(i).failed())
      check.add(results.GetTestPartResult(i).message());
}

std::optional<Failure>
qwen::property::checkCase(const Selection &selection,
                          const std::vector<Law> &chosen) {
  Case drawn = drawCase(selection.name);
  Check check(drawn, selection.fault);
  std::string failed = "reference";
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
        &results);
    if (check.prepare())
      for (const Law &law : chosen) {
        failed = law.name;
        runLaw(law, check);
        if (!check.findings.empty() || results.size() > 0)
          break;
      }
  }
  take(results, check);
  if (check.findings.empty())
    return std::nullopt;
  return Failure{failed, drawn.modelText, drawn.packsText, check.variant,
                 check.findings};
}

namespace {

/// A search for a smaller selection that fails.
class Shrinker {
public:
  Shrinker(Selection selection, Failure failure)
      : best(std::move(selection)), failure(std::move(failure)) {}

  void run() {
    if (failure.law != "reference")
      best.law = failure.law;
    reduce(&CaseName::layers, drawCase(best.name).layers);
    reduce(&CaseName::documents, drawCase(best.name).wholeDocuments);
  }
  std::pair<Selection, Failure> result() const { return {best, failure}; }

private:
  bool stillFails(const Selection &candidate) {
    if (attempts-- <= 0)
      return false;
    std::vector<Law> chosen;
    if (!candidate.law.empty())
      chosen = lawsOf(candidate);
    std::optional<Failure> found = checkCase(candidate, chosen);
    // Another fault is another case.
    if (!found || found->law != failure.law)
      return false;
    best = candidate;
    failure = *found;
    return true;
  }

  /// Leaves out halves, quarters and so on of a list of `count` elements.
  void reduce(std::optional<std::vector<size_t>> CaseName::*list,
              size_t count) {
    std::vector<size_t> members(count);
    std::iota(members.begin(), members.end(), size_t(0));
    if (best.name.*list)
      members = *(best.name.*list);
    for (size_t size = members.size() / 2; size > 0; size /= 2)
      for (size_t begin = 0; begin < members.size() && members.size() > size;) {
        std::vector<size_t> fewer = members;
        auto first = fewer.begin() + ptrdiff_t(begin);
        fewer.erase(first,
                    first + ptrdiff_t(std::min(size, fewer.size() - begin)));
        Selection candidate = best;
        candidate.name.*list = fewer;
        if (stillFails(candidate))
          members = fewer;
        else
          begin += size;
      }
  }

  Selection best;
  Failure failure;
  int attempts = 60;
};

} // namespace

std::pair<Selection, Failure> qwen::property::shrink(const Selection &selection,
                                                     const Failure &failure) {
  Shrinker shrinker(selection, failure);
  shrinker.run();
  return shrinker.result();
}
