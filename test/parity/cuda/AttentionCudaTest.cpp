//===- AttentionCudaTest.cpp - CUDA attention against the CPU --*- C++ -*-===//
//
// Random ragged packs; each result apart; queries interleaved with their gates,
// keys beside values; rows outside documents and the workspace poisoned with
// NaN; documents unmoved by NaN in their neighbours; two runs must give the
// same bits. A program of its own, as it needs a GPU:
//
//   AttentionCudaTest          parity: exit status 1 on a miss, 77 without a
//   GPU AttentionCudaTest small    one small pack (for sanitizers)
//   AttentionCudaTest once     27B launches (for profilers)
//   AttentionCudaTest time     times at the shapes of the 27B, 9B and 0.8B
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Workspace.h"
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

using namespace qwen;

namespace {

using Bytes = std::vector<std::byte>;

void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Memory on host and device. Every byte starts as 0xff, a NaN.
class Memory {
public:
  explicit Memory(size_t bytes) : host(bytes, std::byte(0xff)) {
    check(cudaMalloc(&device, bytes), "cudaMalloc");
    poison();
  }
  ~Memory() { cudaFree(device); }
  Memory(const Memory &) = delete;
  void poison() { check(cudaMemset(device, 0xff, host.size()), "cudaMemset"); }
  void toDevice() {
    check(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyDefault),
          "copy to the device");
  }
  Bytes fromDevice() const {
    Bytes copy(host.size());
    check(cudaMemcpy(copy.data(), device, copy.size(), cudaMemcpyDefault),
          "copy from the device");
    return copy;
  }

  Bytes host;
  void *device = nullptr;
};

/// A view of a Memory in both places.
struct View {
  BufferType type;
  Memory *memory;
  int64_t offset = 0; ///< in elements

  template <typename B> B at(void *base) const {
    B buffer;
    static_cast<BufferType &>(buffer) = type;
    buffer.data =
        static_cast<std::byte *>(base) + offset * dtypeBytes(type.dtype);
    return buffer;
  }
  int64_t inner() const { return type.rank == 3 ? type.dim(2) : 1; }
  int64_t index(int64_t t, int64_t h, int64_t i) const {
    return offset + t * type.strides[0] + h * type.strides[1] + i;
  }
  double get(const Bytes &bytes, int64_t at) const {
    uint32_t word = 0;
    if (type.dtype == DType::F32) {
      std::memcpy(&word, bytes.data() + 4 * at, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, bytes.data() + 2 * at, 2);
      word = uint32_t(half) << 16;
    }
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  void set(int64_t at, float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    uint16_t half = uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
    std::memcpy(memory->host.data() + 2 * at, &half, 2);
  }
  /// Calls f(index) for all elements of tokens [from, to).
  template <typename F> void forEach(int64_t from, int64_t to, F &&f) const {
    for (int64_t t = from; t < to; ++t)
      for (int64_t h = 0; h < type.dim(1); ++h)
        for (int64_t i = 0; i < inner(); ++i)
          f(index(t, h, i));
  }
};

Buffer onHost(const View &view) {
  return view.at<Buffer>(view.memory->host.data());
}
Buffer onDevice(const View &view) {
  return view.at<Buffer>(view.memory->device);
}

struct Heads {
  int64_t queries, keys, dim;
};

struct Pack {
  std::vector<int> lengths;
  int tokens, emptySlots;
};

class Case {
public:
  Case(const Pack &pack, Heads heads, uint64_t seed)
      : tokens(pack.tokens), heads(heads), random(seed),
        queries(tokens * heads.queries * heads.dim * 4),
        dqueries(queries.host.size()),
        keys(tokens * heads.keys * heads.dim * 4), dkeys(keys.host.size()),
        out(tokens * heads.queries * heads.dim * 2), dout(out.host.size()),
        lses(tokens * heads.queries * 4),
        cu((pack.lengths.size() + pack.emptySlots + 1) * 4) {
    int32_t *boundaries = reinterpret_cast<int32_t *>(cu.host.data());
    boundaries[0] = 0;
    for (size_t i = 0; i + 1 < cu.host.size() / 4; ++i)
      boundaries[i + 1] =
          boundaries[i] + (i < pack.lengths.size() ? pack.lengths[i] : 0);
    total = boundaries[cu.host.size() / 4 - 1];
    longest = 1;
    for (int length : pack.lengths)
      longest = std::max<int64_t>(longest, length);
    fill(q(), 2);
    fill(k(), 2);
    fill(v(), 1);
    fill(rows(dout), 1);
    for (Memory *memory : {&queries, &keys, &dout, &cu})
      memory->toDevice();
  }

