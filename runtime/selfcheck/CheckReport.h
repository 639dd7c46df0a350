//===- CheckReport.h - Results of the self-check ---------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_SELFCHECK_CHECKREPORT_H
#define QWEN_RUNTIME_SELFCHECK_CHECKREPORT_H

#include <string>
#include <vector>

namespace qwen {

/// One line of the table.
struct CheckRow {
  enum class Outcome { Passed, Missed, Skipped };
  std::string check; ///< "gated_delta_grad dk"
  std::string what;  ///< what was compared, or why nothing was
  std::string bound, found;
  Outcome outcome = Outcome::Missed;
};

/// A row that holds where `passed`.
inline CheckRow checkRow(std::string check, std::string what, std::string bound,
                         std::string found, bool passed) {
  return {std::move(check), std::move(what), std::move(bound), std::move(found),
          passed ? CheckRow::Outcome::Passed : CheckRow::Outcome::Missed};
}

/// A row that does not apply.
inline CheckRow skippedRow(std::string check, std::string reason) {
  return {std::move(check), std::move(reason), "-", "-",
          CheckRow::Outcome::Skipped};
}

/// The rows under a heading, several lines.
std::string checkTable(const std::vector<CheckRow> &rows);

/// Rows that were missed.
int64_t countMisses(const std::vector<CheckRow> &rows);
/// Rows that compared something.
int64_t countCompared(const std::vector<CheckRow> &rows);

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_CHECKREPORT_H
