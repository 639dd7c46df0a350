//===- PlanReaderTest.cpp - Files that are plans and files that are not ---===//

#include "PlanDraft.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/support/Publish.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

using namespace qwen;
using namespace qwen::test;

namespace {

/// One line, not empty.
void expectOneLine(const Status &status) {
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

TEST(PlanReader, GivesWhatTheFileSays) {
  auto plan = parse(matrixPlan().build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->info().target, "x86-64");
  EXPECT_EQ(plan->info().compilerVersion, "1.2.3");
  EXPECT_EQ(plan->info().compilerFlags, "--recompute=none");
  EXPECT_EQ(plan->info().tokens, 4);
  EXPECT_EQ(plan->info().maxDocuments, 2);
  EXPECT_EQ(plan->info().vocabSize, 16);
  ASSERT_EQ(plan->info().flops.size(), 1u);
  EXPECT_EQ(plan->info().flops[0].perToken, 96);
  EXPECT_EQ(plan->info().flops[0].perTokenContext, 2);
  EXPECT_EQ(plan->info().forecast.parameters, 256);
  EXPECT_EQ(plan->info().forecast.io, 256);

  ASSERT_EQ(plan->parameters().size(), 2u);
  const PlanParameter &v = plan->parameters()[1];
  EXPECT_EQ(v.name, "v");
  EXPECT_EQ(toString(v.type), "f32[2, 8]");
  EXPECT_EQ(v.value.buffer, 0u);
  EXPECT_EQ(v.value.byteOffset, 192);
  EXPECT_EQ(v.stackIndex, 1);
  EXPECT_FALSE(v.gradient.exists());
  EXPECT_TRUE(plan->parameters()[0].gradient.exists());
  EXPECT_EQ(plan->findParameter("v"), 1);
  EXPECT_EQ(plan->findParameter("u"), std::nullopt);

  ASSERT_EQ(plan->findProgram("clear"), 1);
  EXPECT_EQ(plan->findProgram("backward"), std::nullopt);
  EXPECT_EQ(plan->programs()[0].launches, 3);
  ASSERT_NE(plan->findInput("x"), nullptr);
  EXPECT_EQ(toString(plan->findInput("x")->place.type), "f32[4, 8]");
  EXPECT_EQ(plan->findInput("y"), nullptr);
}

TEST(PlanReader, LoadsAFileAndNamesItInErrors) {
  std::string folder = testing::TempDir() + "qwen-plan-reader-test";
  ASSERT_TRUE(ensureWritableDirectory(folder).ok());
  std::string path = folder + "/plan.fb";
  ASSERT_TRUE(publishFile(path, matrixPlan().build()).ok());
  EXPECT_TRUE(Plan::load(path).ok());

  ASSERT_TRUE(publishFile(path, "").ok());
  auto empty = Plan::load(path);
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.status().message().find(path), std::string::npos);
  EXPECT_NE(empty.status().message().find("0 bytes"), std::string::npos);

  auto absent = Plan::load(folder + "/absent.fb");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), StatusCode::NotFound);
  std::filesystem::remove_all(folder);
}

TEST(PlanReader, RefusesEveryCut) {
  std::string bytes = matrixPlan().build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto plan = parse(bytes.substr(0, size));
    ASSERT_FALSE(plan.ok()) << size << " bytes";
    EXPECT_EQ(plan.status().code(), StatusCode::DataLoss);
    expectOneLine(plan.status());
  }
}

TEST(PlanReader, RefusesEveryFlippedBit) {
  std::string bytes = matrixPlan().build();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      auto plan = parse(flipped);
      ASSERT_FALSE(plan.ok()) << "byte " << i << " bit " << bit;
      EXPECT_EQ(plan.status().code(), StatusCode::DataLoss);
    }
}

/// With a right hash the structure and the meaning are on their own: whatever
/// they say, they must come back.
TEST(PlanReader, SurvivesChangedBytesUnderARightHash) {
  std::string bytes = matrixPlan().build();
  size_t body = bytes.size() - planTrailerBytes;
  int refused = 0;
  for (size_t i = 0; i < body; ++i)
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      auto plan = parse(withRightHash(changed));
      if (plan.ok())
        continue; // a value, a name or padding
      ++refused;
      expectOneLine(plan.status());
    }
  EXPECT_GT(refused, 0);
}

TEST(PlanReader, SurvivesRandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 512, '\0');
    for (char &byte : bytes)
      byte = static_cast<char>(random());
    auto plan = parse(bytes);
    ASSERT_FALSE(plan.ok());
    if (bytes.size() < 8 + planTrailerBytes)
      continue;
    bytes.replace(4, 4, "QWPL");
    plan = parse(withRightHash(bytes));
    ASSERT_FALSE(plan.ok());
    expectOneLine(plan.status());
  }
}

} // namespace
