//===- Laws.h - What must be the same however it is computed ---*- C++ -*-===//
//
// A law compares a case's reference, or a part of it, with another way to
// compute the same.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PROPERTIES_LAWS_H
#define QWEN_TEST_PROPERTIES_LAWS_H

#include "Training.h"

#include <span>
#include <string>
#include <vector>

namespace qwen::property {

/// A fault in what the variant of a law gets, to see that it is found.
enum class Break { None, Token, Weight, Scale };

/// A case being checked: its reference, and what was found.
class Check {
public:
  explicit Check(const Case &drawn, Break fault = Break::None)
      : drawn(drawn), fault(fault) {}

  const Case &drawn;
  const Break fault;
  /// What a law draws from, and the plans that it drew.
  e2e::Generator generator;
  std::vector<e2e::PlanSpec> specs;
  /// Of the variant, for people.
  std::string variant;

  /// Fills what follows. False, with a finding, where the reference fails.
  bool prepare();
  Inputs inputs;
  Optimizer optimizer;
  Trained reference; ///< two steps
  std::optional<Plan> plan;

  /// The inputs of a variant, with the fault where one is asked for.
  Inputs variantInputs() const;
  /// What the sums of gradients add up: the norms of the gradients that parts
  /// of the labels give, by parameter. Empty, with a finding, after an error.
  const e2e::Bounds &gradientSizes();
  /// How far gradients may be apart that add that up in another order.
  e2e::Bounds gradientBounds();

  void add(std::string finding) { findings.push_back(std::move(finding)); }
  /// Adds the message of an error; true for success.
  bool succeeded(const Status &status);
  /// The plan of `specs[index]`, or nothing and a finding.
  std::optional<Plan> compile(size_t index);

  void expectSameLosses(const Step &expected, const Step &found);
  void expectSameBits(const std::string &what, const e2e::Tensors &expected,
                      const e2e::Tensors &found);
  void expectClose(const std::string &what, const e2e::Tensors &expected,
                   const e2e::Tensors &found, const e2e::Bounds &bounds);
  /// All of a step, to the bit.
  void expectSameStep(const std::string &what, const Step &expected,
                      const Step &found);

  std::vector<std::string> findings;

private:
  e2e::Bounds findSizes();

  e2e::Bounds sizes; ///< found when they are first asked for
};

struct Law {
  const char *name;
  bool isForCuda, isForCpu;
  int32_t percent; ///< of cases in which it is checked
  /// The plans that it needs beside the reference's.
  std::vector<e2e::PlanSpec> (*draw)(const Case &drawn,
                                     e2e::Generator &generator);
  void (*check)(Check &check);
};

/// Those of the test program's target.
std::vector<Law> laws();

/// Draws the plans of a law as `runLaw` does.
std::vector<e2e::PlanSpec> specsOf(const Law &law, const Case &drawn);
/// Adds what it finds to `check`, which is prepared.
void runLaw(const Law &law, Check &check);

} // namespace qwen::property

#endif // QWEN_TEST_PROPERTIES_LAWS_H
