//===- GatedDeltaGrad.cpp - Gradients of the gated delta rule --*- C++ -*-===//
//
// kernel.gated_delta_grad. A piece of work is one key head of one document: for
// each of its value heads in order, a forward sweep keeps the state before each
// chunk, then a backward sweep carries the gradient of the state. In the
// notation of GatedDeltaChunkOps.h, with dS the gradient after the chunk:
//
//   dvd  = z (k dS) + P^T do,  P = scale (q k^T) * D
//   x    = (I + L)^-T dvd,  dv = beta x
//   dP   = do vd^T,  N = -beta (x vd^T) * D below the diagonal
//   dq   = scale a (do S^T) + (scale dP * D) k
//   dk   = z (vd dS^T) - a (dv S^T) + (scale dP * D)^T q + (N + N^T) k
//   dS  <- a_C dS - k^T (a dv) + q^T (scale a do)
//
// A gate's gradient is the sum over the pairs (i, j) whose decay holds it,
// taken as such sums and not as differences of row and column sums.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaChunkOps.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

namespace {

/// The backward sweep of one head over one document.
template <typename S> class GradSweep {
public:
  using T = Wide<S>;
  using Ops = GatedDeltaChunkOps<S, GatedDeltaGradArgs>;

  GradSweep(const GatedDeltaGradArgs &args,
            const GatedDeltaGradScratch<T> &scratch,
            const GatedDeltaGradSlot<T> &slot, int64_t begin, int64_t end)
      : args(args), scratch(scratch), s(slot), ops(args, slot.chunk),
        c(slot.chunk), kp(ops.kp), vp(ops.vp), size(ops.size), begin(begin),
        end(end), chunks(ceilDiv(end - begin, args.chunk)),
        groups(args.v.dim(1) / args.q.dim(1)) {}

  void run(int64_t keyHead) {
    for (int64_t group = 0; group < groups; ++group) {
      int64_t valueHead = keyHead * groups + group;
      for (int64_t i = 0; i + 1 < chunks; ++i) {
        ChunkRange range = rangeOf(i, keyHead, valueHead);
        ops.load(range);
        ops.solve(range.rows, stateBefore(i));
        ops.advance(range.rows, stateBefore(i), states(i + 1));
      }
      for (int64_t i = chunks - 1; i >= 0; --i)
        chunkGradients(i, rangeOf(i, keyHead, valueHead), group);
    }
  }

private:
  ChunkRange rangeOf(int64_t chunk, int64_t keyHead, int64_t valueHead) const {
    int64_t token = begin + chunk * args.chunk;
    return {token, std::min(args.chunk, end - token), keyHead, valueHead};
  }
  T *states(int64_t chunk) const { return s.states + chunk * kp * vp; }
  /// Null for the zero state of the first chunk.
  const T *stateBefore(int64_t chunk) const {
    return chunk == 0 ? nullptr : states(chunk);
  }

  void chunkGradients(int64_t chunk, const ChunkRange &range, int64_t group) {
    const T *state = stateBefore(chunk);
    bool isLast = chunk + 1 == chunks;
    ops.load(range);
    ops.solve(range.rows, state);
    ops.attend(range.rows);
    for (int64_t i = 0; i < range.rows; ++i)
      loadRow(s.dout + i * vp,
              headRow<S>(args.dout, range.token + i, range.valueHead),
              ops.valueDim, vp);
    valueGradients(range.rows, isLast);
    pairGradients(range.rows);
    std::fill(s.dg, s.dg + range.rows, T(0));
    queryGradients(range.rows, state);
    keyGradients(range.rows, state, isLast);
    addPairsToGates(range.rows);
    if (state && !isLast) {
      T whole =
          c.fromStart[range.rows - 1] * dot(state, s.dstate, ops.keyDim * vp);
      for (int64_t i = 0; i < range.rows; ++i)
        s.dg[i] += whole;
    }
    if (state)
      retreat(range.rows, isLast);
    writeHead(range);
    writeKeyHead(range, group);
  }

  /// dvd, x, dv, and the part of dbeta outside the unit system.
  void valueGradients(int64_t rows, bool isLast) {
    if (!isLast) {
      blockProduct<T>(rows, vp, ops.keyDim,
                      {c.k, kp, 1, s.dstate, vp, s.x, vp});
      scaleRows(s.x, c.toEnd, rows, vp);
    }
    blockProduct<T>(rows, vp, rows,
                    {c.tokenByToken, 1, size, s.dout, vp, s.x, vp},
                    isLast ? Update::Set : Update::Add);
    ops.solveLowerTransposed(rows, s.x);
    for (int64_t i = 0; i < rows; ++i) {
      s.dbeta[i] = dot(s.x + i * vp, c.raw + i * vp, vp);
      for (int64_t j = i * vp; j < (i + 1) * vp; ++j) {
        s.dv[j] = c.beta[i] * s.x[j];
        // The gradient of k S.
        s.dvd[j] = -c.fromStart[i] * s.dv[j];
      }
    }
  }

  /// dqk, dkk, the pair sums of the gates, and the rest of dbeta.
  void pairGradients(int64_t rows) {
    std::fill(c.vd + rows * vp, c.vd + size * vp, T(0));
    transpose(s.vdt, size, c.vd, vp, size, vp);
    blockProduct<T>(rows, size, ops.valueDim,
                    {s.dout, vp, 1, s.vdt, size, s.dqk, size});
    blockProduct<T>(rows, size, ops.valueDim,
                    {s.x, vp, 1, s.vdt, size, s.dkk, size});
    for (int64_t i = 0; i < rows; ++i) {
      T *dqk = s.dqk + i * size, *dkk = s.dkk + i * size;
      T *pairs = s.pairs + i * size;
      const T *decay = c.decay + i * size, *kk = c.kk + i * size;
      const T *attended = c.tokenByToken + i * size;
      for (int64_t j = 0; j < size; ++j) {
        T system = j < i ? -dkk[j] * decay[j] : T(0);
        pairs[j] = system * kk[j];
        dkk[j] = c.beta[i] * system;
      }
      s.dbeta[i] += sum(pairs, size);
      for (int64_t j = 0; j < size; ++j) {
        pairs[j] = c.beta[i] * pairs[j] + dqk[j] * attended[j];
        dqk[j] = ops.scale * dqk[j] * decay[j];
      }
    }
  }

  void queryGradients(int64_t rows, const T *state) {
    if (state) {
      transpose(s.transposed, kp, state, vp, ops.keyDim, vp);
      blockProduct<T>(rows, kp, ops.valueDim,
                      {s.dout, vp, 1, s.transposed, kp, s.dq, kp});
      zeroPadding(s.dq, rows);
      T later = 0;
      for (int64_t i = rows - 1; i >= 0; --i) {
        for (int64_t j = i * kp; j < (i + 1) * kp; ++j)
          s.dq[j] *= ops.scale * c.fromStart[i];
        later += dot(c.q + i * kp, s.dq + i * kp, kp);
        s.dg[i] += later;
      }
    }
    blockProduct<T>(rows, kp, rows, {s.dqk, size, 1, c.k, kp, s.dq, kp},
                    state ? Update::Add : Update::Set);
  }

  /// Needs the transposed state of queryGradients.
  void keyGradients(int64_t rows, const T *state, bool isLast) {
    // (scale dP * D)^T q, N k and N^T k.
    blockProduct<T>(rows, kp, rows, {s.dqk, 1, size, c.q, kp, s.dk, kp});
    blockProduct<T>(rows, kp, rows, {s.dkk, size, 1, c.k, kp, s.dk, kp},
                    Update::Add);
    blockProduct<T>(rows, kp, rows, {s.dkk, 1, size, c.k, kp, s.dk, kp},
                    Update::Add);
    if (state) {
      blockProduct<T>(rows, kp, ops.valueDim,
                      {s.dvd, vp, 1, s.transposed, kp, s.part, kp});
      zeroPadding(s.part, rows);
      T later = 0;
      for (int64_t i = rows - 1; i >= 0; --i) {
        later += dot(c.k + i * kp, s.part + i * kp, kp);
        s.dg[i] += later;
      }
      addPart(rows);
    }
    if (!isLast) {
      transpose(s.transposed, kp, s.dstate, vp, ops.keyDim, vp);
      blockProduct<T>(rows, kp, ops.valueDim,
                      {c.vd, vp, 1, s.transposed, kp, s.part, kp});
      zeroPadding(s.part, rows);
      scaleRows(s.part, c.toEnd, rows, kp);
      T earlier = 0;
      for (int64_t i = 0; i < rows; ++i) {
        s.dg[i] += earlier;
        earlier += dot(c.k + i * kp, s.part + i * kp, kp);
      }
      addPart(rows);
    }
  }

  void addPart(int64_t rows) {
    for (int64_t i = 0; i < rows * kp; ++i)
      s.dk[i] += s.part[i];
  }

  /// Columns behind the key dimension hold what a transposition left there.
  void zeroPadding(T *x, int64_t rows) const {
    for (int64_t i = 0; i < rows; ++i)
      std::fill(x + i * kp + ops.keyDim, x + (i + 1) * kp, T(0));
  }

  static void scaleRows(T *x, const T *factors, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i * width; j < (i + 1) * width; ++j)
        x[j] *= factors[i];
  }

