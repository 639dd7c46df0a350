//===- BlockProductAvx2.cpp - blockProduct with 256-bit vectors -*- C++ -*-===//
//
// Six rows by two vectors: twelve sums and three operands in 16 registers.
//
//===----------------------------------------------------------------------===//

namespace qwen::cpu {
namespace {
constexpr int vectorBytes = 32;
constexpr int tileRows = 6;
} // namespace
} // namespace qwen::cpu

#include "BlockProductImpl.h"

void qwen::cpu::blockProductAvx2(int64_t m, int64_t n, int64_t k,
                                 const BlockOperands<float> &operands,
                                 Update update) {
  product(m, n, k, operands, update);
}

void qwen::cpu::blockProductAvx2(int64_t m, int64_t n, int64_t k,
                                 const BlockOperands<double> &operands,
                                 Update update) {
  product(m, n, k, operands, update);
}
