//===- WatchFrame.h - What ranks send to each other's watch ----*- C++ -*-===//

#ifndef QWEN_RUNTIME_COLLECTIVES_WATCHFRAME_H
#define QWEN_RUNTIME_COLLECTIVES_WATCHFRAME_H

#include "runtime/collectives/Watch.h"

namespace qwen {

/// All frames have one size; ranks run on machines of one byte order.
struct Watch::Frame {
  enum Kind : uint32_t {
    Hello = 0x51574831, ///< first of a connection, both ways; has the token
    Alive,
    Failed, ///< to rank 0: the sender ends by an error
    Lost,   ///< from rank 0: the rank named is lost, or failed
    Leave,
  };
  uint32_t kind = 0;
  int32_t rank = 0;
  int64_t step = 0;
  uint64_t ticks = 0; ///< of Hello: the token
  uint64_t arrivals = 0;
  int32_t activity = 0;
  std::array<char, 476> text{}; ///< ends with 0
};

} // namespace qwen

#endif // QWEN_RUNTIME_COLLECTIVES_WATCHFRAME_H
