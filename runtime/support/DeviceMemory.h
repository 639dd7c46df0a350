//===- DeviceMemory.h - Access to the memory of a model --------*- C++ -*-===//
//
// Parameters, gradients and optimizer state may lie where this process cannot
// dereference them. Everything outside the executor that reads or writes them
// asks here.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_DEVICEMEMORY_H
#define QWEN_RUNTIME_SUPPORT_DEVICEMEMORY_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace qwen {

/// Copies between this process and the memory of a model. Each copy waits for
/// everything that was started before it, and is done when it returns.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;

  /// True where device addresses are addresses of this process.
  virtual bool isHost() const = 0;
  virtual Status copyToHost(void *host, const void *device, int64_t bytes) = 0;
  virtual Status copyToDevice(void *device, const void *host,
                              int64_t bytes) = 0;
  /// Zeroes a range.
  virtual Status zero(void *device, int64_t bytes) = 0;
  /// Memory of this process that copies are fastest from and to, shared by all
  /// users; empty where any memory is as good.
  virtual std::span<std::byte> staging() { return {}; }
};

/// The memory of this process. One for everybody.
DeviceMemory &hostMemory();

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_DEVICEMEMORY_H
