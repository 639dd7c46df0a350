//===- GemmTuning.cpp - Algorithms of products, measured -------*- C++ -*-===//

#include "GemmTuning.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

using namespace qwen;
using namespace qwen::cuda;

namespace {

/// Words of one line of a table.
class Line {
public:
  explicit Line(std::string_view text) : rest(text) {}

  /// The next word, or "".
  std::string_view word() {
    size_t begin = rest.find_first_not_of(" \t\r");
    if (begin == rest.npos)
      return rest = {};
    size_t end = rest.find_first_of(" \t\r", begin);
    std::string_view found = rest.substr(begin, end - begin);
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
    return found;
  }
  template <typename T> bool number(T &value) { return parse(word(), value); }
  template <typename T> static bool parse(std::string_view text, T &value) {
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }

private:
  std::string_view rest;
};

} // namespace

/// "8192x5120x17408".
static bool parseSizes(std::string_view text, GemmShape &shape) {
  for (int64_t *size : {&shape.m, &shape.n, &shape.k}) {
    size_t end = size == &shape.k ? text.size() : text.find('x');
    if (end == text.npos || !Line::parse(text.substr(0, end), *size) ||
        *size < 1)
      return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

static bool parseDType(std::string_view text, DType &dtype) {
  for (DType known : {DType::F32, DType::BF16})
    if (text == dtypeName(known)) {
      dtype = known;
      return true;
    }
  return false;
}

/// Reads what toString(GemmShape) writes.
static bool parseShape(Line &line, GemmShape &shape) {
  if (!parseSizes(line.word(), shape))
    return false;
  std::string_view transposes = line.word();
  if (transposes.size() != 2 ||
      transposes.find_first_not_of("nt") != transposes.npos)
    return false;
  shape.transposeA = transposes[0] == 't';
  shape.transposeB = transposes[1] == 't';
  if (!parseDType(line.word(), shape.operands) ||
      !parseDType(line.word(), shape.result))
    return false;
  std::string_view sum = line.word();
  shape.adds = sum == "add:";
  return sum == "add:" || sum == "set:";
}

/// The reason why the numbers are no entry, or "".
static std::string parseEntry(Line &line, TunedGemm &entry) {
  std::string_view word = line.word();
  if (word == "first") {
    word = line.word();
  } else {
    for (; !word.empty() && word != "="; word = line.word()) {
      int64_t number;
      if (!Line::parse(word, number))
        return fmt::format("expected a number of an algorithm, found '{}'",
                           word);
      entry.algorithm.push_back(number);
    }
    if (entry.algorithm.empty() || !isGemmAlgorithm(entry.algorithm))
      return fmt::format("expected 'first' or {} numbers ({}) from 0 to 2^32 - "
                         "1, found {}",
                         gemmAlgorithmFields.size(),
                         fmt::join(gemmAlgorithmFields, ", "),
                         entry.algorithm.size());
  }
  if (word != "=" || !line.number(entry.tflops) ||
      !line.number(entry.firstTflops) || !line.word().empty())
    return "expected '=', TFLOP/s of the best and of the first algorithm at "
           "the end";
  return {};
}

StatusOr<TuningTable> qwen::cuda::parseTuningTable(std::string_view text,
                                                   std::string_view where) {
  TuningTable table;
  for (int number = 1; !text.empty(); ++number) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Line line(content);
    std::string_view first = Line(content).word();
    if (first.empty() || first[0] == '#')
      continue;
    GemmShape shape;
    TunedGemm entry;
    if (!parseShape(line, shape))
      return dataLoss("{}:{}: expected a product like '8192x5120x17408 nt bf16 "
                      "bf16 set:', found '{}'",
                      where, number, content.substr(0, 80));
    if (std::string reason = parseEntry(line, entry); !reason.empty())
      return dataLoss("{}:{}: {}", where, number, reason);
    if (!table.emplace(shape, std::move(entry)).second)
      return dataLoss("{}:{}: a second line for {}", where, number,
                      toString(shape));
  }
  return table;
}

std::string qwen::cuda::formatTuningTable(const TuningTable &table) {
  std::string text;
  for (const auto &[shape, entry] : table)
    text +=
        fmt::format("{}: {} = {:.1f} {:.1f}\n", toString(shape),
                    entry.algorithm.empty()
                        ? "first"
                        : fmt::format("{}", fmt::join(entry.algorithm, " ")),
                    entry.tflops, entry.firstTflops);
  return text;
}
