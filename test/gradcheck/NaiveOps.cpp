//===- NaiveOps.cpp - Region ops by their definitions ---------------------===//

#include "NaiveOps.h"

#include <algorithm>
#include <cmath>

namespace qwen::gradcheck {

/// Calls f(begin, end) for each document.
template <typename F> static void forEachDocument(const Tensor &cu, F &&f) {
  for (int64_t d = 0; d + 1 < cu.size(); ++d)
    f(static_cast<int64_t>(cu.at(d)), static_cast<int64_t>(cu.at(d + 1)));
}

Tensor causalConv1d(const Tensor &x, const Tensor &w, const Tensor &cuSeqlens) {
  Tensor y(x.shape);
  int64_t width = w.dim(2);
  forEachDocument(cuSeqlens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < x.dim(1); ++c) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; ++i)
          if (t - width + 1 + i >= begin)
            sum += w.at(c, 0, i) * x.at(t - width + 1 + i, c);
        y.at(t, c) = sum / (1.0 + std::exp(-sum));
      }
    }
  });
  return y;
}

/// x[t, h, :] rsqrt(sum of squares + eps).
static std::vector<double> l2norm(const Tensor &x, int64_t t, int64_t h,
                                  double eps) {
  std::vector<double> row(x.dim(2));
  double squares = eps;
  for (int64_t i = 0; i < x.dim(2); ++i)
    squares += x.at(t, h, i) * x.at(t, h, i);
  for (int64_t i = 0; i < x.dim(2); ++i)
    row[i] = x.at(t, h, i) / std::sqrt(squares);
  return row;
}

Tensor gatedDelta(const Tensor &q, const Tensor &k, const Tensor &v,
                  const Tensor &g, const Tensor &beta, const Tensor &cuSeqlens,
                  double scale, double l2normEps) {
  int64_t keyDim = q.dim(2), heads = v.dim(1), valueDim = v.dim(2);
  int64_t group = heads / q.dim(1);
  Tensor o(v.shape);
  forEachDocument(cuSeqlens, [&](int64_t begin, int64_t end) {
    for (int64_t h = 0; h < heads; ++h) {
      Tensor state({keyDim, valueDim});
      for (int64_t t = begin; t < end; ++t) {
        std::vector<double> qn = l2norm(q, t, h / group, l2normEps);
        std::vector<double> kn = l2norm(k, t, h / group, l2normEps);
        for (double &s : state.values)
          s *= std::exp(g.at(t, h));
        for (int64_t j = 0; j < valueDim; ++j) {
          double predicted = 0.0;
          for (int64_t i = 0; i < keyDim; ++i)
            predicted += state.at(i, j) * kn[i];
          double delta = beta.at(t, h) * (v.at(t, h, j) - predicted);
          double out = 0.0;
          for (int64_t i = 0; i < keyDim; ++i) {
            state.at(i, j) += kn[i] * delta;
            out += state.at(i, j) * qn[i];
          }
          o.at(t, h, j) = scale * out;
        }
      }
    }
  });
  return o;
}

AttentionResult attention(const Tensor &q, const Tensor &k, const Tensor &v,
                          const Tensor &cuSeqlens, double scale) {
  AttentionResult result{Tensor(q.shape), Tensor({q.dim(0), q.dim(1)})};
  int64_t group = q.dim(1) / k.dim(1), dims = q.dim(2);
  forEachDocument(cuSeqlens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < q.dim(1); ++h) {
        std::vector<double> scores;
        for (int64_t s = begin; s <= t; ++s) {
          double score = 0.0;
          for (int64_t i = 0; i < dims; ++i)
            score += q.at(t, h, i) * k.at(s, h / group, i);
          scores.push_back(scale * score);
        }
        double largest = *std::max_element(scores.begin(), scores.end());
        double sum = 0.0;
        for (double score : scores)
          sum += std::exp(score - largest);
        result.lse.at(t, h) = largest + std::log(sum);
        for (int64_t s = begin; s <= t; ++s)
          for (int64_t i = 0; i < dims; ++i)
            result.o.at(t, h, i) += std::exp(scores[s - begin] - largest) /
                                    sum * v.at(s, h / group, i);
      }
    }
  });
  return result;
}

Tensor linearCrossEntropy(const Tensor &x, const Tensor &w,
                          const Tensor &labels, int64_t ignoreIndex) {
  Tensor nll({x.dim(0)});
  for (int64_t t = 0; t < x.dim(0); ++t) {
    auto label = static_cast<int64_t>(labels.at(t));
    if (label == ignoreIndex)
      continue;
    std::vector<double> logits(w.dim(0), 0.0);
    for (int64_t n = 0; n < w.dim(0); ++n)
      for (int64_t i = 0; i < x.dim(1); ++i)
        logits[n] += x.at(t, i) * w.at(n, i);
    double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (double logit : logits)
      sum += std::exp(logit - largest);
    nll.at(t) = largest + std::log(sum) - logits[label];
  }
  return nll;
}

} // namespace qwen::gradcheck
