//===- StreamOrder.h - What waits say about the order of launches -*- C++ -*-=//
//
// When collectives are known to be done, and what may run until then: for the
// compiler, which places memory by it, and for reports on IR and on plans.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_STREAMORDER_H
#define QWEN_PLAN_STREAMORDER_H

#include "qwen/Plan/Streams.h"
#include "qwen/Support/Saturating.h"

#include <cstddef>
#include <vector>

namespace qwen {

/// A launch of a program as far as its stream goes.
struct StreamLaunch {
  int64_t stream = computeStream;
  std::vector<int64_t> waits = {}; ///< numbers of earlier launches
};

/// Launches of computation that may run while a collective does.
struct HidingWork {
  int64_t launches = 0;
  int64_t flops = 0; ///< without those that depend on documents
  int64_t bytes = 0;
};

/// The order of a program's launches.
class StreamOrder {
public:
  explicit StreamOrder(const std::vector<StreamLaunch> &launches);

  /// The first launch from `step` on that starts when `step` is done and
  /// everything that the stream of computation starts later does too: `step`
  /// itself on that stream; the number of launches where there is none.
  int64_t doneBy(int64_t step) const { return done[std::size_t(step)]; }

  /// The work between collective `step` and doneBy(step). `flopsOf` and
  /// `bytesOf` take the number of a launch.
  template <typename FlopsOf, typename BytesOf>
  HidingWork hidingWork(int64_t step, FlopsOf &&flopsOf,
                        BytesOf &&bytesOf) const {
    HidingWork work;
    for (int64_t other = step + 1; other < doneBy(step); ++other) {
      if (!computes[std::size_t(other)])
        continue;
      ++work.launches;
      work.flops = saturatingAdd(work.flops, flopsOf(other));
      work.bytes = saturatingAdd(work.bytes, bytesOf(other));
    }
    return work;
  }

private:
  std::vector<bool> computes;
  std::vector<int64_t> done;
};

} // namespace qwen

#endif // QWEN_PLAN_STREAMORDER_H
