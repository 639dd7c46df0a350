//===- KernelChecksTest.cpp - What kernels refuse --------------*- C++ -*-===//
//
// Right arguments pass; each broken rule gives one line that names the operand.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"
#include "qwen/Plan/Contiguous.h"

using namespace qwen;
using namespace qwen::parity;

namespace {

/// A contiguous type without memory.
template <typename B = Buffer> B view(DType dtype, std::vector<int64_t> shape) {
  return {contiguousType(dtype, shape), nullptr};
}

constexpr DType F32 = DType::F32, BF16 = DType::BF16, F64 = DType::F64,
                I32 = DType::I32;

GemmArgs gemm() {
  return {view(BF16, {4, 5}), view(BF16, {5, 6}), {}, view(BF16, {4, 6})};
}

GatedDeltaArgs gatedDelta() {
  return {view(BF16, {9, 2, 8}),
          view(BF16, {9, 2, 8}),
          view(BF16, {9, 6, 7}),
          view(F32, {9, 6}),
          view(BF16, {9, 6}),
          view(I32, {3}),
          view(BF16, {9, 6, 7}),
          0.5,
          1e-6,
          64};
}

AttentionArgs attention() {
  return {view(F32, {9, 6, 8}),
          view(F32, {9, 2, 8}),
          view(F32, {9, 2, 8}),
          view(I32, {3}),
          view(F32, {9, 6, 8}),
          view(F32, {9, 6}),
          0.5};
}

CausalConv1dArgs conv() {
  return {view(F32, {9, 6}), view(F32, {6, 1, 4}), view(I32, {3}),
          view(F32, {9, 6})};
}

LinearCrossEntropyArgs loss() {
  return {view(BF16, {9, 4}), view(BF16, {20, 4}), view(I32, {9}),
          view(F32, {9}), -100};
}

AdamWArgs adamw() {
  return {{view(BF16, {3})},
          {view(F32, {3})},
          {view(BF16, {3})},
          {view(F32, {3})},
          {view(F32, {3})},
          view(F32, {8}),
          view(F32, {4}),
          view(I32, {2}),
          {0},
          false};
}

GroupArgs group() {
  return {{view(BF16, {4, 6})},
          {view(BF16, {4, 6}), view(F32, {6})},
          "chain",
          4,
          2,
          {1},
          {1},
          10};
}

/// The arguments after `change` are refused with exactly this text.
template <typename Args, typename F>
void expectRefused(Args args, F &&change, const std::string &message) {
  Status before = checkKernel(args);
  EXPECT_TRUE(before.ok()) << before.message();
  change(args);
  Status status = checkKernel(args);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), message);
}

} // namespace

TEST(KernelChecks, NameOperandExpectedAndFound) {
  expectRefused(
      gemm(), [](auto &a) { a.b = view(BF16, {7, 6}); },
      "gemm: operand 'b': expected dimension 0 to be 5 (K of 'a'), found "
      "bf16[7, 6]");
  expectRefused(
      gemm(), [](auto &a) { a.b.dtype = F32; },
      "gemm: operand 'b': expected bf16, found f32[5, 6]");
  expectRefused(
      gemm(), [](auto &a) { a.a = view(BF16, {4}); },
      "gemm: operand 'a': expected rank 2, found rank 1");
  expectRefused(
      gemm(), [](auto &a) { a.c.dtype = F64; },
      "gemm: operand 'c': expected bf16 or f32, found f64[4, 6]");
  expectRefused(
      gemm(),
      [](auto &a) { a.addend = {view(BF16, {4, 6}), view(BF16, {4, 6})}; },
      "gemm: expected at most one addend, found 2");
  expectRefused(
      gemm(),
      [](auto &a) {
        a.addend = {view(BF16, {4, 6})};
        a.accumulate = true;
      },
      "gemm: expected either an addend or accumulate, found both");
}

