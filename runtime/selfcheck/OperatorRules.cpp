//===- OperatorRules.cpp - What is expected of a kernel's results ---------===//

#include "runtime/selfcheck/OperatorRules.h"

#include "runtime/selfcheck/KernelBounds.h"

#include <fmt/format.h>

using namespace qwen;

using Rules = std::vector<OutputRule>;

static AgreementRule elements(double bound, double terms = 0,
                              ComparedWith with = ComparedWith::Exact) {
  return {AgreementRule::Kind::Elements, bound, terms,
          with == ComparedWith::CpuTwin};
}
static AgreementRule meanSquare(double bound) {
  return {AgreementRule::Kind::MeanSquare, bound};
}

Rules qwen::outputRules(const CausalConv1dArgs &args, const CheckPack &,
                        ComparedWith with) {
  double bound = bounds::conv(args.x.dtype, args.weight.dim(2));
  return {{"y", elements(bound, 0, with)}};
}

Rules qwen::outputRules(const CausalConv1dGradArgs &args, const CheckPack &pack,
                        ComparedWith with) {
  DType dtype = args.x.dtype;
  double input = bounds::convInputGrad(dtype, args.weight.dim(2));
  double weight = bounds::convWeightGrad(dtype, pack.tokens);
  return {{"dx", elements(input, 0, with)},
          {"dweight", elements(weight, 0, with)}};
}

Rules qwen::outputRules(const GatedDeltaArgs &args, const CheckPack &pack,
                        ComparedWith with) {
  DType dtype = args.q.dtype;
  if (with == ComparedWith::CpuTwin)
    return {{"o", meanSquare(bounds::gatedDeltaOnMatrixUnits(dtype))}};
  return {{"o", elements(bounds::gatedDelta(dtype, pack.longest(),
                                            args.q.dim(2), args.v.dim(2)))}};
}

Rules qwen::outputRules(const GatedDeltaGradArgs &args, const CheckPack &pack,
                        ComparedWith with) {
  DType dtype = args.q.dtype;
  double bound = bounds::gatedDeltaGrad(dtype, pack.longest(), args.q.dim(2),
                                        args.v.dim(2));
  double units = bounds::gatedDeltaOnMatrixUnits(dtype);
  Rules rules;
  for (const char *name : {"dq", "dk", "dv", "dg", "dbeta"}) {
    bool gate = name == std::string_view("dg");
    rules.push_back(
        {name, with == ComparedWith::CpuTwin
                   ? meanSquare(units)
                   : elements(bound, gate ? bounds::gateGradientTerms : 0)});
  }
  return rules;
}

/// The largest score of operands in their ranges.
template <typename Args> static double largestScore(const Args &args) {
  double q = operandRange(Args::kernelName, "q", args.q.dim(1)).high;
  double k = operandRange(Args::kernelName, "k", args.k.dim(1)).high;
  return q * k * double(args.q.dim(2)) * args.scale;
}

Rules qwen::outputRules(const AttentionArgs &args, const CheckPack &pack,
                        ComparedWith with) {
  DType dtype = args.q.dtype;
  int64_t dim = args.q.dim(2), longest = pack.longest();
  if (with == ComparedWith::CpuTwin)
    return {{"o", meanSquare(bounds::attentionOnMatrixUnits(dtype))},
            {"lse", meanSquare(bounds::logSumExpOnMatrixUnits(longest, dim))}};
  double bound = bounds::attention(
      dtype, longest, args.q.dim(1) / args.k.dim(1), dim, largestScore(args));
  return {{"o", elements(bound)}, {"lse", elements(bound)}};
}

Rules qwen::outputRules(const AttentionGradArgs &args, const CheckPack &pack,
                        ComparedWith with) {
  DType dtype = args.q.dtype;
  int64_t dim = args.q.dim(2);
  double bound = bounds::attentionGrad(dtype, pack.longest(),
                                       args.q.dim(1) / args.k.dim(1), dim,
                                       largestScore(args));
  double stored = bounds::attentionStored(dtype, dim);
  double units = bounds::attentionGradOnMatrixUnits(dtype);
  Rules rules;
  for (const char *name : {"dq", "dk", "dv"}) {
    bool value = name == std::string_view("dv");
    double terms = value ? 0 : bounds::attentionGradientTerms;
    rules.push_back(
        {name, with == ComparedWith::CpuTwin
                   ? meanSquare(units)
                   : elements(bound + (value ? 0 : stored), terms)});
  }
  return rules;
}

Rules qwen::outputRules(const LinearCrossEntropyArgs &args, const CheckPack &,
                        ComparedWith with) {
  DType dtype = args.x.dtype;
  if (with == ComparedWith::CpuTwin)
    return {
        {"nll", meanSquare(bounds::lossOnMatrixUnits(dtype, largestLogit))}};
  return {
      {"nll", elements(bounds::loss(dtype, args.x.dim(1), args.weight.dim(0)),
                       largestLogit)}};
}

Rules qwen::outputRules(const LinearCrossEntropyGradArgs &args,
                        const CheckPack &pack, ComparedWith with) {
  DType dtype = args.x.dtype;
  int64_t hidden = args.x.dim(1), classes = args.weight.dim(0);
  if (with == ComparedWith::CpuTwin) {
    double bound = bounds::lossGradOnMatrixUnits(dtype, largestLogit);
    return {{"nll", meanSquare(bounds::lossOnMatrixUnits(dtype, largestLogit))},
            {"dx", meanSquare(bound)},
            {"dweight", meanSquare(bound)}};
  }
  double bound = bounds::lossGrad(dtype, hidden, classes, pack.tokens);
  return {{"nll", elements(bounds::loss(dtype, hidden, classes), largestLogit)},
          {"dx", elements(bound)},
          {"dweight", elements(bound)}};
}

static std::string channels(const BufferType &x) {
  return fmt::format("{} channels", x.dim(1));
}
static std::string heads(int64_t first, int64_t second, int64_t dim) {
  return fmt::format("heads {}/{} of {}", first, second, dim);
}
std::string qwen::describeSizes(const CausalConv1dArgs &args) {
  return channels(args.x);
}
std::string qwen::describeSizes(const CausalConv1dGradArgs &args) {
  return channels(args.x);
}
std::string qwen::describeSizes(const GatedDeltaArgs &args) {
  return heads(args.q.dim(1), args.v.dim(1), args.v.dim(2));
}
std::string qwen::describeSizes(const GatedDeltaGradArgs &args) {
  return heads(args.q.dim(1), args.v.dim(1), args.v.dim(2));
}
std::string qwen::describeSizes(const AttentionArgs &args) {
  return heads(args.q.dim(1), args.k.dim(1), args.q.dim(2));
}
std::string qwen::describeSizes(const AttentionGradArgs &args) {
  return heads(args.q.dim(1), args.k.dim(1), args.q.dim(2));
}

static std::string classes(const BufferType &weight) {
  return fmt::format("width {}, {} classes", weight.dim(1), weight.dim(0));
}
std::string qwen::describeSizes(const LinearCrossEntropyArgs &args) {
  return classes(args.weight);
}
std::string qwen::describeSizes(const LinearCrossEntropyGradArgs &args) {
  return classes(args.weight);
}
