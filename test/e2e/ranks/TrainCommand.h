//===- TrainCommand.h - How tests start qwenrun ----------------*- C++ -*-===//

#ifndef QWEN_TEST_E2E_RANKS_TRAINCOMMAND_H
#define QWEN_TEST_E2E_RANKS_TRAINCOMMAND_H

#include "test/e2e/Harness.h"

namespace qwen::ranktest {

/// A tiny model of tinyConfigs() in packs of 64 tokens, as the target takes it.
e2e::PlanSpec trainSpec(const std::string &config, int ranks);

/// A plan of each of these numbers of ranks for each of tinyConfigs().
std::vector<e2e::PlanSpec> trainSpecs(const std::vector<int> &rankCounts);

/// qwenrun on the plan of `spec`, with a line for every step. A plan that
/// cannot be made fails the test.
std::vector<std::string> trainCommand(const e2e::PlanSpec &spec,
                                      const std::string &data,
                                      const std::string &out,
                                      const std::vector<std::string> &more);

} // namespace qwen::ranktest

#endif // QWEN_TEST_E2E_RANKS_TRAINCOMMAND_H
