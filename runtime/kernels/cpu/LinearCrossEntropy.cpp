//===- LinearCrossEntropy.cpp - Loss of the output projection --*- C++ -*-===//
//
// kernel.linear_cross_entropy.
//
//===----------------------------------------------------------------------===//

#include "LossBlock.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

template <typename S>
static void run(const LinearCrossEntropyArgs &args,
                const LaunchContext &context) {
  using T = Wide<S>;
  LossBlocks<S, LinearCrossEntropyArgs> block(args, context.workspace.data(),
                                              false);
  auto ignored = [&](int64_t t) { args.nll.template as<T>()[t] = 0; };
  while (block.next(ignored)) {
    block.formLogits();
    block.forEachRow([&](int64_t i) { block.lossOfRow(i); });
  }
}

void qwen::cpu::launch(const LinearCrossEntropyArgs &args,
                       const LaunchContext &context) {
  withStorage(args.x.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
