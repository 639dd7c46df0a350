//===- SmallRun.h - Runs of a small model with their files -----*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_SMALLRUN_H
#define QWEN_TEST_UNIT_RUNTIME_SMALLRUN_H

#include "BigramEngine.h"
#include "Resume.h"
#include "TokenFile.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/TrainingRun.h"

#include <random>

namespace qwen {

/// Data and options of one small run: 5 packs an epoch or so, 2 a step.
class SmallRun : public ::testing::Test {
protected:
  static constexpr int64_t vocab = 16;
  static constexpr PackLimits limits = {20, 4};

  void SetUp() override {
    std::mt19937 random(5);
    TokenFile file;
    for (int i = 0; i < 12; ++i) {
      std::vector<int32_t> document;
      for (size_t length = 3 + random() % 8; document.size() < length;)
        document.push_back(int32_t(random() % vocab));
      file.add(document);
    }
    file.write(folder / "t.safetensors");
    auto opened = TokenDataset::open(folder / "t.safetensors", vocab);
    ASSERT_OK(opened.status());
    data.emplace(std::move(opened).value());
    options.epochs = 4;
    options.accumulation = 2;
    options.seed = 9;
    options.schedule.peak = 1e-2;
    options.schedule.warmup = {3, false};
    sink = std::fopen((folder / "log").c_str(), "w");
    std::setvbuf(sink, nullptr, _IOLBF, BUFSIZ);
  }
  void TearDown() override { std::fclose(sink); }

  /// Runs in `out` until `stopAfter` steps of this process are done, from the
  /// newest checkpoint there, if any.
  StatusOr<RunEnd> runIn(const std::string &out, BigramEngine &engine,
                         int64_t stopAfter) {
    QWEN_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::open(out));
    QWEN_ASSIGN_OR_RETURN(Trainer trainer,
                          Trainer::create(engine, *data, options));
    QWEN_ASSIGN_OR_RETURN(auto resumed, resumeNewest(out, engine, trainer));
    if (!resumed)
      QWEN_RETURN_IF_ERROR(initializeParameters(engine, options.seed));
    RunFiles files{&directory, resumed ? &resumed->weights : nullptr, nullptr,
                   addFiles};
    QWEN_ASSIGN_OR_RETURN(MetricsLog metrics,
                          MetricsLog::open(out, trainer.state().step));
    Progress progress(sink, 1);
    TrainingRun run(trainer, engine, &*data, files, runOptions, &metrics,
                    progress);
    totalSteps = trainer.totalSteps();
    int64_t last = trainer.state().step + stopAfter;
    return run.run([&] {
      if (afterStep)
        afterStep(trainer.state().step);
      return trainer.state().step >= last;
    });
  }
  /// What the runs said.
  std::string log() const { return readFile(folder / "log"); }

  TemporaryFolder folder;
  std::optional<TokenDataset> data;
  TrainerOptions options;
  RunOptions runOptions;
  /// Called after each step that is not the last, and before the first.
  std::function<void(int64_t step)> afterStep;
  /// Called by the thread that writes a checkpoint.
  std::function<Status(const std::string &folder)> addFiles;
  int64_t totalSteps = 0;
  std::FILE *sink = nullptr;
};

/// Names the tests of an engine's kinds.
inline std::string
kindName(const ::testing::TestParamInfo<BigramEngine::Kind> &info) {
  return info.param == BigramEngine::Kind::Host ? "Host" : "Device";
}

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_SMALLRUN_H
