//===- KernelTiming.cpp - Times of kernels in replayed graphs -------------===//

#include "runtime/benchmark/KernelTiming.h"

#include "qwen/Plan/Contiguous.h"
#include "qwen/Support/BFloat16.h"
#include "runtime/kernels/cuda/GemmTuning.h"

#include <algorithm>
#include <memory>
#include <random>
#include <type_traits>

using namespace qwen;
using namespace qwen::bench;

Status bench::cudaStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess)
    return okStatus();
  return makeError(error == cudaErrorMemoryAllocation
                       ? StatusCode::ResourceExhausted
                       : StatusCode::FailedPrecondition,
                   "{}: {}", what, cudaGetErrorString(error));
}

StatusOr<cuda::Blas *> bench::sharedBlas() {
  // Never closed: when the process ends the library's own objects are destroyed
  // before ours, which were there first.
  static cuda::Blas *blas = nullptr;
  if (!blas) {
    QWEN_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Blas> opened,
                          cuda::Blas::create());
    blas = opened.release();
  }
  return blas;
}

StatusOr<DeviceArray> DeviceArray::create(int64_t bytes) {
  void *address = nullptr;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaMalloc(&address, size_t(std::max<int64_t>(bytes, 1))),
                 fmt::format("allocating {} bytes of device memory", bytes)));
  DeviceArray made(address, size_t(bytes));
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaMemset(address, 0xff, size_t(bytes)), "cudaMemset"));
  return made;
}

Buffer DeviceArray::view(DType dtype, const std::vector<int64_t> &shape,
                         int64_t first) const {
  return {contiguousType(dtype, shape),
          bytes().data() + first * dtypeBytes(dtype)};
}

Status DeviceArray::copyFrom(std::span<const std::byte> source) const {
  return cudaStatus(
      cudaMemcpy(address, source.data(), source.size(), cudaMemcpyDefault),
      "copy to the device");
}

template <typename T, typename Distribution>
static std::vector<T> randomPattern(Distribution distribution) {
  std::mt19937_64 random(1);
  std::vector<T> pattern(size_t(1) << 20);
  for (T &element : pattern) {
    double value = distribution(random);
    if constexpr (std::is_same_v<T, BFloat16>)
      element = toBFloat16(float(value));
    else
      element = T(value);
  }
  return pattern;
}

/// Copies `pattern` to the start of the memory, then doubles what is filled.
static Status repeat(const DeviceArray &array,
                     std::span<const std::byte> pattern) {
  std::span<std::byte> all = array.bytes();
  size_t filled = std::min(pattern.size(), all.size());
  QWEN_RETURN_IF_ERROR(array.copyFrom(pattern.first(filled)));
  while (filled < all.size()) {
    size_t next = std::min(filled, all.size() - filled);
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaMemcpy(all.data() + filled, all.data(),
                                               next, cudaMemcpyDeviceToDevice),
                                    "filling device memory"));
    filled += next;
  }
  return okStatus();
}

template <typename Distribution>
static Status fillRandom(const DeviceArray &array, DType dtype,
                         const Distribution &distribution) {
  auto fill = [&]<typename T>(T) {
    std::vector<T> pattern = randomPattern<T>(distribution);
    return repeat(array, std::as_bytes(std::span(pattern)));
  };
  switch (dtype) {
  case DType::F32:
    return fill(float());
  case DType::BF16:
    return fill(BFloat16());
  case DType::F64:
    return fill(double());
  case DType::I32:
    return fill(int32_t());
  }
  return makeError(StatusCode::Internal, "unknown element type");
}

Status DeviceArray::fillUniform(DType dtype, double low, double high) const {
  return fillRandom(*this, dtype,
                    std::uniform_real_distribution<double>(low, high));
}

Status DeviceArray::fillNormal(DType dtype, double deviation) const {
  return fillRandom(*this, dtype,
                    std::normal_distribution<double>(0, deviation));
}

namespace {
/// A stream with its events and a captured graph; destroyed together.
struct Replay {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  Replay() = default;
  Replay(const Replay &) = delete;
  ~Replay() {
    if (exec)
      cudaGraphExecDestroy(exec);
    if (graph)
      cudaGraphDestroy(graph);
    if (begin)
      cudaEventDestroy(begin);
    if (end)
      cudaEventDestroy(end);
    if (stream)
      cudaStreamDestroy(stream);
  }

