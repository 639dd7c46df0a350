//===- qwen-plan.cpp - Prints a plan --------------------------------------===//
//
// qwen-plan plan.fb: everything; with options a part of it.
//
//===----------------------------------------------------------------------===//

#include "PrintPlan.h"
#include "Scale.h"

#include <cstdio>
#include <cstring>
#include <string>

using namespace qwen;

namespace {

constexpr const char *usage =
    "usage: qwen-plan PLAN [--summary [--json] | --memory | --program NAME |\n"
    "                       --scale=N,...]\n"
    "  prints a plan as text: summary, memory map, launches of every program\n"
    "  --summary       the summary only; with --json as one JSON object\n"
    "  --memory        the memory map only\n"
    "  --program NAME  the launches of one program only\n";

struct Options {
  std::string path, program;
  bool summary = false, json = false, memory = false, help = false;
  ScaleRequest scale;
};

StatusOr<Options> parseOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--summary") {
      options.summary = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--memory") {
      options.memory = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--program") {
      if (++i == argc)
        return invalidArgument("--program needs the name of a program");
      options.program = argv[i];
    } else if (argument.starts_with("-")) {
      QWEN_ASSIGN_OR_RETURN(bool taken,
                            parseScaleOption(argument, options.scale));
      if (taken)
        continue;
      return invalidArgument("unknown option '{}'; see --help", argument);
    } else if (options.path.empty()) {
      options.path = argument;
    } else {
      return invalidArgument("one plan expected, found '{}' after '{}'",
                             argument, options.path);
    }
  }
  if (options.path.empty() && !options.help)
    return invalidArgument("no plan given; see --help");
  if (int(options.summary) + int(options.memory) +
          int(!options.program.empty()) + int(!options.scale.ranks.empty()) >
      1)
    return invalidArgument(
        "--summary, --memory, --program and --scale exclude each other");
  if (options.json && !options.summary)
    return invalidArgument("--json goes with --summary");
  QWEN_RETURN_IF_ERROR(checkScale(options.scale));
  return options;
}

StatusOr<std::string> render(const Plan &plan, const Options &options) {
  if (options.summary)
    return options.json ? summaryJson(plan) : summaryText(plan);
  if (options.memory)
    return memoryMap(plan);
  if (!options.scale.ranks.empty())
    return scaleText(plan, options.scale);
  if (!options.program.empty()) {
    auto program = plan.findProgram(options.program);
    if (!program)
      return makeError(StatusCode::NotFound, "the plan has no program '{}'",
                       options.program);
    return launchList(plan, *program);
  }
  std::string text = summaryText(plan) + "\n" + memoryMap(plan);
  for (size_t i = 0; i < plan.programs().size(); ++i)
    text += "\n" + launchList(plan, static_cast<int>(i));
  return text;
}

Status run(int argc, char **argv) {
  QWEN_ASSIGN_OR_RETURN(Options options, parseOptions(argc, argv));
  if (options.help) {
    std::fputs((std::string(usage) + scaleUsage()).c_str(), stdout);
    return okStatus();
  }
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(options.path));
  QWEN_ASSIGN_OR_RETURN(std::string text, render(plan, options));
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    return makeError(StatusCode::IoError,
                     "cannot write to the standard output");
  return okStatus();
}

} // namespace

int main(int argc, char **argv) {
  if (Status status = run(argc, argv); !status.ok()) {
    fmt::print(stderr, "qwen-plan: error: {}\n", status.message());
    return 1;
  }
  return 0;
}
