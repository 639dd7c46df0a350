//===- StructuredOps.cpp - Products, row-wise ops and moves in double -----===//

#include "TensorOps.h"

#include "dialects/Qwen/Qwen.h"

#include <cmath>

using namespace mlir;

namespace qwen::gradcheck {

static Tensor resultTensor(Value value) {
  return Tensor(cast<RankedTensorType>(value.getType()).getShape().vec());
}

static Tensor matmul(const Tensor &a, const Tensor &b, bool ta, bool tb) {
  int64_t rows = a.dim(ta ? 1 : 0), inner = a.dim(ta ? 0 : 1);
  int64_t columns = b.dim(tb ? 0 : 1);
  Tensor c({rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t k = 0; k < inner; ++k)
        c.at(i, j) +=
            (ta ? a.at(k, i) : a.at(i, k)) * (tb ? b.at(j, k) : b.at(k, j));
  return c;
}

static Tensor rmsNorm(RmsNormOp op, const Tensor &x, const Tensor &w) {
  Tensor y(x.shape);
  int64_t n = x.lastDim();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double squares = 0.0;
    for (int64_t i = 0; i < n; ++i)
      squares += x.at(row * n + i) * x.at(row * n + i);
    double r = 1.0 / std::sqrt(squares / n + op.getEps().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      y.at(row * n + i) =
          x.at(row * n + i) * r * (op.getOffset().convertToDouble() + w.at(i));
  }
  return y;
}

/// For each element of the larger tensor, the flat index of the element of the
/// smaller one, which has only the dimensions `dims` of `shape`.
static std::vector<int64_t> projection(const std::vector<int64_t> &shape,
                                       ArrayRef<int64_t> dims) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < Tensor::count(shape); ++i) {
    std::vector<int64_t> index(shape.size());
    int64_t rest = i;
    for (int64_t d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    int64_t flat = 0;
    for (int64_t d : dims)
      flat = flat * shape[d] + index[d];
    result.push_back(flat);
  }
  return result;
}

static Tensor broadcast(BroadcastOp op, const Tensor &x) {
  Tensor y = resultTensor(op.getY());
  std::vector<int64_t> from = projection(y.shape, op.getDims());
  for (int64_t i = 0; i < y.size(); ++i)
    y.at(i) = x.at(from[i]);
  return y;
}

static Tensor reduceSum(ReduceSumOp op, const Tensor &x) {
  Tensor y = resultTensor(op.getY());
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(op.getDims(), d))
      kept.push_back(d);
  std::vector<int64_t> to = projection(x.shape, kept);
  for (int64_t i = 0; i < x.size(); ++i)
    y.at(to[i]) += x.at(i);
  return y;
}

static Tensor ropeAngles(RopeAnglesOp op, const Tensor &positions) {
  Tensor angles = resultTensor(op.getAngles());
  int64_t half = angles.lastDim() / 2;
  for (int64_t t = 0; t < angles.dim(0); ++t) {
    for (int64_t j = 0; j < half; ++j) {
      double frequency = std::pow(op.getTheta().convertToDouble(),
                                  -static_cast<double>(j) / half);
      angles.at(t, j) = std::cos(positions.at(t) * frequency);
      angles.at(t, half + j) = std::sin(positions.at(t) * frequency);
    }
  }
  return angles;
}

static Tensor rope(RopeOp op, const Tensor &x, const Tensor &angles) {
  Tensor y = x;
  int64_t half = angles.lastDim() / 2;
  double sign = op.getInverse() ? -1.0 : 1.0;
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      for (int64_t j = 0; j < half; ++j) {
        double c = angles.at(t, j), s = sign * angles.at(t, half + j);
        y.at(t, h, j) = x.at(t, h, j) * c - x.at(t, h, j + half) * s;
        y.at(t, h, j + half) = x.at(t, h, j + half) * c + x.at(t, h, j) * s;
      }
    }
  }
  return y;
}

static std::vector<Tensor> split(SplitOp op, const Tensor &x) {
  std::vector<Tensor> pieces;
  int64_t offset = 0;
  for (Value value : op.getPieces()) {
    Tensor piece = resultTensor(value);
    int64_t n = piece.lastDim();
    for (int64_t i = 0; i < piece.size(); ++i)
      piece.at(i) = x.at(i / n * x.lastDim() + offset + i % n);
    offset += n;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

static Tensor concat(ConcatOp op, const std::vector<Tensor> &pieces) {
  Tensor y = resultTensor(op.getY());
  int64_t offset = 0;
  for (const Tensor &piece : pieces) {
    int64_t n = piece.lastDim();
    for (int64_t i = 0; i < piece.size(); ++i)
      y.at(i / n * y.lastDim() + offset + i % n) = piece.at(i);
    offset += n;
  }
  return y;
}

static Tensor embedding(EmbeddingOp op, const Tensor &table,
                        const Tensor &ids) {
  Tensor y = resultTensor(op.getY());
  for (int64_t t = 0; t < y.dim(0); ++t)
    for (int64_t i = 0; i < y.dim(1); ++i)
      y.at(t, i) = table.at(static_cast<int64_t>(ids.at(t)), i);
  return y;
}

std::optional<std::vector<Tensor>>
evaluateStructured(Operation *op, const std::vector<Tensor> &in) {
  using Results = std::vector<Tensor>;
  if (isa<LinearOp>(op))
    return Results{matmul(in[0], in[1], false, true)};
  if (auto product = dyn_cast<MatmulOp>(op))
    return Results{
        matmul(in[0], in[1], product.getTransposeA(), product.getTransposeB())};
  if (auto norm = dyn_cast<RmsNormOp>(op))
    return Results{rmsNorm(norm, in[0], in[1])};
  if (auto repeat = dyn_cast<BroadcastOp>(op))
    return Results{broadcast(repeat, in[0])};
  if (auto sum = dyn_cast<ReduceSumOp>(op))
    return Results{reduceSum(sum, in[0])};
  if (auto angles = dyn_cast<RopeAnglesOp>(op))
    return Results{ropeAngles(angles, in[0])};
  if (auto rotation = dyn_cast<RopeOp>(op))
    return Results{rope(rotation, in[0], in[1])};
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    Tensor y = resultTensor(reshape.getY());
    y.values = in[0].values;
    return Results{y};
  }
  if (auto pieces = dyn_cast<SplitOp>(op))
    return split(pieces, in[0]);
  if (auto join = dyn_cast<ConcatOp>(op))
    return Results{concat(join, in)};
  if (auto rows = dyn_cast<EmbeddingOp>(op))
    return Results{embedding(rows, in[0], in[1])};
  return std::nullopt;
}

} // namespace qwen::gradcheck
