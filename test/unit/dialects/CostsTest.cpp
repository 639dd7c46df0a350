//===- CostsTest.cpp - Costs and aliasing of ops --------------------------===//
//
// The numbers behind model FLOPs, reports and in-place reuse, by hand.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using qwen::CostOpInterface;
using qwen::kernel::KernelOpInterface;

namespace {

class CostsTest : public ::testing::Test {
protected:
  CostsTest() {
    context.loadDialect<qwen::QwenDialect, qwen::kernel::KernelDialect,
                        arith::ArithDialect, func::FuncDialect,
                        math::MathDialect, memref::MemRefDialect>();
  }

  /// The one op with interface `Interface` in a function of these arguments.
  template <typename Interface>
  Interface parse(const std::string &arguments, const std::string &op) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") { " + op + "\n return }", &context);
    Interface found;
    if (module)
      module->walk([&](Interface candidate) { found = candidate; });
    EXPECT_TRUE(found) << op;
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CostsTest, LinearCountsMultiplyAddsTwice) {
  auto op = parse<CostOpInterface>(
      "%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>",
      "%y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> "
      "tensor<8x6xbf16>");
  EXPECT_EQ(op.getFlops(), 2 * 8 * 6 * 4);
  EXPECT_EQ(op.getBytes(), 2 * (8 * 4 + 6 * 4 + 8 * 6));
}

TEST_F(CostsTest, TransposedMatmulSumsOverTheRightDimension) {
  auto op = parse<CostOpInterface>(
      "%a: tensor<8x6xf32>, %b: tensor<8x4xf32>",
      "%c = qwen.matmul %a, %b {transpose_a} : tensor<8x6xf32>, "
      "tensor<8x4xf32> -> tensor<6x4xf32>");
  EXPECT_EQ(op.getFlops(), 2 * 6 * 4 * 8);
}

TEST_F(CostsTest, AttentionCountsCausalPairsOnly) {
  auto op = parse<CostOpInterface>(
      "%q: tensor<8x6x4xf32>, %k: tensor<8x2x4xf32>, %c: tensor<3xi32>",
      "%o, %l = qwen.attention %q, %k, %k, %c {scale = 0.5 : f64} : "
      "tensor<8x6x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<3xi32> "
      "-> tensor<8x6x4xf32>, tensor<8x6xf32>");
  // 36 pairs of 8 tokens, 6 heads, two products of 4 elements.
  EXPECT_EQ(op.getFlops(), 36 * 6 * 2 * 2 * 4);
}

TEST_F(CostsTest, AccumulatingGemmAddsToItsResultAlone) {
  const std::string arguments =
      "%a: memref<8x4xf32>, %b: memref<4x6xf32>, %c: memref<8x6xf32>";
  const std::string gemm =
      "kernel.gemm ins(%a, %b : memref<8x4xf32>, memref<4x6xf32>) "
      "outs(%c : memref<8x6xf32>)";
  auto adds =
      parse<KernelOpInterface>(arguments, gemm + " {accumulate = true}");
  EXPECT_FALSE(adds.accumulatesInto(adds->getOpOperand(0)));
  EXPECT_FALSE(adds.accumulatesInto(adds->getOpOperand(1)));
  EXPECT_TRUE(adds.accumulatesInto(adds->getOpOperand(2)));
  EXPECT_EQ(adds.getFlops(), 2 * 8 * 6 * 4);
  EXPECT_EQ(adds.getBytes(), 4 * (8 * 4 + 4 * 6 + 2 * 8 * 6));
  auto overwrites = parse<KernelOpInterface>(arguments, gemm);
  EXPECT_EQ(overwrites.getBytes(), 4 * (8 * 4 + 4 * 6 + 8 * 6));
  EXPECT_FALSE(overwrites.accumulatesInto(overwrites->getOpOperand(2)));
  EXPECT_FALSE(overwrites.canReuseInput(overwrites->getOpOperand(0),
                                        overwrites->getOpOperand(2)));
}

