//===- SampleShapes.h - Operators for the self-check's tests ---*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_SAMPLESHAPES_H
#define QWEN_TEST_UNIT_RUNTIME_SAMPLESHAPES_H

#include "runtime/selfcheck/HostTensor.h"
#include "runtime/selfcheck/OperatorChecks.h"

#include <vector>

namespace qwen {

template <typename B = ConstBuffer>
B typed(DType dtype, std::vector<int64_t> shape) {
  return {contiguousType(dtype, shape), nullptr};
}

/// What a model's operators depend on.
struct SampleSizes {
  int64_t keyHeads, valueHeads, keyDim, valueDim; ///< gated delta rule
  int64_t queryHeads, attentionKeyHeads, headDim;
  int64_t channels; ///< of the convolution
  int64_t hidden, classes;
  int64_t slots; ///< of cu_seqlens
  double scale, attentionScale, eps;
};

/// Operators whose activations are `dtype`; the numbers of tokens and slots are
/// replaced by those of the checks.
inline OperatorShapes sampleShapes(DType dtype, const SampleSizes &s) {
  constexpr int64_t T = 64;
  using Shape = std::vector<int64_t>;
  auto in = [&](Shape shape) { return typed(dtype, shape); };
  auto out = [&](Shape shape) { return typed<Buffer>(dtype, shape); };
  auto wide = [&](Shape shape) { return typed<Buffer>(DType::F32, shape); };
  ConstBuffer cu = typed(DType::I32, {s.slots});
  OperatorShapes shapes;
  Shape key = {T, s.keyHeads, s.keyDim}, value = {T, s.valueHeads, s.valueDim},
        gate = {T, s.valueHeads};
  shapes.gatedDelta =
      GatedDeltaArgs{in(key), in(key),    in(value), wide(gate), in(gate),
                     cu,      out(value), s.scale,   s.eps,      64};
  shapes.gatedDeltaGrad = GatedDeltaGradArgs{
      in(key),    in(key),   in(value), wide(gate), in(gate),
      in(value),  cu,        out(key),  out(key),   out(value),
      wide(gate), out(gate), s.scale,   s.eps,      64};
  Shape query = {T, s.queryHeads, s.headDim},
        keys = {T, s.attentionKeyHeads, s.headDim}, lse = {T, s.queryHeads};
  shapes.attention = AttentionArgs{in(query),  in(keys),  in(keys),        cu,
                                   out(query), wide(lse), s.attentionScale};
  shapes.attentionGrad = AttentionGradArgs{
      in(query), in(keys),   in(keys),  in(query), wide(lse),       in(query),
      cu,        out(query), out(keys), out(keys), s.attentionScale};
  Shape rows = {T, s.channels}, taps = {s.channels, 1, 4};
  shapes.conv = CausalConv1dArgs{in(rows), in(taps), cu, out(rows)};
  shapes.convGrad = CausalConv1dGradArgs{in(rows),  in(taps),   in(rows), cu,
                                         out(rows), wide(taps), false};
  Shape hidden = {T, s.hidden}, classes = {s.classes, s.hidden}, tokens = {T};
  ConstBuffer labels = typed(DType::I32, tokens);
  shapes.loss = LinearCrossEntropyArgs{in(hidden),   in(classes), labels,
                                       wide(tokens), -100,        {}};
  shapes.lossGrad = LinearCrossEntropyGradArgs{in(hidden),
                                               in(classes),
                                               labels,
                                               wide(tokens),
                                               wide(tokens),
                                               out(hidden),
                                               wide(classes),
                                               -100,
                                               false,
                                               {},
                                               {},
                                               {}};
  return shapes;
}

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_SAMPLESHAPES_H
