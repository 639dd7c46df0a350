//===- CheckReport.cpp - Table of the self-check --------------------------===//

#include "runtime/selfcheck/CheckReport.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

using namespace qwen;

static const char *outcomeText(CheckRow::Outcome outcome) {
  switch (outcome) {
  case CheckRow::Outcome::Passed:
    return "ok";
  case CheckRow::Outcome::Missed:
    return "MISS";
  case CheckRow::Outcome::Skipped:
    return "skipped";
  }
  return "?";
}

std::string qwen::checkTable(const std::vector<CheckRow> &rows) {
  size_t check = 5, what = 4, bound = 5, found = 5;
  for (const CheckRow &row : rows) {
    check = std::max(check, row.check.size());
    what = std::max(what, row.what.size());
    bound = std::max(bound, row.bound.size());
    found = std::max(found, row.found.size());
  }
  auto line = [&](const auto &a, const auto &b, const auto &c, const auto &d,
                  const auto &e) {
    return fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {}\n", a, check, b,
                       what, c, bound, d, found, e);
  };
  std::string text = line("check", "what", "bound", "found", "ok");
  for (const CheckRow &row : rows)
    text += line(row.check, row.what, row.bound, row.found,
                 outcomeText(row.outcome));
  return text;
}

int64_t qwen::countMisses(const std::vector<CheckRow> &rows) {
  return std::ranges::count(rows, CheckRow::Outcome::Missed,
                            &CheckRow::outcome);
}

int64_t qwen::countCompared(const std::vector<CheckRow> &rows) {
  return int64_t(rows.size()) - std::ranges::count(rows,
                                                   CheckRow::Outcome::Skipped,
                                                   &CheckRow::outcome);
}
