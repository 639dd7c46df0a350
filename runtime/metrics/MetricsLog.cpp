//===- MetricsLog.cpp - Metrics of a run on disk --------------------------===//

#include "runtime/metrics/MetricsLog.h"

#include "runtime/support/Json.h"
#include "runtime/support/Publish.h"

#include <cmath>
#include <vector>

using namespace qwen;

/// The lines of `text` that belong to steps up to `completedStep`.
static std::string keepLines(std::string_view text, int64_t completedStep) {
  std::string kept;
  while (true) {
    size_t end = text.find('\n');
    if (end == text.npos)
      return kept;
    std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    auto json = parseJsonObject(line, "line");
    if (!json.ok() || !json->contains("step"))
      continue;
    auto step = jsonCount((*json)["step"]);
    if (step && *step <= completedStep)
      kept += line;
  }
}

StatusOr<MetricsLog> MetricsLog::open(const std::string &directory,
                                      int64_t completedStep) {
  std::string path = directory + "/metrics.jsonl";
  std::string kept;
  if (completedStep > 0) {
    auto old = readTextFile(path);
    if (old.ok())
      kept = keepLines(*old, completedStep);
    else if (old.status().code() != StatusCode::NotFound)
      return old.status();
  }
  QWEN_RETURN_IF_ERROR(publishFile(path, kept));
  QWEN_ASSIGN_OR_RETURN(OutputFile lines, OutputFile::append(path));
  QWEN_ASSIGN_OR_RETURN(
      EventWriter events,
      EventWriter::create(directory + "/tensorboard", completedStep + 1));
  return MetricsLog(std::move(lines), std::move(events));
}

Status MetricsLog::write(int64_t step, std::string_view group,
                         std::span<const Scalar> scalars) {
  std::string line = fmt::format(R"({{"step": {}, "group": "{}")", step, group);
  std::vector<Scalar> tagged;
  for (auto &[name, value] : scalars) {
    line += std::isfinite(value)
                ? fmt::format(", {}: {}", jsonString(name), value)
                : fmt::format(", {}: null", jsonString(name));
    tagged.emplace_back(fmt::format("{}/{}", group, name), value);
  }
  QWEN_RETURN_IF_ERROR(lines.write(line + "}\n"));
  return events.write(step, tagged);
}