TEST(KernelChecks, RefuseShapesOutOfRange) {
  expectRefused(
      gemm(), [](auto &a) { a.a.shape[1] = 0; },
      "gemm: operand 'a': expected dimension 1 in [1, 2147483647], found 0");
  expectRefused(
      gemm(), [](auto &a) { a.a.shape[0] = int64_t(1) << 31; },
      "gemm: operand 'a': expected dimension 0 in [1, 2147483647], found "
      "2147483648");
  expectRefused(
      gemm(), [](auto &a) { a.a.strides[0] = int64_t(1) << 61; },
      "gemm: operand 'a': expected a view of less than 2^60 elements, found "
      "bf16[4, 5] strides [2305843009213693952, 1]");
  expectRefused(
      gemm(), [](auto &a) { a.a.rank = 9; },
      "gemm: operand 'a': expected rank 2, found rank 9");
}

TEST(KernelChecks, RefuseStridesThatKernelsCannotWalk) {
  expectRefused(
      gemm(), [](auto &a) { a.b.strides = {1, 5}; },
      "gemm: operand 'b': expected innermost stride 1, found bf16[5, 6] "
      "strides [1, 5]");
  expectRefused(
      gemm(), [](auto &a) { a.c.strides[0] = 3; },
      "gemm: operand 'c': expected each element at its own address, found "
      "bf16[4, 6] strides [3, 1]");
  expectRefused(
      gemm(), [](auto &a) { a.c.strides[0] = -6; },
      "gemm: operand 'c': expected non-negative strides, found -6 at dimension "
      "0");
  expectRefused(
      conv(), [](auto &a) { a.weight.strides[0] = 8; },
      "causal_conv1d: operand 'weight': expected a contiguous view, found "
      "f32[6, 1, 4] strides [8, 4, 1]");
  // A slice of wider rows and a row of any stride are fine.
  GemmArgs sliced = gemm();
  sliced.a.strides[0] = 100;
  EXPECT_TRUE(checkKernel(sliced).ok());
}

TEST(KernelChecks, RefuseHeadsThatDoNotDivide) {
  expectRefused(
      gatedDelta(),
      [](auto &a) {
        a.v = view(BF16, {9, 5, 7});
        a.g = view(F32, {9, 5});
        a.beta = view(BF16, {9, 5});
      },
      "gated_delta: expected value heads to be a multiple of key heads, found "
      "5 and 2");
  expectRefused(
      attention(),
      [](auto &a) {
        a.q = view(F32, {9, 5, 8});
        a.o = view(F32, {9, 5, 8});
        a.lse = view(F32, {9, 5});
      },
      "attention: expected query heads to be a multiple of key heads, found 5 "
      "and 2");
}

TEST(KernelChecks, RefuseMissingBoundaries) {
  expectRefused(
      attention(), [](auto &a) { a.cuSeqlens = view(I32, {1}); },
      "attention: operand 'cu_seqlens': expected at least 2 boundaries, found "
      "i32[1]");
  expectRefused(
      conv(), [](auto &a) { a.cuSeqlens = ConstBuffer(); },
      "causal_conv1d: operand 'cu_seqlens': expected rank 1, found rank 0");
  expectRefused(
      gatedDelta(), [](auto &a) { a.cuSeqlens.dtype = F32; },
      "gated_delta: operand 'cu_seqlens': expected i32, found f32[3]");
}

