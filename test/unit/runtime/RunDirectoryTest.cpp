//===- RunDirectoryTest.cpp - Publishing, keeping and finding checkpoints -===//

#include "runtime/checkpoint/RunDirectory.h"
#include "TemporaryFolder.h"
#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Checkpoint.h"

using namespace qwen;

/// Publishes a checkpoint with one weight and its moments.
static Status publishCheckpoint(const RunDirectory &run, int64_t step) {
  float value = float(step), moment = 1;
  ParameterView view;
  view.name = std::string("w");
  view.shape = {1};
  view.value = {contiguousType(DType::F32, {1}), &value};
  view.moment1 = view.moment2 = {contiguousType(DType::F32, {1}), &moment};
  std::vector<ParameterView> views = {view};
  QWEN_ASSIGN_OR_RETURN(PendingDirectory pending, run.beginCheckpoint(step));
  QWEN_RETURN_IF_ERROR(saveParameters(pending.path(), nullptr, views));
  QWEN_ASSIGN_OR_RETURN(Checkpoint saved, Checkpoint::open(pending.path()));
  QWEN_RETURN_IF_ERROR(saveOptimizerState(pending.path(), saved, views));
  QWEN_RETURN_IF_ERROR(
      publishFile(pending.path() + "/trainer_state.json", "{}"));
  return pending.publish();
}

static std::vector<int64_t> steps(const std::string &path) {
  std::vector<int64_t> found;
  for (auto &checkpoint : listCheckpoints(path))
    found.push_back(checkpoint.step);
  return found;
}

TEST(RunDirectoryTest, KeepsTheNewest) {
  TemporaryFolder folder;
  auto run = RunDirectory::open(folder / "out");
  ASSERT_OK(run.status());
  for (int64_t step : {9, 10, 100, 20}) {
    ASSERT_OK(publishCheckpoint(*run, step));
  }
  EXPECT_EQ(steps(run->path()), (std::vector<int64_t>{100, 20, 10, 9}));
  ASSERT_OK(run->keepNewest(1, 10));
  EXPECT_EQ(steps(run->path()), (std::vector<int64_t>{100, 20, 10}))
      << "later ones neither count nor go";
  ASSERT_OK(run->keepNewest(2, 100));
  EXPECT_EQ(steps(run->path()), (std::vector<int64_t>{100, 20}));
  ASSERT_OK(run->keepNewest(0, 100));
  EXPECT_EQ(steps(run->path()), (std::vector<int64_t>{100}))
      << "the last one is never removed";
}

TEST(RunDirectoryTest, TakesTheNewestThatIsComplete) {
  TemporaryFolder folder;
  auto run = RunDirectory::open(folder.path);
  ASSERT_OK(run.status());
  std::vector<std::string> warnings;
  EXPECT_ERROR(findNewestCheckpoint(folder.path, warnings).status(),
               "no usable checkpoint");
  for (int64_t step : {1, 2, 3, 4})
    ASSERT_OK(publishCheckpoint(*run, step));
  std::filesystem::remove(folder / "checkpoint-4/trainer_state.json");
  std::filesystem::resize_file(folder / "checkpoint-3/model.safetensors", 70);
  auto newest = findNewestCheckpoint(folder.path, warnings);
  ASSERT_OK(newest.status());
  EXPECT_EQ(newest->step, 2);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[1].find("checkpoint-3"), std::string::npos);
}

TEST(RunDirectoryTest, AnInterruptedSaveHarmsNothing) {
  TemporaryFolder folder;
  {
    auto run = RunDirectory::open(folder.path);
    ASSERT_OK(run.status());
    ASSERT_OK(publishCheckpoint(*run, 5));
  }
  // As after a kill: in the middle of writing, of replacing, of removing.
  std::filesystem::create_directory(folder / ".tmp-checkpoint-6-123");
  writeFile(folder / ".tmp-checkpoint-6-123/model.safetensors", "half");
  std::filesystem::rename(folder / "checkpoint-5",
                          folder / ".old-checkpoint-5-123");
  std::filesystem::create_directory(folder / ".gone-4");
  auto run = RunDirectory::open(folder.path);
  ASSERT_OK(run.status());
  std::vector<std::string> warnings;
  auto newest = findNewestCheckpoint(folder.path, warnings);
  ASSERT_OK(newest.status());
  EXPECT_EQ(newest->step, 5);
  EXPECT_FALSE(std::filesystem::exists(folder / ".tmp-checkpoint-6-123"));
  EXPECT_FALSE(std::filesystem::exists(folder / ".gone-4"));
}

TEST(RunDirectoryTest, ReplacesACheckpointOfTheSameStep) {
  TemporaryFolder folder;
  auto run = RunDirectory::open(folder.path);
  ASSERT_OK(run.status());
  ASSERT_OK(publishCheckpoint(*run, 5));
  ASSERT_OK(publishCheckpoint(*run, 5));
  EXPECT_EQ(steps(folder.path), (std::vector<int64_t>{5}));
  ASSERT_OK(verifyCheckpoint(folder / "checkpoint-5"));
}

TEST(RunDirectoryTest, OneRunAtATime) {
  TemporaryFolder folder;
  auto run = RunDirectory::open(folder.path);
  ASSERT_OK(run.status());
  EXPECT_ERROR(RunDirectory::open(folder.path).status(), "in use by another");
}

TEST(RunDirectoryTest, OtherNamesAreNotCheckpoints) {
  TemporaryFolder folder;
  for (const char *name :
       {"checkpoint-", "checkpoint-x", "checkpoint-3x", "checkpoint--1",
        "mycheckpoint-3", "checkpoint-99999999999999999999"})
    std::filesystem::create_directory(folder / name);
  EXPECT_TRUE(steps(folder.path).empty());
  EXPECT_TRUE(steps(folder / "none").empty());
}
