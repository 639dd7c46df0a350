//===- LauncherTest.cpp - What launchers say of a rank --------------------===//

#include "runtime/collectives/Communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace qwen;

namespace {

/// Without what a launcher of the test itself may have left.
class LauncherTest : public testing::Test {
protected:
  void SetUp() override {
    for (const char *name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_SIZE",
          "MPI_LOCALRANKID", "SLURM_LOCALID", "SLURM_PROCID",
          "SLURM_STEP_NUM_TASKS", "PMIX_RANK"})
      unsetenv(name);
  }
  static void set(const char *name, const char *value) {
    setenv(name, value, 1);
  }
};

} // namespace

TEST_F(LauncherTest, TheNumberOnTheMachine) {
  EXPECT_EQ(launchedLocalRank(), std::nullopt);
  set("SLURM_LOCALID", "3");
  EXPECT_EQ(launchedLocalRank(), 3);
  set("MPI_LOCALRANKID", "2");
  EXPECT_EQ(launchedLocalRank(), 2);
  set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  EXPECT_EQ(launchedLocalRank(), 1);
}

TEST_F(LauncherTest, WhatIsNoNumberDoesNotCount) {
  for (const char *text : {"", "-1", "one", "1x", " 1", "99999999999"}) {
    set("OMPI_COMM_WORLD_LOCAL_RANK", text);
    EXPECT_EQ(launchedLocalRank(), std::nullopt) << "'" << text << "'";
  }
  // The next one is asked.
  set("SLURM_LOCALID", "0");
  EXPECT_EQ(launchedLocalRank(), 0);
}

TEST_F(LauncherTest, TheNumberOfRanks) {
  EXPECT_EQ(launchedRanks(), 1);
  // In a batch script, which is no rank.
  set("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_EQ(launchedRanks(), 1);
  set("SLURM_PROCID", "0");
  EXPECT_EQ(launchedRanks(), 4);
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_EQ(launchedRanks(), 2);
}

TEST_F(LauncherTest, ARankThatDoesNotKnowHowManyThereAre) {
  set("PMIX_RANK", "0");
  EXPECT_EQ(launchedRanks(), 0);
}

TEST_F(LauncherTest, AModuleOfAnotherBuildIsRefused) {
  set("OMPI_COMM_WORLD_SIZE", "2");
  Status status = joinRanks({}).status();
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_NE(status.message().find("libqwen_mpi.so' is of another build"),
            std::string::npos)
      << status.message();
}