TEST(KernelChecks, RefuseAttributesOutOfRange) {
  for (int64_t chunk : {0, 8, 48, 256})
    expectRefused(
        gatedDelta(), [&](auto &a) { a.chunk = chunk; },
        "gated_delta: expected chunk to be a power of two in [16, 128], "
        "found " +
            std::to_string(chunk));
  expectRefused(
      conv(), [](auto &a) { a.weight = view(F32, {6, 1, 9}); },
      "causal_conv1d: operand 'weight': expected 1 to 8 taps, found f32[6, 1, "
      "9]");
  expectRefused(
      loss(), [](auto &a) { a.ignoreIndex = 3; },
      "linear_cross_entropy: expected ignore_index outside [0, 20), found 3");
  expectRefused(
      RopeAnglesArgs{view(I32, {9}), view(F32, {9, 8}), 1e7},
      [](auto &a) { a.angles = view(F32, {9, 7}); },
      "rope_angles: operand 'angles': expected an even rotary width, found "
      "f32[9, 7]");
  expectRefused(
      FillArgs{view(I32, {3}), 7}, [](auto &a) { a.value = 2147483648.0; },
      "fill: expected a value in [-2147483648, 2147483647] for i32, found "
      "2147483648");
}

// Two dimensions of it are a state of 2^64 bytes.
constexpr int64_t huge = std::numeric_limits<int32_t>::max();

TEST(KernelChecks, RefuseHeadsWhoseScratchOverflows) {
  std::string text = ": expected a head dimension of at most 4096, found ";
  expectRefused(
      gatedDelta(),
      [](auto &a) {
        a.q = view(BF16, {1, 1, huge});
        a.k = a.q;
        a.v = view(BF16, {1, 1, huge});
      },
      "gated_delta: operand 'q'" + text + "bf16[1, 1, 2147483647]");
  expectRefused(
      gatedDelta(), [](auto &a) { a.v = view(BF16, {9, 6, 4097}); },
      "gated_delta: operand 'v'" + text + "bf16[9, 6, 4097]");
  expectRefused(
      attention(),
      [](auto &a) {
        a.q = view(F32, {9, 6, 4097});
        a.k = a.v = view(F32, {9, 2, 4097});
      },
      "attention: operand 'q'" + text + "f32[9, 6, 4097]");
}

TEST(KernelChecks, RefuseGroupsThatDoNotAddUp) {
  expectRefused(
      group(), [](auto &a) { a.symbol.clear(); },
      "group: expected a code symbol, found none");
  expectRefused(
      group(), [](auto &a) { a.columnSums = {2}; },
      "group: expected increasing output numbers below 2 in 'column_sums', "
      "found 2 after -1");
  expectRefused(
      group(), [](auto &a) { a.columnSums.clear(); },
      "group: expected 'accumulate' to name column sums only, found output 1");
  expectRefused(
      group(), [](auto &a) { a.outputs[1].dtype = BF16; },
      "group: operand 'outputs[1]': expected f32, found bf16[6]");
  expectRefused(
      group(), [](auto &a) { a.rowsPerBlock = 0; },
      "group: expected rows_per_block in [1, 2^40), found 0");
  expectRefused(
      group(),
      [](auto &a) { a.rowsPerBlock = std::numeric_limits<int64_t>::max(); },
      "group: expected rows_per_block in [1, 2^40), found "
      "9223372036854775807");
}

TEST(KernelChecks, RefuseOptimizerListsThatDisagree) {
  expectRefused(
      adamw(), [](auto &a) { a.grads.clear(); },
      "adamw: expected 1 entries in 'grads', one a parameter, found 0");
  expectRefused(
      adamw(), [](auto &a) { a.masters.push_back(view(F32, {3})); },
      "adamw: expected 0 or 1 entries in 'masters', found 2");
  expectRefused(
      adamw(), [](auto &a) { a.moments2[0] = view(F32, {4}); },
      "adamw: operand 'moments2[0]': expected the shape of 'params[0]', "
      "bf16[3], found f32[4]");
  expectRefused(
      adamw(), [](auto &a) { a.grads[0].dtype = F64; },
      "adamw: operand 'grads[0]': expected f32 or bf16, found f64[3]");
  expectRefused(
      adamw(), [](auto &a) { a.firstElements = {0, 1}; },
      "adamw: expected 0 or 1 entries in 'first_elements', found 2");
  expectRefused(
      adamw(), [](auto &a) { a.firstElements = {-1}; },
      "adamw: expected first_elements in [0, 281474976710656], found -1");
  expectRefused(
      adamw(), [](auto &a) { a.buckets = {0}; },
      "adamw: expected no 'tensor_ids' and 'first_elements' beside 'buckets', "
      "found 1 and 0");
  expectRefused(
      adamw(), [](auto &a) { a.buckets = {0, 1}; },
      "adamw: expected 1 entries in 'buckets', one a parameter, found 2");
  expectRefused(
      GradNormArgs{{view(F32, {3})}, view(F32, {8}), view(F32, {4})},
      [](auto &a) { a.grads.clear(); },
      "grad_norm: expected gradients, found none");
}

