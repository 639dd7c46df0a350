//===- CudaTesting.h - Operands in host and device memory ------*- C++ -*-===//
//
// Tensors that a CPU kernel and its CUDA twin both work on, comparisons of
// their results, and times of replayed graphs.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PARITY_CUDA_CUDATESTING_H
#define QWEN_TEST_PARITY_CUDA_CUDATESTING_H

#include "qwen/Plan/Workspace.h"
#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Tolerance.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/kernels/cuda/Kernels.h"
#include "test/parity/cuda/RequireGpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace qwen::cudatest {

inline void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Device memory; every byte starts as 0xff, a NaN.
class DeviceMemory {
public:
  explicit DeviceMemory(size_t bytes) : size(bytes) {
    check(cudaMalloc(&data, std::max<size_t>(bytes, 1)), "cudaMalloc");
    check(cudaMemset(data, 0xff, bytes), "cudaMemset");
  }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte *>(data), size};
  }

  void *data = nullptr;
  size_t size;
};

/// A tensor in both memories. Rows (the last dimension) of a tensor with a gap
/// are slices of wider rows; every byte starts as 0xff.
class Tensor {
public:
  Tensor(DType dtype, std::vector<int64_t> shape, int64_t gap = 0)
      : memory(layout(dtype, shape, gap)), host(memory.size, 0xff) {}

  int64_t size() const { return type.elements(); }
  double get(int64_t i) const { return read(host, offset(i)); }
  void set(int64_t i, double value) { write(offset(i), value); }
  Tensor &uniform(std::mt19937_64 &random, double low, double high) {
    std::uniform_real_distribution<double> distribution(low, high);
    for (int64_t i = 0; i < size(); ++i)
      set(i, distribution(random));
    return *this;
  }
  void toDevice() {
    check(cudaMemcpy(memory.data, host.data(), host.size(), cudaMemcpyDefault),
          "copy to the device");
  }
  /// What the device holds, gaps too.
  std::vector<uint8_t> deviceBytes() const {
    std::vector<uint8_t> bytes(host.size());
    check(
        cudaMemcpy(bytes.data(), memory.data, bytes.size(), cudaMemcpyDefault),
        "copy from the device");
    return bytes;
  }
  /// Element i of bytes that deviceBytes returned.
  double get(const std::vector<uint8_t> &bytes, int64_t i) const {
    return read(bytes, offset(i));
  }
  /// What lies between the elements is as on the host.
  bool gapsEqual(std::vector<uint8_t> bytes) const {
    int64_t width = dtypeBytes(type.dtype);
    for (int64_t i = 0; i < size(); ++i)
      std::memcpy(bytes.data() + offset(i) * width,
                  host.data() + offset(i) * width, width);
    return bytes == host;
  }
  Buffer onHost() { return buffer(host.data()); }
  Buffer onDevice() { return buffer(static_cast<uint8_t *>(memory.data)); }

  BufferType type;
  int64_t first = 0; ///< element of the memory where the view starts
  DeviceMemory memory;
  std::vector<uint8_t> host;

private:
  size_t layout(DType dtype, const std::vector<int64_t> &shape, int64_t gap) {
    type.dtype = dtype;
    type.rank = static_cast<int>(shape.size());
    int64_t stride = 1;
    for (int i = type.rank - 1; i >= 0; --i) {
      type.shape[i] = shape[i];
      type.strides[i] = stride;
      stride = stride * shape[i] + (i == type.rank - 1 ? gap : 0);
    }
    first = gap / 2;
    return static_cast<size_t>((first + type.extent() + gap) *
                               dtypeBytes(dtype));
  }
  Buffer buffer(uint8_t *base) const {
    Buffer buffer;
    static_cast<BufferType &>(buffer) = type;
    buffer.data = base + first * dtypeBytes(type.dtype);
    return buffer;
  }
  int64_t offset(int64_t i) const {
    int64_t at = first;
    for (int d = type.rank - 1; d >= 0; --d) {
      at += i % type.shape[d] * type.strides[d];
      i /= type.shape[d];
    }
    return at;
  }
  template <typename T>
  static T as(const std::vector<uint8_t> &bytes, int64_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
    return value;
  }
  double read(const std::vector<uint8_t> &bytes, int64_t at) const {
    switch (type.dtype) {
    case DType::F32:
      return as<float>(bytes, at);
    case DType::F64:
      return as<double>(bytes, at);
    case DType::BF16:
      return toFloat(as<BFloat16>(bytes, at));
    case DType::I32:
      return as<int32_t>(bytes, at);
    }
    return 0;
  }
  template <typename T> void put(int64_t at, T value) {
    std::memcpy(host.data() + at * sizeof(T), &value, sizeof(T));
  }
  void write(int64_t at, double value) {
    switch (type.dtype) {
    case DType::F32:
      return put(at, static_cast<float>(value));
    case DType::F64:
      return put(at, value);
    case DType::BF16:
      return put(at, toBFloat16(static_cast<float>(value)));
    case DType::I32:
      return put(at, static_cast<int32_t>(value));
    }
  }
};

