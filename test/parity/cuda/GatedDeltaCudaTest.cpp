//===- GatedDeltaCudaTest.cpp - CUDA gated delta rule against the CPU -----===//
//
// Random ragged packs; each result apart; rows outside documents and the
// workspace poisoned with NaN; two runs must give the same bits. A program of
// its own, as it needs a GPU:
//
//   gated_delta_cuda_test          parity, exit status 1 on a miss
//   gated_delta_cuda_test small    the same for one small pack (for sanitizers)
//   gated_delta_cuda_test time     times at the shapes of the 27B, 9B and 0.8B
//   gated_delta_cuda_test once     one launch at the 27B's shape (for
//   profilers)
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Workspace.h"
#include "qwen/Support/BFloat16.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/kernels/cuda/Kernels.h"
#include "test/parity/cuda/RequireGpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace qwen;

namespace {

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
    check(cudaMemset(device, 0xff, bytes), "cudaMemset");
  }
  ~Memory() { cudaFree(device); }
  Memory(const Memory &) = delete;
  void toDevice() {
    check(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyDefault),
          "copy to the device");
  }
  std::vector<std::byte> fromDevice() const {
    std::vector<std::byte> copy(host.size());
    check(cudaMemcpy(copy.data(), device, copy.size(), cudaMemcpyDefault),
          "copy from the device");
    return copy;
  }

  std::vector<std::byte> host;
  void *device = nullptr;
};

/// A view of a Memory in both places.
struct View {
  BufferType type;
  Memory *memory;
  int64_t offset; ///< in elements

  template <typename B> B at(void *base) const {
    B buffer;
    static_cast<BufferType &>(buffer) = type;
    buffer.data =
        static_cast<std::byte *>(base) + offset * dtypeBytes(type.dtype);
    return buffer;
  }
  Buffer host() const { return at<Buffer>(memory->host.data()); }
  Buffer device() const { return at<Buffer>(memory->device); }

  int64_t index(int64_t t, int64_t h, int64_t i) const {
    return offset + t * type.strides[0] + h * type.strides[1] + i;
  }
  int64_t inner() const { return type.rank == 3 ? type.dim(2) : 1; }
  double get(const std::vector<std::byte> &bytes, int64_t at) const {
    if (type.dtype == DType::F32) {
      float value;
      std::memcpy(&value, bytes.data() + 4 * at, 4);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * at, 2);
    uint32_t word = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  void set(int64_t at, float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if (type.dtype == DType::F32) {
      std::memcpy(memory->host.data() + 4 * at, &word, 4);
      return;
    }
    uint16_t half = uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
    std::memcpy(memory->host.data() + 2 * at, &half, 2);
  }
};

/// How gates and keys are drawn.
enum class Kind { Typical, NoDecay, StrongDecay, ExtremeBeta, SimilarKeys };
constexpr const char *kindNames[] = {"typical", "no decay", "strong decay",
                                     "extreme beta", "similar keys"};

class Case {
public:
  Case(std::vector<int> lengths, int64_t tokens, int emptySlots,
       int64_t keyHeads, int64_t valueHeads, Kind kind, uint64_t seed)
      : tokens(tokens), keyHeads(keyHeads), valueHeads(valueHeads),
        row((2 * keyHeads + valueHeads) * 128), conv(tokens * row * 2),
        dconv(tokens * row * 2), o(tokens * valueHeads * 256),
        dout(tokens * valueHeads * 256), g(tokens * valueHeads * 4),
        beta(tokens * valueHeads * 2), dg(tokens * valueHeads * 4),
        dbeta(tokens * valueHeads * 2), kind(kind),
        cu((lengths.size() + emptySlots + 1) * 4) {
    int32_t *boundaries = reinterpret_cast<int32_t *>(cu.host.data());
    boundaries[0] = 0;
    for (size_t i = 0; i < lengths.size() + emptySlots; ++i)
      boundaries[i + 1] = boundaries[i] + (i < lengths.size() ? lengths[i] : 0);
    total = boundaries[lengths.size() + emptySlots];
    fill(seed);
    for (Memory *memory : {&conv, &dout, &g, &beta, &cu})
      memory->toDevice();
  }

