//===- TrainingRunTest.cpp - Save, stop, resume bit for bit ---------------===//

#include "SmallRun.h"
#include "runtime/support/Json.h"

#include <cmath>
#include <csignal>
#include <sstream>
#include <sys/resource.h>

using namespace qwen;

namespace {
class TrainingRunTest : public SmallRun {};
} // namespace

/// The lines of metrics.jsonl without what depends on the clock.
static std::string timelessMetrics(const std::string &out) {
  std::istringstream in(readFile(out + "/metrics.jsonl"));
  std::string line, all;
  while (std::getline(in, line)) {
    for (const char *field : {"\"tokens_per_second\": ", "\"seconds\": "})
      if (size_t at = line.find(field); at != line.npos)
        line.erase(at, line.find(',', at) - at);
    all += line + "\n";
  }
  return all;
}

namespace {
class TrainingRunKindTest
    : public TrainingRunTest,
      public testing::WithParamInterface<BigramEngine::Kind> {};
} // namespace

TEST_P(TrainingRunKindTest, ResumeAtAnyStepIsBitIdentical) {
  runOptions.evalEvery = 3;
  BigramEngine straight(limits, vocab);
  auto end = runIn(folder / "straight", straight, 1000);
  ASSERT_OK(end.status());
  EXPECT_EQ(*end, RunEnd::Finished);
  ASSERT_GE(totalSteps, 8) << "every kind of place in an epoch is met";
  std::string last = fmt::format("/checkpoint-{}/", totalSteps);
  for (int64_t stop = 1; stop < totalSteps; ++stop) {
    std::string out = folder / fmt::format("stop-{}", stop);
    BigramEngine before(limits, vocab, GetParam(), 8);
    BigramEngine after(limits, vocab, GetParam(), 8);
    auto stopped = runIn(out, before, stop);
    ASSERT_OK(stopped.status());
    EXPECT_EQ(*stopped, RunEnd::Stopped);
    EXPECT_EQ(
        readFile(out + "/metrics.jsonl")
            .find(fmt::format("{{\"step\": {}, \"group\": \"eval\"", stop)),
        std::string::npos)
        << "a stop does not wait for an evaluation";
    auto finished = runIn(out, after, 1000);
    ASSERT_OK(finished.status());
    // What a stop dropped was not trained on.
    auto seen = before.trained();
    seen.insert(seen.end(), after.seen.begin(), after.seen.end());
    EXPECT_EQ(seen, straight.seen) << "stopped after " << stop;
    EXPECT_EQ(after.table, straight.table);
    EXPECT_EQ(after.v, straight.v);
    for (const char *file :
         {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
      EXPECT_EQ(readFile(out + last + file),
                readFile(folder / "straight" + last + file))
          << file;
    EXPECT_EQ(timelessMetrics(out), timelessMetrics(folder / "straight"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainingRunKindTest,
                         testing::Values(BigramEngine::Kind::Host,
                                         BigramEngine::Kind::Device),
                         kindName);

TEST_F(TrainingRunTest, ADeviceRunsAheadAndWritesTheSameFiles) {
  runOptions.evalEvery = 5;
  runOptions.saveEvery = 4;
  runOptions.keep = 100;
  BigramEngine host(limits, vocab);
  BigramEngine device(limits, vocab, BigramEngine::Kind::Device, 8);
  for (BigramEngine *engine : {&host, &device}) {
    engine->poisonedMicroStep = 11; // a step that is skipped
    std::string out = folder / (engine == &host ? "host" : "device");
    ASSERT_OK(runIn(out, *engine, 1000).status());
  }
  EXPECT_EQ(device.order, host.order);
  EXPECT_EQ(timelessMetrics(folder / "device"),
            timelessMetrics(folder / "host"));
  auto saved = listCheckpoints(folder / "host");
  ASSERT_EQ(saved.size(), size_t((totalSteps + 3) / 4));
  for (const PublishedCheckpoint &checkpoint : saved)
    for (const char *file :
         {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
      EXPECT_EQ(readFile(fmt::format("{}/device/checkpoint-{}/{}", folder.path,
                                     checkpoint.step, file)),
                readFile(checkpoint.path + "/" + file))
          << checkpoint.step << " " << file;
  // When a step's results are read the next one's micro-batches are started,
  // except before an evaluation, a save and the end.
  ASSERT_EQ(device.startedBehindUpdate.size(), size_t(totalSteps));
  for (int64_t step = 1; step <= totalSteps; ++step) {
    bool alone = step % 5 == 0 || step % 4 == 0 || step == totalSteps;
    EXPECT_EQ(device.startedBehindUpdate[size_t(step - 1)] == 0, alone) << step;
    EXPECT_EQ(host.startedBehindUpdate[size_t(step - 1)], 0);
  }
}

TEST_F(TrainingRunTest, LearnsKeepsAndEvaluates) {
  options.epochs = 40;
  options.schedule.peak = 0.1;
  runOptions.saveEvery = 20;
  runOptions.evalEvery = 10;
  runOptions.keep = 2;
  BigramEngine engine(limits, vocab);
  std::string out = folder / "out";
  ASSERT_OK(runIn(out, engine, 100000).status());
  EXPECT_EQ(listCheckpoints(out).size(), 2u);
  EXPECT_EQ(listCheckpoints(out)[0].step, totalSteps);
  auto result = evaluate(engine, *data);
  ASSERT_OK(result.status());
  // The conditional entropy of 90 random pairs over 16 tokens is below half of
  // log 16, which an untrained table has.
  EXPECT_LT(result->loss, std::log(double(vocab)) * 0.6);
  std::string metrics = readFile(out + "/metrics.jsonl");
  EXPECT_NE(metrics.find("{\"step\": 10, \"group\": \"eval\", \"loss\": "),
            std::string::npos);
}

TEST_F(TrainingRunTest, UtilisationCountsTokensAndLaunches) {
  runOptions.peakTflops = 1e-6;
  BigramEngine engine(limits, vocab);
  std::string out = folder / "out";
  ASSERT_OK(runIn(out, engine, 1000).status());
  std::istringstream in(readFile(out + "/metrics.jsonl"));
  std::string line;
  double tokensBefore = 0;
  int64_t steps = 0;
  while (std::getline(in, line)) {
    auto json = parseJsonObject(line, "line");
    ASSERT_OK(json.status());
    if ((*json)["group"] != "train")
      continue;
    auto number = [&](const char *name) { return (*json)[name].get<double>(); };
    double tokens = number("tokens") - tokensBefore;
    tokensBefore = number("tokens");
    // The engine counts 6 FLOPs a token of the model and 10 a place of a pack,
    // and the same for pairs.
    double difference =
        (number("hfu") - number("mfu")) * number("seconds") * 1e6;
    double packs = (difference + 6 * tokens) / double(10 * limits.tokens);
    EXPECT_NEAR(packs, std::round(packs), 1e-6);
    EXPECT_GE(packs, 1 - 1e-6);
    EXPECT_LE(packs, 2 + 1e-6);
    ++steps;
  }
  EXPECT_EQ(steps, totalSteps);
}

TEST_F(TrainingRunTest, StopsAfterNonFiniteStepsWithoutPublishing) {
  runOptions.maxNonFinite = 3;
  BigramEngine engine(limits, vocab);
  std::string out = folder / "out";
  ASSERT_OK(runIn(out, engine, 2).status());
  for (auto kind : {BigramEngine::Kind::Host, BigramEngine::Kind::Device}) {
    BigramEngine poisoned(limits, vocab, kind);
    poisoned.poisonAll = true;
    auto end = runIn(out, poisoned, 1000);
    EXPECT_ERROR(end.status(), "3 steps in a row were not finite");
    EXPECT_ERROR(end.status(), "stopping at step 5");
    EXPECT_ERROR(end.status(), "first NaN or infinity: micro-batch 1 of ");
    EXPECT_ERROR(end.status(), " of epoch 2), launch 0 of the losses");
    ASSERT_EQ(listCheckpoints(out).size(), 1u);
    EXPECT_EQ(listCheckpoints(out)[0].step, 2);
    EXPECT_EQ(poisoned.table, engine.table);
  }
}

TEST_F(TrainingRunTest, NeverPublishesNonFiniteWeights) {
  BigramEngine engine(limits, vocab);
  auto directory = RunDirectory::open(folder / "out");
  ASSERT_OK(directory.status());
  engine.table[3] = std::nanf("");
  RunFiles files{&*directory, nullptr, nullptr};
  EXPECT_ERROR(saveCheckpoint(files, engine, {}).status(),
               "'model.table' is NaN or infinite at element 3");
  EXPECT_TRUE(listCheckpoints(folder / "out").empty());
}

TEST_F(TrainingRunTest, AFullDiskHarmsNoEarlierCheckpoint) {
  BigramEngine engine(limits, vocab);
  std::string out = folder / "out";
  ASSERT_OK(runIn(out, engine, 2).status());
  auto directory = RunDirectory::open(out);
  ASSERT_OK(directory.status());
  RunFiles files{&*directory, nullptr, nullptr};
  TrainerState state;
  state.step = 3;
  // A limit on file sizes stands for the full disk: the weights, 1 KiB, do not
  // fit any more. Without the signal, write fails as it does there.
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = {512, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status = saveCheckpoint(files, engine, state).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_ERROR(status, "cannot write");
  auto left = listCheckpoints(out);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].step, 2);
  ASSERT_OK(verifyCheckpoint(left[0].path));
  for (auto &entry : std::filesystem::directory_iterator(out))
    EXPECT_NE(entry.path().filename().string().find(".tmp-"), 0u);
}

TEST_F(TrainingRunTest, ResumeNeedsTheSameSamples) {
  BigramEngine engine(limits, vocab), again(limits, vocab);
  ASSERT_OK(runIn(folder / "out", engine, 2).status());
  options.seed = 10;
  EXPECT_ERROR(runIn(folder / "out", again, 2).status(),
               "seed was 9 and is 10");
}

TEST_F(TrainingRunTest, ResumePastTheEndDoesNothing) {
  BigramEngine engine(limits, vocab), again(limits, vocab);
  ASSERT_OK(runIn(folder / "out", engine, 1000).status());
  auto end = runIn(folder / "out", again, 1000);
  ASSERT_OK(end.status());
  EXPECT_EQ(*end, RunEnd::Finished);
  EXPECT_TRUE(again.seen.empty());
  EXPECT_EQ(again.table, engine.table);
}
