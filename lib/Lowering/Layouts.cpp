//===- Layouts.cpp - Where the elements of a view lie ---------------------===//

#include "Layouts.h"

#include "mlir/IR/BuiltinAttributes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace qwen;

MemRefType qwen::contiguousType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
}

SmallVector<int64_t> qwen::stridesOf(MemRefType type) {
  return type.getStridesAndOffset().first;
}

MemRefType qwen::stridedType(ArrayRef<int64_t> shape, Type element,
                             ArrayRef<int64_t> strides) {
  MemRefType contiguous = MemRefType::get(shape, element);
  // The stride of a dimension of size 1 says nothing.
  SmallVector<int64_t> rowMajor = stridesOf(contiguous);
  bool isContiguous = true;
  for (auto [size, stride, expected] :
       llvm::zip_equal(shape, strides, rowMajor))
    isContiguous &= size == 1 || stride == expected;
  if (isContiguous)
    return contiguous;
  return MemRefType::get(
      shape, element,
      StridedLayoutAttr::get(element.getContext(), /*offset=*/0, strides));
}

/// Dimensions that lie end to end count as one: (elements, stride) of each such
/// run, innermost first.
static SmallVector<std::pair<int64_t, int64_t>> findRuns(MemRefType type) {
  SmallVector<int64_t> strides = stridesOf(type);
  SmallVector<std::pair<int64_t, int64_t>> runs;
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    int64_t size = type.getDimSize(i);
    if (size == 1)
      continue;
    if (!runs.empty() && strides[i] == runs.back().first * runs.back().second)
      runs.back().first *= size;
    else
      runs.emplace_back(size, strides[i]);
  }
  return runs;
}

std::optional<MemRefType> qwen::reshapedType(MemRefType source,
                                             ArrayRef<int64_t> shape) {
  SmallVector<std::pair<int64_t, int64_t>> runs = findRuns(source);
  SmallVector<int64_t> strides(shape.size(), 1);
  size_t run = 0;
  int64_t covered = 1, next = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] == 1) {
      strides[i] = next;
      continue;
    }
    if (run == runs.size() || runs[run].first % (covered * shape[i]) != 0)
      return std::nullopt;
    strides[i] = runs[run].second * covered;
    next = strides[i] * shape[i];
    covered *= shape[i];
    if (covered == runs[run].first) {
      ++run;
      covered = 1;
    }
  }
  return stridedType(shape, source.getElementType(), strides);
}
