//===- CudaTesting.h - Operands in host and device memory ------*- C++ -*-===//
//
// Tensors that a CPU kernel and its CUDA twin both work on, and comparisons of
// their results. Times are measured by qwen-bench.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PARITY_CUDA_CUDATESTING_H
#define QWEN_TEST_PARITY_CUDA_CUDATESTING_H

#include "qwen/Plan/Workspace.h"
#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Tolerance.h"
#include "runtime/benchmark/KernelTiming.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "test/parity/cuda/RequireGpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace qwen::cudatest {

inline void check(const Status &status) {
  if (status.ok())
    return;
  std::printf("%s\n", status.message().c_str());
  std::exit(1);
}
inline void check(cudaError_t error, const char *what) {
  check(bench::cudaStatus(error, what));
}
template <typename T> T require(StatusOr<T> result) {
  check(result.status());
  return std::move(result).value();
}

class Tensor;

/// A part of a tensor: rows of tokens with heads in them, for example.
struct View {
  Tensor *tensor;
  BufferType type;
  int64_t first; ///< element of the tensor's memory where it starts

  int64_t size() const { return type.elements(); }
  /// Element i of the view in row-major order, as an element of the memory.
  int64_t offset(int64_t i) const {
    int64_t at = first;
    for (int d = type.rank - 1; d >= 0; --d) {
      at += i % type.shape[d] * type.strides[d];
      i /= type.shape[d];
    }
    return at;
  }
  /// Elements of the outermost rows before `row`.
  int64_t before(int64_t row) const { return size() / type.dim(0) * row; }
  inline double get(int64_t i) const;
  inline double get(const std::vector<uint8_t> &bytes, int64_t i) const;
  inline void set(int64_t i, double value) const;
};

/// A tensor in both memories. Rows (the last dimension) of a tensor with a gap
/// are slices of wider rows; every byte starts as 0xff, a NaN.
class Tensor {
public:
  Tensor(DType dtype, std::vector<int64_t> shape, int64_t gap = 0)
      : memory(require(bench::DeviceArray::create(layout(dtype, shape, gap)))),
        host(memory.bytes().size(), 0xff) {}

