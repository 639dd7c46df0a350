//===- KernelChecks.cpp - Rules of the matrix and token kernels -*- C++ -*-===//
//
// The collector behind all kernel checks, and what gemm, embedding, loss,
// rotary angles, fill and copy accept.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelChecks.h"

#include "CheckHelpers.h"
#include "qwen/Plan/GemmAlgorithm.h"

#include <algorithm>
#include <limits>

using namespace qwen;

//===----------------------------------------------------------------------===//
// OperandRules
//===----------------------------------------------------------------------===//

void OperandRules::fail(std::string message) {
  status = invalidArgument("{}: {}", kernel, message);
}

void OperandRules::shapeRules(std::string_view name, const BufferType &type) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  // Everything a kernel computes from a view must fit int64, bytes included.
  constexpr __int128 addressable = __int128(1) << 60;
  __int128 extent = 1;
  __int128 elements = 1;
  for (int i = 0; i < type.rank && ok(); ++i) {
    require(type.shape[i] >= 1 && type.shape[i] <= limit,
            "operand '{}': expected dimension {} in [1, {}], found {}", name, i,
            limit, type.shape[i]);
    require(type.strides[i] >= 0,
            "operand '{}': expected non-negative strides, found {} at "
            "dimension {}",
            name, type.strides[i], i);
    if (!ok())
      return;
    extent += __int128(type.shape[i] - 1) * type.strides[i];
    elements *= type.shape[i];
    require(extent < addressable && elements < addressable,
            "operand '{}': expected a view of less than 2^60 elements, found "
            "{}",
            name, toString(type));
  }
}

void OperandRules::dtypeRules(std::string_view name, const BufferType &type,
                              std::initializer_list<DType> dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), type.dtype) != dtypes.end())
    return;
  std::string allowed;
  for (DType dtype : dtypes)
    allowed += (allowed.empty() ? "" : " or ") + std::string(dtypeName(dtype));
  require(false, "operand '{}': expected {}, found {}", name, allowed,
          toString(type));
}

/// True where no two index tuples reach the same element.
static bool isDisjoint(const BufferType &type) {
  // Dimensions with more than one element, by ascending stride.
  std::array<int, maxRank> order{};
  int count = 0;
  for (int i = 0; i < type.rank; ++i) {
    if (type.shape[i] == 1)
      continue;
    int place = count++;
    for (; place > 0 && type.strides[order[place - 1]] > type.strides[i];
         --place)
      order[place] = order[place - 1];
    order[place] = i;
  }
  int64_t reach = 1;
  for (int n = 0; n < count; ++n) {
    int i = order[n];
    if (type.strides[i] < reach)
      return false;
    reach += (type.shape[i] - 1) * type.strides[i];
  }
  return true;
}

void OperandRules::layoutRules(std::string_view name, const BufferType &type,
                               Layout layout) {
  if (layout == Layout::Any)
    return;
  if (layout == Layout::UnitInner)
    require(type.hasUnitInnerStride(),
            "operand '{}': expected innermost stride 1, found {}", name,
            toString(type));
  if (layout == Layout::Contiguous)
    require(type.isContiguous(),
            "operand '{}': expected a contiguous view, found {}", name,
            toString(type));
  require(isDisjoint(type),
          "operand '{}': expected each element at its own address, found {}",
          name, toString(type));
}

void OperandRules::anyRank(std::string_view name, const BufferType &type,
                           std::initializer_list<DType> dtypes, Layout layout) {
  require(type.rank >= 0 && type.rank <= maxRank,
          "operand '{}': expected rank in [0, {}], found {}", name, maxRank,
          type.rank);
  if (ok())
    shapeRules(name, type);
  if (ok())
    dtypeRules(name, type, dtypes);
  if (ok())
    layoutRules(name, type, layout);
}

void OperandRules::operand(std::string_view name, const BufferType &type,
                           int rank, std::initializer_list<DType> dtypes,
                           Layout layout) {
  require(type.rank == rank, "operand '{}': expected rank {}, found rank {}",
          name, rank, type.rank);
  if (ok())
    anyRank(name, type, dtypes, layout);
}

void OperandRules::dim(std::string_view name, const BufferType &type, int i,
                       int64_t expected, std::string_view meaning) {
  require(type.shape[i] == expected,
          "operand '{}': expected dimension {} to be {} ({}), found {}", name,
          i, expected, meaning, toString(type));
}

