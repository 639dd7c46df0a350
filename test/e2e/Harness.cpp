//===- Harness.cpp - From a config to a plan in this process --------------===//

#include "Harness.h"

#include <sys/wait.h>

#include <cstdio>
#include <map>

using namespace qwen;
using namespace qwen::e2e;

std::string qwen::e2e::sourcePath(const std::string &path) {
  return std::string(QWEN_SOURCE_FOLDER) + "/" + path;
}

static std::string shellWord(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Runs a command line; an exit code other than 0 is an error with everything
/// it printed.
static Status runTool(const std::string &commandLine) {
  FILE *pipe = ::popen((commandLine + " 2>&1").c_str(), "r");
  if (!pipe)
    return makeError(StatusCode::IoError, "cannot start: {}", commandLine);
  std::string printed;
  char part[4096];
  while (size_t count = std::fread(part, 1, sizeof(part), pipe))
    printed.append(part, count);
  int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return okStatus();
  return makeError(StatusCode::Internal, "status {} from: {}\n{}", status,
                   commandLine, printed);
}

static StatusOr<Plan> compile(const PlanSpec &spec, const std::string &stem) {
  std::string model = stem + ".mlir", plan = stem + ".fb";
  QWEN_RETURN_IF_ERROR(runTool(fmt::format(
      "{} {} --tokens={} --max-documents={} --dtype={}{} -o {}",
      shellWord(QWEN_IMPORT_TOOL),
      shellWord(sourcePath("models/configs/" + spec.config + ".json")),
      spec.tokens, spec.maxDocuments, spec.dtype,
      spec.logits ? " --logits" : "", shellWord(model))));
  QWEN_RETURN_IF_ERROR(runTool(fmt::format(
      "{} {} --recompute={} --masters={} --moment-type={} --fusion={} -o {}",
      shellWord(QWEN_COMPILER_TOOL), shellWord(model), spec.recompute,
      spec.masters, spec.momentType, spec.fuse ? "on" : "off",
      shellWord(plan))));
  return Plan::load(plan);
}

StatusOr<Plan> qwen::e2e::compilePlan(const PlanSpec &spec) {
  static const TemporaryFolder folder;
  static std::map<PlanSpec, StatusOr<Plan>> compiled;
  auto found = compiled.find(spec);
  if (found == compiled.end()) {
    std::string stem = fmt::format("{}/{}", folder.path, compiled.size());
    found = compiled.emplace(spec, compile(spec, stem)).first;
  }
  return found->second;
}
