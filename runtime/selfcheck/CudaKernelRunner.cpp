//===- CudaKernelRunner.cpp - Single launches of the CUDA kernels ---------===//
//
// Operands are copied to device memory of their own and, where the kernel
// writes them, back.
//
//===----------------------------------------------------------------------===//

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/executor/CudaDevice.h"
#include "runtime/selfcheck/KernelRunner.h"

using namespace qwen;
using bench::DeviceArray;

namespace {

/// The device's copy of an operand.
struct Operand {
  DeviceArray memory;
  void *host;
  bool written;
  size_t bytes() const { return memory.bytes().size(); }
};

/// Copies an operand to the device, and points the argument there.
template <typename B>
Status toDevice(B &buffer, bool written, std::vector<Operand> &operands) {
  int64_t bytes = buffer.extent() * dtypeBytes(buffer.dtype);
  QWEN_ASSIGN_OR_RETURN(DeviceArray memory, DeviceArray::create(bytes));
  // Outputs too: what lies between their rows belongs to somebody.
  QWEN_RETURN_IF_ERROR(memory.copyFrom(
      {static_cast<const std::byte *>(buffer.data), size_t(bytes)}));
  operands.push_back(
      {std::move(memory), const_cast<void *>(buffer.data), written});
  buffer.data = operands.back().memory.data();
  return okStatus();
}

template <typename Args> Status launchOnDevice(Args args) {
  std::vector<Operand> operands;
  Status status;
  args.forEachOperand([&](const char *, auto &buffer, bool, bool writes) {
    if (status.ok())
      status = toDevice(buffer, writes, operands);
  });
  QWEN_RETURN_IF_ERROR(status);
  QWEN_ASSIGN_OR_RETURN(auto kernel, bench::KernelRun<Args>::create(args));
  QWEN_RETURN_IF_ERROR(kernel.enqueue(nullptr));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaDeviceSynchronize(), Args::kernelName));
  for (const Operand &operand : operands)
    if (operand.written)
      QWEN_RETURN_IF_ERROR(
          cudaStatus(cudaMemcpy(operand.host, operand.memory.data(),
                                operand.bytes(), cudaMemcpyDefault),
                     "copy from the device"));
  return okStatus();
}

class CudaKernelRunner final : public KernelRunner {
public:
  const char *name() const override { return "CUDA"; }
#define QWEN_DEFINE_LAUNCH(Name)                                               \
  Status launch(const Name##Args &args) override {                             \
    return launchOnDevice(args);                                               \
  }
  QWEN_CHECKED_KERNELS(QWEN_DEFINE_LAUNCH)
#undef QWEN_DEFINE_LAUNCH
};

} // namespace

StatusOr<std::unique_ptr<KernelRunner>> qwen::createCudaKernelRunner() {
  QWEN_RETURN_IF_ERROR(CudaDevice::open(0, 0, "sm_90a").status());
  return std::unique_ptr<KernelRunner>(std::make_unique<CudaKernelRunner>());
}
