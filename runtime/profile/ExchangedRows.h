//===- ExchangedRows.h - Collectives that move rows of a table -*- C++ -*-===//
//
// Ranks may exchange the rows that their tokens look up in a table instead of
// the table. What such a collective moves is in no bucket; that of the table is
// known by the launch which works on the same buffer.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PROFILE_EXCHANGEDROWS_H
#define QWEN_RUNTIME_PROFILE_EXCHANGEDROWS_H

#include "runtime/profile/LaunchFacts.h"

#include <optional>

namespace qwen {

/// The view of a rank's part of a table, and whether of its gradient.
struct TableShard {
  uint32_t view;
  bool isGradient;
};

/// The shard that collective `launch` moves rows or ids for; nothing where it
/// moves something else.
std::optional<TableShard>
tableOfExchange(const Plan &plan, const std::vector<LaunchFacts> &launches,
                size_t launch);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_EXCHANGEDROWS_H
