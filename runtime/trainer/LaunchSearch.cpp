//===- LaunchSearch.cpp - The first launch that goes wrong ----------------===//

#include "runtime/trainer/LaunchSearch.h"

#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/profile/LaunchFacts.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <limits>

using namespace qwen;

/// `count` elements of `view` from element offset `begin` of its memory on.
static ConstBuffer piece(const ConstBuffer &view, int64_t begin,
                         int64_t count) {
  return {contiguousType(view.dtype, {count}),
          view.as<std::byte>() + begin * dtypeBytes(view.dtype)};
}

namespace {
/// Visits a view row by row: the index of a row's first element, and where it
/// lies.
class Rows {
public:
  explicit Rows(const ConstBuffer &view) : view(view) {
    bool isDense = view.rank > 0 && view.hasUnitInnerStride();
    outer = isDense ? view.rank - 1 : view.rank;
    length = isDense ? view.shape[size_t(outer)] : 1;
  }
  int64_t rowLength() const { return length; }
  const std::array<int64_t, maxRank> &index() const { return at; }
  int64_t offset() const {
    int64_t sum = 0;
    for (int i = 0; i < outer; ++i)
      sum += at[size_t(i)] * view.strides[size_t(i)];
    return sum;
  }
  /// False behind the last row.
  bool next() {
    for (int i = outer; i-- > 0;) {
      if (++at[size_t(i)] < view.shape[size_t(i)])
        return true;
      at[size_t(i)] = 0;
    }
    return false;
  }

private:
  const ConstBuffer &view;
  int outer = 0;
  int64_t length = 0;
  std::array<int64_t, maxRank> at{};
};
} // namespace

/// Adds what a row has.
static Status countRow(Staging &staging, const ConstBuffer &row,
                       const std::array<int64_t, maxRank> &index, int rank,
                       NonFiniteElements &found) {
  std::vector<double> values;
  return staging.read(row, [&](int64_t first, const ConstBuffer &part) {
    int64_t count = part.elements();
    values.resize(size_t(count));
    Buffer wide{contiguousType(DType::F64, {count}), values.data()};
    loadElements(fileDTypeOf(part.dtype),
                 {part.as<std::byte>(), size_t(part.bytes())}, wide);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite(values[size_t(i)]) || found.count++ > 0)
        continue;
      found.first = index;
      if (rank > 0)
        found.first[size_t(rank - 1)] += first + i;
      found.value = values[size_t(i)];
    }
    return okStatus();
  });
}

StatusOr<NonFiniteElements> qwen::countNonFinite(DeviceMemory &memory,
                                                 const ConstBuffer &view) {
  NonFiniteElements found;
  if (view.dtype == DType::I32 || view.elements() == 0)
    return found;
  Staging staging(memory);
  // Nearly always nothing is found in all of the memory that the view spans.
  QWEN_ASSIGN_OR_RETURN(int64_t any,
                        staging.firstNonFinite(piece(view, 0, view.extent())));
  if (any < 0)
    return found;
  Rows rows(view);
  do
    QWEN_RETURN_IF_ERROR(countRow(staging,
                                  piece(view, rows.offset(), rows.rowLength()),
                                  rows.index(), view.rank, found));
  while (rows.next());
  return found;
}

/// "y has 3 of 4096 elements that are not finite, the first at [3, 17]: nan".
static std::string describe(const std::string &name, const BufferType &type,
                            const NonFiniteElements &found) {
  return fmt::format(
      "'{}' ({}) has {} of {} elements that are not finite, the "
      "first at [{}]: {}",
      name, toString(type), found.count, type.elements(),
      fmt::join(std::span(found.first).first(size_t(type.rank)), ", "),
      found.value);
}

namespace {
/// The search on this rank.
class LaunchSearch {
public:
  LaunchSearch(Executor &executor, int program)
      : executor(executor), program(program),
        launches(launchFacts(executor.plan(), program)) {}

  Status run();
  /// Number of the launch found; a number behind the last one where none is.
  int64_t launch() const { return found; }
  std::string text() const;
  /// The first parameter that a launch reads and that is not finite, of those
  /// that this rank holds; empty where there is none.
  StatusOr<std::string> badParameter(int64_t launch);

private:
  Status look(int64_t launch);
  bool reads(const LaunchFacts &launch, const Buffer &parameter) const;

