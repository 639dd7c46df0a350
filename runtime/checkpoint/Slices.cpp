//===- Slices.cpp - Parts of tensors that ranks hold ----------------------===//

#include "runtime/checkpoint/Slices.h"

#include <functional>
#include <numeric>

using namespace qwen;

namespace {
/// What a rank holds of a parameter.
struct Slice {
  int64_t first = 0, elements = 0;
};
} // namespace

static Status checkParameter(const ParameterView &parameter,
                             std::span<const Slice> slices, size_t stride) {
  int64_t total =
      std::accumulate(parameter.shape.begin(), parameter.shape.end(),
                      int64_t(1), std::multiplies<>());
  int64_t reached = 0;
  for (size_t i = 0; i < slices.size(); i += stride) {
    if (slices[i].elements == 0)
      continue;
    if (slices[i].first != reached)
      return makeError(StatusCode::Internal,
                       "rank {} holds '{}' from element {} on, expected {}",
                       i / stride, parameter.name, slices[i].first, reached);
    reached += slices[i].elements;
  }
  if (reached != total)
    return makeError(StatusCode::Internal,
                     "the ranks hold {} elements of '{}', it has {}", reached,
                     parameter.name, total);
  return okStatus();
}

Status qwen::checkSlices(std::span<const ParameterView> parameters,
                         Communicator &ranks) {
  if (parameters.empty())
    return okStatus();
  std::vector<Slice> mine;
  for (const ParameterView &parameter : parameters)
    mine.push_back({parameter.firstElement, parameter.value.elements()});
  std::vector<Slice> all(mine.size() * static_cast<size_t>(ranks.size()));
  auto bytes = static_cast<int64_t>(mine.size() * sizeof(Slice));
  QWEN_RETURN_IF_ERROR(ranks.allGather(mine.data(), all.data(), bytes));
  for (size_t i = 0; i < mine.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        checkParameter(parameters[i], std::span(all).subspan(i), mine.size()));
  return okStatus();
}

std::span<const std::byte> qwen::storedSlice(const StoredTensor &tensor,
                                             const ParameterView &parameter) {
  auto size = static_cast<size_t>(fileDTypeBytes(tensor.dtype));
  if (parameter.value.elements() == 0)
    return tensor.data.first(0);
  return tensor.data.subspan(static_cast<size_t>(parameter.firstElement) * size,
                             static_cast<size_t>(parameter.value.elements()) *
                                 size);
}
