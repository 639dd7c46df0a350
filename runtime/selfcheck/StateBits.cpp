//===- StateBits.cpp - The bits of a model's tensors ----------------------===//

#include "runtime/selfcheck/StateBits.h"

#include "runtime/kernels/cpu/Parallel.h"
#include "runtime/support/Arena.h"
#include "runtime/support/Format.h"

#include <algorithm>
#include <cstring>

using namespace qwen;

/// Bytes that one call hashes at most: a second or two of copies.
static constexpr int64_t hashedBytes = int64_t(4) << 30;
/// Tensors are never cut below this.
static constexpr int64_t wholeBytes = int64_t(1) << 20;

std::string StateBits::describe() const {
  if (hashed == bytes)
    return formatBytes(double(bytes));
  return fmt::format("{} of {}", formatBytes(double(hashed)),
                     formatBytes(double(bytes)));
}

std::string StateBits::firstDifference(const StateBits &other) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (i >= other.tensors.size() || tensors[i] != other.tensors[i])
      return tensors[i].first;
  return "";
}

static void mix(uint64_t &hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 32;
}

/// Words in four interleaved chains, so that products need not wait for each
/// other; what is left is padded with zeros.
static uint64_t hashBlock(uint64_t hash, std::span<const std::byte> bytes) {
  constexpr size_t chains = 4, block = chains * sizeof(uint64_t);
  uint64_t chain[chains] = {hash, hash + 1, hash + 2, hash + 3};
  for (size_t at = 0; at < bytes.size(); at += block) {
    uint64_t words[chains] = {};
    std::memcpy(words, bytes.data() + at, std::min(block, bytes.size() - at));
    for (size_t i = 0; i < chains; ++i)
      mix(chain[i], words[i]);
  }
  for (uint64_t part : chain)
    mix(hash, part);
  return hash;
}

/// Blocks of fixed size on all threads, mixed in order.
static uint64_t hashBytes(uint64_t hash, std::span<const std::byte> bytes) {
  constexpr size_t blockBytes = size_t(1) << 20;
  std::vector<uint64_t> blocks((bytes.size() + blockBytes - 1) / blockBytes);
  cpu::parallelBlocks(
      int64_t(bytes.size()), int64_t(blockBytes), [&](int64_t at, int64_t end) {
        blocks[size_t(at) / blockBytes] =
            hashBlock(hash, bytes.subspan(size_t(at), size_t(end - at)));
      });
  for (uint64_t block : blocks)
    mix(hash, block);
  return hash;
}

namespace {
/// Hashes tensors of one engine.
class Hasher {
public:
  Hasher(Engine &engine, int64_t total)
      : memory(engine.memory()),
        share(std::min(1.0, double(hashedBytes) /
                                double(std::max<int64_t>(total, 1)))) {}

  Status add(const std::string &name, const Buffer &tensor) {
    if (!tensor.data)
      return okStatus();
    int64_t all = tensor.bytes(), taken = all;
    if (share < 1)
      taken = std::min(all, std::max(wholeBytes, int64_t(double(all) * share)));
    // The front and the back half of what is taken, on whole blocks.
    int64_t front = taken == all ? all : taken / 128 * 64;
    int64_t back = taken == all ? 0 : front;
    auto *data = static_cast<const std::byte *>(tensor.data);
    uint64_t hash = uint64_t(all);
    QWEN_RETURN_IF_ERROR(hashRange(data, front, hash));
    QWEN_RETURN_IF_ERROR(hashRange(data + (all - back), back, hash));
    bits.tensors.emplace_back(name, hash);
    bits.bytes += all;
    bits.hashed += front + back;
    return okStatus();
  }
  StateBits take() { return std::move(bits); }

private:
  Status hashRange(const std::byte *data, int64_t count, uint64_t &hash) {
    if (memory.isHost()) {
      hash = hashBytes(hash, {data, size_t(count)});
      return okStatus();
    }
    std::span<std::byte> piece = memory.staging();
    if (piece.empty()) {
      own.resize(size_t(1) << 24);
      piece = own;
    }
    for (int64_t at = 0; at < count;) {
      int64_t part = std::min(count - at, int64_t(piece.size()) / 64 * 64);
      QWEN_RETURN_IF_ERROR(memory.copyToHost(piece.data(), data + at, part));
      hash = hashBytes(hash, piece.first(size_t(part)));
      at += part;
    }
    return okStatus();
  }

