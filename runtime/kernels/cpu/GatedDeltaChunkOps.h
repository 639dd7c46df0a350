//===- GatedDeltaChunkOps.h - One chunk of the gated delta rule -*- C++ -*-===//
//
// Algebra that the forward and the backward kernel share. With the state S
// before the chunk, decay D_ij = exp(g_j+1 + .. + g_i) for i >= j, a_i the
// decay from the chunk's start and z_i the decay to its end:
//
//   raw   = v - a (k S)
//   (I + L) vd = beta raw,   L_ij = beta_i (k_i k_j) D_ij for i > j
//   o     = scale (a (q S) + (q k^T * D) vd)
//   S'    = a_C S + k^T (z vd)
//
// Every exponent is a sum of gates, which are <= 0, formed without
// cancellation: a gate of -1e4 does not cost the digits of the gates after it.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_GATEDDELTACHUNKOPS_H
#define QWEN_RUNTIME_KERNELS_CPU_GATEDDELTACHUNKOPS_H

#include "BlockProduct.h"
#include "Documents.h"
#include "HeadRow.h"
#include "Storage.h"
#include "Transpose.h"
#include "VectorMath.h"

#include <cmath>

namespace qwen::cpu {

/// The rows of one chunk that a worker looks at.
struct ChunkRange {
  int64_t token; ///< first token in the pack
  int64_t rows;  ///< tokens of the chunk, at most `chunk`
  int64_t keyHead, valueHead;
};

/// Works on the pieces of `c`; S is the storage type.
template <typename S, typename Args> class GatedDeltaChunkOps {
public:
  using T = Wide<S>;

  GatedDeltaChunkOps(const Args &args, const GatedDeltaChunk<T> &chunk)
      : args(args), c(chunk), keyDim(args.q.dim(2)), valueDim(args.v.dim(2)),
        kp(padded(keyDim)), vp(padded(valueDim)), size(args.chunk),
        scale(static_cast<T>(args.scale)) {}

  /// Loads q, k, v, gates; forms norms, decays, k k^T and the unit system.
  void load(const ChunkRange &range) {
    int64_t rows = range.rows;
    loadNormalised(args.q, range, c.q, c.qScale);
    loadNormalised(args.k, range, c.k, c.kScale);
    transpose(c.kt, size, c.k, kp, size, kp);
    for (int64_t i = 0; i < rows; ++i) {
      int64_t t = range.token + i;
      loadRow(c.v + i * vp, headRow<S>(args.v, t, range.valueHead), valueDim,
              vp);
      c.g[i] = *headRow<T>(args.g, t, range.valueHead);
      c.beta[i] = widen(*headRow<S>(args.beta, t, range.valueHead));
    }
    formDecays(rows);
    blockProduct<T>(rows, size, keyDim, {c.k, kp, 1, c.kt, size, c.kk, size});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < size; ++j)
        c.lower[i * size + j] =
            j < i ? c.beta[i] * c.kk[i * size + j] * c.decay[i * size + j]
                  : T(0);
  }

  /// raw and vd from the state before the chunk; null is the zero state.
  void solve(int64_t rows, const T *state) {
    if (state)
      blockProduct<T>(rows, vp, keyDim,
                      {c.k, kp, 1, state, vp, c.tokenByValue, vp});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i * vp; j < (i + 1) * vp; ++j) {
        c.raw[j] = state ? c.v[j] - c.fromStart[i] * c.tokenByValue[j] : c.v[j];
        c.vd[j] = c.beta[i] * c.raw[j];
      }
    solveLower(rows, c.vd);
  }

  /// x <- (I + L)^-1 x for x [rows, V].
  void solveLower(int64_t rows, T *x) const {
    for (int64_t first = 0; first < rows; first += solveBlock) {
      int64_t last = std::min(rows, first + solveBlock);
      if (first > 0)
        blockProduct<T>(
            last - first, vp, first,
            {c.lower + first * size, size, 1, x, vp, x + first * vp, vp},
            Update::Subtract);
      for (int64_t i = first + 1; i < last; ++i)
        for (int64_t j = first; j < i; ++j)
          subtractRow(x + i * vp, c.lower[i * size + j], x + j * vp);
    }
  }

  /// x <- (I + L)^-T x for x [rows, V].
  void solveLowerTransposed(int64_t rows, T *x) const {
    for (int64_t first = (rows - 1) / solveBlock * solveBlock; first >= 0;
         first -= solveBlock) {
      int64_t last = std::min(rows, first + solveBlock);
      if (last < rows)
        blockProduct<T>(last - first, vp, rows - last,
                        {c.lower + last * size + first, 1, size, x + last * vp,
                         vp, x + first * vp, vp},
                        Update::Subtract);
      for (int64_t i = last - 2; i >= first; --i)
        for (int64_t j = i + 1; j < last; ++j)
          subtractRow(x + i * vp, c.lower[j * size + i], x + j * vp);
    }
  }

  /// tokenByToken = scale (q k^T) * D; qk keeps q k^T.
  void attend(int64_t rows) {
    blockProduct<T>(rows, size, keyDim, {c.q, kp, 1, c.kt, size, c.qk, size});
    for (int64_t i = 0; i < rows * size; ++i)
      c.tokenByToken[i] = scale * c.qk[i] * c.decay[i];
  }

  /// next = a_C state + k^T (z vd); null is the zero state. `next` may be
  /// `state`.
  void advance(int64_t rows, const T *state, T *next) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i * vp; j < (i + 1) * vp; ++j)
        c.tokenByValue[j] = c.toEnd[i] * c.vd[j];
    T total = c.fromStart[rows - 1];
    if (state)
      for (int64_t i = 0; i < keyDim * vp; ++i)
        next[i] = total * state[i];
    blockProduct<T>(keyDim, vp, rows,
                    {c.k, 1, kp, c.tokenByValue, vp, next, vp},
                    state ? Update::Add : Update::Set);
  }

private:
  static constexpr int64_t solveBlock = 16;

  void subtractRow(T *x, T factor, const T *y) const {
    for (int64_t i = 0; i < vp; ++i)
      x[i] -= factor * y[i];
  }

  /// Rows behind the chunk's end are zeros, as columns of kt they are read.
  void loadNormalised(const ConstBuffer &from, const ChunkRange &range, T *to,
                      T *scales) {
    for (int64_t i = 0; i < range.rows; ++i) {
      T *row = to + i * kp;
      loadRow(row, headRow<S>(from, range.token + i, range.keyHead), keyDim,
              kp);
      scales[i] =
          1 / std::sqrt(dot(row, row, kp) + static_cast<T>(args.l2normEps));
      for (int64_t j = 0; j < kp; ++j)
        row[j] *= scales[i];
    }
    std::fill(to + range.rows * kp, to + size * kp, T(0));
  }

  void formDecays(int64_t rows) {
    std::fill(c.decay, c.decay + rows * size, T(0));
    T prefix = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; i > 0 && j < i; ++j)
        c.decay[i * size + j] = c.decay[(i - 1) * size + j] + c.g[i];
      prefix += c.g[i];
      c.fromStart[i] = exponential(prefix);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < size; ++j)
        c.decay[i * size + j] =
            j <= i ? exponential(c.decay[i * size + j]) : T(0);
    for (int64_t i = 0; i < rows; ++i)
      c.toEnd[i] = c.decay[(rows - 1) * size + i];
  }

  const Args &args;

public:
  const GatedDeltaChunk<T> &c;
  const int64_t keyDim, valueDim, kp, vp, size;
  const T scale;
};

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_GATEDDELTACHUNKOPS_H
