//===- ExchangedRows.cpp - Collectives that move rows of a table ----------===//

#include "runtime/profile/ExchangedRows.h"

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/plan_generated.h"

#include <algorithm>

using namespace qwen;

static const LaunchOperand *findOperand(const LaunchFacts &launch,
                                        const char *name) {
  auto found = std::find_if(
      launch.operands.begin(), launch.operands.end(),
      [&](const LaunchOperand &operand) { return operand.name == name; });
  return found == launch.operands.end() ? nullptr : &*found;
}

std::optional<TableShard>
qwen::tableOfExchange(const Plan &plan,
                      const std::vector<LaunchFacts> &launches, size_t launch) {
  auto bufferOf = [&](const LaunchOperand &operand) {
    return plan.raw().views()->Get(operand.view)->buffer();
  };
  const LaunchOperand *moved = findOperand(launches[launch], "full");
  if (!moved)
    return std::nullopt;
  for (const LaunchFacts &other : launches) {
    bool isGradient = other.kernel == EmbeddingGradShardArgs::kernelName;
    if (!isGradient && other.kernel != EmbeddingShardArgs::kernelName)
      continue;
    for (const LaunchOperand &operand : other.operands)
      if (bufferOf(operand) == bufferOf(*moved))
        return TableShard{findOperand(other, "shard")->view, isGradient};
  }
  return std::nullopt;
}
