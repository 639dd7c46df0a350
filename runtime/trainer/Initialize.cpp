//===- Initialize.cpp - Random initial weights ----------------------------===//

#include "runtime/trainer/Initialize.h"

#include "qwen/Support/Random.h"
#include "runtime/checkpoint/Cast.h"

#include <cmath>
#include <numbers>

using namespace qwen;

/// FNV-1a, so that a parameter's numbers do not depend on its place in a list.
static uint32_t hashName(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

/// A standard normal number by Box and Muller.
static double normalOf(const std::array<uint32_t, 4> &bits) {
  double radius = std::sqrt(-2 * std::log(toUnitInterval(bits[0], bits[1])));
  return radius *
         std::cos(2 * std::numbers::pi * toUnitInterval(bits[2], bits[3]));
}

static double elementOf(const ParameterRole &role, uint32_t seed,
                        uint32_t tensor, uint64_t element) {
  constexpr double smallest = 0.01, largest = 16; // of exp(A_log)
  switch (role.init) {
  case ParameterInit::Zero:
    return 0;
  case ParameterInit::One:
    return 1;
  case ParameterInit::Normal:
    return role.initStd * normalOf(randomBits(seed, RandomUse::Initialization,
                                              0, tensor, element));
  case ParameterInit::ALog: {
    auto bits = randomBits(seed, RandomUse::Initialization, 0, tensor, element);
    return std::log(smallest +
                    (largest - smallest) * toUnitInterval(bits[0], bits[1]));
  }
  }
  return 0;
}

void qwen::initializeParameters(Engine &engine, uint32_t seed) {
  std::span<const ParameterRole> roles = engine.roles();
  std::vector<double> piece;
  for (size_t i = 0; ParameterView &parameter : engine.parameters()) {
    const ParameterRole &role = roles[i++];
    uint32_t tensor = hashName(parameter.name);
    piece.resize(static_cast<size_t>(parameter.value.elements()));
#pragma omp parallel for schedule(static)
    for (int64_t element = 0; element < int64_t(piece.size()); ++element)
      piece[size_t(element)] = elementOf(role, seed, tensor, uint64_t(element));
    auto bytes = std::as_bytes(std::span(piece));
    // With a master the parameter is the master's rounding, as after an update.
    if (parameter.master.data) {
      loadElements(FileDType::F64, bytes, parameter.master);
      auto *master = static_cast<const std::byte *>(parameter.master.data);
      bytes = {master, static_cast<size_t>(parameter.master.bytes())};
      loadElements(fileDTypeOf(parameter.master.dtype), bytes, parameter.value);
      continue;
    }
    loadElements(FileDType::F64, bytes, parameter.value);
  }
}
