//===- BigramEngine.h - A model of a few lines for the trainer -*- C++ -*-===//
//
// Logits of the next token are a row of a table; its gradient and AdamW are
// written out. Stands in for a plan where the trainer's own rules are tested.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H
#define QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H

#include "runtime/trainer/Engine.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace qwen {

class BigramEngine final : public Engine {
public:
  BigramEngine(PackLimits packLimits, int64_t vocab)
      : size(packLimits), vocab(vocab), table(size_t(vocab * vocab)),
        grad(table.size()), m(table.size()), v(table.size()),
        ints(size_t(3 * size.tokens + size.documents + 1 + 2)),
        floats(size_t(2 * size.tokens + 1 + 8 + 4)) {
    int32_t *i = ints.data();
    for (Buffer *buffer : {&bound.tokens, &bound.labels, &bound.positions}) {
      *buffer = view(i, DType::I32, size.tokens);
      i += size.tokens;
    }
    bound.cuSeqlens = view(i, DType::I32, size.documents + 1);
    bound.rng = view(i + size.documents + 1, DType::I32, 2);
    float *f = floats.data();
    bound.microNll = view(f, DType::F32, size.tokens);
    bound.evalNll = view(f + size.tokens, DType::F32, size.tokens);
    f += 2 * size.tokens;
    bound.lossScale = view(f, DType::F32, 1);
    bound.hyper = view(f + 1, DType::F32, 8);
    bound.stats = view(f + 9, DType::F32, 4);
    int64_t n = int64_t(table.size());
    ParameterView parameter;
    parameter.name = "model.table";
    parameter.shape = {n};
    parameter.value = view(table.data(), DType::F32, n);
    parameter.moment1 = view(m.data(), DType::F32, n);
    parameter.moment2 = view(v.data(), DType::F32, n);
    views = {parameter};
    parts = {
        {true, ParameterInit::Normal, 0.02, view(grad.data(), DType::F32, n)}};
  }

  PackLimits limits() const override { return size; }
  int64_t vocabSize() const override { return vocab; }
  std::span<ParameterView> parameters() override { return views; }
  std::span<const ParameterRole> roles() const override { return parts; }
  const EngineBuffers &buffers() const override { return bound; }
  double trainingFlops(double tokens, double pairs) const override {
    return 6 * tokens + pairs;
  }

  void microStep() override {
    forward(bound.microNll.as<float>(), *bound.lossScale.as<float>());
    const int32_t *ids = bound.tokens.as<int32_t>();
    seen.push_back({ids, ids + size.tokens});
    if (int64_t(seen.size()) == poisonedMicroStep || poisonAll)
      bound.microNll.as<float>()[0] = grad[0] = std::nanf("");
    if (int64_t(seen.size()) == poisonedGradient)
      grad[1] = std::nanf("");
  }
  void evaluate() override { forward(bound.evalNll.as<float>(), 0); }

  void update() override {
    double sum = 0;
    for (float g : grad)
      sum += double(g) * double(g);
    const float *h = bound.hyper.as<float>();
    float *stats = bound.stats.as<float>();
    double norm = std::sqrt(sum);
    stats[0] = float(norm);
    stats[1] =
        h[5] > 0 ? float(std::min(1.0, double(h[5]) / (norm + 1e-6))) : 1.0f;
    stats[2] = std::isfinite(norm);
    for (size_t i = 0; stats[2] && i < table.size(); ++i) {
      float g = stats[1] * grad[i];
      table[i] *= 1 - h[0] * h[4];
      m[i] = (1 - h[1]) * m[i] + h[1] * g;
      v[i] = (1 - h[2]) * v[i] + h[2] * g * g;
      table[i] -=
          h[0] / h[6] * m[i] / (std::sqrt(v[i]) / std::sqrt(h[7]) + h[3]);
    }
    std::fill(grad.begin(), grad.end(), 0.0f);
    ++updates;
  }

  std::vector<std::vector<int32_t>> seen; ///< tokens of every micro-step
  int64_t updates = 0;
  int64_t poisonedMicroStep = -1; ///< its loss is NaN, counted from 1
  int64_t poisonedGradient = -1;
  bool poisonAll = false;
  PackLimits size;
  int64_t vocab;
  std::vector<float> table, grad, m, v;

private:
  static Buffer view(void *data, DType dtype, int64_t elements) {
    Buffer buffer;
    buffer.dtype = dtype;
    buffer.rank = 1;
    buffer.shape[0] = elements;
    buffer.strides[0] = 1;
    buffer.data = data;
    return buffer;
  }

  /// Losses into `nll`; gradients times `scale` are added where it is not 0.
  void forward(float *nll, float scale) {
    std::vector<double> p(static_cast<size_t>(vocab));
    for (int64_t t = 0; t < size.tokens; ++t) {
      int32_t label = bound.labels.as<int32_t>()[t];
      nll[t] = 0;
      if (label == -100)
        continue;
      size_t row = size_t(bound.tokens.as<int32_t>()[t] * vocab);
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j)
        sum += p[j] = std::exp(double(table[row + j]));
      nll[t] = float(-std::log(p[size_t(label)] / sum));
      for (size_t j = 0; j < p.size() && scale != 0; ++j)
        grad[row + j] +=
            scale * float(p[j] / sum - (int32_t(j) == label ? 1 : 0));
    }
  }

  std::vector<int32_t> ints;
  std::vector<float> floats;
  EngineBuffers bound;
  std::vector<ParameterView> views;
  std::vector<ParameterRole> parts;
};

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_BIGRAMENGINE_H
