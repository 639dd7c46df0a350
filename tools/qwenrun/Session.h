//===- Session.h - What every way of running needs -------------*- C++ -*-===//
//
// Opens plan, data and weights in an order in which everything is checked
// before anything is written.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWENRUN_SESSION_H
#define QWEN_TOOLS_QWENRUN_SESSION_H

#include "Options.h"
#include "runtime/support/Print.h"
#include "runtime/trainer/PlanEngine.h"

#include <chrono>
#include <functional>
#include <memory>

namespace qwen {

/// A loaded model with what belongs to it.
struct Session {
  Options options;
  std::FILE *log = stdout; ///< for people; results go to stdout
  Communicator *ranks = &selfCommunicator();
  /// Alone among the ranks this one prints, logs and writes what all share.
  bool isFirst() const { return ranks->rank() == 0; }
  /// When the program started.
  std::chrono::steady_clock::time_point started =
      std::chrono::steady_clock::now();
  std::unique_ptr<PlanEngine> engine;
  /// The checkpoint whose layout is kept; empty for random weights.
  std::optional<Checkpoint> source;
  std::optional<ResumedCheckpoint> resumed;
  SideFiles sideFiles;
};

/// The value where all ranks have one; else the error of the first that has
/// none. For what every rank does alone, from the same files.
template <typename T>
StatusOr<T> agreed(const Session &session, StatusOr<T> mine) {
  QWEN_RETURN_IF_ERROR(session.ranks->agree(mine.status()));
  return mine;
}

/// How the command line wants plans to run.
ExecutorOptions executorOptions(const Session &session);

/// Loads the plan, prints the tables and allocates its memory.
Status openEngine(Session &session, const Plan &plan);

/// Fills the parameters from --weights, or at random.
Status loadWeights(Session &session);

/// Opens the checkpoint whose weights and layout the run starts from.
Status openSource(Session &session, const std::string &path);

/// Opens --data or --eval and checks that its documents fit.
StatusOr<TokenDataset> openDataset(const Session &session,
                                   const std::string &path, const Plan &plan);

/// Trains; the whole of the usual command.
Status train(Session &session, const Plan &plan,
             const std::function<bool()> &stopRequested);

/// --dry-run: everything that training does before it loads weights.
Status dryRun(Session &session, const Plan &plan);

/// --eval-only: one JSON line on stdout.
Status evaluateOnly(Session &session, const Plan &plan);

/// --benchmark: one JSON line on stdout.
Status benchmark(Session &session, const Plan &plan);

/// --data, or synthetic documents where it is not given.
StatusOr<TokenDataset> openBenchmarkData(const Session &session,
                                         const Plan &plan);

/// --profile: tables on stdout, and a trace file.
Status profile(Session &session, const Plan &plan);

/// --selfcheck: a table on stdout; an error where a check missed its bound.
Status selfcheck(const Session &session, const Plan &plan);

} // namespace qwen

#endif // QWEN_TOOLS_QWENRUN_SESSION_H