  int64_t size() const { return type.elements(); }
  double get(int64_t i) const { return read(host, whole().offset(i)); }
  void set(int64_t i, double value) { write(whole().offset(i), value); }
  Tensor &uniform(std::mt19937_64 &random, double low, double high) {
    std::uniform_real_distribution<double> distribution(low, high);
    for (int64_t i = 0; i < size(); ++i)
      set(i, distribution(random));
    return *this;
  }
  void toDevice() { check(memory.copyFrom(std::as_bytes(std::span(host)))); }
  /// What the device holds is lost: NaN in every byte.
  void poisonDevice() {
    check(cudaMemset(memory.data(), 0xff, host.size()), "cudaMemset");
  }
  /// What the device holds, gaps too.
  std::vector<uint8_t> deviceBytes() const {
    std::vector<uint8_t> bytes(host.size());
    check(cudaMemcpy(bytes.data(), memory.data(), bytes.size(),
                     cudaMemcpyDefault),
          "copy from the device");
    return bytes;
  }
  /// Element i of bytes that deviceBytes returned.
  double get(const std::vector<uint8_t> &bytes, int64_t i) const {
    return read(bytes, whole().offset(i));
  }
  /// What lies between the elements is as on the host.
  bool gapsEqual(std::vector<uint8_t> bytes) const {
    int64_t width = dtypeBytes(type.dtype);
    for (int64_t i = 0; i < size(); ++i)
      std::memcpy(bytes.data() + whole().offset(i) * width,
                  host.data() + whole().offset(i) * width, width);
    return bytes == host;
  }
  /// The tensor without its gaps.
  View whole() const { return {const_cast<Tensor *>(this), type, first}; }
  /// Another view of the memory, from element `begin` on.
  View view(const BufferType &part, int64_t begin = 0) {
    return {this, part, begin};
  }
  Buffer onHost() { return at(whole(), host.data()); }
  Buffer onDevice() { return at(whole(), memory.data()); }
  static Buffer at(const View &view, void *base) {
    Buffer buffer;
    static_cast<BufferType &>(buffer) = view.type;
    buffer.data =
        static_cast<uint8_t *>(base) + view.first * dtypeBytes(view.type.dtype);
    return buffer;
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

  BufferType type;
  int64_t first = 0; ///< element of the memory where the tensor starts
  bench::DeviceArray memory;
  std::vector<uint8_t> host;

private:
  int64_t layout(DType dtype, const std::vector<int64_t> &shape, int64_t gap) {
    type.dtype = dtype;
    type.rank = static_cast<int>(shape.size());
    int64_t stride = 1;
    for (int i = type.rank - 1; i >= 0; --i) {
      type.shape[i] = shape[i];
      type.strides[i] = stride;
      stride = stride * shape[i] + (i == type.rank - 1 ? gap : 0);
    }
    first = gap / 2;
    return (first + type.extent() + gap) * dtypeBytes(dtype);
  }
  template <typename T>
  static T as(const std::vector<uint8_t> &bytes, int64_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T> void put(int64_t at, T value) {
    std::memcpy(host.data() + at * sizeof(T), &value, sizeof(T));
  }
};

inline double View::get(int64_t i) const { return get(tensor->host, i); }
inline double View::get(const std::vector<uint8_t> &bytes, int64_t i) const {
  return tensor->read(bytes, offset(i));
}
inline void View::set(int64_t i, double value) const {
  tensor->write(offset(i), value);
}

/// Kernel operands of one tensor or view: on the host, on the device.
inline constexpr struct OnHost {
  Buffer operator()(Tensor &tensor) const { return tensor.onHost(); }
  Buffer operator()(const View &view) const {
    return Tensor::at(view, view.tensor->host.data());
  }
} onHost;
inline constexpr struct OnDevice {
  Buffer operator()(Tensor &tensor) const { return tensor.onDevice(); }
  Buffer operator()(const View &view) const {
    return Tensor::at(view, view.tensor->memory.data());
  }
} onDevice;

/// Misses so far; each is printed where it is found.
inline int misses = 0;

inline void report(const char *name, const char *what, bool passed,
                   double measure = 0) {
  misses += !passed;
  if (!passed)
    std::printf("  %s %s MISS (%g)\n", name, what, measure);
}

/// Says how it went; the program's exit status.
inline int summary() {
  std::printf(misses ? "%d misses\n" : "all passed\n", misses);
  return misses ? 1 : 0;
}

template <typename Args> void runOnCpu(const Args &args) {
  std::vector<std::byte> workspace(cpuWorkspaceBytes(args) + 64);
  size_t skip = -reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  cpu::launch(args, {{workspace.data() + skip, workspace.size() - skip}});
}

/// One kernel's arguments with the device memory of its launches.
template <typename Args> class Launcher {
public:
  explicit Launcher(const Args &args)
      : run(require(bench::KernelRun<Args>::create(args))) {}
  void enqueue(cudaStream_t stream) const { check(run.enqueue(stream)); }

private:
  bench::KernelRun<Args> run;
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

/// The device's elements are near the host's, relative and in the root mean
/// square sense; rows from `total` on, outside documents, are zeros.
inline void expectNear(const char *name, const View &view, int64_t total,
                       double bound) {
  std::vector<uint8_t> bytes = view.tensor->deviceBytes();
  double error = 0, norm = 0, stray = 0;
  for (int64_t i = 0; i < view.before(total); ++i) {
    double found = view.get(bytes, i), expected = view.get(i);
    error += (found - expected) * (found - expected);
    norm += expected * expected;
  }
  for (int64_t i = view.before(total); i < view.size(); ++i)
    stray += view.get(bytes, i) != 0;
  double relative = std::sqrt(error / std::max(norm, 1e-30));
  std::printf(" %s %.1e", name, relative);
  // A NaN is a miss too.
  report(name, "is outside its bound", relative <= bound, relative);
  report(name, "is not zero outside documents", stray == 0, stray);
}

/// Runs again into poisoned outputs (those that are only written).
template <typename Args>
void expectRerunEqual(const char *name, const Args &args,
                      std::vector<Tensor *> outputs) {
  std::vector<std::vector<uint8_t>> once;
  for (Tensor *output : outputs) {
    once.push_back(output->deviceBytes());
    output->poisonDevice();
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

/// Packs around the kernels' blocks of 64 and 128 tokens: short documents, a
/// full pack, empty documents and slots, padding, no document at all.
inline std::vector<Pack> raggedPacks() {
  return {
      Pack({1, 2, 3, 4, 5}, 3, 1),
      Pack({63, 64, 65}, 0, 0),
      Pack({127, 128, 129, 0, 1}, 4, 15),
      Pack({0, 5, 0, 64, 0, 300}, 250, 15),
      Pack({512}, 0, 0),
      Pack({}, 2, 128),
  };
}

} // namespace qwen::cudatest

#endif // QWEN_TEST_PARITY_CUDA_CUDATESTING_H
