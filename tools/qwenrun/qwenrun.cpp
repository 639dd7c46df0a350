//===- qwenrun.cpp - Trains with a plan -----------------------------------===//
//
// qwenrun plan.fb --weights DIR --data train.safetensors --out DIR …
//
//===----------------------------------------------------------------------===//

#include "PlanReport.h"
#include "Session.h"
#include "Signals.h"

#include "runtime/profile/Implementations.h"
#include "runtime/support/Print.h"

#include <unistd.h>

using namespace qwen;

/// Prints what was asked for: here an error of the stream is one of the run.
static Status printResult(std::string_view text) {
  printText(stdout, text);
  return printError(stdout, "the standard output");
}

static int report(const Communicator *ranks, const std::string &message) {
  print(stderr, "qwenrun: error: {}{}\n",
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
    claimEnd();
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

/// The ways of running that end with a result on the standard output.
static Status runOnce(Session &session, const Plan &plan) {
  const Options &options = session.options;
  if (options.evalOnly)
    return evaluateOnly(session, plan);
  if (options.benchmark > 0)
    return benchmark(session, plan);
  if (options.profile > 0)
    return profile(session, plan);
  if (options.selfcheck)
    return selfcheck(session, plan);
  return dryRun(session, plan);
}

/// Options that only a GPU looks at need a plan for one.
static Status checkDeviceOptions(const Options &options, const Plan &plan) {
  const char *name = options.waitEachLaunch ? "--wait-each-launch"
                     : options.ncclGathers  ? "--nccl-gathers"
                     : options.device > 0   ? "--device"
                                            : nullptr;
  if (options.ncclGathers && plan.info().worldSize == 1)
    return invalidArgument("--nccl-gathers is for several ranks, but '{}' is "
                           "for one",
                           options.plan);
  if (!name || plan.info().targetKind == TargetKind::Cuda)
    return okStatus();
  return invalidArgument("{} is for a GPU, but '{}' is for {}", name,
                         options.plan, plan.info().target);
}

/// --info.
static Status printPlan(const Session &session, const Plan &plan) {
  QWEN_ASSIGN_OR_RETURN(std::string table, kernelTable(plan));
  return session.isFirst()
             ? printResult(describePlan(plan, session.options.plan) + table +
                           "\n")
             : okStatus();
}

static StatusOr<Plan> loadPlan(const Options &options) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(options.plan));
  QWEN_RETURN_IF_ERROR(checkDeviceOptions(options, plan));
  return plan;
}

static Status run(std::span<const std::string> arguments, Session &session,
                  std::unique_ptr<Communicator> &ranks) {
  auto parsed = parseOptions(arguments);
  if (parsed.ok())
    session.options = std::move(parsed->options);
  const Options &options = session.options;
  // Where stdout carries a result, people read stderr.
  if (options.evalOnly || options.benchmark > 0)
    session.log = stderr;
  // Before anything can go wrong on some ranks or on all.
  Status joined = joinOthers(session, ranks);
  QWEN_RETURN_IF_ERROR(parsed.ok() || ranks ? joined : parsed.status());
  QWEN_RETURN_IF_ERROR(session.ranks->agree(parsed.status()));
  if (parsed->message)
    return session.isFirst() ? printResult(*parsed->message) : okStatus();
  auto loaded = loadPlan(options);
  QWEN_RETURN_IF_ERROR(session.ranks->agree(loaded.status()));
  const Plan &plan = *loaded;
  if (!options.peakGiven)
    session.options.run.peakTflops = peakTflops(plan.info().targetKind);
  if (options.info)
    return printPlan(session, plan);
  if (!options.config.empty())
    print(session.log, "options from '{}'\n", options.config);
  if (options.isTraining() && !options.dryRun) {
    catchStopSignals(/*ofRanks=*/ranks != nullptr);
    return train(session, plan, stopRequested);
  }
  QWEN_RETURN_IF_ERROR(runOnce(session, plan));
  return printError(stdout, "the standard output");
}

int main(int argc, char **argv) {
  openStandardStreams();
  reportLostFiles();
  // A log that is a file or a pipe shows each line as it comes.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::unique_ptr<Communicator> ranks; // outlives what uses it
  Session session;                     // its time is that of the start
  Status status = run(arguments, session, ranks);
  // That of a rank which fails alone stays: it would wait for the others, who
  // are to hear of it first.
  if (status.ok() || !ranks || ranks->isAgreed(status))
    session.engine.reset();
  if (status.ok() && ranks)
    status = ranks->leave();
  // Nobody may be there to read it.
  if (Status log = printError(stdout, "the standard output");
      status.ok() && !log.ok())
    print(stderr, "qwenrun: warning: {}\n", log.message());
  if (status.ok())
    return 0;
  releaseStopSignals();
  if (!ranks)
    return report(nullptr, status.message());
  if (!ranks->isAgreed(status)) {
    ranks->fail(status);
    std::fflush(stdout);
    _exit(report(ranks.get(), status.message()));
  }
  // All end by the same error, of which one tells.
  if (ranks->rank() == 0)
    report(nullptr, status.message());
  (void)ranks->leave();
  return 1;
}