  /// dg_t += sum of pairs (i, j) with j < t <= i.
  void addPairsToGates(int64_t rows) {
    T below[128] = {};
    for (int64_t t = rows - 1; t > 0; --t) {
      T all = 0;
      for (int64_t j = 0; j < size; ++j)
        below[j] += s.pairs[t * size + j];
      for (int64_t j = 0; j < t; ++j)
        all += below[j];
      s.dg[t] += all;
    }
  }

  /// The gradient of the state before the chunk.
  void retreat(int64_t rows, bool isLast) {
    T total = c.fromStart[rows - 1];
    if (!isLast)
      for (int64_t i = 0; i < ops.keyDim * vp; ++i)
        s.dstate[i] *= total;
    blockProduct<T>(ops.keyDim, vp, rows, {c.k, 1, kp, s.dvd, vp, s.dstate, vp},
                    isLast ? Update::Set : Update::Add);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i * vp; j < (i + 1) * vp; ++j)
        s.dout[j] *= ops.scale * c.fromStart[i];
    blockProduct<T>(ops.keyDim, vp, rows,
                    {c.q, 1, kp, s.dout, vp, s.dstate, vp}, Update::Add);
  }

  void writeHead(const ChunkRange &range) {
    for (int64_t i = 0; i < range.rows; ++i) {
      int64_t t = range.token + i;
      storeRow(headRow<S>(args.dv, t, range.valueHead), s.dv + i * vp,
               ops.valueDim);
      *headRow<T>(args.dg, t, range.valueHead) = s.dg[i];
      *headRow<S>(args.dbeta, t, range.valueHead) = narrow<S>(s.dbeta[i]);
    }
  }

  /// Sums over the value heads of the key head in their order; the last one
  /// goes through the normalisation and is written.
  void writeKeyHead(const ChunkRange &range, int64_t group) {
    if (groups > 1) {
      addToGroup(scratch.dq, s.dq, range, group);
      addToGroup(scratch.dk, s.dk, range, group);
    }
    if (group + 1 < groups)
      return;
    writeNormalised(args.dq, s.dq, c.q, c.qScale, range);
    writeNormalised(args.dk, s.dk, c.k, c.kScale, range);
  }

  void addToGroup(T *sums, T *rows, const ChunkRange &range, int64_t group) {
    for (int64_t i = 0; i < range.rows; ++i) {
      T *to = sums + ((range.token + i) * args.q.dim(1) + range.keyHead) * kp;
      T *row = rows + i * kp;
      for (int64_t j = 0; j < kp; ++j) {
        to[j] = group == 0 ? row[j] : to[j] + row[j];
        row[j] = to[j];
      }
    }
  }

  /// Through y = x / norm: dx = (dy - y (y dy)) / norm.
  void writeNormalised(const Buffer &out, T *dy, const T *y, const T *scales,
                       const ChunkRange &range) {
    for (int64_t i = 0; i < range.rows; ++i) {
      T *row = dy + i * kp;
      T along = dot(y + i * kp, row, kp);
      for (int64_t j = 0; j < kp; ++j)
        row[j] = scales[i] * (row[j] - y[i * kp + j] * along);
      storeRow(headRow<S>(out, range.token + i, range.keyHead), row,
               ops.keyDim);
    }
  }

  const GatedDeltaGradArgs &args;
  const GatedDeltaGradScratch<T> &scratch;
  const GatedDeltaGradSlot<T> &s;
  Ops ops;
  const GatedDeltaChunk<T> &c;
  const int64_t kp, vp, size, begin, end, chunks, groups;
};

} // namespace

template <typename S>
static void run(const GatedDeltaGradArgs &args, const LaunchContext &context) {
  GatedDeltaDims dims(args);
  Carver carver(context.workspace.data());
  GatedDeltaGradScratch<Wide<S>> scratch(carver, dims);
  Documents documents(args.cuSeqlens, dims.tokens);
  int64_t items = listDocuments(documents, scratch.items) * dims.keyHeads;
  parallelFor(items, scratch.slots.count(), [&](int64_t i, int64_t slotIndex) {
    int64_t document = scratch.items[i / dims.keyHeads].document;
    GatedDeltaGradSlot<Wide<S>> slot = scratch.slots.get(slotIndex, dims);
    GradSweep<S> sweep(args, scratch, slot, documents.begin(document),
                       documents.end(document));
    sweep.run(i % dims.keyHeads);
  });
  for (const Buffer *out :
       {&args.dq, &args.dk, &args.dv, &args.dg, &args.dbeta})
    zeroTokensFrom(*out, documents.total());
}

void qwen::cpu::launch(const GatedDeltaGradArgs &args,
                       const LaunchContext &context) {
  withStorage(args.q.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
