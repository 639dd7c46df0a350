//===- Copy.cpp - Copies between views -------------------------*- C++ -*-===//
//
// kernel.copy. Bits are moved as they are, whatever the element type.
//
//===----------------------------------------------------------------------===//

#include "StridedWalk.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

template <typename Bits> static void copy(const CopyArgs &args) {
  bool flatten = args.in.isContiguous() && args.out.isContiguous();
  RowView in(args.in, flatten), out(args.out, flatten);
  walkRows(in, out, [&](int64_t from, int64_t to, int64_t count) {
    const Bits *source = args.in.as<Bits>() + from;
    Bits *target = args.out.as<Bits>() + to;
    if (in.columnStride() == 1 && out.columnStride() == 1)
      std::copy(source, source + count, target);
    else
      for (int64_t i = 0; i < count; ++i)
        target[i * out.columnStride()] = source[i * in.columnStride()];
  });
}

void qwen::cpu::launch(const CopyArgs &args, const LaunchContext &) {
  switch (dtypeBytes(args.in.dtype)) {
  case 2:
    return copy<uint16_t>(args);
  case 4:
    return copy<uint32_t>(args);
  case 8:
    return copy<uint64_t>(args);
  }
}
