//===- Commands.h - The commands of qwen-bench -----------------*- C++ -*-===//
//
// Each command lives in a file of its own, adds its options to the parser and
// says what runs when it was asked for. Results are JSON lines on stdout.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_COMMANDS_H
#define QWEN_TOOLS_QWEN_BENCH_COMMANDS_H

#include "qwen/Support/Status.h"
#include "tools/options/Arguments.h"

#include <functional>

namespace qwen::bench {

/// A command that was added: what it does, with its parsed options.
using Action = std::function<Status()>;

/// What most of the options count.
inline constexpr OptionRange positiveCount = OptionRange::whole(1, 1e9);

/// `kernels`: times of the hand-written CUDA kernels.
Action addKernelsCommand(CLI::App &command);
/// `tune`: the fastest algorithms of plans' matrix products, as a table.
Action addTuneCommand(CLI::App &command);
/// `groups`: times and results of a plan's generated kernels.
Action addGroupsCommand(CLI::App &command);
/// `step`: times of training steps of whole plans.
Action addStepCommand(CLI::App &command);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_COMMANDS_H
