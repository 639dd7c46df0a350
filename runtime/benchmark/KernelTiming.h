//===- KernelTiming.h - Times of kernels in replayed graphs ----*- C++ -*-===//
//
// Device memory with random contents, one kernel's launches, and how long they
// take: what qwen-bench and the CUDA parity tests share.
//
//   QWEN_ASSIGN_OR_RETURN(DeviceArray x, DeviceArray::create(bytes));
//   QWEN_RETURN_IF_ERROR(x.fillUniform(DType::BF16, -1, 1));
//   QWEN_ASSIGN_OR_RETURN(auto kernel, KernelRun<CopyArgs>::create(args));
//   QWEN_ASSIGN_OR_RETURN(Times times, timeKernel(kernel));
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_BENCHMARK_KERNELTIMING_H
#define QWEN_RUNTIME_BENCHMARK_KERNELTIMING_H

#include "qwen/Support/Status.h"
#include "runtime/kernels/cuda/Blas.h"
#include "runtime/kernels/cuda/GemmShape.h"
#include "runtime/kernels/cuda/Kernels.h"

#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace qwen::bench {

/// OK, or "<what>: <the CUDA runtime's text>".
Status cudaStatus(cudaError_t error, std::string_view what);

/// Device memory that starts as 0xff in every byte, a NaN. Move-only.
class DeviceArray {
public:
  static StatusOr<DeviceArray> create(int64_t bytes);
  /// Device memory with the contents of `values`.
  template <typename T>
  static StatusOr<DeviceArray> copyOf(const std::vector<T> &values) {
    QWEN_ASSIGN_OR_RETURN(DeviceArray made,
                          create(int64_t(values.size() * sizeof(T))));
    QWEN_RETURN_IF_ERROR(
        made.copyFrom(std::as_bytes(std::span<const T>(values))));
    return made;
  }
  DeviceArray(DeviceArray &&other) noexcept
      : address(std::exchange(other.address, nullptr)), length(other.length) {}
  DeviceArray &operator=(DeviceArray &&other) noexcept {
    std::swap(address, other.address);
    std::swap(length, other.length);
    return *this;
  }
  ~DeviceArray() { cudaFree(address); }

  void *data() const { return address; }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte *>(address), length};
  }
  /// A contiguous view from element `first` on.
  Buffer view(DType dtype, const std::vector<int64_t> &shape,
              int64_t first = 0) const;
  Status copyFrom(std::span<const std::byte> source) const;
  /// Random numbers of [low, high): a pattern of 2^20 of them, repeated.
  Status fillUniform(DType dtype, double low, double high) const;
  /// Normal random numbers around 0, repeated likewise.
  Status fillNormal(DType dtype, double deviation) const;

private:
  DeviceArray(void *address, size_t length)
      : address(address), length(length) {}
  void *address;
  size_t length;
};

/// How often work is run and timed. Where all samples would take longer than
/// `budgetMs`, there are fewer, of single replays, but at least five.
struct TimingOptions {
  int warmUp = 3;    ///< samples not counted
  int samples = 30;  ///< samples counted
  int perSample = 4; ///< replays in a sample, timed together
  double budgetMs = 1500;
};

/// Milliseconds of one replay: over the samples.
struct Times {
  double median = 0, least = 0, most = 0;
  int samples = 0;
};

/// Captures what `enqueue` puts on the stream into a graph and times replays
/// with device events.
StatusOr<Times> timeReplay(const std::function<Status(cudaStream_t)> &enqueue,
                           const TimingOptions &options = {});

/// The products of all kernels that are timed or tested; opened at first use.
StatusOr<cuda::Blas *> sharedBlas();

/// One kernel's arguments with the device memory that its launches need.
template <typename Args> class KernelRun {
public:
  /// FailedPrecondition where the kernels do not support the arguments.
  static StatusOr<KernelRun> create(const Args &args) {
    if (std::string reason = cuda::unsupportedReason(args); !reason.empty())
      return makeError(StatusCode::FailedPrecondition, "{}: {}",
                       Args::kernelName, reason);
    QWEN_ASSIGN_OR_RETURN(DeviceArray workspace,
                          DeviceArray::create(cuda::workspaceBytes(args)));
    int64_t tableBytes = 0;
    if constexpr (hasTable)
      tableBytes = cuda::tableBytes(args);
    QWEN_ASSIGN_OR_RETURN(DeviceArray table, DeviceArray::create(tableBytes));
    if constexpr (hasTable)
      QWEN_RETURN_IF_ERROR(
          cudaStatus(cuda::writeTable(args, table.bytes()), Args::kernelName));
    KernelRun made(args, std::move(workspace), std::move(table));
    if constexpr (cuda::usesBlas<Args>) {
      QWEN_ASSIGN_OR_RETURN(made.blas, sharedBlas());
      QWEN_RETURN_IF_ERROR(cuda::prepare(args, *made.blas));
    }
    return made;
  }
  Status enqueue(cudaStream_t stream) const {
    return cudaStatus(
        cuda::launch(args, {stream, workspace.bytes(), table.bytes(), blas}),
        Args::kernelName);
  }
  const Args &arguments() const { return args; }

private:
  static constexpr bool hasTable =
      requires(const Args &a, std::span<std::byte> table) {
        cuda::writeTable(a, table);
      };
  KernelRun(const Args &args, DeviceArray workspace, DeviceArray table)
      : args(args), workspace(std::move(workspace)), table(std::move(table)) {}
  Args args;
  DeviceArray workspace, table;
  cuda::Blas *blas = nullptr;
};

template <typename Args>
StatusOr<Times> timeKernel(const Args &args,
                           const TimingOptions &options = {}) {
  QWEN_ASSIGN_OR_RETURN(auto run, KernelRun<Args>::create(args));
  return timeReplay([&](cudaStream_t stream) { return run.enqueue(stream); },
                    options);
}

// The card's ceilings. Both are measured in some tens of milliseconds: under a
// load of seconds the card lowers its clocks, by products most of all.

/// Bytes a second of a copy of 1 GiB in device memory, bytes read and written
/// counted: the better one of the driver's copy and the project's kernel.
StatusOr<double> measureCopyRate();
/// The algorithm of a product in the shipped tuning table; none where it is not
/// there.
StatusOr<GemmAlgorithm> shippedAlgorithm(const cuda::GemmShape &shape);
/// Operations a second of a large product, 8192x34816x5120 (gate and up of the
/// 27B), by the algorithm of the shipped table.
StatusOr<double> measureMatrixRate(DType dtype);

} // namespace qwen::bench

#endif // QWEN_RUNTIME_BENCHMARK_KERNELTIMING_H
