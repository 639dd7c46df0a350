//===- DeviceMemory.cpp - Access to the memory of a model -----------------===//

#include "runtime/support/DeviceMemory.h"

#include <cstring>

using namespace qwen;

namespace {
class HostMemory final : public DeviceMemory {
public:
  bool isHost() const override { return true; }
  Status copyToHost(void *host, const void *device, int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(host, device, static_cast<size_t>(bytes));
    return okStatus();
  }
  Status copyToDevice(void *device, const void *host, int64_t bytes) override {
    return copyToHost(device, host, bytes);
  }
  Status zero(void *device, int64_t bytes) override {
    if (bytes > 0)
      std::memset(device, 0, static_cast<size_t>(bytes));
    return okStatus();
  }
};
} // namespace

DeviceMemory &qwen::hostMemory() {
  static HostMemory memory;
  return memory;
}