  /// Every query row is followed by its gate.
  View query(Memory &memory) {
    int64_t d = heads.dim, row = heads.queries * 2 * d;
    return {{DType::BF16, 3, {tokens, heads.queries, d}, {row, 2 * d, 1}},
            &memory};
  }
  View key(Memory &memory, int64_t part) {
    int64_t d = heads.dim, row = heads.keys * 2 * d;
    return {{DType::BF16, 3, {tokens, heads.keys, d}, {row, d, 1}},
            &memory,
            part * heads.keys * d};
  }
  View rows(Memory &memory) {
    int64_t d = heads.dim;
    return {
        {DType::BF16, 3, {tokens, heads.queries, d}, {heads.queries * d, d, 1}},
        &memory};
  }
  View q() { return query(queries); }
  View k() { return key(keys, 0); }
  View v() { return key(keys, 1); }
  View dq() { return query(dqueries); }
  View dk() { return key(dkeys, 0); }
  View dv() { return key(dkeys, 1); }
  View o() { return rows(out); }
  View lse() {
    return {{DType::F32, 2, {tokens, heads.queries}, {heads.queries, 1}},
            &lses};
  }
  View boundaries() {
    return {{DType::I32, 1, {int64_t(cu.host.size() / 4)}, {1}}, &cu};
  }

  template <typename F> AttentionArgs forwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(boundaries()),
            at(o()),
            at(lse()),
            1 / std::sqrt(double(heads.dim))};
  }
  template <typename F> AttentionGradArgs backwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(o()),
            at(lse()),
            at(rows(dout)),
            at(boundaries()),
            at(dq()),
            at(dk()),
            at(dv()),
            1 / std::sqrt(double(heads.dim))};
  }

  const int64_t tokens;
  const Heads heads;
  int64_t total, longest;

private:
  std::mt19937_64 random;

  void fill(View view, float size) {
    std::uniform_real_distribution<float> values(-size, size);
    view.forEach(0, total, [&](int64_t at) { view.set(at, values(random)); });
  }

public:
  Memory queries, dqueries, keys, dkeys, out, dout, lses, cu;
};

template <typename Args> void runOnCpu(const Args &args) {
  Bytes workspace(cpuWorkspaceBytes(args) + 64);
  size_t skip = -reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  cpu::launch(args, {{workspace.data() + skip, workspace.size() - skip}});
}

template <typename Args> void runOnGpu(const Args &args) {
  std::string reason = cuda::unsupportedReason(args);
  if (!reason.empty()) {
    std::printf("unsupported: %s\n", reason.c_str());
    std::exit(1);
  }
  Memory workspace(cuda::workspaceBytes(args));
  cuda::LaunchContext context{
      nullptr,
      {static_cast<std::byte *>(workspace.device), workspace.host.size()}};
  check(cuda::launch(args, context), "launch");
  check(cudaDeviceSynchronize(), "kernel");
}

