//===- CudaStreams.h - The streams that a plan runs on ---------*- C++ -*-===//
//
// Stream 0 computes and is the one that everything else of a run lies on: the
// copies of inputs and outputs, and its end. Stream 1 communicates. A program
// begins on stream 0, and ends there when both have ended.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDASTREAMS_H
#define QWEN_RUNTIME_EXECUTOR_CUDASTREAMS_H

#include "runtime/executor/CudaDevice.h"

namespace qwen {

class CudaStreams {
public:
  /// Makes stream 0, and stream 1 for several ranks: that one goes first where
  /// both have work for a multiprocessor, as others wait for what it brings.
  Status create(bool severalRanks);
  cudaStream_t operator[](size_t i) const { return streams[i].get(); }
  cudaStream_t main() const { return streams[0].get(); }
  explicit operator bool() const { return bool(streams[0]); }

  /// Stream 1 waits for what is on stream 0.
  Status fork() const;
  /// Stream 0 waits for what is on stream 1.
  Status join() const;
  /// cudaErrorNotReady while either has work.
  cudaError_t query() const;

private:
  Status follow(size_t waiting, size_t first, const CudaEvent &event) const;
  CudaStream streams[2];
  CudaEvent forked, joined;
};

/// An event that orders streams and takes no time.
Status createEvent(CudaEvent &event);

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDASTREAMS_H
