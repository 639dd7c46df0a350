//===- PlaceBuffers.cpp - Offsets for buffers with lifetimes --------------===//
//
// Greedy by size, best fit. Quadratic with a tiny constant: the 6,000 buffers
// of the largest model take a few hundredths of a second.
//
//===----------------------------------------------------------------------===//

#include "lib/Memory/PlaceBuffers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>

using namespace qwen;

namespace {

/// Offset of the smallest gap between placed ranges that live at the same time;
/// behind them where no gap is large enough. `placed` is sorted by offset.
int64_t bestFit(const LiveRange &range,
                llvm::ArrayRef<const LiveRange *> placed) {
  int64_t end = 0, best = -1;
  int64_t bestGap = std::numeric_limits<int64_t>::max();
  for (const LiveRange *other : placed) {
    if (other->last < range.first || other->first > range.last)
      continue;
    int64_t gap = other->offset - end;
    if (gap >= range.size && gap < bestGap) {
      best = end;
      bestGap = gap;
    }
    end = std::max(end, other->offset + other->size);
  }
  return best >= 0 ? best : end;
}

} // namespace

int64_t qwen::placeBuffers(llvm::MutableArrayRef<LiveRange> ranges) {
  llvm::SmallVector<LiveRange *> order;
  for (LiveRange &range : ranges)
    order.push_back(&range);
  llvm::stable_sort(order, [](const LiveRange *a, const LiveRange *b) {
    return std::tuple(-a->size, a->first) < std::tuple(-b->size, b->first);
  });
  llvm::SmallVector<const LiveRange *> placed;
  int64_t total = 0;
  for (LiveRange *range : order) {
    range->offset = bestFit(*range, placed);
    total = std::max(total, range->offset + range->size);
    auto at = std::upper_bound(placed.begin(), placed.end(), range,
                               [](const LiveRange *a, const LiveRange *b) {
                                 return a->offset < b->offset;
                               });
    placed.insert(at, range);
  }
  return total;
}

int64_t qwen::peakBytes(llvm::ArrayRef<LiveRange> ranges) {
  llvm::SmallVector<std::pair<int64_t, int64_t>> changes;
  for (const LiveRange &range : ranges) {
    changes.emplace_back(range.first, range.size);
    changes.emplace_back(range.last + 1, -range.size);
  }
  llvm::sort(changes); // at one step, what ends goes first
  int64_t live = 0, peak = 0;
  for (auto [step, bytes] : changes)
    peak = std::max(peak, live += bytes);
  return peak;
}
