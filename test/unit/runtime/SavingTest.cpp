//===- SavingTest.cpp - Checkpoints that are written beside training ------===//
//
// A thread that is held back stands for a slow disk.
//
//===----------------------------------------------------------------------===//

#include "SmallRun.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace qwen;

static constexpr std::array checkpointFiles = {
    "model.safetensors", "optimizer.safetensors", "trainer_state.json"};

/// Whether a folder under construction is that of a step.
static bool isOfStep(const std::string &path, int64_t step) {
  return path.find(fmt::format("/.tmp-checkpoint-{}-", step)) !=
         std::string::npos;
}

namespace {
class SavingTest : public SmallRun {
protected:
  void SetUp() override {
    SmallRun::SetUp();
    options.epochs = 0;
    options.steps = 13;
    runOptions.saveEvery = 3;
    runOptions.keep = 100;
    afterStep = [this](int64_t step) { steps = step; };
  }

  /// Makes the thread that writes the checkpoint of `step` wait.
  void holdBack(int64_t step, std::function<bool()> until) {
    addFiles = [step, until = std::move(until)](const std::string &path) {
      while (isOfStep(path, step) && !until())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return okStatus();
    };
  }
  bool hasSaid(const std::string &text) const {
    return log().find(text) != std::string::npos;
  }
  /// Runs to the end with nothing in the way.
  void runStraight() {
    BigramEngine engine(limits, vocab);
    addFiles = nullptr;
    ASSERT_OK(runIn(folder / "straight", engine, 1000).status());
    table = engine.table;
  }
  void expectSameFiles(const std::string &out, int64_t step) {
    for (const char *file : checkpointFiles) {
      std::string name = fmt::format("/checkpoint-{}/{}", step, file);
      std::string found = readFile(folder / out + name);
      EXPECT_FALSE(found.empty()) << name;
      EXPECT_EQ(found, readFile(folder / "straight" + name)) << name;
    }
  }
  /// Nothing is left of saves that failed.
  void expectNothingPending(const std::string &out) {
    for (auto &entry : std::filesystem::directory_iterator(folder / out))
      EXPECT_NE(entry.path().filename().string().find(".tmp-"), 0u);
  }

  std::atomic<int64_t> steps = 0; ///< done
  std::vector<float> table;       ///< of the straight run
};

class SavingKindTest : public SavingTest,
                       public testing::WithParamInterface<BigramEngine::Kind> {
};
} // namespace

TEST_P(SavingKindTest, ASlowDiskDoesNotStopTheSteps) {
  BigramEngine engine(limits, vocab, GetParam());
  holdBack(3, [this] { return steps >= 5; });
  ASSERT_OK(runIn(folder / "slow", engine, 1000).status());
  std::string said = log();
  size_t saved = said.find("/checkpoint-3; training paused for ");
  ASSERT_NE(saved, std::string::npos) << said;
  EXPECT_LT(said.find("step 5/"), saved);
  runStraight();
  EXPECT_EQ(engine.table, table);
  // That of step 3 has the state after step 3, though training went on.
  for (const PublishedCheckpoint &checkpoint :
       listCheckpoints(folder / "straight"))
    expectSameFiles("slow", checkpoint.step);
}

TEST_P(SavingKindTest, ASecondSaveWaitsForTheFirst) {
  BigramEngine engine(limits, vocab, GetParam());
  holdBack(3, [this] {
    return hasSaid("checkpoint of step 3 is still being written");
  });
  ASSERT_OK(runIn(folder / "slow", engine, 1000).status());
  std::string said = log();
  size_t three = said.find("/checkpoint-3; training paused for "),
         six = said.find("/checkpoint-6; training paused for ");
  ASSERT_NE(three, std::string::npos) << said;
  ASSERT_NE(six, std::string::npos) << said;
  EXPECT_LT(said.find("step 6/"), three);
  EXPECT_LT(three, six);
  runStraight();
  for (int64_t step : {3, 6})
    expectSameFiles("slow", step);
}

TEST_P(SavingKindTest, AStopWaitsForWhatIsBeingWritten) {
  BigramEngine engine(limits, vocab, GetParam());
  holdBack(3, [this] { return hasSaid("waiting for it"); });
  auto end = runIn(folder / "slow", engine, 4);
  ASSERT_OK(end.status());
  EXPECT_EQ(*end, RunEnd::Stopped);
  auto saved = listCheckpoints(folder / "slow");
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].step, 4);
  runStraight();
  expectSameFiles("slow", 3);
}

