//===- PlanLaunch.cpp - Launches of a hostile plan ------------------------===//
//
// The contents of operands are noise: kernels keep to their operands whatever
// these hold. Generated code is not run; its launches add the partial sums of a
// stand-in.
//
//===----------------------------------------------------------------------===//

#include "PlanLaunch.h"
#include "FuzzTarget.h"
#include "qwen/Plan/KernelChecks.h"
#include "qwen/Plan/KernelCosts.h"
#include "qwen/Plan/Workspace.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanSteps.h"

#include <cstdlib>
#include <memory>
#include <unordered_set>

// Without AddressSanitizer its macros do nothing.
#include <sanitizer/asan_interface.h>

using namespace qwen;

namespace {

/// What is larger takes too long for a fuzzer.
constexpr int64_t mostBytes = int64_t(1) << 18, mostWorkspace = 4 * mostBytes,
                  mostFlops = int64_t(1) << 22;
constexpr size_t buffersAlign = 64;

/// Heap memory of exactly `bytes` bytes, `misplaced` bytes behind a multiple of
/// the alignment that buffers of a plan have.
class Block {
public:
  Block(size_t bytes, size_t misplaced)
      : misplaced(misplaced % buffersAlign), bytes(bytes),
        total((this->misplaced + bytes + buffersAlign - 1) / buffersAlign *
              buffersAlign),
        memory(
            static_cast<std::byte *>(std::aligned_alloc(buffersAlign, total))) {
    ASAN_POISON_MEMORY_REGION(memory.get(), total);
    ASAN_UNPOISON_MEMORY_REGION(content().data(), bytes);
  }
  Block(Block &&) = default;
  ~Block() {
    if (memory)
      ASAN_UNPOISON_MEMORY_REGION(memory.get(), total);
  }
  std::span<std::byte> content() const {
    return {memory.get() + misplaced, bytes};
  }

private:
  struct Free {
    void operator()(std::byte *address) const { std::free(address); }
  };
  size_t misplaced, bytes, total;
  std::unique_ptr<std::byte, Free> memory;
};

/// Deterministic contents that differ from operand to operand.
void fill(std::span<std::byte> bytes, DType dtype, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  switch (state % 4) {
  case 0: // NaN or -1
    std::memset(bytes.data(), 0xff, bytes.size());
    return;
  case 1: // Noise.
    for (std::byte &byte : bytes) {
      state = state * 1664525u + 1013904223u;
      byte = std::byte(state >> 24);
    }
    return;
  default: // Rising small numbers: ids, or boundaries of documents.
    for (size_t i = 0; i + dtypeBytes(dtype) <= bytes.size();
         i += dtypeBytes(dtype)) {
      auto number = static_cast<int32_t>(i / dtypeBytes(dtype) * (state % 5));
      float value = static_cast<float>(number) / 16;
      std::memset(bytes.data() + i, 0, dtypeBytes(dtype));
      if (dtype == DType::I32)
        std::memcpy(bytes.data() + i, &number, sizeof(number));
      else // A float's upper half is a bf16; in an f64's place it is tiny.
        std::memcpy(bytes.data() + i,
                    reinterpret_cast<const std::byte *>(&value) +
                        (dtype == DType::BF16 ? 2 : 0),
                    dtype == DType::BF16 ? 2 : 4);
    }
  }
}

/// Bytes of the launch's kernel table: its attributes and view ids. Nobody has
/// verified how many there are.
std::string_view inlineBytes(const plan::Step &step, const uint8_t *end) {
  const auto *table = static_cast<const flatbuffers::Table *>(step.kernel());
  const auto *begin = reinterpret_cast<const uint8_t *>(table);
  auto size = flatbuffers::ReadScalar<uint16_t>(table->GetVTable() + 2);
  return {reinterpret_cast<const char *>(begin),
          std::min<size_t>(size, static_cast<size_t>(end - begin))};
}

/// An executor puts a rank's parts of tensors in the place of the buckets'
/// shards; here each shard is one tensor.
void nameTensors(AdamWArgs &args) {
  if (args.buckets.empty())
    return;
  args.tensorIds = std::move(args.buckets);
  args.firstElements.assign(args.tensorIds.size(), 0);
  args.buckets.clear();
}

class Launcher {
public:
  Launcher(const plan::Plan &plan, const uint8_t *end) : plan(plan), end(end) {}

