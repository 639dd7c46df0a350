//===- qwenrun.cpp - Trains with a plan -----------------------------------===//
//
// qwenrun plan.fb --weights DIR --data train.safetensors --out DIR …
//
//===----------------------------------------------------------------------===//

#include "PlanReport.h"
#include "Session.h"

#include "runtime/profile/Implementations.h"

#include <csignal>
#include <unistd.h>

using namespace qwen;

static volatile std::sig_atomic_t stopSignal = 0;

/// The first signal asks for a clean stop, a second one ends the process.
static void requestStop(int signal) {
  stopSignal = signal;
  std::signal(signal, SIG_DFL);
}

static int report(const Communicator *ranks, const std::string &message) {
  fmt::print(stderr, "qwenrun: error: {}{}\n",
             ranks ? fmt::format("rank {}: ", ranks->rank()) : "", message);
  return 1;
}

/// Meets the other ranks where there are any. Only the first one prints.
static Status joinOthers(Session &session,
                         std::unique_ptr<Communicator> &ranks) {
  CommunicatorOptions options;
  options.rankTimeout = session.options.rankTimeout;
  // The main thread may wait for the lost rank forever. Whatever it was
  // writing is not published and is removed by the next run.
  options.onLostRank = [](const std::string &line) {
    _exit(report(nullptr, line));
  };
  QWEN_ASSIGN_OR_RETURN(ranks, joinRanks(options));
  if (!ranks)
    return okStatus();
  session.ranks = ranks.get();
  if (session.isFirst())
    return okStatus();
  session.log = std::fopen("/dev/null", "w");
  return session.log ? okStatus()
                     : makeError(StatusCode::IoError, "cannot open /dev/null");
}

static Status run(std::span<const std::string> arguments,
                  std::unique_ptr<Communicator> &ranks) {
  Session session; // its time is that of the start
  QWEN_ASSIGN_OR_RETURN(ParsedOptions parsed, parseOptions(arguments));
  if (parsed.message) {
    fmt::print("{}", *parsed.message);
    return okStatus();
  }
  session.options = std::move(parsed.options);
  const Options &options = session.options;
  // Where stdout carries a result, people read stderr.
  if (options.evalOnly || options.benchmark > 0)
    session.log = stderr;
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(options.plan));
  if (!options.peakGiven)
    session.options.run.peakTflops = peakTflops(plan.info().targetKind);
  if (options.info) {
    fmt::print("{}", describePlan(plan, options.plan));
    QWEN_ASSIGN_OR_RETURN(std::string table, kernelTable(plan));
    fmt::print("{}\n", table);
    return okStatus();
  }
  QWEN_RETURN_IF_ERROR(joinOthers(session, ranks));
  if (!options.config.empty())
    fmt::print(session.log, "options from '{}'\n", options.config);
  if (options.evalOnly)
    return evaluateOnly(session, plan);
  if (options.benchmark > 0)
    return benchmark(session, plan);
  if (options.profile > 0)
    return profile(session, plan);
  if (options.selfcheck)
    return selfcheck(session, plan);
  std::signal(SIGINT, requestStop);
  std::signal(SIGTERM, requestStop);
  // mpirun kills what it was to stop, but passes this one on.
  if (ranks)
    std::signal(SIGUSR1, requestStop);
  return train(session, plan, [] { return stopSignal != 0; });
}

int main(int argc, char **argv) {
  // A log that is a file or a pipe shows each line as it comes.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::unique_ptr<Communicator> ranks; // outlives what uses it
  Status status = run(arguments, ranks);
  if (status.ok() && ranks)
    status = ranks->leave();
  std::fflush(stdout);
  if (status.ok())
    return 0;
  if (ranks)
    ranks->fail(status);
  return report(ranks.get(), status.message());
}
