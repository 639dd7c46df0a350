//===- Options.h - Command line and run.toml of qwenrun --------*- C++ -*-===//
//
// Options come from the command line, then from a TOML file: the one given by
// --config, else `run.toml` beside the plan where there is one. The command
// line wins. Paths in a file are relative to the file.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWENRUN_OPTIONS_H
#define QWEN_TOOLS_QWENRUN_OPTIONS_H

#include "runtime/trainer/TrainingRun.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qwen {

/// Everything that qwenrun can be told.
struct Options {
  std::string plan;
  std::string config; ///< the file that was read; empty where none was

  // Model.
  std::string weights;     ///< checkpoint folder
  std::string init;        ///< "random", or empty
  std::string modelConfig; ///< config.json for --init random
  std::string tokenizer;   ///< folder whose files go into checkpoints
  std::vector<std::string> carry;

  // Data and output.
  std::string data, eval, out;

  TrainerOptions trainer;
  RunOptions run;

  bool resume = false;
  std::string resumeFrom; ///< a checkpoint; empty: the newest in `out`
  bool evalOnly = false;
  bool info = false;
  int64_t benchmark = 0;    ///< steps to time; 0: no benchmark
  int64_t profile = 0;      ///< steps to profile; 0: no profile
  std::string profileTrace; ///< file; empty: profile.json in `out`
  bool selfcheck = false;
  bool dryRun = false;            ///< check everything, train nothing
  std::vector<int64_t> documents; ///< of a benchmark's pack; empty: its own
  bool peakGiven = false;         ///< run.peakTflops was given
  int threads = 0;
  int device = -1; ///< number of the GPU; -1: by the rank's on its machine
  bool waitEachLaunch = false;
  bool ncclGathers = false;
  double rankTimeout = 30; ///< seconds
  int64_t logEvery = 10;

  /// Not one of the other ways of running.
  bool isTraining() const {
    return !evalOnly && !info && benchmark == 0 && profile == 0 && !selfcheck;
  }

  /// The options that shape training, as a JSON object.
  std::string trainingText() const;
};

/// What parsing decided.
struct ParsedOptions {
  Options options;
  /// Text to print before a successful exit, for --help and --version.
  std::optional<std::string> message;
};

/// Parses arguments without the program's name, and the file that they name.
/// InvalidArgument for anything unknown, misplaced or contradictory.
StatusOr<ParsedOptions> parseOptions(std::span<const std::string> arguments);

} // namespace qwen

#endif // QWEN_TOOLS_QWENRUN_OPTIONS_H
