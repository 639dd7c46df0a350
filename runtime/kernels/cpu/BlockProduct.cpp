//===- BlockProduct.cpp - Choice of the instruction set --------*- C++ -*-===//
//
// Picks blockProduct's version by what the processor has. All versions give
// the same bits.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/cpu/BlockProduct.h"

using namespace qwen::cpu;

template <typename T>
BlockProductFunction<T> qwen::cpu::blockProductFunction() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
    return blockProductAvx512;
  return blockProductAvx2;
}

template BlockProductFunction<float> qwen::cpu::blockProductFunction();
template BlockProductFunction<double> qwen::cpu::blockProductFunction();
