//===- Collectives.cpp - What hides the collectives of a plan -------------===//

#include "Collectives.h"
#include "qwen/Plan/Streams.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/profile/ExchangedRows.h"

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

static StreamOrder orderOf(const plan::Program &program) {
  std::vector<StreamLaunch> launches;
  for (const plan::Step *step : *program.steps()) {
    StreamLaunch &launch = launches.emplace_back();
    launch.stream = step->stream();
    if (step->waits())
      launch.waits.assign(step->waits()->begin(), step->waits()->end());
  }
  return StreamOrder(launches);
}

std::vector<CollectiveFacts>
qwen::collectiveFacts(const Plan &plan, int program,
                      const std::vector<LaunchFacts> &launches) {
  std::vector<CollectiveFacts> result;
  if (launches.empty())
    return result;
  std::map<uint32_t, std::string> names = bucketsByView(plan);
  StreamOrder order = orderOf(*plan.raw().programs()->Get(uint32_t(program)));
  auto flopsOf = [&](int64_t i) { return launches[size_t(i)].flops; };
  auto bytesOf = [&](int64_t i) { return launches[size_t(i)].bytes; };
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i].stream == computeStream)
      continue;
    CollectiveFacts facts;
    facts.step = int64_t(i);
    facts.bytes = largestOperand(launches[i]);
    facts.waitedBy = order.doneBy(facts.step);
    facts.hiding = order.hidingWork(facts.step, flopsOf, bytesOf);
    for (const LaunchOperand &operand : launches[i].operands)
      if (auto name = names.find(operand.view); name != names.end())
        facts.bucket = name->second;
    if (std::optional<TableShard> table = tableOfExchange(plan, launches, i))
      facts.bucket = "rows of " + names[table->view];
    result.push_back(facts);
  }
  return result;
}
