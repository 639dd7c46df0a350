//===- qwen-plan.cpp - Prints a plan --------------------------------------===//
//
// qwen-plan plan.fb: everything; with options a part of it.
//
//===----------------------------------------------------------------------===//

#include "PrintPlan.h"
#include "Scale.h"

#include "runtime/support/Print.h"
#include "tools/options/Arguments.h"

#include <cstdio>
#include <string>

using namespace qwen;

namespace {

struct Options {
  std::string path, program;
  bool summary = false, json = false, memory = false;
  ScaleRequest scale;
};

/// What parsing decided.
struct ParsedOptions {
  Options options;
  std::string help; ///< empty where it was not asked for
};

void addOptions(CLI::App &app, Options &options) {
  app.add_option("plan", options.path, "Plan file (plan.fb)");
  CLI::Option *summary =
      app.add_flag("--summary", options.summary, "The summary only");
  app.add_flag("--json", options.json, "The summary as one JSON object")
      ->needs(summary);
  app.add_flag("--memory", options.memory, "The memory map only");
  app.add_option("--program", options.program,
                 "The launches of the program of this name only");
  addScaleOptions(app, options.scale);
}

/// What the options say together.
Status check(const Options &options) {
  if (options.path.empty())
    return invalidArgument("no plan given: qwen-plan plan.fb …; --help lists "
                           "the options");
  if (int(options.summary) + int(options.memory) +
          int(!options.program.empty()) + int(!options.scale.ranks.empty()) >
      1)
    return invalidArgument(
        "--summary, --memory, --program and --scale exclude each other");
  return checkScale(options.scale);
}

StatusOr<ParsedOptions> parseOptions(int argc, char **argv) {
  ParsedOptions parsed;
  CLI::App app{"Prints a plan made by qwenc: summary, memory map, and the "
               "launches of each program.",
               "qwen-plan"};
  addOptions(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ParseError &error) {
    return invalidArgument("{}; --help lists the options",
                           describe(app, error));
  }
  QWEN_RETURN_IF_ERROR(check(parsed.options));
  return parsed;
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
  QWEN_ASSIGN_OR_RETURN(ParsedOptions parsed, parseOptions(argc, argv));
  std::string text = parsed.help;
  if (text.empty()) {
    QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(parsed.options.path));
    QWEN_ASSIGN_OR_RETURN(text, render(plan, parsed.options));
  }
  printText(stdout, text);
  return printError(stdout, "the standard output");
}

} // namespace

int main(int argc, char **argv) {
  if (Status status = run(argc, argv); !status.ok()) {
    print(stderr, "qwen-plan: error: {}\n", status.message());
    return 1;
  }
  return 0;
}