  View head(Memory &memory, int64_t heads, int64_t first) {
    return {{DType::BF16, 3, {tokens, heads, 128}, {row, 128, 1}},
            &memory,
            first * 128};
  }
  View whole(Memory &memory) {
    return {
        {DType::BF16, 3, {tokens, valueHeads, 128}, {valueHeads * 128, 128, 1}},
        &memory,
        0};
  }
  View gate(Memory &memory, DType dtype) {
    return {{dtype, 2, {tokens, valueHeads}, {valueHeads, 1}}, &memory, 0};
  }
  View q() { return head(conv, keyHeads, 0); }
  View k() { return head(conv, keyHeads, keyHeads); }
  View v() { return head(conv, valueHeads, 2 * keyHeads); }
  View dq() { return head(dconv, keyHeads, 0); }
  View dk() { return head(dconv, keyHeads, keyHeads); }
  View dv() { return head(dconv, valueHeads, 2 * keyHeads); }
  View boundaries() {
    int64_t count = int64_t(cu.host.size() / 4);
    return {{DType::I32, 1, {count}, {1}}, &cu, 0};
  }

  template <typename F> GatedDeltaArgs forwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(gate(g, DType::F32)),
            at(gate(beta, DType::BF16)),
            at(boundaries()),
            at(whole(o)),
            scale,
            eps,
            64};
  }
  template <typename F> GatedDeltaGradArgs backwardArgs(F at) {
    return {at(q()),
            at(k()),
            at(v()),
            at(gate(g, DType::F32)),
            at(gate(beta, DType::BF16)),
            at(whole(dout)),
            at(boundaries()),
            at(dq()),
            at(dk()),
            at(dv()),
            at(gate(dg, DType::F32)),
            at(gate(dbeta, DType::BF16)),
            scale,
            eps,
            64};
  }

  const int64_t tokens, keyHeads, valueHeads, row;
  int64_t total = 0;
  Memory conv, dconv, o, dout, g, beta, dg, dbeta;

private:
  void fill(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> unit(-1, 1), positive(0, 1);
    std::vector<float> common(128);
    for (float &x : common)
      x = unit(random);
    for (View view : {q(), k(), v(), whole(dout)})
      for (int64_t t = 0; t < total; ++t)
        for (int64_t h = 0; h < view.type.dim(1); ++h)
          for (int64_t i = 0; i < 128; ++i)
            view.set(view.index(t, h, i), unit(random));
    if (kind == Kind::SimilarKeys)
      for (int64_t t = 0; t < total; ++t)
        for (int64_t h = 0; h < keyHeads; ++h)
          for (int64_t i = 0; i < 128; ++i)
            k().set(k().index(t, h, i), common[i] + 0.5f * unit(random));
    View gates = gate(g, DType::F32), betas = gate(beta, DType::BF16);
    for (int64_t t = 0; t < total; ++t)
      for (int64_t h = 0; h < valueHeads; ++h) {
        float decay = -0.5f * positive(random), write = positive(random);
        if (kind == Kind::NoDecay)
          decay = 0;
        if (kind == Kind::StrongDecay)
          decay = random() % 4 ? -0.1f * positive(random) : -80;
        if (kind == Kind::ExtremeBeta)
          write = random() % 3 / 2.0f;
        gates.set(gates.index(t, h, 0), decay);
        betas.set(betas.index(t, h, 0), write);
      }
  }

  const double scale = 1 / std::sqrt(128.0), eps = 1e-6;
  const Kind kind;
  Memory cu;
};

Buffer onHost(const View &view) { return view.host(); }
Buffer onDevice(const View &view) { return view.device(); }

