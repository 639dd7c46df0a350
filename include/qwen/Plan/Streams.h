//===- Streams.h - Streams of a plan ---------------------------*- C++ -*-===//
//
// The numbers of the streams that compiler, plan verifier and runtime agree on.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_STREAMS_H
#define QWEN_PLAN_STREAMS_H

#include <cstdint>

namespace qwen {

/// Launches that compute.
inline constexpr uint32_t computeStream = 0;
/// Launches that talk to other ranks (isCollective), in the order in which all
/// ranks launch them.
inline constexpr uint32_t collectiveStream = 1;
/// Streams of a plan.
inline constexpr uint32_t planStreams = 2;

} // namespace qwen

#endif // QWEN_PLAN_STREAMS_H
