//===- KernelChecksElementwise.cpp - Groups and the optimizer ---*- C++ -*-===//
//
// What generated groups, the gradient norm and AdamW accept.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelChecks.h"

#include "CheckHelpers.h"
#include "qwen/Plan/Scratch.h"

#include <algorithm>

using namespace qwen;

/// Indices of `values` are strictly increasing and inside [0, limit).
static void checkIndexList(OperandRules &rules, const char *name,
                           const std::vector<int64_t> &values, int64_t limit) {
  int64_t previous = -1;
  for (int64_t value : values) {
    rules.require(value > previous && value < limit,
                  "expected increasing output numbers below {} in '{}', found "
                  "{} after {}",
                  limit, name, value, previous);
    previous = value;
  }
}

Status qwen::checkKernel(const GroupArgs &args) {
  OperandRules rules(GroupArgs::kernelName);
  int64_t outputs = static_cast<int64_t>(args.outputs.size());
  rules.require(!args.symbol.empty(), "expected a code symbol, found none");
  rules.require(outputs > 0, "expected at least one output, found none");
  rules.require(args.rows >= 1 && args.rows < (int64_t(1) << 40),
                "expected rows in [1, 2^40), found {}", args.rows);
  rules.require(
      args.rowsPerBlock >= 1 && args.rowsPerBlock < (int64_t(1) << 40),
      "expected rows_per_block in [1, 2^40), found {}", args.rowsPerBlock);
  rules.require(args.flopsPerRow >= 0,
                "expected flops_per_row of at least 0, found {}",
                args.flopsPerRow);
  int64_t operands = outputs + static_cast<int64_t>(args.inputs.size());
  rules.require(operands <= maxGroupOperands,
                "expected at most {} operands, found {}", maxGroupOperands,
                operands);
  auto anyElement = {DType::F32, DType::BF16, DType::F64, DType::I32};
  for (size_t i = 0; i < args.inputs.size(); ++i)
    rules.anyRank(fmt::format("inputs[{}]", i), args.inputs[i], anyElement,
                  Layout::Any);
  for (size_t i = 0; i < args.outputs.size(); ++i)
    rules.anyRank(fmt::format("outputs[{}]", i), args.outputs[i], anyElement,
                  Layout::Disjoint);
  checkIndexList(rules, "column_sums", args.columnSums, outputs);
  checkIndexList(rules, "accumulate", args.accumulate, outputs);
  if (!rules.ok())
    return rules.result();
  for (int64_t i : args.columnSums) {
    const Buffer &sum = args.outputs[i];
    // One element type keeps the partial sums of a block aligned.
    rules.anyRank(fmt::format("outputs[{}]", i), sum,
                  {wideOf(args.outputs[args.columnSums[0]].dtype)},
                  Layout::Contiguous);
  }
  for (int64_t i : args.accumulate)
    rules.require(std::find(args.columnSums.begin(), args.columnSums.end(),
                            i) != args.columnSums.end(),
                  "expected 'accumulate' to name column sums only, found "
                  "output {}",
                  i);
  return rules.result();
}

static void checkGradients(OperandRules &rules,
                           const std::vector<ConstBuffer> &grads,
                           std::initializer_list<DType> dtypes) {
  rules.require(!grads.empty(), "expected gradients, found none");
  for (size_t i = 0; i < grads.size(); ++i)
    rules.anyRank(fmt::format("grads[{}]", i), grads[i], dtypes,
                  Layout::Contiguous);
}

static void checkNormResult(OperandRules &rules, const ConstBuffer &hyper,
                            const Buffer &stats) {
  rules.operand("hyper", hyper, 1, {DType::F32, DType::F64});
  rules.operand("stats", stats, 1, {DType::F32, DType::F64});
  rules.dim("hyper", hyper, 0, 8, "hyper-parameters");
  rules.dim("stats", stats, 0, 4, "statistics");
}

Status qwen::checkKernel(const GradNormArgs &args) {
  OperandRules rules(GradNormArgs::kernelName);
  checkGradients(rules, args.grads, {DType::F32, DType::F64});
  checkNormResult(rules, args.hyper, args.stats);
  return rules.result();
}

Status qwen::checkKernel(const GradNormLocalArgs &args) {
  OperandRules rules(GradNormLocalArgs::kernelName);
  checkGradients(rules, args.grads, {DType::F32, DType::BF16, DType::F64});
  rules.operand("partial", args.partial, 1, {DType::F64});
  rules.dim("partial", args.partial, 0, 1, "the sum of squares");
  return rules.result();
}

Status qwen::checkKernel(const GradNormCombineArgs &args) {
  OperandRules rules(GradNormCombineArgs::kernelName);
  rules.operand("partials", args.partials, 1, {DType::F64});
  checkNormResult(rules, args.hyper, args.stats);
  return rules.result();
}

/// The whole consists of the shards of all ranks.
static void checkShards(OperandRules &rules, const BufferType &shard,
                        const BufferType &full) {
  if (rules.ok())
    rules.require(full.dim(0) % shard.dim(0) == 0,
                  "operand 'full': expected a multiple of the {} elements of "
                  "'shard', found {}",
                  shard.dim(0), toString(full));
}

