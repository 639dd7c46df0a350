//===- OptionsTest.cpp - Command line and run.toml ------------------------===//

#include "../../../tools/qwenrun/Options.h"
#include "TemporaryFolder.h"

using namespace qwen;

static StatusOr<ParsedOptions> parse(std::vector<std::string> arguments) {
  return parseOptions(arguments);
}

/// Arguments of a complete training command, and `more`.
static std::vector<std::string> withBasics(std::vector<std::string> more) {
  std::vector<std::string> all = {"plan.fb", "--init", "random", "--data",
                                  "d",       "--out",  "o"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(OptionsTest, CommandLine) {
  auto parsed = parse({"plan.fb",
                       "--weights",
                       "w",
                       "--data",
                       "d",
                       "--out",
                       "o",
                       "--steps",
                       "100",
                       "--lr=3e-4",
                       "--schedule",
                       "wsd",
                       "--warmup",
                       "3%",
                       "--decay",
                       "20",
                       "--accumulation",
                       "4",
                       "--clip",
                       "0",
                       "--seed",
                       "4000000000",
                       "--carry",
                       "a.",
                       "--carry",
                       "b.",
                       "--keep",
                       "3"});
  ASSERT_OK(parsed.status());
  const Options &options = parsed->options;
  EXPECT_EQ(options.plan, "plan.fb");
  EXPECT_EQ(options.trainer.steps, 100);
  EXPECT_EQ(options.trainer.epochs, 0);
  EXPECT_EQ(options.trainer.schedule.peak, 3e-4);
  EXPECT_EQ(options.trainer.schedule.kind, ScheduleKind::Wsd);
  EXPECT_EQ(options.trainer.schedule.warmup.steps(100), 3);
  EXPECT_EQ(options.trainer.schedule.decay.steps(100), 20);
  EXPECT_EQ(options.trainer.accumulation, 4);
  EXPECT_EQ(options.trainer.adamw.maxGradNorm, 0);
  EXPECT_EQ(options.trainer.seed, 4000000000u);
  EXPECT_EQ(options.carry, (std::vector<std::string>{"a.", "b."}));
  EXPECT_EQ(options.run.keep, 3);
  EXPECT_FALSE(options.resume);
  EXPECT_NE(options.run.optionsText.find("\"lr\":0.0003"), std::string::npos);
}

TEST(OptionsTest, ListsEndBeforeThePlan) {
  auto measured = parse({"--benchmark=2", "--documents", "5,6", "plan.fb"});
  ASSERT_OK(measured.status());
  EXPECT_EQ(measured->options.plan, "plan.fb");
  EXPECT_EQ(measured->options.documents, (std::vector<int64_t>{5, 6}));
  auto carried = parse({"--weights", "w", "--data", "d", "--out", "o",
                        "--carry", "x.", "--carry", "y.", "plan.fb"});
  ASSERT_OK(carried.status());
  EXPECT_EQ(carried->options.plan, "plan.fb");
  EXPECT_EQ(carried->options.carry, (std::vector<std::string>{"x.", "y."}));
}

TEST(OptionsTest, OneEpochIsTheDefault) {
  auto parsed = parse(withBasics({}));
  ASSERT_OK(parsed.status());
  EXPECT_EQ(parsed->options.trainer.epochs, 1);
}

TEST(OptionsTest, Resume) {
  auto newest = parse({"plan.fb", "--data", "d", "--out", "o", "--resume"});
  ASSERT_OK(newest.status());
  EXPECT_TRUE(newest->options.resume);
  EXPECT_EQ(newest->options.resumeFrom, "");
  auto given = parse(withBasics({"--resume", "o/checkpoint-5"}));
  ASSERT_OK(given.status());
  EXPECT_TRUE(given->options.resume);
  EXPECT_EQ(given->options.resumeFrom, "o/checkpoint-5");
}

TEST(OptionsTest, Help) {
  auto parsed = parse({"--help"});
  ASSERT_OK(parsed.status());
  ASSERT_TRUE(parsed->message.has_value());
  EXPECT_NE(parsed->message->find("--weight-decay"), std::string::npos);
}

TEST(OptionsTest, FileBesideThePlanGivesWhatTheCommandLineDoesNot) {
  TemporaryFolder folder;
  writeFile(folder / "run.toml", R"(# a run
weights = "model"
data = "/abs/train.safetensors"
eval = "e.safetensors"
out = "out"
lr = 2e-4
steps = 50
schedule = "linear"
carry = ["x.", "y."]
resume = true
)");
  auto parsed = parse({folder / "plan.fb", "--lr", "1e-3", "--eval", "here"});
  ASSERT_OK(parsed.status());
  const Options &options = parsed->options;
  EXPECT_EQ(options.config, folder / "run.toml");
  EXPECT_EQ(options.trainer.schedule.peak, 1e-3) << "the command line wins";
  EXPECT_EQ(options.trainer.steps, 50);
  EXPECT_EQ(options.trainer.schedule.kind, ScheduleKind::Linear);
  EXPECT_EQ(options.weights, folder / "model") << "relative to the file";
  EXPECT_EQ(options.data, "/abs/train.safetensors");
  EXPECT_EQ(options.eval, "here") << "relative to where the command runs";
  EXPECT_EQ(options.carry, (std::vector<std::string>{"x.", "y."}));
  EXPECT_TRUE(options.resume);
  EXPECT_EQ(options.resumeFrom, "");
}

TEST(OptionsTest, GivenFileReplacesTheOneBesideThePlan) {
  TemporaryFolder folder;
  writeFile(folder / "run.toml", "lr = 1\n");
  writeFile(folder / "other.toml", "init = \"random\"\ndata = \"d\"\n");
  auto parsed = parse({folder / "plan.fb", "--config", folder / "other.toml",
                       "--out", "o", "--lr", "0.5"});
  ASSERT_OK(parsed.status());
  EXPECT_EQ(parsed->options.data, folder / "d");
  EXPECT_EQ(parsed->options.trainer.schedule.peak, 0.5);
  EXPECT_ERROR(parse({"plan.fb", "--config", folder / "none"}).status(),
               "no options file");
}

TEST(OptionsTest, RefusesUnknownKeysAndBadValues) {
  TemporaryFolder folder;
  std::string plan = folder / "plan.fb";
  for (auto [text, message] :
       {std::pair("learning_rate = 1\n", "learning_rate"),
        std::pair("lr = \"fast\"\n", "lr"),
        std::pair("[train]\nlr = 1\n", "train"),
        std::pair("steps = 1.5\n", "steps")}) {
    writeFile(folder / "run.toml", text);
    EXPECT_ERROR(parse({plan}).status(), message);
  }
}

TEST(OptionsTest, UnknownNamesComeWithTheNearestOne) {
  auto expect = [](const char *option, const char *message) {
    EXPECT_ERROR(parse(withBasics({option, "1"})).status(), message);
  };
  expect("--lrr", "no option '--lrr'; did you mean --lr?");
  expect("--sede", "did you mean --seed?");
  expect("--acumulation=4", "did you mean --accumulation?");
  TemporaryFolder folder;
  for (auto [text, message] :
       {std::pair("min_lr = 0\n", "no option 'min_lr'; did you mean min-lr?"),
        std::pair("schedul = \"wsd\"\n", "did you mean schedule?"),
        std::pair("[train]\nlr = 1\n", "section 'train'")}) {
    writeFile(folder / "run.toml", text);
    EXPECT_ERROR(parse({folder / "plan.fb"}).status(), message);
  }
  // Nothing is near: no guess.
  writeFile(folder / "run.toml", "zzzzzz = 1\n");
  Status status = parse({folder / "plan.fb"}).status();
  EXPECT_EQ(status.message().find("mean"), std::string::npos)
      << status.message();
}

TEST(OptionsTest, RefusesEachContradiction) {
  auto expect = [](std::vector<std::string> more, const char *message) {
    EXPECT_ERROR(parse(withBasics(more)).status(), message);
  };
  expect({"--bogus"}, "--bogus");
  expect({"--lr", "x"}, "--lr");
  expect({"--lr", "-1"}, "--lr: expected a number from 0 to");
  expect({"--lr", "nan"}, "found 'nan'");
  expect({"--steps", "5", "--epochs", "1"}, "exclude each other");
  expect({"--steps", "-5"},
         "--steps: expected a whole number from 0 to 1000000000");
  expect({"--accumulation", "0"},
         "expected a whole number from 1 to 1000000000, found '0'");
  expect({"--accumulation", "2", "--packs-per-step", "4"},
         "--packs-per-step and --accumulation exclude");
  expect({"--packs-per-step", "-1"},
         "--packs-per-step: expected a whole number from 0 to 1000000000");
  expect({"--rank-timeout", "0"},
         "--rank-timeout: expected a whole number from 1 to 86400");
  expect({"--weights", "w"}, "--weights and --init exclude");
  expect({"--schedule", "step"}, "--schedule 'step' is not one of");
  expect({"--warmup", "soon"}, "--warmup: 'soon'");
  expect({"--beta2", "1"},
         "--beta2: expected a number of at least 0 and below 1, found '1'");
  expect({"--min-lr", "1"}, "--min-lr must lie between");
  expect({"--min-lr", "1e-6", "--schedule", "constant"}, "--min-lr needs");
  expect({"--decay", "5"}, "--decay needs --schedule wsd");
  expect({"--eval-every", "5"}, "--eval-every needs --eval");
  expect({"--carry", "x."}, "--carry and --init exclude each other");
  expect({"--profile-trace", "t"}, "--profile-trace needs --profile");
  expect({"--documents", "5"}, "--documents and --data exclude");
  expect({"--dry-run", "--benchmark", "3"}, "exclude each other");
  expect({"--profile=0"}, "--profile: expected a whole number from 1");
  expect({"--keep", "0"}, "--keep: expected a whole number from 1");
  expect({"--seed", "-1"}, "--seed");
  expect({"--init", "zeros"}, "--init");
  EXPECT_ERROR(parse({}).status(), "no plan given");
  EXPECT_ERROR(parse({"p"}).status(), "no weights");
  EXPECT_ERROR(parse({"p", "--weights", "w"}).status(), "no training data");
  EXPECT_ERROR(parse({"p", "--weights", "w", "--data", "d"}).status(),
               "no output folder");
  EXPECT_ERROR(parse({"p", "--weights", "w", "--eval-only"}).status(),
               "--eval-only needs --eval");
  ASSERT_OK(parse({"p", "--info"}).status());
  ASSERT_OK(parse({"p", "--benchmark", "5"}).status());
}
