//===- RankFiles.cpp - What RankTrainer leaves for a test -----------------===//

#include "RankFiles.h"

#include "qwen/Support/BFloat16.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/support/File.h"
#include "runtime/support/Json.h"
#include "runtime/support/Publish.h"

#include <cstring>
#include <numeric>

using namespace qwen;
using namespace qwen::ranktest;

/// Widens the elements.
static void append(const ConstBuffer &piece, std::vector<float> &values) {
  for (int64_t i = 0; i < piece.elements(); ++i)
    values.push_back(piece.dtype == DType::BF16
                         ? toFloat(piece.as<BFloat16>()[i])
                         : piece.as<float>()[i]);
}

StatusOr<Slice> ranktest::sliceOf(const ParameterView &view) {
  Slice slice;
  slice.name = view.name;
  slice.elements = std::accumulate(view.shape.begin(), view.shape.end(),
                                   int64_t(1), std::multiplies<>());
  slice.rows = view.shape.size() > 1 ? view.shape.front() : 1;
  slice.first = view.firstElement;
  const Buffer &live = view.master.data ? view.master : view.value;
  QWEN_RETURN_IF_ERROR(
      Staging(*view.memory).read(live, [&](int64_t, const ConstBuffer &piece) {
        append(piece, slice.values);
        return okStatus();
      }));
  return slice;
}

/// Floats go through double, which JSON keeps to the bit.
static Json toJson(const std::vector<Slice> &slices) {
  Json list = Json::array();
  for (const Slice &slice : slices)
    list.push_back({{"name", slice.name},
                    {"elements", slice.elements},
                    {"rows", slice.rows},
                    {"first", slice.first},
                    {"values", slice.values}});
  return list;
}

Status ranktest::writeSlices(const std::string &path,
                             const std::vector<Slice> &before,
                             const std::vector<Slice> &after) {
  Json json = {{"before", toJson(before)}, {"after", toJson(after)}};
  return publishFile(path, json.dump());
}

StatusOr<std::vector<Slice>> ranktest::readSlices(const std::string &path,
                                                  std::string_view when) {
  QWEN_ASSIGN_OR_RETURN(std::string text, readTextFile(path));
  QWEN_ASSIGN_OR_RETURN(Json json, parseJsonObject(text, path));
  std::vector<Slice> slices;
  for (const Json &entry : json[std::string(when)])
    slices.push_back({entry["name"], entry["elements"], entry["rows"],
                      entry["first"], entry["values"]});
  return slices;
}

Status ranktest::writeSteps(const std::string &path,
                            const std::vector<Step> &steps) {
  std::string text(reinterpret_cast<const char *>(steps.data()),
                   steps.size() * sizeof(Step));
  return publishFile(path, text);
}

StatusOr<std::vector<Step>> ranktest::readSteps(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(std::string text, readTextFile(path));
  std::vector<Step> steps(text.size() / sizeof(Step));
  std::memcpy(steps.data(), text.data(), steps.size() * sizeof(Step));
  return steps;
}
