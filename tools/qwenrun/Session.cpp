//===- Session.cpp - What every way of running needs ----------------------===//

#include "Session.h"

#include "PlanReport.h"

#include "runtime/plan/PlanText.h"
#include "runtime/support/Json.h"
#include "runtime/trainer/Initialize.h"

#include <cmath>
#include <fcntl.h>
#include <unistd.h>

using namespace qwen;

ExecutorOptions qwen::executorOptions(const Session &session) {
  const Options &options = session.options;
  ExecutorOptions result;
  result.ranks = session.ranks;
  result.threads = options.threads;
  result.device = options.device;
  result.synchronous = options.waitEachLaunch;
  result.copyGathers = !options.ncclGathers;
  return result;
}

Status qwen::openEngine(Session &session, const Plan &plan) {
  QWEN_ASSIGN_OR_RETURN(std::string table, kernelTable(plan));
  print(session.log, "{}\n{}\n", table, describeForecast(plan.info()));
  auto created = PlanEngine::create(plan, executorOptions(session));
  // On GPUs the ranks meet in there.
  if (plan.info().targetKind == TargetKind::Cpu)
    QWEN_RETURN_IF_ERROR(session.ranks->agree(created.status()));
  QWEN_ASSIGN_OR_RETURN(PlanEngine engine, std::move(created));
  session.engine = std::make_unique<PlanEngine>(std::move(engine));
  print(session.log, "{}\n", describeDevice(session.engine->device()));
  if (std::string warning = session.engine->device().warning();
      !warning.empty())
    print(session.log, "warning: {}\n", warning);
  print(session.log, "{}\n",
        describeDecay(*session.engine,
                      session.options.trainer.adamw.weightDecay));
  return okStatus();
}

/// Bytes of a file that nothing was ever written to, and that read as zeros.
static int64_t holeBytes(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return 0;
  off_t size = ::lseek(descriptor, 0, SEEK_END), bytes = 0;
  for (off_t hole = 0; hole < size;) {
    hole = ::lseek(descriptor, hole, SEEK_HOLE); // at the latest the end
    if (hole < 0 || hole >= size)
      break;
    off_t data = ::lseek(descriptor, hole, SEEK_DATA);
    bytes += (data < 0 ? size : data) - hole;
    hole = data < 0 ? size : data;
  }
  ::close(descriptor);
  return bytes;
}

/// No error: some disks store written zeros in this way.
static void warnOfHoles(const Session &session) {
  for (const Checkpoint::Shard &shard : session.source->shards())
    if (int64_t bytes = holeBytes(shard.file.path()); bytes > 0)
      print(session.log,
            "warning: {} bytes of '{}' are a hole that reads as zeros; is it "
            "a whole copy?\n",
            bytes, shard.file.path());
}

Status qwen::openSource(Session &session, const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(session.source,
                        agreed(session, Checkpoint::open(path)));
  if (session.isFirst())
    warnOfHoles(session);
  return okStatus();
}

/// A data set whose documents all fit a pack.
static StatusOr<TokenDataset> openFitting(const std::string &path,
                                          const PlanInfo &info) {
  QWEN_ASSIGN_OR_RETURN(TokenDataset data,
                        TokenDataset::open(path, info.vocabSize));
  // Finds a document that does not fit before the engine takes its memory.
  QWEN_RETURN_IF_ERROR(
      EpochPacking::createInOrder(data, {info.tokens, info.maxDocuments})
          .status());
  return data;
}

StatusOr<TokenDataset> qwen::openDataset(const Session &session,
                                         const std::string &path,
                                         const Plan &plan) {
  QWEN_ASSIGN_OR_RETURN(TokenDataset data,
                        agreed(session, openFitting(path, plan.info())));
  print(session.log,
        "data '{}': {} documents, {} tokens, {} supervised, tokenizer {}\n",
        path, data.documents(), data.tokens(), data.supervisedTokens(),
        data.tokenizerHash().empty() ? "not named"
                                     : printable(data.tokenizerHash(), 12));
  if (data.supervisedTokens() == 0)
    print(session.log, "warning: '{}' has no supervised token\n", path);
  return data;
}

Status qwen::loadWeights(Session &session) {
  const Options &options = session.options;
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - begin;
    return taken.count();
  };
  if (!session.source) {
    QWEN_RETURN_IF_ERROR(
        initializeParameters(*session.engine, options.trainer.seed));
    print(session.log, "weights: random, seed {}, in {:.1f} s\n",
          options.trainer.seed, seconds());
    return okStatus();
  }
  QWEN_ASSIGN_OR_RETURN(LoadReport report,
                        loadParameters(*session.source,
                                       session.engine->parameters(),
                                       options.carry, *session.ranks));
  QWEN_ASSIGN_OR_RETURN(
      std::string text,
      describeLoad(*session.engine, report, session.source->directory()));
  print(session.log, "{}; in {:.1f} s\n", text, seconds());
  return okStatus();
}

Status qwen::evaluateOnly(Session &session, const Plan &plan) {
  const Options &options = session.options;
  QWEN_ASSIGN_OR_RETURN(TokenDataset data,
                        openDataset(session, options.eval, plan));
  if (!options.weights.empty())
    QWEN_RETURN_IF_ERROR(openSource(session, options.weights));
  QWEN_RETURN_IF_ERROR(openEngine(session, plan));
  QWEN_RETURN_IF_ERROR(loadWeights(session));
  QWEN_ASSIGN_OR_RETURN(EvalResult result, evaluate(*session.engine, data));
  if (!std::isfinite(result.loss))
    return session.ranks->agree(makeError(StatusCode::FailedPrecondition,
                                          "the loss on '{}' is not finite",
                                          options.eval));
  if (!session.isFirst())
    return okStatus();
  print(stdout, "{{\"loss\": {}, \"perplexity\": {}, \"tokens\": {}}}\n",
        result.loss, std::exp(result.loss), result.supervised);
  return okStatus();
}
