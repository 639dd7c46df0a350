//===- Group.cpp - Generated kernels on all threads ------------*- C++ -*-===//
//
// kernel.group. The plan's object code does a block of rows a call; column sums
// of the blocks are added here in order.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

/// Adds the blocks' sums for one output, whose part of each block's area starts
/// at `offset` bytes.
template <typename T>
static void addBlocks(const GroupScratch &scratch, int64_t offset,
                      const Buffer &out, bool accumulate) {
  T *total = out.as<T>();
  parallelBlocks(out.elements(), 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t block = 0; block < scratch.blocks; ++block)
        sum += reinterpret_cast<const T *>(
            scratch.partials + block * scratch.blockBytes + offset)[i];
      total[i] = accumulate ? total[i] + sum : sum;
    }
  });
}

void qwen::cpu::launch(const GroupArgs &args, const LaunchContext &context) {
  Carver carver(context.workspace.data());
  GroupScratch scratch(carver, args);
  void *operands[maxGroupOperands];
  int64_t count = 0;
  for (const ConstBuffer &input : args.inputs)
    operands[count++] = const_cast<void *>(input.data);
  for (const Buffer &output : args.outputs)
    operands[count++] = output.data;

  parallelFor(scratch.blocks, scratch.blocks, [&](int64_t block, int64_t) {
    int64_t begin = block * args.rowsPerBlock;
    context.group(operands, scratch.partials + block * scratch.blockBytes,
                  begin, std::min(args.rows, begin + args.rowsPerBlock));
  });

  int64_t offset = 0;
  for (int64_t i : args.columnSums) {
    const Buffer &out = args.outputs[i];
    bool accumulate = std::find(args.accumulate.begin(), args.accumulate.end(),
                                i) != args.accumulate.end();
    withWide(out.dtype, [&](auto tag) {
      addBlocks<decltype(tag)>(scratch, offset, out, accumulate);
    });
    offset += out.bytes();
  }
}