inline Buffer onHost(Tensor &tensor) { return tensor.onHost(); }
inline Buffer onDevice(Tensor &tensor) { return tensor.onDevice(); }

/// Misses so far; each is printed where it is found.
inline int misses = 0;

inline void report(const char *name, const char *what, bool passed,
                   double measure = 0) {
  misses += !passed;
  if (!passed)
    std::printf("  %s %s MISS (%g)\n", name, what, measure);
}

template <typename Args> void runOnCpu(const Args &args) {
  std::vector<std::byte> workspace(cpuWorkspaceBytes(args) + 64);
  size_t skip = -reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  cpu::launch(args, {{workspace.data() + skip, workspace.size() - skip}});
}

/// Device memory of one kernel's launches.
template <typename Args> class Launcher {
public:
  explicit Launcher(const Args &args)
      : args(args), workspace(cuda::workspaceBytes(args)),
        table(bytesOfTable(args)) {
    std::string reason = cuda::unsupportedReason(args);
    if (!reason.empty()) {
      std::printf("unsupported: %s\n", reason.c_str());
      std::exit(1);
    }
    if constexpr (hasTable)
      check(cuda::writeTable(args, table.bytes()), "writeTable");
  }
  void enqueue(cudaStream_t stream) const {
    check(cuda::launch(args, {stream, workspace.bytes(), table.bytes()}),
          "launch");
  }

private:
  static constexpr bool hasTable =
      requires(const Args &a) { cuda::tableBytes(a); };
  static size_t bytesOfTable(const Args &args) {
    if constexpr (hasTable)
      return static_cast<size_t>(cuda::tableBytes(args));
    return 0;
  }

  Args args;
  DeviceMemory workspace, table;
};

template <typename Args> void runOnGpu(const Args &args) {
  Launcher launcher(args);
  launcher.enqueue(nullptr);
  check(cudaDeviceSynchronize(), "kernel");
}

/// Host and device hold the same bytes, gaps too.
inline void expectSameBits(const char *name, const Tensor &tensor) {
  report(name, "differs from the CPU's bits",
         tensor.deviceBytes() == tensor.host);
}

/// The device's elements are within twice the bound of the host's, as both are
/// within the bound of the exact value; gaps are untouched.
inline void expectClose(const char *name, const Tensor &tensor, double sums) {
  std::vector<uint8_t> bytes = tensor.deviceBytes();
  double magnitude = 0, worst = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    magnitude = std::max(magnitude, std::fabs(tensor.get(i)));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double expected = tensor.get(i), found = tensor.get(bytes, i);
    double bound =
        2 * resultTolerance(tensor.type.dtype, sums, magnitude, expected);
    double error = std::fabs(found - expected);
    // A NaN is a miss too.
    if (!(error <= bound))
      worst = std::max(worst, error / bound > 0 ? error / bound : 1e300);
  }
  report(name, "is outside its bound", worst == 0, worst);
  report(name, "was written between rows", tensor.gapsEqual(bytes));
}

/// Runs again into poisoned outputs (those that are only written).
template <typename Args>
void expectRerunEqual(const char *name, const Args &args,
                      std::vector<Tensor *> outputs) {
  std::vector<std::vector<uint8_t>> once;
  for (Tensor *output : outputs) {
    once.push_back(output->deviceBytes());
    check(cudaMemset(output->memory.data, 0xff, output->memory.size),
          "cudaMemset");
  }
  runOnGpu(args);
  for (size_t i = 0; i < outputs.size(); ++i)
    report(name, "bits differ between runs",
           outputs[i]->deviceBytes() == once[i]);
}