  DeviceMemory &memory;
  double share; ///< of each tensor
  std::vector<std::byte> own;
  StateBits bits;
};
} // namespace

StatusOr<StateBits> qwen::gradientBits(Engine &engine) {
  int64_t total = 0;
  for (const ParameterRole &role : engine.roles())
    total += role.gradient.data ? role.gradient.bytes() : 0;
  Hasher hasher(engine, total);
  for (size_t i = 0; const ParameterView &view : engine.parameters())
    QWEN_RETURN_IF_ERROR(hasher.add(fmt::format("gradient of {}", view.name),
                                    engine.roles()[i++].gradient));
  return hasher.take();
}

/// What training changes of a parameter beside its gradient.
static std::vector<std::pair<const char *, Buffer>>
stateOf(const ParameterView &view) {
  return {{"", view.value},
          {"master of ", view.master},
          {"first moment of ", view.moment1},
          {"second moment of ", view.moment2}};
}

StatusOr<StateBits> qwen::parameterBits(Engine &engine) {
  int64_t total = 0;
  for (const ParameterView &view : engine.parameters())
    for (const auto &[what, tensor] : stateOf(view))
      total += tensor.data ? tensor.bytes() : 0;
  Hasher hasher(engine, total);
  for (const ParameterView &view : engine.parameters())
    for (const auto &[what, tensor] : stateOf(view))
      QWEN_RETURN_IF_ERROR(hasher.add(what + view.name, tensor));
  return hasher.take();
}

StatusOr<SavedParameters> SavedParameters::save(Engine &engine) {
  int64_t total = 0;
  for (const ParameterView &view : engine.parameters())
    for (const Buffer &tensor : {view.value, view.master})
      total += tensor.data ? tensor.bytes() : 0;
  QWEN_ASSIGN_OR_RETURN(int64_t available, availableMemory());
  if (total > available)
    return makeError(StatusCode::ResourceExhausted,
                     "a copy of the parameters needs {} of host memory, {} are "
                     "available",
                     formatBytes(double(total)),
                     formatBytes(double(available)));
  SavedParameters saved;
  for (const ParameterView &view : engine.parameters())
    for (const Buffer &tensor : {view.value, view.master}) {
      std::vector<std::byte> &copy = saved.tensors.emplace_back();
      if (!tensor.data)
        continue;
      copy.resize(size_t(tensor.bytes()));
      QWEN_RETURN_IF_ERROR(
          engine.memory().copyToHost(copy.data(), tensor.data, tensor.bytes()));
    }
  return saved;
}

Status SavedParameters::restore(Engine &engine) const {
  size_t next = 0;
  for (ParameterView &view : engine.parameters()) {
    for (const Buffer &tensor : {view.value, view.master}) {
      const std::vector<std::byte> &copy = tensors[next++];
      if (!copy.empty())
        QWEN_RETURN_IF_ERROR(engine.memory().copyToDevice(
            tensor.data, copy.data(), tensor.bytes()));
    }
    for (const Buffer &moment : {view.moment1, view.moment2})
      if (moment.data)
        QWEN_RETURN_IF_ERROR(engine.memory().zero(moment.data, moment.bytes()));
  }
  for (const ParameterRole &role : engine.roles())
    if (role.gradient.data)
      QWEN_RETURN_IF_ERROR(
          engine.memory().zero(role.gradient.data, role.gradient.bytes()));
  return okStatus();
}