/// Relative error in the root mean square sense; rows outside documents must
/// be zeros.
bool compare(const char *name, const View &view, int64_t total, double bound) {
  Bytes result = view.memory->fromDevice();
  double error = 0, norm = 0;
  view.forEach(0, total, [&](int64_t at) {
    double x = view.get(result, at), y = view.get(view.memory->host, at);
    error += (x - y) * (x - y);
    norm += y * y;
  });
  int64_t stray = 0;
  view.forEach(total, view.type.dim(0),
               [&](int64_t at) { stray += view.get(result, at) != 0; });
  double relative = std::sqrt(error / std::max(norm, 1e-30));
  bool passed = relative <= bound && stray == 0;
  std::printf(" %s %.1e%s", name, relative, passed ? "" : " MISS");
  if (stray)
    std::printf(" (%lld stray)", static_cast<long long>(stray));
  return passed;
}

template <typename Args>
bool sameBits(const Args &args, const std::vector<Memory *> &outputs) {
  std::vector<Bytes> first;
  for (Memory *output : outputs) {
    first.push_back(output->fromDevice());
    output->poison();
  }
  runOnGpu(args);
  bool same = true;
  for (size_t i = 0; i < outputs.size(); ++i)
    same = same && outputs[i]->fromDevice() == first[i];
  std::printf(same ? " same bits" : " BITS DIFFER");
  return same;
}

bool parity(Case &c) {
  // Probabilities, their gradients and the results are rounded to bf16 (the
  // results on both sides); the roundings do not depend on each other, and each
  // has a mean square error of a third of the largest one's.
  double forward = 0x1p-8 * std::sqrt(3 / 3.0);
  double backward = 0x1p-8 * std::sqrt(4 / 3.0);
  // Scores and sums of exponentials are float32 sums.
  double wide = 0x1p-24 * double(c.heads.dim + c.longest);
  runOnCpu(c.forwardArgs(onHost));
  runOnCpu(c.backwardArgs(onHost));
  runOnGpu(c.forwardArgs(onDevice));
  bool passed = compare("o", c.o(), c.total, forward);
  passed &= compare("lse", c.lse(), c.total, wide);
  passed &= sameBits(c.forwardArgs(onDevice), {&c.out, &c.lses});
  // The gradients of the same forward.
  c.out.toDevice();
  c.lses.toDevice();
  runOnGpu(c.backwardArgs(onDevice));
  passed &= compare("dq", c.dq(), c.total, backward);
  passed &= compare("dk", c.dk(), c.total, backward);
  passed &= compare("dv", c.dv(), c.total, backward);
  passed &= sameBits(c.backwardArgs(onDevice), {&c.dqueries, &c.dkeys});
  return passed;
}

bool runParity(const Pack &pack, Heads heads, uint64_t seed) {
  std::printf(
      "heads %d/%d of %d, %d tokens, %zu documents:", int(heads.queries),
      int(heads.keys), int(heads.dim), pack.tokens, pack.lengths.size());
  std::fflush(stdout);
  Case c(pack, heads, seed);
  bool passed = parity(c);
  std::printf(passed ? "\n" : " FAILED\n");
  std::fflush(stdout);
  return passed;
}

/// NaN in the neighbours of a document must not change its bits.
bool isolation(Heads heads) {
  const int64_t begin = 70, end = 270;
  Case c({{int(begin), int(end - begin), 33}, 320, 1}, heads, 11);
  const View results[] = {c.o(), c.lse(), c.dq(), c.dk(), c.dv()};
  auto run = [&] {
    runOnGpu(c.forwardArgs(onDevice));
    runOnGpu(c.backwardArgs(onDevice));
    std::vector<double> values;
    for (const View &view : results) {
      Bytes bytes = view.memory->fromDevice();
      view.forEach(begin, end,
                   [&](int64_t at) { values.push_back(view.get(bytes, at)); });
    }
    return values;
  };
  std::vector<double> before = run();
  for (View view : {c.q(), c.k(), c.v(), c.rows(c.dout)}) {
    auto poison = [&](int64_t at) { view.set(at, __builtin_nanf("")); };
    view.forEach(0, begin, poison);
    view.forEach(end, c.tokens, poison);
    view.memory->toDevice();
  }
  bool passed = run() == before;
  std::printf("documents beside NaN: %s\n", passed ? "same" : "FAILED");
  return passed;
}