  Executor &executor;
  int program;
  std::vector<LaunchFacts> launches;
  int64_t found = std::numeric_limits<int64_t>::max();
  std::string output; ///< what the launch wrote
};
} // namespace

/// Name of an operand; of one of several in a list, with its place there.
static std::string nameOf(const LaunchFacts &launch, size_t index) {
  const std::string &name = launch.operands[index].name;
  auto begin = launch.operands.begin();
  auto isNamesake = [&](const LaunchOperand &each) {
    return each.name == name;
  };
  auto before = std::count_if(begin, begin + int64_t(index), isNamesake);
  auto all = std::count_if(begin, launch.operands.end(), isNamesake);
  return all > 1 ? fmt::format("{}[{}]", name, before) : name;
}

Status LaunchSearch::look(int64_t launch) {
  // The others may still need this rank to the end.
  if (!output.empty())
    return okStatus();
  const LaunchFacts &facts = launches[size_t(launch)];
  for (size_t i = 0; i < facts.operands.size(); ++i) {
    if (!facts.operands[i].writes)
      continue;
    Buffer buffer = executor.operand(facts.operands[i].view);
    QWEN_ASSIGN_OR_RETURN(NonFiniteElements elements,
                          countNonFinite(executor.memory(), buffer));
    if (elements.count == 0)
      continue;
    found = launch;
    output = describe(nameOf(facts, i), buffer, elements);
    return okStatus();
  }
  return okStatus();
}

Status LaunchSearch::run() {
  return executor.runObserved(program, int64_t(launches.size()),
                              [this](int64_t launch) { return look(launch); });
}

std::string LaunchSearch::text() const {
  const LaunchFacts &launch = launches[size_t(found)];
  std::string kernel = launch.kernel;
  if (!launch.symbol.empty())
    kernel += fmt::format(" {}", printable(launch.symbol));
  if (!launch.label.empty())
    kernel += fmt::format(" of {}", printable(launch.label));
  return fmt::format("launch {} of '{}' ({}): output {}", found,
                     executor.plan().programs()[size_t(program)].name, kernel,
                     output);
}

bool LaunchSearch::reads(const LaunchFacts &launch,
                         const Buffer &parameter) const {
  auto *begin = parameter.as<std::byte>();
  return std::any_of(launch.operands.begin(), launch.operands.end(),
                     [&](const LaunchOperand &operand) {
                       Buffer buffer = executor.operand(operand.view);
                       auto *first = buffer.as<std::byte>();
                       return operand.reads &&
                              begin < first + buffer.extent() *
                                                  dtypeBytes(buffer.dtype) &&
                              first < begin + parameter.bytes();
                     });
}

StatusOr<std::string> LaunchSearch::badParameter(int64_t launch) {
  auto parameters = executor.plan().parameters();
  for (int i = 0; i < int(parameters.size()); ++i) {
    Buffer value = executor.parameter(i);
    if (value.elements() == 0 || !reads(launches[size_t(launch)], value))
      continue;
    Staging staging(executor.memory());
    QWEN_ASSIGN_OR_RETURN(int64_t at, staging.firstNonFinite(value));
    if (at >= 0)
      return fmt::format("; it reads parameter '{}', which is not finite at "
                         "element {}",
                         printable(parameters[size_t(i)].name),
                         executor.firstElement(i) + at);
  }
  return std::string();
}

StatusOr<NonFiniteFinding> qwen::findNonFiniteLaunch(Executor &executor,
                                                     int program) {
  Communicator &ranks = executor.ranks();
  LaunchSearch search(executor, program);
  // Where it fails, the others may wait for this rank: no agreement.
  QWEN_RETURN_IF_ERROR(search.run());
  int64_t mine = search.launch();
  std::vector<int64_t> all(static_cast<size_t>(ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(&mine, all.data(), sizeof(mine)));
  auto first = std::min_element(all.begin(), all.end());
  NonFiniteFinding finding;
  if (*first == std::numeric_limits<int64_t>::max())
    return finding;
  finding.rank = int(first - all.begin());
  bool isMine = finding.rank == ranks.rank();
  QWEN_ASSIGN_OR_RETURN(finding.text,
                        ranks.firstText(isMine ? search.text() : ""));
  // A parameter's part may lie on any rank.
  auto parameter = search.badParameter(*first);
  QWEN_RETURN_IF_ERROR(ranks.agree(parameter.status()));
  QWEN_ASSIGN_OR_RETURN(std::string text, ranks.firstText(*parameter));
  finding.text += text;
  return finding;
}
