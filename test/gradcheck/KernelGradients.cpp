//===- KernelGradients.cpp - Gradient ops by the CPU kernels --------------===//

#include "KernelGradients.h"

#include "dialects/Qwen/Qwen.h"
#include "qwen/Plan/Contiguous.h"
#include "qwen/Plan/Workspace.h"
#include "runtime/kernels/cpu/Kernels.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cstdlib>
#include <memory>

using namespace mlir;

namespace qwen::gradcheck {

namespace {

BufferType bufferType(const Tensor &tensor, DType dtype) {
  return contiguousType(dtype, tensor.shape);
}

ConstBuffer input(const Tensor &tensor) {
  return {bufferType(tensor, DType::F64), tensor.values.data()};
}

Buffer output(Tensor &tensor) {
  return {bufferType(tensor, DType::F64), tensor.values.data()};
}

/// An i32 copy of a tensor.
struct Ids {
  explicit Ids(const Tensor &tensor)
      : values(tensor.values.begin(), tensor.values.end()),
        type(bufferType(tensor, DType::I32)) {}
  ConstBuffer buffer() const { return {type, values.data()}; }
  std::vector<int32_t> values;
  BufferType type;
};

template <typename Args> void launchWithWorkspace(const Args &args) {
  size_t bytes = cpuWorkspaceBytes(args);
  // aligned_alloc wants a multiple of the alignment.
  size_t rounded = (bytes + 63) / 64 * 64 + 64;
  std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte *>(std::aligned_alloc(64, rounded)), &std::free);
  cpu::LaunchContext context;
  context.workspace = {memory.get(), bytes};
  cpu::launch(args, context);
}

/// Results filled with a value that no kernel may leave behind.
std::vector<Tensor> makeResults(Operation *op) {
  std::vector<Tensor> results;
  for (Type type : op->getResultTypes())
    results.emplace_back(cast<RankedTensorType>(type).getShape().vec(), 1e300);
  return results;
}

using Tensors = std::vector<Tensor>;

void evaluate(EmbeddingGradOp, const Tensors &in, Tensors &out) {
  Ids ids(in[1]);
  EmbeddingGradArgs args;
  args.dout = input(in[0]);
  args.ids = ids.buffer();
  args.dtable = output(out[0]);
  launchWithWorkspace(args);
}

void evaluate(CausalConv1dGradOp, const Tensors &in, Tensors &out) {
  Ids cu(in[3]);
  CausalConv1dGradArgs args;
  args.x = input(in[0]);
  args.weight = input(in[1]);
  args.dy = input(in[2]);
  args.cuSeqlens = cu.buffer();
  args.dx = output(out[0]);
  args.dweight = output(out[1]);
  launchWithWorkspace(args);
}

void evaluate(GatedDeltaGradOp op, const Tensors &in, Tensors &out) {
  Ids cu(in[6]);
  GatedDeltaGradArgs args;
  args.q = input(in[0]);
  args.k = input(in[1]);
  args.v = input(in[2]);
  args.g = input(in[3]);
  args.beta = input(in[4]);
  args.dout = input(in[5]);
  args.cuSeqlens = cu.buffer();
  args.dq = output(out[0]);
  args.dk = output(out[1]);
  args.dv = output(out[2]);
  args.dg = output(out[3]);
  args.dbeta = output(out[4]);
  args.scale = op.getScale().convertToDouble();
  args.l2normEps = op.getL2normEps().convertToDouble();
  args.chunk = op.getChunk();
  launchWithWorkspace(args);
}

void evaluate(AttentionGradOp op, const Tensors &in, Tensors &out) {
  Ids cu(in[6]);
  AttentionGradArgs args;
  args.q = input(in[0]);
  args.k = input(in[1]);
  args.v = input(in[2]);
  args.o = input(in[3]);
  args.lse = input(in[4]);
  args.dout = input(in[5]);
  args.cuSeqlens = cu.buffer();
  args.dq = output(out[0]);
  args.dk = output(out[1]);
  args.dv = output(out[2]);
  args.scale = op.getScale().convertToDouble();
  launchWithWorkspace(args);
}

void evaluate(LinearCrossEntropyGradOp op, const Tensors &in, Tensors &out) {
  Ids labels(in[2]);
  LinearCrossEntropyGradArgs args;
  args.x = input(in[0]);
  args.weight = input(in[1]);
  args.labels = labels.buffer();
  args.dnll = input(in[3]);
  args.nll = output(out[0]);
  args.dx = output(out[1]);
  args.dweight = output(out[2]);
  args.ignoreIndex = op.getIgnoreIndex();
  launchWithWorkspace(args);
}

} // namespace

std::vector<Tensor> kernelGradient(Operation *op, const Tensors &in) {
  return llvm::TypeSwitch<Operation *, Tensors>(op)
      .Case<EmbeddingGradOp, CausalConv1dGradOp, GatedDeltaGradOp,
            AttentionGradOp, LinearCrossEntropyGradOp>([&](auto grad) {
        Tensors out = makeResults(op);
        evaluate(grad, in, out);
        return out;
      })
      .Default(Tensors());
}

} // namespace qwen::gradcheck
