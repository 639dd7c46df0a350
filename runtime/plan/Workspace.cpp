//===- Workspace.cpp - Scratch bytes of kernels ----------------*- C++ -*-===//
//
// Measures the layouts of Scratch.h.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Workspace.h"

#include "qwen/Plan/Scratch.h"

using namespace qwen;

/// Bytes of the scratch struct `Scratch<T>(carver, args...)`, T by the storage
/// type.
template <template <typename> class Scratch, typename... Args>
static int64_t measure(DType storage, Args... args) {
  return storage == DType::F64 ? carvedBytes<Scratch<double>>(args...)
                               : carvedBytes<Scratch<float>>(args...);
}

int64_t qwen::cpuWorkspaceBytes(const GemmArgs &args) {
  int64_t k = args.transposeA ? args.a.dim(0) : args.a.dim(1);
  return measure<GemmScratch>(args.a.dtype,
                              GemmTiling(args.c.dim(0), args.c.dim(1), k));
}

int64_t qwen::cpuWorkspaceBytes(const EmbeddingArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const EmbeddingGradArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const EmbeddingShardArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const EmbeddingGradShardArgs &args) {
  return carvedBytes<TokenOrder>(args);
}
int64_t qwen::cpuWorkspaceBytes(const CausalConv1dArgs &) { return 0; }

int64_t qwen::cpuWorkspaceBytes(const CausalConv1dGradArgs &args) {
  return measure<ConvGradScratch>(args.x.dtype, args.x.dim(0), args.x.dim(1),
                                  args.weight.dim(2));
}

int64_t qwen::cpuWorkspaceBytes(const GatedDeltaArgs &args) {
  return measure<GatedDeltaScratch>(args.q.dtype, GatedDeltaDims(args));
}

int64_t qwen::cpuWorkspaceBytes(const GatedDeltaGradArgs &args) {
  return measure<GatedDeltaGradScratch>(args.q.dtype, GatedDeltaDims(args));
}

int64_t qwen::cpuWorkspaceBytes(const AttentionArgs &args) {
  return measure<AttentionScratch>(args.q.dtype, AttentionDims(args));
}

int64_t qwen::cpuWorkspaceBytes(const AttentionGradArgs &args) {
  return measure<AttentionGradScratch>(args.q.dtype, AttentionDims(args));
}

int64_t qwen::cpuWorkspaceBytes(const LinearCrossEntropyArgs &args) {
  return measure<LossScratch>(args.x.dtype, args.x.dim(1), args.weight.dim(0),
                              false);
}

int64_t qwen::cpuWorkspaceBytes(const LinearCrossEntropyGradArgs &args) {
  return measure<LossScratch>(args.x.dtype, args.x.dim(1), args.weight.dim(0),
                              true);
}

int64_t qwen::cpuWorkspaceBytes(const RopeAnglesArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const FillArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const CopyArgs &) { return 0; }

int64_t qwen::cpuWorkspaceBytes(const GroupArgs &args) {
  return carvedBytes<GroupScratch>(args);
}

int64_t qwen::cpuWorkspaceBytes(const GradNormArgs &args) {
  Carver carver;
  GradNormScratch(carver, args.grads);
  return carver.bytes();
}

int64_t qwen::cpuWorkspaceBytes(const AdamWArgs &) { return 0; }
// What a communicator needs for its messages is its own.
int64_t qwen::cpuWorkspaceBytes(const AllGatherArgs &) { return 0; }
int64_t qwen::cpuWorkspaceBytes(const ReduceScatterArgs &) { return 0; }

int64_t qwen::cpuWorkspaceBytes(const GradNormLocalArgs &args) {
  Carver carver;
  GradNormScratch(carver, args.grads);
  return carver.bytes();
}

int64_t qwen::cpuWorkspaceBytes(const GradNormCombineArgs &) { return 0; }
