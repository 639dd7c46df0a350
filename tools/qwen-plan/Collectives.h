//===- Collectives.h - What hides the collectives of a plan ----*- C++ -*-===//

#ifndef QWEN_TOOLS_QWENPLAN_COLLECTIVES_H
#define QWEN_TOOLS_QWENPLAN_COLLECTIVES_H

#include "qwen/Plan/StreamOrder.h"
#include "runtime/profile/LaunchFacts.h"

#include <vector>

namespace qwen {

/// A collective launch and the launches of the other stream that may run while
/// it does.
struct CollectiveFacts {
  int64_t step = 0;
  /// "rows of " it where ranks exchange rows of a table; empty for what is of
  /// no bucket.
  std::string bucket;
  int64_t bytes = 0; ///< of the whole bucket, or of all ranks' rows
  /// The first launch that starts when this one is done, and everything behind
  /// it; the number of launches where only the end of the program waits.
  int64_t waitedBy = 0;
  HidingWork hiding; ///< what stands between the two on stream 0
};

/// The collectives of a program in order.
std::vector<CollectiveFacts>
collectiveFacts(const Plan &plan, int program,
                const std::vector<LaunchFacts> &launches);

/// The largest operand: what a collective moves is a part of that.
int64_t largestOperand(const LaunchFacts &launch);

} // namespace qwen

#endif // QWEN_TOOLS_QWENPLAN_COLLECTIVES_H
