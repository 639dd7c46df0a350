//===- KernelCosts.cpp - FLOPs and bytes of kernels -----------------------===//
//
// A multiply-add is two operations; exp, log, sin and cos count as one.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelCosts.h"

#include "qwen/Support/Saturating.h"

using namespace qwen;

int64_t qwen::kernelFlops(const GemmArgs &args) {
  return saturatingMultiply(2 * args.c.elements(),
                            args.a.dim(args.transposeA ? 0 : 1));
}

int64_t qwen::kernelFlops(const EmbeddingArgs &) { return 0; }

int64_t qwen::kernelFlops(const EmbeddingGradArgs &args) {
  return args.dout.elements();
}

int64_t qwen::kernelFlops(const EmbeddingShardArgs &) { return 0; }

// As if all rows were in the shard.
int64_t qwen::kernelFlops(const EmbeddingGradShardArgs &args) {
  return args.dout.elements();
}

// Taps, then SiLU (a sigmoid and a product).
int64_t qwen::kernelFlops(const CausalConv1dArgs &args) {
  return saturatingMultiply(args.x.elements(), (2 * args.weight.dim(2) + 5));
}

// The pre-activation again, the derivative of SiLU, then both gradients.
int64_t qwen::kernelFlops(const CausalConv1dGradArgs &args) {
  return saturatingMultiply(args.x.elements(), (6 * args.weight.dim(2) + 9));
}

// The recurrence: S^T k, the rank-one update and S^T q, a multiply-add for each
// element of the state.
int64_t qwen::kernelFlops(const GatedDeltaArgs &args) {
  return saturatingMultiply(6 * args.v.elements(), args.q.dim(2));
}

int64_t qwen::kernelFlops(const GatedDeltaGradArgs &args) {
  return saturatingMultiply(12 * args.v.elements(), args.q.dim(2));
}

// The number of query-key pairs depends on the documents.
int64_t qwen::kernelFlops(const AttentionArgs &) { return 0; }
int64_t qwen::kernelFlops(const AttentionGradArgs &) { return 0; }

// q k^T and p v, a multiply-add for each element of a head.
double qwen::kernelFlopsPerPair(const AttentionArgs &args) {
  return 4 * double(args.q.dim(1)) * double(args.q.dim(2));
}

// The scores again, do v^T, and the three gradients.
double qwen::kernelFlopsPerPair(const AttentionGradArgs &args) {
  return 10 * double(args.q.dim(1)) * double(args.q.dim(2));
}

int64_t qwen::kernelFlops(const LinearCrossEntropyArgs &args) {
  return saturatingMultiply(2 * args.x.elements(), args.weight.dim(0));
}

// Logits, dx and dweight.
int64_t qwen::kernelFlops(const LinearCrossEntropyGradArgs &args) {
  return saturatingMultiply(6 * args.x.elements(), args.weight.dim(0));
}

// The angle, then cos or sin.
int64_t qwen::kernelFlops(const RopeAnglesArgs &args) {
  return 2 * args.angles.elements();
}

int64_t qwen::kernelFlops(const FillArgs &) { return 0; }
int64_t qwen::kernelFlops(const CopyArgs &) { return 0; }

int64_t qwen::kernelFlops(const GroupArgs &args) {
  return saturatingMultiply(args.rows, args.flopsPerRow);
}

/// A product and a sum for each element.
static int64_t normFlops(const std::vector<ConstBuffer> &grads) {
  int64_t elements = 0;
  for (const ConstBuffer &grad : grads)
    elements = saturatingAdd(elements, grad.elements());
  return saturatingMultiply(2, elements);
}

int64_t qwen::kernelFlops(const GradNormArgs &args) {
  return normFlops(args.grads);
}
int64_t qwen::kernelFlops(const GradNormLocalArgs &args) {
  return normFlops(args.grads);
}
int64_t qwen::kernelFlops(const GradNormCombineArgs &args) {
  return args.partials.elements();
}

int64_t qwen::kernelFlops(const AllGatherArgs &) { return 0; }
// One sum for each element that the ranks add to this one's part.
int64_t qwen::kernelFlops(const ReduceScatterArgs &args) {
  return args.full.elements();
}

// The operations of the update's four lines (see kernel.adamw), square root
// and divisions included.
int64_t qwen::kernelFlops(const AdamWArgs &args) {
  int64_t elements = 0;
  for (const Buffer &param : args.params)
    elements = saturatingAdd(elements, param.elements());
  return saturatingMultiply(args.decay ? 15 : 14, elements);
}

/// Bytes of an operand that a launch can touch.
template <typename Args>
static int64_t touchedBytes(const Args &args, std::string_view name,
                            const BufferType &type) {
  int64_t rows = type.dim(0);
  if constexpr (std::is_same_v<Args, EmbeddingArgs>)
    rows = name == "table" ? args.ids.dim(0) : rows;
  // Without accumulation the rows of no token become zeros.
  if constexpr (std::is_same_v<Args, EmbeddingGradArgs>)
    rows = name == "dtable" && args.accumulate ? args.ids.dim(0) : rows;
  // Shards are flat: their first dimension counts elements.
  if constexpr (std::is_same_v<Args, EmbeddingShardArgs>)
    rows = name == "shard" ? args.out.elements() : rows;
  if constexpr (std::is_same_v<Args, EmbeddingGradShardArgs>)
    rows = name == "shard" && args.accumulate ? args.dout.elements() : rows;
  if (type.rank == 0 || type.dim(0) <= rows)
    return type.bytes();
  return type.bytes() / type.dim(0) * rows;
}

template <typename Args> static int64_t sumBytes(Args args) {
  int64_t bytes = 0;
  forEachAccess(args, [&](const char *name, const BufferType &type, bool reads,
                          bool writes) {
    int64_t passes = int(reads) + int(writes);
    bytes = saturatingAdd(
        bytes, saturatingMultiply(passes, touchedBytes(args, name, type)));
  });
  return bytes;
}

#define QWEN_DEFINE_BYTES(Name)                                                \
  int64_t qwen::kernelBytes(const Name##Args &args) { return sumBytes(args); }
QWEN_KERNELS(QWEN_DEFINE_BYTES)
#undef QWEN_DEFINE_BYTES
