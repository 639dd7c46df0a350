//===- Initialize.cpp - Random initial weights ----------------------------===//

#include "runtime/trainer/Initialize.h"

#include "qwen/Support/Random.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/trainer/NormalNumbers.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace qwen;

/// Elements that a thread makes at a time.
static constexpr int64_t blockElements = 4096;

/// FNV-1a, so that a parameter's numbers do not depend on its place in a list.
static uint32_t hashName(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

/// Elements first, first + 1, … of a parameter.
static void fillElements(const ParameterRole &role, uint32_t seed,
                         uint32_t tensor, uint64_t first,
                         std::span<double> out) {
  constexpr double smallest = 0.01, largest = 16; // of exp(A_log)
  switch (role.init) {
  case ParameterInit::Zero:
    return std::fill(out.begin(), out.end(), 0.0);
  case ParameterInit::One:
    return std::fill(out.begin(), out.end(), 1.0);
  case ParameterInit::Normal:
    fillNormal(out, seed, tensor, first);
    for (double &value : out)
      value *= role.initStd;
    return;
  case ParameterInit::ALog:
    for (double &value : out) {
      auto bits =
          randomBits(seed, RandomUse::Initialization, 0, tensor, first++);
      value = std::log(smallest +
                       (largest - smallest) * toUnitInterval(bits[0], bits[1]));
    }
    return;
  }
}

/// `count` elements of `piece` from `first` on.
static Buffer blockOf(const Buffer &piece, int64_t first, int64_t count) {
  Buffer block = piece;
  block.shape[0] = count;
  block.data = piece.as<std::byte>() + first * dtypeBytes(piece.dtype);
  return block;
}

/// Fills a tensor with a parameter's numbers from element `start` on, rounded
/// first to `through`.
static Status fillTensor(const ParameterRole &role, uint32_t seed,
                         uint32_t tensor, int64_t start, DType through,
                         Staging &staging, const Buffer &target) {
  return staging.write(target, [&](int64_t begin, const Buffer &piece) {
    int64_t count = piece.elements();
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < count; first += blockElements) {
      std::array<double, blockElements> values;
      std::array<float, blockElements> rounded;
      auto n = static_cast<size_t>(std::min(blockElements, count - first));
      auto numbers = std::span(values).first(n);
      fillElements(role, seed, tensor, uint64_t(start + begin + first),
                   numbers);
      Buffer block = blockOf(piece, first, int64_t(n));
      if (through != DType::F32) {
        loadElements(FileDType::F64, std::as_bytes(numbers), block);
        continue;
      }
      std::transform(numbers.begin(), numbers.end(), rounded.begin(),
                     [](double value) { return static_cast<float>(value); });
      loadElements(FileDType::F32, std::as_bytes(std::span(rounded).first(n)),
                   block);
    }
    return okStatus();
  });
}

Status qwen::initializeParameters(Engine &engine, uint32_t seed) {
  std::span<const ParameterRole> roles = engine.roles();
  for (size_t i = 0; ParameterView &parameter : engine.parameters()) {
    const ParameterRole &role = roles[i++];
    uint32_t tensor = hashName(parameter.name);
    Staging staging(*parameter.memory);
    // With a master the parameter is the master's rounding, as after an update.
    bool hasMaster = parameter.master.data != nullptr;
    DType through = hasMaster ? parameter.master.dtype : parameter.value.dtype;
    QWEN_RETURN_IF_ERROR(fillTensor(role, seed, tensor, parameter.firstElement,
                                    through, staging, parameter.value));
    if (hasMaster)
      QWEN_RETURN_IF_ERROR(fillTensor(role, seed, tensor,
                                      parameter.firstElement, through, staging,
                                      parameter.master));
  }
  return okStatus();
}
