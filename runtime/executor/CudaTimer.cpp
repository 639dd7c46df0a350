//===- CudaTimer.cpp - Times of launches on streams -----------------------===//

#include "runtime/executor/CudaTimer.h"

using namespace qwen;

Status CudaTimer::mark(size_t stream, size_t &index) {
  CudaEvent event;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaEventCreate(event.receive()), "cannot create an event"));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(event.get(), streams[stream]),
                                  "cannot record an event"));
  index = events.size();
  events.push_back(std::move(event));
  return okStatus();
}

Status CudaTimer::endWait(size_t stream) {
  size_t before = last[stream];
  QWEN_RETURN_IF_ERROR(mark(stream, last[stream]));
  if (stream == 0)
    waits.push_back({before, last[stream]});
  return okStatus();
}

Status CudaTimer::endLaunch(size_t stream) {
  size_t before = last[stream];
  QWEN_RETURN_IF_ERROR(mark(stream, last[stream]));
  launches.push_back({before, last[stream]});
  return okStatus();
}

Status CudaTimer::add(const Span &span, float &milliseconds) const {
  float taken = 0;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaEventElapsedTime(&taken, events[span.begin].get(),
                                      events[span.end].get()),
                 "cannot read an event"));
  milliseconds += taken;
  return okStatus();
}

Status CudaTimer::readLaunches(std::span<float> milliseconds) const {
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    milliseconds[i] = 0;
    QWEN_RETURN_IF_ERROR(add(launches[i], milliseconds[i]));
  }
  return okStatus();
}

Status CudaTimer::readStarts(std::span<float> milliseconds) const {
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    milliseconds[i] = 0;
    QWEN_RETURN_IF_ERROR(add({0, launches[i].begin}, milliseconds[i]));
  }
  return okStatus();
}

Status CudaTimer::readWaits(float &milliseconds) const {
  milliseconds = 0;
  for (const Span &wait : waits)
    QWEN_RETURN_IF_ERROR(add(wait, milliseconds));
  return okStatus();
}
