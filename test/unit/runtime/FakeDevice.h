//===- FakeDevice.h - Memory that cannot be dereferenced -------*- C++ -*-===//
//
// Stands in for the memory of a GPU: addresses lie in a range that the process
// may not touch, so that an access that does not go through DeviceMemory ends
// the test.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_RUNTIME_FAKEDEVICE_H
#define QWEN_TEST_UNIT_RUNTIME_FAKEDEVICE_H

#include "runtime/support/DeviceMemory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <vector>

namespace qwen {

class FakeDevice final : public DeviceMemory {
public:
  /// Copies go through `stagingBytes` bytes at a time.
  explicit FakeDevice(size_t stagingBytes = 100) : stage(stagingBytes) {}
  FakeDevice(const FakeDevice &) = delete;
  ~FakeDevice() override {
    for (const Range &range : ranges)
      ::munmap(range.device, range.shadow.size());
  }

  /// The address on the device of memory that holds its content.
  void *map(std::span<std::byte> shadow) {
    void *device = ::mmap(nullptr, shadow.size(), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ranges.push_back({static_cast<std::byte *>(device), shadow});
    return device;
  }

  bool isHost() const override { return false; }
  Status copyToHost(void *host, const void *device, int64_t bytes) override {
    QWEN_ASSIGN_OR_RETURN(std::byte * from, find(device, bytes));
    std::memcpy(host, from, size_t(bytes));
    return okStatus();
  }
  Status copyToDevice(void *device, const void *host, int64_t bytes) override {
    QWEN_ASSIGN_OR_RETURN(std::byte * to, find(device, bytes));
    std::memcpy(to, host, size_t(bytes));
    return okStatus();
  }
  Status zero(void *device, int64_t bytes) override {
    QWEN_ASSIGN_OR_RETURN(std::byte * to, find(device, bytes));
    std::memset(to, 0, size_t(bytes));
    return okStatus();
  }
  std::span<std::byte> staging() override { return stage; }

  /// Runs everything that was started; called before each copy.
  std::function<void()> wait = [] {};

private:
  struct Range {
    std::byte *device;
    std::span<std::byte> shadow;
  };

  StatusOr<std::byte *> find(const void *address, int64_t bytes) {
    wait();
    auto *begin = static_cast<const std::byte *>(address);
    for (const Range &range : ranges)
      if (begin >= range.device &&
          begin + bytes <= range.device + range.shadow.size())
        return range.shadow.data() + (begin - range.device);
    return makeError(StatusCode::Internal, "no device memory at {}", address);
  }

  std::vector<Range> ranges;
  std::vector<std::byte> stage;
};

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_FAKEDEVICE_H