TEST(KernelChecks, RefusePartsOfTablesThatDoNotGoWithTheirRows) {
  EmbeddingShardArgs lookup{view(BF16, {64}), view(I32, {5}), view(F32, {5, 8}),
                            0, 16};
  expectRefused(
      lookup, [](auto &a) { a.out = view(BF16, {5, 8}); },
      "embedding_shard: operand 'out': expected f32, found bf16[5, 8]");
  expectRefused(
      lookup, [](auto &a) { a.ids = view(I32, {4}); },
      "embedding_shard: operand 'out': expected dimension 0 to be 4 (tokens of "
      "'ids'), found f32[5, 8]");
  expectRefused(
      lookup, [](auto &a) { a.rows = 0; },
      "embedding_shard: expected rows in [1, 2147483647], found 0");
  expectRefused(
      lookup, [](auto &a) { a.begin = std::numeric_limits<int64_t>::min(); },
      "embedding_shard: expected begin in [-281474976710656, 281474976710656], "
      "found -9223372036854775808");
  EmbeddingGradShardArgs gradient{
      view(BF16, {5, 8}), view(I32, {5}), view(F32, {64}), 0, 16, false};
  expectRefused(
      gradient, [](auto &a) { a.shard = view(F64, {64}); },
      "embedding_grad_shard: operand 'shard': expected f32 or bf16, found "
      "f64[64]");
  expectRefused(
      gradient, [](auto &a) { a.dout = view(BF16, {6, 8}); },
      "embedding_grad_shard: operand 'dout': expected dimension 0 to be 5 "
      "(tokens of 'ids'), found bf16[6, 8]");
}

TEST(KernelChecks, RefuseShardsThatDoNotMakeTheWhole) {
  expectRefused(
      AllGatherArgs{view(BF16, {64}), view(BF16, {128})},
      [](auto &a) { a.full = view(BF16, {100}); },
      "all_gather: operand 'full': expected a multiple of the 64 elements of "
      "'shard', found bf16[100]");
  expectRefused(
      AllGatherArgs{view(BF16, {64}), view(BF16, {128})},
      [](auto &a) { a.full = view(F32, {128}); },
      "all_gather: operand 'full': expected bf16, found f32[128]");
  expectRefused(
      ReduceScatterArgs{view(F32, {128}), view(F32, {64})},
      [](auto &a) { a.full = view(BF16, {128}); },
      "reduce_scatter: operand 'full': expected f32 or f64, found bf16[128]");
  expectRefused(
      ReduceScatterArgs{view(F32, {128}), view(BF16, {64})},
      [](auto &a) { a.shard = view(F64, {64}); },
      "reduce_scatter: operand 'shard': expected f32 or bf16, found f64[64]");
  expectRefused(
      GradNormLocalArgs{{view(F32, {64})}, view(F64, {1})},
      [](auto &a) { a.partial = view(F64, {2}); },
      "grad_norm_local: operand 'partial': expected dimension 0 to be 1 (the "
      "sum of squares), found f64[2]");
  expectRefused(
      GradNormCombineArgs{view(F64, {2}), view(F32, {8}), view(F32, {4})},
      [](auto &a) { a.partials = view(F32, {2}); },
      "grad_norm_combine: operand 'partials': expected f64, found f32[2]");
}
