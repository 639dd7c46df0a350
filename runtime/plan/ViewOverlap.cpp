//===- ViewOverlap.cpp - Do two strided views share a byte? ---------------===//
//
// Compares the views level by level: with a common outer stride that holds the
// inner part of both, only the places inside one period matter.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/ViewOverlap.h"

#include <algorithm>
#include <vector>

using namespace qwen;

namespace {

/// A dimension in bytes.
struct Dim {
  int64_t size, stride;
};

/// Dimensions of more than one element, the largest stride first, ending with
/// the element's bytes; dimensions that continue each other are merged.
std::vector<Dim> canonical(const BufferType &type) {
  int64_t element = dtypeBytes(type.dtype);
  std::vector<Dim> dims;
  for (int i = 0; i < type.rank; ++i)
    if (type.shape[i] > 1 && type.strides[i] > 0)
      dims.push_back({type.shape[i], type.strides[i] * element});
  std::stable_sort(dims.begin(), dims.end(), [](const Dim &a, const Dim &b) {
    return a.stride > b.stride;
  });
  dims.push_back({element, 1});
  for (size_t i = dims.size() - 1; i > 0; --i)
    if (dims[i - 1].stride == dims[i].size * dims[i].stride) {
      dims[i].size *= dims[i - 1].size;
      dims.erase(dims.begin() + (i - 1));
    }
  return dims;
}

/// Bytes from the first to one past the last of dims[from..].
int64_t extent(const std::vector<Dim> &dims, size_t from) {
  int64_t last = 0;
  for (size_t i = from; i < dims.size(); ++i)
    last += (dims[i].size - 1) * dims[i].stride;
  return last + 1;
}

bool disjoint(const std::vector<Dim> &a, size_t ai, int64_t aOffset,
              const std::vector<Dim> &b, size_t bi, int64_t bOffset) {
  if (aOffset + extent(a, ai) <= bOffset || bOffset + extent(b, bi) <= aOffset)
    return true;
  // Descend on the larger stride; the other view stays whole where it does not
  // have that dimension but fits into one period.
  int64_t period = std::max(a[ai].stride, b[bi].stride);
  if (period == 1)
    return false;
  size_t aNext = a[ai].stride == period ? ai + 1 : ai;
  size_t bNext = b[bi].stride == period ? bi + 1 : bi;
  int64_t aPlace = aOffset % period, bPlace = bOffset % period;
  if (aPlace + extent(a, aNext) > period || bPlace + extent(b, bNext) > period)
    return false;
  return disjoint(a, aNext, aPlace, b, bNext, bPlace);
}

} // namespace

bool qwen::provenDisjoint(const BufferType &a, int64_t aOffset,
                          const BufferType &b, int64_t bOffset) {
  return disjoint(canonical(a), 0, aOffset, canonical(b), 0, bOffset);
}
