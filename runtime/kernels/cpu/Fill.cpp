//===- Fill.cpp - Constant views -------------------------------*- C++ -*-===//
//
// kernel.fill.
//
//===----------------------------------------------------------------------===//

#include "Storage.h"
#include "StridedWalk.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

template <typename S> static void fill(const FillArgs &args, S value) {
  RowView view(args.out, args.out.isContiguous());
  walkRows(view, view, [&](int64_t offset, int64_t, int64_t count) {
    S *out = args.out.as<S>() + offset;
    for (int64_t i = 0; i < count; ++i)
      out[i * view.columnStride()] = value;
  });
}

void qwen::cpu::launch(const FillArgs &args, const LaunchContext &) {
  if (args.out.dtype == DType::I32)
    return fill(args, static_cast<int32_t>(args.value));
  withStorage(args.out.dtype, [&](auto tag) {
    using S = decltype(tag);
    fill(args, narrow<S>(static_cast<Wide<S>>(args.value)));
  });
}
