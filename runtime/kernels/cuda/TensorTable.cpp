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
/// tensor i, `slice` that of a slice where the table has them.
template <typename Buffers, typename F, typename G>
static cudaError_t write(const Buffers &tensors, int64_t blockElements,
                         std::span<std::byte> device, F &&entry, bool sliced,
                         G &&slice) {
  Carver measure;
  TensorTable layout(measure, tensors, blockElements, sliced);
  std::vector<std::byte> host(measure.bytes());
  Carver carver(host.data());
  TensorTable table(carver, tensors, blockElements, sliced);
  uint32_t block = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorEntry filled = entry(i);
    filled.elements = tensors[i].elements();
    filled.firstBlock = block;
    table.entries[i] = filled;
    if (sliced)
      table.slices[i] = slice(i);
    int64_t count = ceilDiv(filled.elements, blockElements);
    for (int64_t n = 0; n < count; ++n)
      table.tensorOfBlock[block++] = static_cast<uint32_t>(i);
  }
  // A rank may hold none of the tensors.
  if (host.empty())
    return cudaSuccess;
  return cudaMemcpy(device.data(), host.data(), host.size(),
                    cudaMemcpyHostToDevice);
}

/// The table of a list of gradients.
static cudaError_t writeGradients(const std::vector<ConstBuffer> &grads,
                                  std::span<std::byte> table) {
  auto entryOf = [&](size_t i) {
    TensorEntry entry{};
    entry.grad = grads[i].data;
    return entry;
  };
  return write(grads, gradNormBlock, table, entryOf, false,
               [](size_t) { return SliceEntry{}; });
}

cudaError_t qwen::cuda::writeTable(const GradNormArgs &args,
                                   std::span<std::byte> table) {
  return writeGradients(args.grads, table);
}

cudaError_t qwen::cuda::writeTable(const GradNormLocalArgs &args,
                                   std::span<std::byte> table) {
  return writeGradients(args.grads, table);
}

/// Whether vectors may start at element `at` of an operand.
static bool isVectorStart(const ConstBuffer &operand, int64_t at) {
  auto address = reinterpret_cast<uintptr_t>(operand.data);
  return (address + uintptr_t(at * dtypeBytes(operand.dtype))) % 16 == 0;
}

SliceEntry qwen::cuda::sliceEntry(const AdamWArgs &args, size_t i) {
  int64_t first = args.firstElements[i];
  // A vector holds whole pairs of elements, which share random bits.
  for (int64_t at = first % 2; at < adamWLanes; at += 2)
    if (isVectorStart(args.params[i], at) && isVectorStart(args.grads[i], at) &&
        isVectorStart(args.moments1[i], at) &&
        isVectorStart(args.moments2[i], at) &&
        (args.masters.empty() || isVectorStart(args.masters[i], at)))
      return {first, static_cast<int32_t>(at), 1};
  return {first, 0, 0};
}

cudaError_t qwen::cuda::writeTable(const AdamWArgs &args,
                                   std::span<std::byte> table) {
  auto entryOf = [&](size_t i) {
    TensorEntry entry{};
    entry.param = args.params[i].data;
    entry.grad = args.grads[i].data;
    entry.moment1 = args.moments1[i].data;
    entry.moment2 = args.moments2[i].data;
    entry.master = args.masters.empty() ? nullptr : args.masters[i].data;
    entry.tensorId = static_cast<uint32_t>(args.tensorIds[i]);
    return entry;
  };
  return write(args.params, adamWBlock, table, entryOf,
               !args.firstElements.empty(),
               [&](size_t i) { return sliceEntry(args, i); });
}