  Status capture(const std::function<Status(cudaStream_t)> &enqueue) {
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaStreamCreate(&stream), "stream"));
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
                   "graph capture"));
    Status enqueued = enqueue(stream);
    cudaError_t captured = cudaStreamEndCapture(stream, &graph);
    QWEN_RETURN_IF_ERROR(enqueued);
    QWEN_RETURN_IF_ERROR(cudaStatus(captured, "graph capture"));
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaGraphInstantiate(&exec, graph, 0), "graph"));
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventCreate(&begin), "event"));
    return cudaStatus(cudaEventCreate(&end), "event");
  }

  StatusOr<double> milliseconds(int replays) {
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(begin, stream), "event"));
    for (int i = 0; i < replays; ++i)
      QWEN_RETURN_IF_ERROR(cudaStatus(cudaGraphLaunch(exec, stream), "replay"));
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(end, stream), "event"));
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream), "kernel"));
    float taken = 0;
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaEventElapsedTime(&taken, begin, end), "event"));
    return double(taken) / replays;
  }
};
} // namespace

StatusOr<Times>
bench::timeReplay(const std::function<Status(cudaStream_t)> &enqueue,
                  const TimingOptions &options) {
  Replay replay;
  QWEN_RETURN_IF_ERROR(replay.capture(enqueue));
  int perSample = options.perSample, samples = options.samples;
  std::vector<double> times;
  for (int i = 0; i < options.warmUp + samples; ++i) {
    QWEN_ASSIGN_OR_RETURN(double taken, replay.milliseconds(perSample));
    if (i >= options.warmUp)
      times.push_back(taken);
    if (i == 0 && taken * perSample * samples > options.budgetMs) {
      perSample = 1;
      samples = std::clamp(int(options.budgetMs / taken), std::min(5, samples),
                           samples);
    }
  }
  std::sort(times.begin(), times.end());
  return Times{times[times.size() / 2], times.front(), times.back(), samples};
}

/// Of a ceiling.
static constexpr TimingOptions briefly{
    .warmUp = 2, .samples = 8, .perSample = 2};

StatusOr<double> bench::measureCopyRate() {
  constexpr int64_t bytes = int64_t(1) << 30;
  QWEN_ASSIGN_OR_RETURN(DeviceArray from, DeviceArray::create(bytes));
  QWEN_ASSIGN_OR_RETURN(DeviceArray to, DeviceArray::create(bytes));
  QWEN_RETURN_IF_ERROR(from.fillUniform(DType::BF16, -1, 1));
  auto copyByDriver = [&](cudaStream_t stream) {
    return cudaStatus(cudaMemcpyAsync(to.data(), from.data(), bytes,
                                      cudaMemcpyDeviceToDevice, stream),
                      "copy");
  };
  QWEN_ASSIGN_OR_RETURN(Times driver, timeReplay(copyByDriver, briefly));
  QWEN_ASSIGN_OR_RETURN(Times kernel,
                        timeKernel(CopyArgs{from.view(DType::F32, {bytes / 4}),
                                            to.view(DType::F32, {bytes / 4})},
                                   briefly));
  return 2e3 * double(bytes) / std::min(driver.median, kernel.median);
}

StatusOr<GemmAlgorithm> bench::shippedAlgorithm(const cuda::GemmShape &shape) {
  static const StatusOr<cuda::TuningTable> table = cuda::parseTuningTable(
      cuda::shippedTuningTable(), "the shipped tuning table");
  QWEN_RETURN_IF_ERROR(table.status());
  auto found = table->find(shape);
  return found == table->end() ? GemmAlgorithm() : found->second.algorithm;
}

StatusOr<double> bench::measureMatrixRate(DType dtype) {
  constexpr int64_t m = 8192, n = 34816, k = 5120;
  int64_t width = dtypeBytes(dtype);
  QWEN_ASSIGN_OR_RETURN(DeviceArray a, DeviceArray::create(m * k * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray b, DeviceArray::create(n * k * width));
  QWEN_ASSIGN_OR_RETURN(DeviceArray c, DeviceArray::create(m * n * width));
  QWEN_RETURN_IF_ERROR(a.fillUniform(dtype, -1, 1));
  QWEN_RETURN_IF_ERROR(b.fillUniform(dtype, -1, 1));
  GemmArgs product;
  product.a = a.view(dtype, {m, k});
  product.b = b.view(dtype, {n, k});
  product.c = c.view(dtype, {m, n});
  product.transposeB = true;
  QWEN_ASSIGN_OR_RETURN(product.algorithm,
                        shippedAlgorithm(cuda::gemmShape(product)));
  QWEN_ASSIGN_OR_RETURN(Times times, timeKernel(product, briefly));
  return 2e3 * double(m) * n * k / times.median;
}