void OperandRules::sameShape(std::string_view name, const BufferType &type,
                             std::string_view otherName,
                             const BufferType &other) {
  require(type.rank == other.rank && type.shape == other.shape,
          "operand '{}': expected the shape of '{}', {}, found {}", name,
          otherName, toString(other), toString(type));
}

void qwen::checkBoundaries(OperandRules &rules, const BufferType &cuSeqlens) {
  rules.operand("cu_seqlens", cuSeqlens, 1, {DType::I32});
  rules.require(cuSeqlens.dim(0) >= 2,
                "operand 'cu_seqlens': expected at least 2 boundaries, found "
                "{}",
                toString(cuSeqlens));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static void checkAlgorithm(OperandRules &rules, const char *name,
                           const GemmAlgorithm &algorithm) {
  rules.require(isGemmAlgorithm(algorithm),
                "expected {} empty or {} unsigned 32-bit numbers, found {} "
                "numbers",
                name, gemmAlgorithmFields.size(), algorithm.size());
}

Status qwen::checkKernel(const GemmArgs &args) {
  OperandRules rules(GemmArgs::kernelName);
  rules.operand("a", args.a, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("b", args.b, 2, {args.a.dtype});
  if (args.a.dtype == DType::BF16)
    rules.operand("c", args.c, 2, {DType::BF16, DType::F32});
  else
    rules.operand("c", args.c, 2, {args.a.dtype});
  int rowDim = args.transposeA ? 1 : 0;
  int depthDimB = args.transposeB ? 1 : 0;
  rules.dim("b", args.b, depthDimB, args.a.dim(1 - rowDim), "K of 'a'");
  rules.dim("c", args.c, 0, args.a.dim(rowDim), "M of 'a'");
  rules.dim("c", args.c, 1, args.b.dim(1 - depthDimB), "N of 'b'");
  rules.require(args.addend.size() <= 1,
                "expected at most one addend, found {}", args.addend.size());
  rules.require(args.addend.empty() || !args.accumulate,
                "expected either an addend or accumulate, found both");
  for (const ConstBuffer &addend : args.addend) {
    rules.operand("addend", addend, 2, {args.c.dtype});
    rules.dim("addend", addend, 0, args.c.dim(0), "M of 'c'");
    rules.dim("addend", addend, 1, args.c.dim(1), "N of 'c'");
  }
  checkAlgorithm(rules, "algorithm", args.algorithm);
  return rules.result();
}

Status qwen::checkKernel(const EmbeddingArgs &args) {
  OperandRules rules(EmbeddingArgs::kernelName);
  rules.operand("table", args.table, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("ids", args.ids, 1, {DType::I32});
  rules.operand("out", args.out, 2, {args.table.dtype});
  rules.dim("out", args.out, 0, args.ids.dim(0), "tokens of 'ids'");
  rules.dim("out", args.out, 1, args.table.dim(1), "width of 'table'");
  return rules.result();
}

Status qwen::checkKernel(const EmbeddingGradArgs &args) {
  OperandRules rules(EmbeddingGradArgs::kernelName);
  rules.operand("dout", args.dout, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("ids", args.ids, 1, {DType::I32});
  rules.operand("dtable", args.dtable, 2, {wideOf(args.dout.dtype)});
  rules.dim("dout", args.dout, 0, args.ids.dim(0), "tokens of 'ids'");
  rules.dim("dtable", args.dtable, 1, args.dout.dim(1), "width of 'dout'");
  return rules.result();
}

/// Where the table lies that is held in shards. Ranks after the first have a
/// negative `begin`.
static void checkTablePlace(OperandRules &rules, int64_t begin, int64_t rows) {
  rules.require(begin >= -maxElements && begin <= maxElements,
                "expected begin in [{}, {}], found {}", -maxElements,
                maxElements, begin);
  rules.require(rows >= 1 && rows <= maxDimension,
                "expected rows in [1, {}], found {}", maxDimension, rows);
}

Status qwen::checkKernel(const EmbeddingShardArgs &args) {
  OperandRules rules(EmbeddingShardArgs::kernelName);
  rules.operand("shard", args.shard, 1, {DType::F32, DType::BF16, DType::F64},
                Layout::Contiguous);
  rules.operand("ids", args.ids, 1, {DType::I32});
  rules.operand("out", args.out, 2, {wideOf(args.shard.dtype)});
  rules.dim("out", args.out, 0, args.ids.dim(0), "tokens of 'ids'");
  checkTablePlace(rules, args.begin, args.rows);
  return rules.result();
}

Status qwen::checkKernel(const EmbeddingGradShardArgs &args) {
  OperandRules rules(EmbeddingGradShardArgs::kernelName);
  DType wide = wideOf(args.dout.dtype);
  rules.operand("dout", args.dout, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("ids", args.ids, 1, {DType::I32});
  rules.operand("shard", args.shard, 1,
                {wide, wide == DType::F64 ? DType::F64 : DType::BF16},
                Layout::Contiguous);
  rules.dim("dout", args.dout, 0, args.ids.dim(0), "tokens of 'ids'");
  checkTablePlace(rules, args.begin, args.rows);
  return rules.result();
}

/// Shared by linear_cross_entropy and its gradient.
template <typename Args>
static void checkLossOperands(OperandRules &rules, const Args &args) {
  DType dtype = args.x.dtype;
  rules.operand("x", args.x, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("weight", args.weight, 2, {dtype});
  rules.operand("labels", args.labels, 1, {DType::I32});
  rules.operand("nll", args.nll, 1, {wideOf(dtype)});
  rules.dim("weight", args.weight, 1, args.x.dim(1), "width of 'x'");
  rules.dim("labels", args.labels, 0, args.x.dim(0), "tokens of 'x'");
  rules.dim("nll", args.nll, 0, args.x.dim(0), "tokens of 'x'");
  rules.require(args.ignoreIndex < 0 || args.ignoreIndex >= args.weight.dim(0),
                "expected ignore_index outside [0, {}), found {}",
                args.weight.dim(0), args.ignoreIndex);
}

Status qwen::checkKernel(const LinearCrossEntropyArgs &args) {
  OperandRules rules(LinearCrossEntropyArgs::kernelName);
  checkLossOperands(rules, args);
  checkAlgorithm(rules, "logits_algorithm", args.logitsAlgorithm);
  return rules.result();
}

Status qwen::checkKernel(const LinearCrossEntropyGradArgs &args) {
  OperandRules rules(LinearCrossEntropyGradArgs::kernelName);
  checkLossOperands(rules, args);
  DType wide = wideOf(args.x.dtype);
  rules.operand("dnll", args.dnll, 1, {wide});
  rules.operand("dx", args.dx, 2, {args.x.dtype});
  rules.operand("dweight", args.dweight, 2, {wide});
  rules.dim("dnll", args.dnll, 0, args.x.dim(0), "tokens of 'x'");
  rules.sameShape("dx", args.dx, "x", args.x);
  rules.sameShape("dweight", args.dweight, "weight", args.weight);
  checkAlgorithm(rules, "logits_algorithm", args.logitsAlgorithm);
  checkAlgorithm(rules, "dx_algorithm", args.dxAlgorithm);
  checkAlgorithm(rules, "dweight_algorithm", args.dweightAlgorithm);
  return rules.result();
}

Status qwen::checkKernel(const RopeAnglesArgs &args) {
  OperandRules rules(RopeAnglesArgs::kernelName);
  rules.operand("positions", args.positions, 1, {DType::I32});
  rules.operand("angles", args.angles, 2, {DType::F32, DType::F64});
  rules.dim("angles", args.angles, 0, args.positions.dim(0),
            "tokens of 'positions'");
  rules.require(args.angles.dim(1) % 2 == 0,
                "operand 'angles': expected an even rotary width, found {}",
                toString(args.angles));
  rules.require(args.theta > 0 && args.theta < 1e30,
                "expected theta in (0, 1e30), found {}", args.theta);
  return rules.result();
}

Status qwen::checkKernel(const FillArgs &args) {
  OperandRules rules(FillArgs::kernelName);
  rules.anyRank("out", args.out,
                {DType::F32, DType::BF16, DType::F64, DType::I32},
                Layout::Disjoint);
  constexpr double least = std::numeric_limits<int32_t>::min(),
                   most = std::numeric_limits<int32_t>::max();
  rules.require(args.out.dtype != DType::I32 ||
                    (args.value >= least && args.value <= most),
                "expected a value in [{}, {}] for i32, found {}", least, most,
                args.value);
  return rules.result();
}

Status qwen::checkKernel(const CopyArgs &args) {
  OperandRules rules(CopyArgs::kernelName);
  rules.anyRank("in", args.in,
                {DType::F32, DType::BF16, DType::F64, DType::I32}, Layout::Any);
  rules.anyRank("out", args.out, {args.in.dtype}, Layout::Disjoint);
  rules.sameShape("out", args.out, "in", args.in);
  return rules.result();
}
