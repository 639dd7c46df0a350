//===- TrainCommand.cpp - How tests start qwenrun -------------------------===//

#include "TrainCommand.h"

using namespace qwen;
using e2e::PlanSpec;

PlanSpec ranktest::trainSpec(const std::string &config, int ranks) {
  PlanSpec spec;
  spec.config = config;
  spec.target = e2e::testOptions().target;
  spec.dtype = e2e::testOptions().isCuda() ? "bf16" : "f32";
  spec.tokens = 64;
  spec.worldSize = ranks;
  return spec;
}

std::vector<PlanSpec> ranktest::trainSpecs(const std::vector<int> &rankCounts) {
  std::vector<PlanSpec> specs;
  for (const std::string &config : e2e::tinyConfigs())
    for (int ranks : rankCounts)
      specs.push_back(trainSpec(config, ranks));
  return specs;
}

std::vector<std::string>
ranktest::trainCommand(const PlanSpec &spec, const std::string &data,
                       const std::string &out,
                       const std::vector<std::string> &more) {
  auto plan = e2e::compilePlanFile(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::string> words = {QWENRUN_BINARY, plan.ok() ? *plan : "",
                                    "--data",       data,
                                    "--out",        out,
                                    "--log-every",  "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
