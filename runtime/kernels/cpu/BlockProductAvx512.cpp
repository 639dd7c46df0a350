//===- BlockProductAvx512.cpp - blockProduct with 512-bit vectors -*- C++
//-*-===//
//
// Twelve rows by two vectors: 24 sums and three operands in 32 registers.
//
//===----------------------------------------------------------------------===//

namespace qwen::cpu {
namespace {
constexpr int vectorBytes = 64;
constexpr int tileRows = 12;
} // namespace
} // namespace qwen::cpu

#include "BlockProductImpl.h"

void qwen::cpu::blockProductAvx512(int64_t m, int64_t n, int64_t k,
                                   const BlockOperands<float> &operands,
                                   Update update) {
  product(m, n, k, operands, update);
}

void qwen::cpu::blockProductAvx512(int64_t m, int64_t n, int64_t k,
                                   const BlockOperands<double> &operands,
                                   Update update) {
  product(m, n, k, operands, update);
}