bool allParity() {
  const Pack packs[] = {
      {{1, 2, 3, 4, 5}, 16, 3},
      {{63, 64, 65}, 192, 0},
      {{127, 128, 129, 0, 1}, 400, 4},
      {{0, 5, 0, 64, 0, 300}, 384, 250},
      {{512}, 512, 0},
      {{}, 128, 2},
  };
  const Heads heads[] = {{24, 4, 256}, {16, 4, 256}, {8, 2, 256}};
  bool passed = true;
  uint64_t seed = 1;
  for (const Heads &h : heads)
    for (const Pack &pack : packs)
      passed &= runParity(pack, h, seed++);
  for (int dim : {64, 128})
    passed &= runParity({{1, 129, 200}, 336, 1}, {8, 2, dim}, seed++);
  passed &= runParity({{1170, 1169}, 2368, 1}, heads[0], seed++);
  passed &= runParity({{64, 5000}, 5120, 1}, {8, 8, 256}, seed++);
  return passed & isolation(heads[0]);
}

/// Times of one launch in a replayed graph: prints median, least and most.
template <typename Args> void timeOne(const char *name, const Args &args) {
  int64_t bytes = cuda::workspaceBytes(args);
  Memory workspace(bytes);
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  cuda::LaunchContext context{
      stream, {static_cast<std::byte *>(workspace.device), size_t(bytes)}};
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  check(cuda::launch(args, context), "launch");
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 40; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    for (int n = 0; n < 4; ++n)
      check(cudaGraphLaunch(replay, stream), "replay");
    check(cudaEventRecord(end, stream), "event");
    check(cudaStreamSynchronize(stream), "kernel");
    float ms;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 10)
      times.push_back(ms / 4);
  }
  std::sort(times.begin(), times.end());
  std::printf("  %s: %.4f ms (%.4f to %.4f), workspace %.1f MB\n", name,
              times[times.size() / 2], times.front(), times.back(),
              double(bytes) / 1e6);
  std::fflush(stdout);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

const std::vector<int> seven = {1170, 1171, 1169, 1173, 1168, 1172, 1169};

void runOnce() {
  for (const std::vector<int> &lengths : {seven, std::vector<int>{8192}}) {
    Case c({lengths, 8192, 1}, {24, 4, 256}, 7);
    runOnGpu(c.forwardArgs(onDevice));
    runOnGpu(c.backwardArgs(onDevice));
  }
}

void timeAll() {
  struct Shape {
    Heads heads;
    std::vector<int> lengths;
  };
  for (const Shape &shape :
       {Shape{{24, 4, 256}, seven}, Shape{{24, 4, 256}, {8192}},
        Shape{{16, 4, 256}, seven}, Shape{{8, 2, 256}, seven},
        Shape{{8, 2, 256}, {8192}}}) {
    std::printf("heads %d/%d of %d, 8192 tokens, %zu documents\n",
                int(shape.heads.queries), int(shape.heads.keys),
                int(shape.heads.dim), shape.lengths.size());
    Case c({shape.lengths, 8192, 8 - int(shape.lengths.size())}, shape.heads,
           7);
    timeOne("forward", c.forwardArgs(onDevice));
    timeOne("backward", c.backwardArgs(onDevice));
  }
}

} // namespace

int main(int argc, char **argv) {
  cudatest::requireGpu();
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "time") {
    timeAll();
    return 0;
  }
  if (mode == "once") {
    runOnce();
    return 0;
  }
  bool passed = mode == "small"
                    ? runParity({{65, 0, 1, 130}, 200, 1}, {3, 1, 256}, 1)
                    : allParity();
  std::printf(passed ? "all passed\n" : "FAILED\n");
  return passed ? 0 : 1;
}
