//===- TensorTable.cpp - Address tables of tensor lists --------*- C++ -*-===//
//
// Written once when a plan is loaded: grad_norm and adamw read the addresses
// from device memory, so a launch does not carry them.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/cuda/Kernels.h"
#include "runtime/kernels/cuda/RowKernels.h"

using namespace qwen;
using namespace qwen::cuda;

/// Builds the table in host memory and copies it. `entry` makes the entry of
/// tensor i.
template <typename Buffers, typename F>
static cudaError_t write(const Buffers &tensors, int64_t blockElements,
                         std::span<std::byte> device, F &&entry) {
  Carver measure;
  TensorTable layout(measure, tensors, blockElements);
  std::vector<std::byte> host(measure.bytes());
  Carver carver(host.data());
  TensorTable table(carver, tensors, blockElements);
  uint32_t block = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorEntry filled = entry(i);
    filled.elements = tensors[i].elements();
    filled.firstBlock = block;
    table.entries[i] = filled;
    int64_t count = ceilDiv(filled.elements, blockElements);
    for (int64_t n = 0; n < count; ++n)
      table.tensorOfBlock[block++] = static_cast<uint32_t>(i);
  }
  return cudaMemcpy(device.data(), host.data(), host.size(),
                    cudaMemcpyHostToDevice);
}

cudaError_t qwen::cuda::writeTable(const GradNormArgs &args,
                                   std::span<std::byte> table) {
  return write(args.grads, gradNormBlock, table, [&](size_t i) {
    TensorEntry entry{};
    entry.grad = args.grads[i].data;
    return entry;
  });
}

cudaError_t qwen::cuda::writeTable(const AdamWArgs &args,
                                   std::span<std::byte> table) {
  return write(args.params, adamWBlock, table, [&](size_t i) {
    TensorEntry entry{};
    entry.param = args.params[i].data;
    entry.grad = args.grads[i].data;
    entry.moment1 = args.moments1[i].data;
    entry.moment2 = args.moments2[i].data;
    entry.master = args.masters.empty() ? nullptr : args.masters[i].data;
    entry.tensorId = static_cast<uint32_t>(args.tensorIds[i]);
    return entry;
  });
}