template <typename Args> void runOnCpu(const Args &args) {
  std::vector<std::byte> workspace(cpuWorkspaceBytes(args) + 64);
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

/// A result passes at most eight roundings to bf16 that do not depend on each
/// other, each with a mean square error of a third of the largest one's.
double tolerance(Kind kind) {
  double one = 0x1p-8 * std::sqrt(8.0 / 3);
  // Solutions of a badly conditioned system lose digits to cancellation.
  return kind == Kind::SimilarKeys ? 4 * one : one;
}

/// Relative error in the root mean square sense; rows outside documents must
/// be zeros.
bool compare(const char *name, const View &view, int64_t total, double bound) {
  std::vector<std::byte> result = view.memory->fromDevice();
  double error = 0, norm = 0;
  int64_t stray = 0;
  for (int64_t t = 0; t < view.type.dim(0); ++t)
    for (int64_t h = 0; h < view.type.dim(1); ++h)
      for (int64_t i = 0; i < view.inner(); ++i) {
        int64_t at = view.index(t, h, i);
        double x = view.get(result, at), y = view.get(view.memory->host, at);
        stray += t >= total && x != 0;
        error += t < total ? (x - y) * (x - y) : 0;
        norm += t < total ? y * y : 0;
      }
  double relative = std::sqrt(error / std::max(norm, 1e-30));
  bool passed = relative <= bound && stray == 0;
  std::printf(" %s %.1e%s", name, relative, passed ? "" : " MISS");
  if (stray)
    std::printf(" (%lld stray)", static_cast<long long>(stray));
  return passed;
}

template <typename Args>
bool sameBits(const Args &args, std::vector<Memory *> outputs) {
  std::vector<std::vector<std::byte>> first;
  for (Memory *output : outputs) {
    first.push_back(output->fromDevice());
    check(cudaMemset(output->device, 0xff, output->host.size()), "memset");
  }
  runOnGpu(args);
  bool same = true;
  for (size_t i = 0; i < outputs.size(); ++i)
    same = same && outputs[i]->fromDevice() == first[i];
  std::printf(same ? " same bits" : " BITS DIFFER");
  return same;
}

bool parity(Case &c, Kind kind) {
  double bound = tolerance(kind);
  runOnCpu(c.forwardArgs(onHost));
  runOnCpu(c.backwardArgs(onHost));
  runOnGpu(c.forwardArgs(onDevice));
  bool passed = compare("o", c.whole(c.o), c.total, bound);
  passed &= sameBits(c.forwardArgs(onDevice), {&c.o});
  runOnGpu(c.backwardArgs(onDevice));
  passed &= compare("dq", c.dq(), c.total, bound);
  passed &= compare("dk", c.dk(), c.total, bound);
  passed &= compare("dv", c.dv(), c.total, bound);
  passed &= compare("dg", c.gate(c.dg, DType::F32), c.total, bound);
  passed &= compare("dbeta", c.gate(c.dbeta, DType::BF16), c.total, bound);
  passed &= sameBits(c.backwardArgs(onDevice), {&c.dconv, &c.dg, &c.dbeta});
  return passed;
}

struct Pack {
  std::vector<int> lengths;
  int tokens, emptySlots;
};

bool runParity(const Pack &pack, std::pair<int, int> heads, Kind kind,
               uint64_t seed) {
  std::printf("heads %d/%d, %d tokens, %zu documents, %s:", heads.first,
              heads.second, pack.tokens, pack.lengths.size(),
              kindNames[int(kind)]);
  Case c(pack.lengths, pack.tokens, pack.emptySlots, heads.first, heads.second,
         kind, seed);
  bool passed = parity(c, kind);
  std::printf(passed ? "\n" : " FAILED\n");
  std::fflush(stdout);
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
  const std::pair<int, int> heads[] = {{16, 48}, {16, 32}, {16, 16}};
  bool passed = true;
  uint64_t seed = 1;
  for (auto h : heads)
    for (const Pack &pack : packs)
      passed &= runParity(pack, h, Kind::Typical, seed++);
  for (Kind kind :
       {Kind::NoDecay, Kind::StrongDecay, Kind::ExtremeBeta, Kind::SimilarKeys})
    passed &= runParity({{300, 65, 1}, 400, 1}, heads[1], kind, seed++);
  passed &= runParity({{1170, 1170}, 2368, 1}, heads[0], Kind::Typical, seed);
  return passed;
}

/// Times of one launch in a replayed graph: prints median, least and most.
template <typename Args> void timeOne(const char *name, const Args &args) {
  Memory workspace(cuda::workspaceBytes(args));
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  cuda::LaunchContext context{
      stream,
      {static_cast<std::byte *>(workspace.device), workspace.host.size()}};
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
  for (int i = 0; i < 60; ++i) {
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
  std::printf("  %s: %.4f ms (%.4f to %.4f)\n", name, times[times.size() / 2],
              times.front(), times.back());
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

const std::vector<int> seven = {1170, 1171, 1169, 1173, 1168, 1172, 1169};

void runOnce() {
  Case c(seven, 8192, 1, 16, 48, Kind::Typical, 7);
  runOnGpu(c.forwardArgs(onDevice));
  runOnGpu(c.backwardArgs(onDevice));
}

void timeAll() {
  struct Shape {
    int keyHeads, valueHeads;
    std::vector<int> lengths;
  };
  for (const Shape &shape : {Shape{16, 48, seven}, Shape{16, 48, {8192}},
                             Shape{16, 32, seven}, Shape{16, 16, seven}}) {
    std::printf("heads %d/%d, 8192 tokens, %zu documents\n", shape.keyHeads,
                shape.valueHeads, shape.lengths.size());
    Case c(shape.lengths, 8192, 8 - int(shape.lengths.size()), shape.keyHeads,
           shape.valueHeads, Kind::Typical, 7);
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
  bool passed = mode == "small" ? runParity({{65, 0, 1, 130}, 200, 1}, {1, 3},
                                            Kind::Typical, 1)
                                : allParity();
  std::printf(passed ? "all passed\n" : "FAILED\n");
  return passed ? 0 : 1;
}