Status qwen::checkKernel(const AllGatherArgs &args) {
  OperandRules rules(AllGatherArgs::kernelName);
  rules.operand("shard", args.shard, 1,
                {DType::F32, DType::BF16, DType::F64, DType::I32},
                Layout::Contiguous);
  rules.operand("full", args.full, 1, {args.shard.dtype}, Layout::Contiguous);
  checkShards(rules, args.shard, args.full);
  return rules.result();
}

Status qwen::checkKernel(const ReduceScatterArgs &args) {
  OperandRules rules(ReduceScatterArgs::kernelName);
  DType wide = args.full.dtype;
  rules.operand("full", args.full, 1, {DType::F32, DType::F64},
                Layout::Contiguous);
  rules.operand("shard", args.shard, 1,
                {wide, wide == DType::F64 ? DType::F64 : DType::BF16},
                Layout::Contiguous);
  checkShards(rules, args.shard, args.full);
  return rules.result();
}

/// One tensor of adamw: parameter, gradient, moments and master agree.
static void checkAdamWTensor(OperandRules &rules, const AdamWArgs &args,
                             size_t i) {
  std::string name = fmt::format("params[{}]", i);
  const Buffer &param = args.params[i];
  rules.anyRank(name, param, {DType::F32, DType::BF16, DType::F64},
                Layout::Contiguous);
  DType wide = wideOf(param.dtype);
  DType narrow = wide == DType::F64 ? DType::F64 : DType::BF16;
  rules.anyRank(fmt::format("grads[{}]", i), args.grads[i], {wide, narrow},
                Layout::Contiguous);
  rules.sameShape(fmt::format("grads[{}]", i), args.grads[i], name, param);
  rules.anyRank(fmt::format("moments1[{}]", i), args.moments1[i],
                {wide, narrow}, Layout::Contiguous);
  rules.sameShape(fmt::format("moments1[{}]", i), args.moments1[i], name,
                  param);
  rules.anyRank(fmt::format("moments2[{}]", i), args.moments2[i],
                {wide, narrow}, Layout::Contiguous);
  rules.sameShape(fmt::format("moments2[{}]", i), args.moments2[i], name,
                  param);
  if (args.masters.empty())
    return;
  rules.anyRank(fmt::format("masters[{}]", i), args.masters[i], {wide},
                Layout::Contiguous);
  rules.sameShape(fmt::format("masters[{}]", i), args.masters[i], name, param);
}

/// Entries are named by their tensors or, before a rank has put its parts of
/// tensors in their place, by their buckets.
static void checkAdamWNames(OperandRules &rules, const AdamWArgs &args) {
  size_t count = args.params.size();
  if (args.buckets.empty()) {
    rules.require(args.tensorIds.size() == count,
                  "expected {} entries in 'tensor_ids', one a parameter, found "
                  "{}",
                  count, args.tensorIds.size());
    rules.require(args.firstElements.empty() ||
                      args.firstElements.size() == count,
                  "expected 0 or {} entries in 'first_elements', found {}",
                  count, args.firstElements.size());
    for (int64_t first : args.firstElements)
      rules.require(first >= 0 && first <= maxElements,
                    "expected first_elements in [0, {}], found {}", maxElements,
                    first);
    return;
  }
  rules.require(args.buckets.size() == count,
                "expected {} entries in 'buckets', one a parameter, found {}",
                count, args.buckets.size());
  rules.require(args.tensorIds.empty() && args.firstElements.empty(),
                "expected no 'tensor_ids' and 'first_elements' beside "
                "'buckets', found {} and {}",
                args.tensorIds.size(), args.firstElements.size());
}

Status qwen::checkKernel(const AdamWArgs &args) {
  OperandRules rules(AdamWArgs::kernelName);
  size_t count = args.params.size();
  rules.require(count > 0, "expected parameters, found none");
  for (auto [name, size] :
       {std::pair<const char *, size_t>{"grads", args.grads.size()},
        {"moments1", args.moments1.size()},
        {"moments2", args.moments2.size()}})
    rules.require(size == count,
                  "expected {} entries in '{}', one a parameter, found {}",
                  count, name, size);
  checkAdamWNames(rules, args);
  rules.require(args.masters.empty() || args.masters.size() == count,
                "expected 0 or {} entries in 'masters', found {}", count,
                args.masters.size());
  for (size_t i = 0; i < count && rules.ok(); ++i)
    checkAdamWTensor(rules, args, i);
  rules.operand("hyper", args.hyper, 1, {DType::F32, DType::F64});
  rules.operand("stats", args.stats, 1, {DType::F32, DType::F64});
  rules.operand("rng", args.rng, 1, {DType::I32});
  rules.dim("hyper", args.hyper, 0, 8, "hyper-parameters");
  rules.dim("stats", args.stats, 0, 4, "statistics");
  rules.dim("rng", args.rng, 0, 2, "seed and step");
  return rules.result();
}
