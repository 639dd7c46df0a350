//===- KernelChecksRegions.cpp - Rules of the document kernels --*- C++ -*-===//
//
// What convolution, gated delta and attention accept, forward and backward.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelChecks.h"

#include "CheckHelpers.h"

#include <cmath>

using namespace qwen;

/// Scratch is sized by products of head dimensions; up to this one no such
/// product of dimensions that a view can have leaves 64 bits.
static constexpr int64_t maxHeadDim = 4096;

static void checkHeadDim(OperandRules &rules, std::string_view name,
                         const BufferType &type) {
  rules.require(!rules.ok() || type.dim(2) <= maxHeadDim,
                "operand '{}': expected a head dimension of at most {}, found "
                "{}",
                name, maxHeadDim, toString(type));
}

/// Shared by causal_conv1d and its gradient.
template <typename Args>
static void checkConvOperands(OperandRules &rules, const Args &args) {
  rules.operand("x", args.x, 2, {DType::F32, DType::BF16, DType::F64});
  rules.operand("weight", args.weight, 3, {args.x.dtype}, Layout::Contiguous);
  checkBoundaries(rules, args.cuSeqlens);
  rules.dim("weight", args.weight, 0, args.x.dim(1), "channels of 'x'");
  rules.dim("weight", args.weight, 1, 1, "depthwise");
  rules.require(args.weight.dim(2) <= 8,
                "operand 'weight': expected 1 to 8 taps, found {}",
                toString(args.weight));
}

Status qwen::checkKernel(const CausalConv1dArgs &args) {
  OperandRules rules(CausalConv1dArgs::kernelName);
  checkConvOperands(rules, args);
  rules.operand("y", args.y, 2, {args.x.dtype});
  rules.sameShape("y", args.y, "x", args.x);
  return rules.result();
}

Status qwen::checkKernel(const CausalConv1dGradArgs &args) {
  OperandRules rules(CausalConv1dGradArgs::kernelName);
  checkConvOperands(rules, args);
  rules.operand("dy", args.dy, 2, {args.x.dtype});
  rules.operand("dx", args.dx, 2, {args.x.dtype});
  rules.operand("dweight", args.dweight, 3, {wideOf(args.x.dtype)},
                Layout::Contiguous);
  rules.sameShape("dy", args.dy, "x", args.x);
  rules.sameShape("dx", args.dx, "x", args.x);
  rules.sameShape("dweight", args.dweight, "weight", args.weight);
  return rules.result();
}

/// Shared by gated_delta and its gradient.
template <typename Args>
static void checkGatedDeltaOperands(OperandRules &rules, const Args &args) {
  DType dtype = args.q.dtype;
  rules.operand("q", args.q, 3, {DType::F32, DType::BF16, DType::F64});
  rules.operand("k", args.k, 3, {dtype});
  rules.operand("v", args.v, 3, {dtype});
  rules.operand("g", args.g, 2, {wideOf(dtype)});
  rules.operand("beta", args.beta, 2, {dtype});
  checkBoundaries(rules, args.cuSeqlens);
  rules.sameShape("k", args.k, "q", args.q);
  rules.dim("v", args.v, 0, args.q.dim(0), "tokens of 'q'");
  checkHeadDim(rules, "q", args.q);
  checkHeadDim(rules, "v", args.v);
  rules.require(!rules.ok() || args.v.dim(1) % args.q.dim(1) == 0,
                "expected value heads to be a multiple of key heads, found {} "
                "and {}",
                args.v.dim(1), args.q.dim(1));
  for (auto [name, type] :
       {std::pair<const char *, const BufferType *>{"g", &args.g},
        {"beta", &args.beta}}) {
    rules.dim(name, *type, 0, args.v.dim(0), "tokens of 'v'");
    rules.dim(name, *type, 1, args.v.dim(1), "value heads of 'v'");
  }
  rules.require(args.chunk >= 16 && args.chunk <= 128 &&
                    (args.chunk & (args.chunk - 1)) == 0,
                "expected chunk to be a power of two in [16, 128], found {}",
                args.chunk);
  rules.require(args.l2normEps > 0 && std::isfinite(args.l2normEps),
                "expected a positive l2norm_eps, found {}", args.l2normEps);
  rules.require(std::isfinite(args.scale), "expected a finite scale, found {}",
                args.scale);
}