  Status launch(const plan::Step &step) {
    auto resolve = [&](uint32_t id, auto &buffer) {
      if (!plan.views() || id >= plan.views()->size())
        return dataLoss("view {}", id);
      const plan::View &view = *plan.views()->Get(id);
      static_cast<BufferType &>(buffer) =
          toBufferType(*plan.types()->Get(view.type()));
      // Only a place: kernel checks look at its alignment.
      buffer.data = reinterpret_cast<std::byte *>(
          plan.buffers()->Get(view.buffer())->offset() + view.byte_offset());
      return okStatus();
    };
    return visitStep(step, resolve,
                     [&](auto &args) { return launchArgs(args, step); });
  }

private:
  template <typename Args>
  Status launchArgs(Args &args, const plan::Step &step) {
    QWEN_RETURN_IF_ERROR(checkKernel(args));
    // Numbers that the verifier and reports ask for; none may overflow.
    std::string reason = cuda::unsupportedReason(args);
    if (!reason.empty())
      fuzz::expectOneLine(reason);
    else if (cuda::workspaceBytes(args) < 0 || cuda::tableBytes(args) < 0)
      fuzz::breakPromise("negative scratch", Args::kernelName);
    int64_t scratch = cpuWorkspaceBytes(args);
    if (scratch < 0 || kernelFlops(args) < 0)
      fuzz::breakPromise("negative scratch or FLOPs", Args::kernelName);
    if (scratch > mostWorkspace || !isQuick(args) || !isSmall(args) ||
        !isNew(args, step))
      return okStatus();
    // Collectives are the communicator's.
    if constexpr (!isCollective<Args>)
      run(args, scratch);
    return okStatus();
  }

  template <typename Args> static bool isQuick(const Args &args) {
    double pairs = 0;
    if constexpr (requires { args.lse; })
      pairs = double(args.q.dim(0)) * double(args.q.dim(0));
    if constexpr (std::is_same_v<Args, GroupArgs>)
      if (args.rows / args.rowsPerBlock > 4096)
        return false;
    return double(kernelFlops(args)) + pairs * kernelFlopsPerPair(args) <=
           mostFlops;
  }

  template <typename Args> bool isSmall(Args &args) {
    __int128 bytes = 0;
    args.forEachOperand([&](const char *, const BufferType &type, bool, bool) {
      bytes += __int128(type.extent()) * dtypeBytes(type.dtype);
    });
    return bytes <= mostBytes;
  }

  /// Whether no earlier input had this launch.
  template <typename Args> bool isNew(Args &args, const plan::Step &step) {
    static std::unordered_set<std::string> seen;
    std::string key(inlineBytes(step, end));
    args.forEachOperand([&](const char *, const auto &operand, bool, bool) {
      key += fmt::format("{} {};",
                         toString(static_cast<const BufferType &>(operand)),
                         reinterpret_cast<uintptr_t>(operand.data) % 64);
    });
    if (seen.size() > 200'000)
      seen.clear();
    return seen.insert(std::move(key)).second;
  }

  template <typename Args> void run(Args &args, int64_t scratch) {
    std::vector<Block> blocks;
    uint32_t seed = static_cast<uint32_t>(scratch);
    args.forEachOperand([&](const char *, auto &operand, bool, bool) {
      const BufferType &type = operand;
      blocks.emplace_back(
          static_cast<size_t>(type.extent() * dtypeBytes(type.dtype)),
          reinterpret_cast<uintptr_t>(operand.data));
      fill(blocks.back().content(), type.dtype, ++seed);
      operand.data = blocks.back().content().data();
    });
    Block workspace(static_cast<size_t>(scratch), 0);
    cpu::LaunchContext context{.workspace = workspace.content()};
    if constexpr (std::is_same_v<Args, AdamWArgs>)
      nameTensors(args);
    if constexpr (std::is_same_v<Args, GroupArgs>) {
      std::memset(workspace.content().data(), 0, workspace.content().size());
      context.group = [](void *const *, void *, int64_t, int64_t) {};
    }
    cpu::launch(args, context);
  }

  const plan::Plan &plan;
  const uint8_t *end; ///< of the plan's bytes
};

} // namespace

void fuzz::launchSteps(std::span<const uint8_t> flatBuffer) {
  const plan::Plan &plan = *plan::GetPlan(flatBuffer.data());
  Launcher launcher(plan, flatBuffer.data() + flatBuffer.size());
  if (!plan.programs())
    return;
  for (const plan::Program *program : *plan.programs()) {
    if (!program->steps())
      continue;
    for (const plan::Step *step : *program->steps())
      if (Status status = launcher.launch(*step); !status.ok())
        expectOneLine(status.message());
  }
}