/// A group over [8, 4] with a full input, a repeated vector, a full output, a
/// column sum and an output of another layout.
TEST_F(CostsTest, GroupReusesRowsOnly) {
  auto group = parse<KernelOpInterface>(
      "%x: memref<8x4xf32>, %w: memref<4xf32>, %y: memref<8x4xf32>, "
      "%s: memref<4xf32>, %z: memref<8x4xf32, strided<[5, 1]>>",
      "kernel.group @g ins(%x, %w : memref<8x4xf32>, memref<4xf32>) "
      "outs(%y, %s, %z : memref<8x4xf32>, memref<4xf32>, "
      "memref<8x4xf32, strided<[5, 1]>>) {flops_per_row = 3 : i64, "
      "rows = 8 : i64, rows_per_block = 4 : i64, column_sums = array<i64: 1>, "
      "accumulate = array<i64: 1>}");
  OpOperand &x = group->getOpOperand(0), &w = group->getOpOperand(1);
  OpOperand &y = group->getOpOperand(2), &sum = group->getOpOperand(3);
  OpOperand &z = group->getOpOperand(4);
  EXPECT_TRUE(group.canReuseInput(x, y));
  EXPECT_FALSE(group.canReuseInput(w, sum));
  EXPECT_FALSE(group.canReuseInput(x, z));
  EXPECT_FALSE(group.canReuseInput(y, y));
  EXPECT_TRUE(group.accumulatesInto(sum));
  EXPECT_FALSE(group.accumulatesInto(y));
  EXPECT_EQ(group.getFlops(), 8 * 3);
  EXPECT_EQ(group.getBytes(), 4 * (8 * 4 + 4 + 8 * 4 + 2 * 4 + 8 * 4));
}

/// Of a table of 100 rows a launch over 8 tokens touches 8, unless it sets the
/// rows of no token to zero.
TEST_F(CostsTest, TablesMoveAsManyRowsAsThereAreIds) {
  const int64_t rows = 4 * 8 * 16, ids = 4 * 8, table = 4 * 100 * 16;
  auto lookup = parse<KernelOpInterface>(
      "%t: memref<100x16xf32>, %i: memref<8xi32>, %y: memref<8x16xf32>",
      "kernel.embedding ins(%t, %i : memref<100x16xf32>, memref<8xi32>) "
      "outs(%y : memref<8x16xf32>)");
  EXPECT_EQ(lookup.getBytes(), rows + ids + rows);
  const std::string arguments =
      "%d: memref<8x16xf32>, %i: memref<8xi32>, %t: memref<100x16xf32>";
  const std::string gradient =
      "kernel.embedding_grad ins(%d, %i : memref<8x16xf32>, memref<8xi32>) "
      "outs(%t : memref<100x16xf32>)";
  auto adds =
      parse<KernelOpInterface>(arguments, gradient + " {accumulate = true}");
  EXPECT_EQ(adds.getBytes(), rows + ids + 2 * rows);
  auto overwrites = parse<KernelOpInterface>(arguments, gradient);
  EXPECT_EQ(overwrites.getBytes(), rows + ids + table);
}

/// The same of a shard, which is flat.
TEST_F(CostsTest, ShardsOfTablesMoveAsManyElementsAsRowsHave) {
  const int64_t rows = 4 * 8 * 16, ids = 4 * 8, shard = 4 * 6400;
  auto lookup = parse<KernelOpInterface>(
      "%t: memref<6400xf32>, %i: memref<8xi32>, %y: memref<8x16xf32>",
      "kernel.embedding_shard ins(%t, %i : memref<6400xf32>, memref<8xi32>) "
      "outs(%y : memref<8x16xf32>) {begin = 0 : i64, rows = 900 : i64}");
  EXPECT_EQ(lookup.getBytes(), rows + ids + rows);
  const std::string arguments =
      "%d: memref<8x16xf32>, %i: memref<8xi32>, %t: memref<6400xf32>";
  const std::string gradient =
      "kernel.embedding_grad_shard ins(%d, %i : memref<8x16xf32>, "
      "memref<8xi32>) outs(%t : memref<6400xf32>) {begin = 0 : i64, rows = 900 "
      ": i64";
  auto adds =
      parse<KernelOpInterface>(arguments, gradient + ", accumulate = true}");
  EXPECT_EQ(adds.getBytes(), rows + ids + 2 * rows);
  auto overwrites = parse<KernelOpInterface>(arguments, gradient + "}");
  EXPECT_EQ(overwrites.getBytes(), rows + ids + shard);
}

/// Rotary angles [T, R] repeat over heads: an output of the same type (here of
/// the row sums of R heads) must not take their place.
TEST_F(CostsTest, GroupKeepsInputsThatRepeatOverHeads) {
  auto group = parse<KernelOpInterface>(
      "%angles: memref<8x2xf32>, %sums: memref<8x2xf32>",
      "kernel.group @g ins(%angles : memref<8x2xf32>) "
      "outs(%sums : memref<8x2xf32>) {flops_per_row = 1 : i64, "
      "rows = 16 : i64, rows_per_block = 4 : i64}");
  EXPECT_FALSE(
      group.canReuseInput(group->getOpOperand(0), group->getOpOperand(1)));
}

} // namespace