Status qwen::checkKernel(const GatedDeltaArgs &args) {
  OperandRules rules(GatedDeltaArgs::kernelName);
  checkGatedDeltaOperands(rules, args);
  rules.operand("o", args.o, 3, {args.q.dtype});
  rules.sameShape("o", args.o, "v", args.v);
  return rules.result();
}

Status qwen::checkKernel(const GatedDeltaGradArgs &args) {
  OperandRules rules(GatedDeltaGradArgs::kernelName);
  checkGatedDeltaOperands(rules, args);
  DType dtype = args.q.dtype;
  rules.operand("dout", args.dout, 3, {dtype});
  rules.operand("dq", args.dq, 3, {dtype});
  rules.operand("dk", args.dk, 3, {dtype});
  rules.operand("dv", args.dv, 3, {dtype});
  rules.operand("dg", args.dg, 2, {wideOf(dtype)});
  rules.operand("dbeta", args.dbeta, 2, {dtype});
  rules.sameShape("dout", args.dout, "v", args.v);
  rules.sameShape("dq", args.dq, "q", args.q);
  rules.sameShape("dk", args.dk, "k", args.k);
  rules.sameShape("dv", args.dv, "v", args.v);
  rules.sameShape("dg", args.dg, "g", args.g);
  rules.sameShape("dbeta", args.dbeta, "beta", args.beta);
  return rules.result();
}

/// Shared by attention and its gradient.
template <typename Args>
static void checkAttentionOperands(OperandRules &rules, const Args &args) {
  DType dtype = args.q.dtype;
  rules.operand("q", args.q, 3, {DType::F32, DType::BF16, DType::F64});
  rules.operand("k", args.k, 3, {dtype});
  rules.operand("v", args.v, 3, {dtype});
  rules.operand("o", args.o, 3, {dtype});
  rules.operand("lse", args.lse, 2, {wideOf(dtype)});
  checkBoundaries(rules, args.cuSeqlens);
  rules.dim("k", args.k, 0, args.q.dim(0), "tokens of 'q'");
  rules.dim("k", args.k, 2, args.q.dim(2), "head dimension of 'q'");
  rules.sameShape("v", args.v, "k", args.k);
  checkHeadDim(rules, "q", args.q);
  rules.sameShape("o", args.o, "q", args.q);
  rules.dim("lse", args.lse, 0, args.q.dim(0), "tokens of 'q'");
  rules.dim("lse", args.lse, 1, args.q.dim(1), "heads of 'q'");
  rules.require(!rules.ok() || args.q.dim(1) % args.k.dim(1) == 0,
                "expected query heads to be a multiple of key heads, found {} "
                "and {}",
                args.q.dim(1), args.k.dim(1));
  rules.require(std::isfinite(args.scale), "expected a finite scale, found {}",
                args.scale);
}

Status qwen::checkKernel(const AttentionArgs &args) {
  OperandRules rules(AttentionArgs::kernelName);
  checkAttentionOperands(rules, args);
  return rules.result();
}

Status qwen::checkKernel(const AttentionGradArgs &args) {
  OperandRules rules(AttentionGradArgs::kernelName);
  checkAttentionOperands(rules, args);
  DType dtype = args.q.dtype;
  rules.operand("dout", args.dout, 3, {dtype});
  rules.operand("dq", args.dq, 3, {dtype});
  rules.operand("dk", args.dk, 3, {dtype});
  rules.operand("dv", args.dv, 3, {dtype});
  rules.sameShape("dout", args.dout, "q", args.q);
  rules.sameShape("dq", args.dq, "q", args.q);
  rules.sameShape("dk", args.dk, "k", args.k);
  rules.sameShape("dv", args.dv, "v", args.v);
  return rules.result();
}
