//===- Collectives.cpp - What hides the collectives of a plan -------------===//
//
// Follows the waits of stream 0 through a program.
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"
#include "qwen/Plan/Streams.h"
#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/Saturating.h"

#include <algorithm>
#include <map>

using namespace qwen;

int64_t qwen::largestOperand(const LaunchFacts &launch) {
  int64_t most = 0;
  for (const LaunchOperand &operand : launch.operands)
    most = std::max(most, operand.type.bytes());
  return most;
}

/// Names of buckets by the views of what is gathered and scattered.
static std::map<uint32_t, std::string> bucketsByView(const Plan &plan) {
  std::map<uint32_t, std::string> names;
  if (plan.raw().buckets())
    for (const plan::Bucket *bucket : *plan.raw().buckets()) {
      names[bucket->value()] = bucket->name()->str();
      names[bucket->gradient()] = bucket->name()->str();
    }
  names.erase(noPlanId);
  return names;
}

std::vector<CollectiveFacts>
qwen::collectiveFacts(const Plan &plan, int program,
                      const std::vector<LaunchFacts> &launches) {
  std::map<uint32_t, std::string> names = bucketsByView(plan);
  const auto *steps = plan.raw().programs()->Get(uint32_t(program))->steps();
  std::vector<CollectiveFacts> result;
  size_t open = 0; // the first that nothing has waited for so far
  for (size_t i = 0; i < launches.size(); ++i) {
    const plan::Step &step = *steps->Get(uint32_t(i));
    if (step.stream() != computeStream) {
      CollectiveFacts facts;
      facts.step = int64_t(i);
      facts.bytes = largestOperand(launches[i]);
      facts.waitedBy = int64_t(launches.size());
      for (const LaunchOperand &operand : launches[i].operands)
        if (auto name = names.find(operand.view); name != names.end())
          facts.bucket = name->second;
      result.push_back(facts);
      continue;
    }
    if (step.waits())
      for (uint32_t earlier : *step.waits())
        for (; open < result.size() && result[open].step <= earlier; ++open)
          result[open].waitedBy = int64_t(i);
    for (size_t c = open; c < result.size(); ++c) {
      ++result[c].hidingLaunches;
      result[c].hidingFlops =
          saturatingAdd(result[c].hidingFlops, launches[i].flops);
      result[c].hidingBytes =
          saturatingAdd(result[c].hidingBytes, launches[i].bytes);
    }
  }
  return result;
}
