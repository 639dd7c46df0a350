//===- qwen-bench.cpp - Measures kernels and training steps ---------------===//
//
// qwen-bench COMMAND …: see Commands.h.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "runtime/support/Print.h"

#include <cstdio>

using namespace qwen;
using namespace qwen::bench;

namespace {
struct Command {
  const char *name, *summary;
  Action (*add)(CLI::App &);
};
} // namespace

static constexpr Command commands[] = {
    {"kernels", "Times of the hand-written CUDA kernels", addKernelsCommand},
    {"groups", "Times and results of a plan's generated kernels",
     addGroupsCommand},
    {"tune", "Table of the fastest matrix product algorithms", addTuneCommand},
    {"step", "Times of training steps of whole plans", addStepCommand},
};

/// Lines that cannot be written are results that are lost.
static Status finish(Status status) {
  Status output = printError(stdout, "the standard output");
  return status.ok() ? output : status;
}

static int report(const Status &status) {
  if (status.ok())
    return 0;
  if (!status.message().empty()) // else it is told already
    print(stderr, "qwen-bench: error: {}\n", status.message());
  return 1;
}

int main(int argc, char **argv) {
  // A log that is a file or a pipe shows each line as it comes.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  CLI::App app{"Measures kernels and training steps; prints JSON lines.",
               "qwen-bench"};
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App *, Action>> actions;
  for (const Command &command : commands) {
    CLI::App *added = app.add_subcommand(command.name, command.summary);
    actions.emplace_back(added, command.add(*added));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    for (auto &[command, action] : actions)
      if (command->parsed()) {
        printText(stdout, command->help("qwen-bench"));
        return report(finish(okStatus()));
      }
    printText(stdout, app.help());
    return report(finish(okStatus()));
  } catch (const CLI::ParseError &error) {
    const CLI::App *faulty = &app;
    for (auto &[command, action] : actions)
      if (command->parsed())
        faulty = command;
    print(stderr, "qwen-bench: error: {}; --help lists the options\n",
          describe(*faulty, error));
    return 1;
  }
  for (auto &[command, action] : actions)
    if (command->parsed())
      return report(finish(action()));
  return 0; // never: one is required
}
