//===- CudaStreams.cpp - The streams that a plan runs on ------------------===//
//
// The calls are the same in a capture, where they become edges of the graph.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaStreams.h"

using namespace qwen;

Status qwen::createEvent(CudaEvent &event) {
  return cudaStatus(
      cudaEventCreateWithFlags(event.receive(), cudaEventDisableTiming),
      "cannot create an event");
}

Status CudaStreams::create(bool severalRanks) {
  int least = 0, greatest = 0;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "cannot ask for the priorities of streams"));
  for (size_t i = 0; i < (severalRanks ? 2 : 1); ++i)
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaStreamCreateWithPriority(streams[i].receive(),
                                                cudaStreamNonBlocking,
                                                i == 0 ? least : greatest),
                   "cannot create a stream"));
  if (!severalRanks)
    return okStatus();
  QWEN_RETURN_IF_ERROR(createEvent(forked));
  return createEvent(joined);
}

Status CudaStreams::follow(size_t waiting, size_t first,
                           const CudaEvent &event) const {
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaEventRecord(event.get(), streams[first].get()),
                 "cannot record an event"));
  return cudaStatus(cudaStreamWaitEvent(streams[waiting].get(), event.get(), 0),
                    "cannot make a stream wait");
}

Status CudaStreams::fork() const { return follow(1, 0, forked); }
Status CudaStreams::join() const { return follow(0, 1, joined); }

cudaError_t CudaStreams::query() const {
  for (const CudaStream &stream : streams)
    if (stream)
      if (cudaError_t error = cudaStreamQuery(stream.get());
          error != cudaSuccess)
        return error;
  return cudaSuccess;
}