TEST_P(SavingKindTest, KilledWhileTheWriterWritesAndTrainingRunsOn) {
  pid_t child = ::fork();
  if (child == 0) {
    // The threads of OpenMP are not there any more.
    omp_set_num_threads(1);
    BigramEngine engine(limits, vocab, GetParam());
    holdBack(6, [this] {
      if (steps >= 8)
        ::raise(SIGKILL);
      return false;
    });
    (void)runIn(folder / "killed", engine, 1000);
    ::_exit(1);
  }
  int result = 0;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  ASSERT_TRUE(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
  auto left = listCheckpoints(folder / "killed");
  ASSERT_EQ(left.size(), 1u) << "that of step 3";
  EXPECT_EQ(left[0].step, 3);
  addFiles = nullptr;
  BigramEngine engine(limits, vocab, GetParam());
  ASSERT_OK(runIn(folder / "killed", engine, 1000).status());
  expectNothingPending("killed");
  runStraight();
  EXPECT_EQ(engine.table, table);
  expectSameFiles("killed", 13);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SavingKindTest,
                         testing::Values(BigramEngine::Kind::Host,
                                         BigramEngine::Kind::Device),
                         kindName);

TEST_F(SavingTest, WhatTheWriterCannotWriteIsAWarning) {
  BigramEngine engine(limits, vocab);
  addFiles = [this](const std::string &path) -> Status {
    if (!isOfStep(path, 6))
      return okStatus();
    while (steps < 7)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return makeError(StatusCode::IoError, "cable pulled");
  };
  ASSERT_OK(runIn(folder / "out", engine, 1000).status());
  std::string said = log();
  size_t warning =
      said.find("warning: checkpoint of step 6 not saved: cable pulled");
  ASSERT_NE(warning, std::string::npos) << said;
  EXPECT_LT(said.find("step 7/"), warning);
  std::vector<int64_t> saved;
  for (const PublishedCheckpoint &checkpoint : listCheckpoints(folder / "out"))
    saved.push_back(checkpoint.step);
  EXPECT_EQ(saved, (std::vector<int64_t>{13, 12, 9, 3}));
  expectNothingPending("out");
  runStraight();
  EXPECT_EQ(engine.table, table);
}

TEST_F(SavingTest, AFullDiskInMidRunIsAWarning) {
  // A limit on file sizes stands for the full disk.
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::atomic<bool> isFirstWritten = false;
  addFiles = [&](const std::string &) {
    isFirstWritten = true;
    return okStatus();
  };
  afterStep = [&](int64_t step) {
    rlimit limit = before;
    if (step == 5)
      limit.rlim_cur = 1200; // the weights take 1 KiB, the moments 2
    while (!isFirstWritten && step == 5)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (step == 5 || step == 6)
      (void)::setrlimit(RLIMIT_FSIZE, &limit);
  };
  BigramEngine engine(limits, vocab);
  std::fclose(sink); // has a size too
  sink = ::fopen("/dev/null", "w");
  Status status = runIn(folder / "out", engine, 1000).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_OK(status);
  std::vector<int64_t> saved;
  for (const PublishedCheckpoint &checkpoint : listCheckpoints(folder / "out"))
    saved.push_back(checkpoint.step);
  EXPECT_EQ(saved, (std::vector<int64_t>{13, 12, 9, 3}));
  expectNothingPending("out");
}

TEST_F(SavingTest, NonFiniteStateEndsTheRunAndIsNotPublished) {
  BigramEngine engine(limits, vocab);
  afterStep = [&](int64_t step) {
    if (step == 2)
      engine.v[3] = std::nanf("");
  };
  EXPECT_ERROR(runIn(folder / "out", engine, 1000).status(),
               "checkpoint not saved: value of 'model.table' is NaN or "
               "infinite at element 3");
  EXPECT_TRUE(listCheckpoints(folder / "out").empty());
  expectNothingPending("out");
}

TEST_F(SavingTest, AnErrorOfTheRunGivesUpWhatIsBeingWritten) {
  BigramEngine engine(limits, vocab);
  std::atomic<bool> isFailing = false;
  holdBack(6, [&] { return isFailing.load(); });
  afterStep = [&](int64_t step) {
    isFailing = step == 8;
    engine.isBroken = step == 8;
  };
  EXPECT_ERROR(runIn(folder / "out", engine, 1000).status(), "engine broken");
  auto left = listCheckpoints(folder / "out");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].step, 3);
  expectNothingPending("out");
}

/// Bytes of address space that this process has.
static int64_t addressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST_F(SavingTest, WithoutMemoryForACopyTrainingWaits) {
  // Its state takes 9.7 MB.
  BigramEngine engine(limits, 900);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  afterStep = [&](int64_t step) {
    rlimit limit = before;
    limit.rlim_cur = rlim_t(addressSpace()) + (6 << 20);
    if (step == 2)
      (void)::setrlimit(RLIMIT_AS, &limit);
  };
  addFiles = [&](const std::string &) {
    (void)::setrlimit(RLIMIT_AS, &before);
    return okStatus();
  };
  options.steps = 4;
  Status status = runIn(folder / "out", engine, 1000).status();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_OK(status);
  EXPECT_TRUE(hasSaid("training waits for the checkpoint of step 3: cannot "
                      "allocate "))
      << log();
  ASSERT_OK(verifyCheckpoint(folder / "out/checkpoint-3"));
  EXPECT_EQ(listCheckpoints(folder / "out").size(), 2u);
}