/// Documents of these lengths, `unused` boundary slots and `tail` tokens that
/// belong to none.
struct Pack {
  std::vector<int32_t> boundaries{0};
  int64_t tokens;
  Pack(std::vector<int> lengths, int unused, int tail) {
    for (int length : lengths)
      boundaries.push_back(boundaries.back() + length);
    for (int i = 0; i < unused; ++i)
      boundaries.push_back(boundaries.back());
    tokens = boundaries.back() + tail;
  }
  int64_t total() const { return boundaries.back(); }
  int64_t slots() const { return static_cast<int64_t>(boundaries.size()); }
  void write(Tensor &cuSeqlens) const {
    for (int64_t i = 0; i < slots(); ++i)
      cuSeqlens.set(i, boundaries[i]);
    cuSeqlens.toDevice();
  }
};

/// Median, least and greatest time of `enqueue` in a replayed graph, in ms.
struct Times {
  double median, least, most;
};

template <typename F> Times timeReplay(F &&enqueue, int repeats = 30) {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  enqueue(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  constexpr int warmUp = 3, perSample = 4;
  for (int i = 0; i < repeats + warmUp; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    for (int n = 0; n < perSample; ++n)
      check(cudaGraphLaunch(replay, stream), "replay");
    check(cudaEventRecord(end, stream), "event");
    check(cudaStreamSynchronize(stream), "kernel");
    float ms;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= warmUp)
      times.push_back(ms / perSample);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return {times[times.size() / 2], times.front(), times.back()};
}

/// A contiguous view of device memory.
inline Buffer viewOf(const DeviceMemory &memory, DType dtype,
                     std::vector<int64_t> shape) {
  Buffer buffer;
  buffer.dtype = dtype;
  buffer.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (int i = buffer.rank - 1; i >= 0; --i) {
    buffer.shape[i] = shape[i];
    buffer.strides[i] = stride;
    stride *= shape[i];
  }
  buffer.data = memory.data;
  return buffer;
}

inline void printTimes(const char *name, const Times &times, double bytes,
                       double copyRate) {
  double rate = bytes / times.median * 1e3;
  std::printf("  %-34s %.4f ms (%.4f to %.4f)  %.1f MB  %.3f TB/s  %.0f %% of "
              "the copy\n",
              name, times.median, times.least, times.most, bytes * 1e-6,
              rate * 1e-12, 100 * rate / copyRate);
}

/// Random bytes of finite numbers for timing, filled on the device: a pattern
/// of `dtype` elements in (0.5, 1) with signs, repeated.
inline void fillForTiming(const DeviceMemory &memory, DType dtype) {
  Tensor pattern(dtype, {1 << 20});
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < pattern.size(); ++i)
    pattern.set(i, 0.5 + 0.5 * double(random() % 4096) / 4096);
  pattern.toDevice();
  for (size_t at = 0; at < memory.size; at += pattern.memory.size)
    check(cudaMemcpy(static_cast<char *>(memory.data) + at, pattern.memory.data,
                     std::min(pattern.memory.size, memory.size - at),
                     cudaMemcpyDeviceToDevice),
          "fill");
}

/// Bytes a second of a device-to-device copy, reads and writes counted: the
/// better one of the driver's and the project's kernel.
inline double measureCopy() {
  constexpr int64_t bytes = int64_t(2) << 30;
  DeviceMemory from(bytes), to(bytes);
  fillForTiming(from, DType::BF16);
  Buffer in = viewOf(from, DType::F32, {bytes / 4});
  Buffer out = viewOf(to, DType::F32, {bytes / 4});
  Launcher<CopyArgs> kernel({in, out});
  double best = 0;
  for (bool driver : {true, false}) {
    Times times = timeReplay([&](cudaStream_t stream) {
      if (driver)
        check(cudaMemcpyAsync(to.data, from.data, bytes,
                              cudaMemcpyDeviceToDevice, stream),
              "copy");
      else
        kernel.enqueue(stream);
    });
    double rate = 2 * double(bytes) / times.median * 1e3;
    std::printf("copy of 2 GiB, %s: %.4f ms (%.4f to %.4f), %.3f TB/s\n",
                driver ? "driver" : "kernel", times.median, times.least,
                times.most, rate * 1e-12);
    best = std::max(best, rate);
  }
  return best;
}

} // namespace qwen::cudatest

#endif // QWEN_TEST_PARITY_CUDA_CUDATESTING_H
