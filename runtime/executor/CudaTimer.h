//===- CudaTimer.h - Times of launches on streams --------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDATIMER_H
#define QWEN_RUNTIME_EXECUTOR_CUDATIMER_H

#include "runtime/executor/CudaStreams.h"

#include <vector>

namespace qwen {

/// Events between launches, read when all have passed.
class CudaTimer {
public:
  explicit CudaTimer(const CudaStreams &streams) : streams(streams) {}

  /// A stream's first mark.
  Status begin(size_t stream) { return mark(stream, last[stream]); }
  /// The stream has waited for another one; what follows starts here.
  Status endWait(size_t stream);
  /// A launch of the stream has ended, which began when the one before it or a
  /// wait behind that did.
  Status endLaunch(size_t stream);

  /// Milliseconds of the launches, in the order of their ends' marks.
  Status readLaunches(std::span<float> milliseconds) const;
  /// When they began, in milliseconds after the first mark.
  Status readStarts(std::span<float> milliseconds) const;
  /// Milliseconds of all waits of stream 0.
  Status readWaits(float &milliseconds) const;

private:
  struct Span {
    size_t begin, end; ///< in `events`
  };
  Status mark(size_t stream, size_t &index);
  Status add(const Span &span, float &milliseconds) const;

  const CudaStreams &streams;
  std::vector<CudaEvent> events;
  std::vector<Span> launches, waits;
  size_t last[2] = {};
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDATIMER_H
