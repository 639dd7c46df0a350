//===- TypeRules.cpp - Type rules of qwen ops -----------------------------===//
//
// Each rule states one op's shapes and dtypes once.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/TypeRules.h"
#include "dialects/Qwen/Qwen.h"

using namespace mlir;
using namespace qwen;

Type qwen::wideType(Type element) {
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

LogicalResult qwen::expectType(EmitError emit, StringRef name, Type found,
                               Type wanted) {
  if (found == wanted)
    return success();
  return emit() << name << " must be " << wanted << ", but is " << found;
}

LogicalResult qwen::expectRank(EmitError emit, StringRef name,
                               RankedTensorType type, int64_t rank,
                               StringRef shape) {
  if (type.getRank() == rank)
    return success();
  return emit() << name << " must have shape " << shape << ", but is " << type;
}

LogicalResult qwen::expectBoundaries(EmitError emit, RankedTensorType type) {
  if (failed(expectRank(emit, "cu_seqlens", type, 1, "[documents + 1]")))
    return failure();
  if (type.getDimSize(0) < 2)
    return emit() << "cu_seqlens must hold at least 2 boundaries, the begin "
                     "and end of one document, but is "
                  << type;
  return success();
}

LogicalResult qwen::expectDivisible(EmitError emit, StringRef name,
                                    int64_t count, StringRef groupsName,
                                    int64_t groups) {
  if (groups > 0 && count % groups == 0)
    return success();
  return emit() << name << " (" << count << ") must be a multiple of "
                << groupsName << " (" << groups << ")";
}

static Type i32(RankedTensorType any) {
  return IntegerType::get(any.getContext(), 32);
}

RankedTensorType qwen::linearType(EmitError emit, TensorTypes operands) {
  RankedTensorType x = operands[0], w = operands[1];
  if (failed(expectRank(emit, "x", x, 2, "[tokens, in]")) ||
      failed(expectRank(emit, "w", w, 2, "[out, in]")) ||
      failed(expectType(
          emit, "w", w,
          tensor({w.getDimSize(0), x.getDimSize(1)}, x.getElementType()))))
    return {};
  return tensor({x.getDimSize(0), w.getDimSize(0)}, x.getElementType());
}

RankedTensorType qwen::embeddingType(EmitError emit, TensorTypes operands) {
  RankedTensorType table = operands[0], ids = operands[1];
  if (failed(expectRank(emit, "table", table, 2, "[vocabulary, hidden]")) ||
      failed(expectRank(emit, "ids", ids, 1, "[tokens]")))
    return {};
  return tensor({ids.getDimSize(0), table.getDimSize(1)},
                table.getElementType());
}

RankedTensorType qwen::causalConv1dType(EmitError emit, TensorTypes operands) {
  RankedTensorType x = operands[0], w = operands[1];
  if (failed(expectRank(emit, "x", x, 2, "[tokens, channels]")) ||
      failed(expectRank(emit, "w", w, 3, "[channels, 1, width]")) ||
      failed(expectType(
          emit, "w", w,
          tensor({x.getDimSize(1), 1, w.getDimSize(2)}, x.getElementType()))) ||
      failed(expectBoundaries(emit, operands[2])))
    return {};
  return x;
}

RankedTensorType qwen::gatedDeltaType(EmitError emit, TensorTypes operands) {
  RankedTensorType q = operands[0], v = operands[2];
  Type element = q.getElementType();
  if (failed(expectRank(emit, "q", q, 3, "[tokens, key heads, key dim]")) ||
      failed(expectType(emit, "k", operands[1], q)) ||
      failed(expectRank(emit, "v", v, 3, "[tokens, value heads, value dim]")) ||
      failed(
          expectType(emit, "v", v,
                     tensor({q.getDimSize(0), v.getDimSize(1), v.getDimSize(2)},
                            element))) ||
      failed(expectDivisible(emit, "the value heads of v", v.getDimSize(1),
                             "the key heads of q", q.getDimSize(1))))
    return {};
  ArrayRef<int64_t> perHead = v.getShape().drop_back();
  if (failed(expectType(emit, "g", operands[3],
                        tensor(perHead, wideType(element)))) ||
      failed(expectType(emit, "beta", operands[4], tensor(perHead, element))) ||
      failed(expectBoundaries(emit, operands[5])))
    return {};
  return v;
}

RankedTensorType qwen::attentionType(EmitError emit, TensorTypes operands) {
  RankedTensorType q = operands[0], k = operands[1];
  if (failed(expectRank(emit, "q", q, 3, "[tokens, heads, head dim]")) ||
      failed(expectRank(emit, "k", k, 3, "[tokens, kv heads, head dim]")) ||
      failed(
          expectType(emit, "k", k,
                     tensor({q.getDimSize(0), k.getDimSize(1), q.getDimSize(2)},
                            q.getElementType()))) ||
      failed(expectType(emit, "v", operands[2], k)) ||
      failed(expectDivisible(emit, "the heads of q", q.getDimSize(1),
                             "the heads of k", k.getDimSize(1))) ||
      failed(expectBoundaries(emit, operands[3])))
    return {};
  return q;
}

RankedTensorType qwen::linearCrossEntropyType(EmitError emit,
                                              TensorTypes operands) {
  RankedTensorType x = operands[0], w = operands[1];
  if (failed(expectRank(emit, "x", x, 2, "[tokens, hidden]")) ||
      failed(expectRank(emit, "w", w, 2, "[vocabulary, hidden]")) ||
      failed(expectType(
          emit, "w", w,
          tensor({w.getDimSize(0), x.getDimSize(1)}, x.getElementType()))) ||
      failed(expectType(emit, "labels", operands[2],
                        tensor({x.getDimSize(0)}, i32(x)))))
    return {};
  return tensor({x.getDimSize(0)}, wideType(x.getElementType()));
}
