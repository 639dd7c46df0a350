//===- QwenRunTest.cpp - The program: runs, resumes, refuses --------------===//

#include "TinyPlan.h"
#include "TokenFile.h"
#include "runtime/checkpoint/RunDirectory.h"

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace qwen;
namespace fs = std::filesystem;

namespace {
/// How a process ended and what it printed.
struct Outcome {
  int exitCode = -1;
  std::string out, err;
};

class QwenRunTest : public ::testing::Test {
protected:
  void SetUp() override {
    writeFile(folder / "plan.fb", makeTinyPlan({}));
    train.addLengths({4, 7, 9, 16, 3, 5, 8, 6, 2, 11});
    for (int32_t &token : train.tokens)
      token %= 32;
    train.write(folder / "train.safetensors");
    writeFile(folder / "config.json", "{\"model_type\": \"bigram\"}\n");
  }

  /// Starts qwenrun in the test's folder with output to files.
  Outcome run(const std::string &arguments) {
    std::string command =
        fmt::format("cd '{}' && exec '{}' {} > out.txt 2> err.txt", folder.path,
                    QWENRUN_BINARY, arguments);
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            readFile(folder / "out.txt"), readFile(folder / "err.txt")};
  }

  /// A refusal: exit 1, one line that has `message`, nothing in `out`.
  void expectRefusal(const std::string &arguments, const char *message) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exitCode, 1) << arguments;
    EXPECT_EQ(outcome.err.find("qwenrun: error: "), 0u) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
        << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos)
        << "expected: " << message << "\nfound: " << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "run")) << arguments;
  }

  TemporaryFolder folder;
  TokenFile train;
};
} // namespace

static const char *const basics =
    "plan.fb --init random --model-config config.json "
    "--data train.safetensors --out run --lr 1e-2 --threads 1 ";

TEST_F(QwenRunTest, TrainsAndResumesBitForBit) {
  std::string options = std::string(basics) +
                        "--steps 12 --accumulation 2 --eval train.safetensors ";
  Outcome straight = run(options + "--eval-every 5");
  ASSERT_EQ(straight.exitCode, 0) << straight.err;
  for (const char *text :
       {"linear_cross_entropy_grad",
        "memory: ", "weight decay 0.1 on 1 tensors", "packing: ", "step 12/12",
        "eval after step 5", "finished after 12"})
    EXPECT_NE(straight.out.find(text), std::string::npos) << text;
  fs::rename(folder / "run", folder / "straight");
  // The length of a run shapes its schedule, so the first part is a whole run
  // of which only the checkpoint of step 7 is left.
  ASSERT_EQ(run(options + "--save-every 7 --keep 9").exitCode, 0);
  fs::remove_all(folder / "run/checkpoint-12");
  Outcome resumed = run(options + "--resume");
  ASSERT_EQ(resumed.exitCode, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resuming from 'run/checkpoint-7': step 7"),
            std::string::npos);
  EXPECT_EQ(resumed.out.find("options changed"), std::string::npos);
  for (const char *file :
       {"model.safetensors", "optimizer.safetensors", "config.json"})
    EXPECT_EQ(readFile(folder / "run/checkpoint-12/" + file),
              readFile(folder / "straight/checkpoint-12/" + file))
        << file;
  Outcome again = run(options + "--resume --clip 2");
  EXPECT_EQ(again.exitCode, 0);
  EXPECT_NE(again.out.find("nothing to do"), std::string::npos);
  EXPECT_NE(again.out.find("options changed since"), std::string::npos);
}

TEST_F(QwenRunTest, RunFileBesideThePlanIsEnough) {
  writeFile(folder / "run.toml", "init = \"random\"\nsteps = 2\nout = \"run\"\n"
                                 "data = \"train.safetensors\"\n"
                                 "model-config = \"config.json\"\n");
  Outcome outcome = run("plan.fb");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder / "run/checkpoint-2/config.json"));
  EXPECT_TRUE(fs::exists(folder / "run/metrics.jsonl"));
}

TEST_F(QwenRunTest, TerminationFinishesTheStepAndSaves) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::chdir(folder.path.c_str()) != 0 ||
        !std::freopen("o.txt", "w", stdout))
      ::_exit(99);
    ::execl(QWENRUN_BINARY, "qwenrun", "plan.fb", "--init", "random", "--data",
            "train.safetensors", "--out", "run", "--steps", "100000000",
            "--threads", "1", static_cast<char *>(nullptr));
    ::_exit(98);
  }
  // The first metrics say that training is under way. A process that ends
  // before is seen by waitpid below.
  std::error_code error;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0 &&
         fs::file_size(folder / "run/metrics.jsonl", error) + 1 <= 1)
    ::usleep(1000);
  ::kill(child, SIGTERM);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  auto saved = listCheckpoints(folder / "run");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_GT(saved[0].step, 0);
  ASSERT_OK(verifyCheckpoint(saved[0].path));
}

TEST_F(QwenRunTest, EvaluatesACheckpoint) {
  ASSERT_EQ(run(std::string(basics) + "--steps 3").exitCode, 0);
  Outcome outcome = run("plan.fb --weights run/checkpoint-3 --eval-only "
                        "--eval train.safetensors");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("{\"loss\": "), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("\"tokens\": 61}"), std::string::npos)
      << outcome.out;
}

TEST_F(QwenRunTest, DescribesAndTimesAPlan) {
  Outcome info = run("plan.fb --info");
  EXPECT_EQ(info.exitCode, 0) << info.err;
  for (const char *text :
       {"made by qwenc 0.0 with --by-hand", "target x86-64-v3", "vocabulary 32",
        "adamw", "model_type", "lm_head"})
    EXPECT_NE(info.out.find(text), std::string::npos) << text;
  Outcome timed = run("plan.fb --benchmark 3 --threads 1");
  EXPECT_EQ(timed.exitCode, 0) << timed.err;
  EXPECT_EQ(timed.out.find('{'), 0u) << timed.out;
  EXPECT_EQ(std::count(timed.out.begin(), timed.out.end(), '\n'), 1);
  for (const char *field :
       {"step_ms", "tokens", "model_flops", "hardware_flops", "gpu_kernels",
        "driver_calls", "plan_bytes", "forecast_bytes", "first_step_s"})
    EXPECT_NE(timed.out.find(fmt::format("\"{}\": ", field)), std::string::npos)
        << field;
  // Three steps of a pack of 12 tokens in three documents.
  Outcome fixed = run("plan.fb --benchmark 3 --documents=5,4,3");
  EXPECT_EQ(fixed.exitCode, 0) << fixed.err;
  EXPECT_NE(fixed.out.find("\"tokens\": 36, "), std::string::npos) << fixed.out;
  expectRefusal("plan.fb --benchmark 3 --documents=9,8",
                "17 tokens in 2 documents, a pack of this plan holds 16 in 4");
  expectRefusal("plan.fb --benchmark 3 --documents=5,0", "--documents");
  expectRefusal(std::string(basics) + "--documents=5", "exclude each other");
}

TEST_F(QwenRunTest, RefusesBadPlans) {
  std::string plan = makeTinyPlan({});
  auto expect = [&](const std::string &content, const char *message) {
    writeFile(folder / "plan.fb", content);
    expectRefusal(basics, message);
  };
  expect("", "0 bytes");
  expect(plan.substr(0, plan.size() / 2), "plan.fb");
  std::string flipped = plan;
  flipped[plan.size() / 2] ^= 4;
  expect(flipped, "plan.fb");
  TinyPlanOptions other;
  other.target = "sm_90a";
  expect(makeTinyPlan(other), "sm_90a");
  TinyPlanOptions noEval;
  noEval.withEval = false;
  expect(makeTinyPlan(noEval), "no program 'eval'");
  fs::remove(folder / "plan.fb");
  expectRefusal(basics, "No such file");
}

TEST_F(QwenRunTest, RefusesBadData) {
  auto expect = [&](auto spoil, const char *message) {
    TokenFile file = train;
    spoil(file);
    file.write(folder / "train.safetensors");
    expectRefusal(basics, message);
  };
  expect([](TokenFile &f) { f.tokens[5] = 32; },
         "token 1 of document 1 is 32, outside the vocabulary of 32");
  expect([](TokenFile &f) { f = TokenFile(); }, "the data set is empty");
  expect([](TokenFile &f) { f.add(std::vector<int32_t>(17, 1)); },
         "document 10 has 17 tokens, a pack of this plan holds 16");
  train.write(folder / "train.safetensors");
  TokenFile other = train;
  other.metadata["tokenizer_sha256"] = "another";
  other.write(folder / "eval.safetensors");
  expectRefusal(std::string(basics) + "--eval eval.safetensors",
                "were made with different tokenizers");
  fs::resize_file(folder / "train.safetensors",
                  fs::file_size(folder / "train.safetensors") - 1);
  expectRefusal(basics, "file is cut");
  fs::remove(folder / "train.safetensors");
  expectRefusal(basics, "No such file");
}

TEST_F(QwenRunTest, RefusesBadWeights) {
  std::string start = "plan.fb --weights model --data train.safetensors "
                      "--out run ";
  expectRefusal(start, "no checkpoint folder 'model'");
  ASSERT_EQ(run(std::string(basics) + "--steps 1").exitCode, 0);
  fs::rename(folder / "run/checkpoint-1", folder / "model");
  fs::remove_all(folder / "run");
  std::string weights = readFile(folder / "model/model.safetensors");
  auto expect = [&](const std::string &content, const char *message) {
    writeFile(folder / "model/model.safetensors", content);
    expectRefusal(start, message);
  };
  expect(weights.substr(0, weights.size() - 1), "file is cut");
  expect(weights + "x", "file is too long");
  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string changed = weights;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  expect(replaced("lm_head.weight", "lm_tail.weight"),
         "1 missing (lm_head.weight); 1 not in the plan (lm_tail.weight)");
  expect(replaced("[32,8]", "[8,32]"), "of wrong shape");
  expect(replaced("\"F32\"", "\"I32\""), "of wrong type");
  expect(replaced("[0,1024]", "[1,1025]"), "a hole");
  writeFile(folder / "model/model.safetensors", weights);
  writeFile(folder / "model/model.safetensors.index.json",
            R"({"weight_map": {"lm_head.weight": "gone.safetensors"}})");
  fs::remove(folder / "model/model.safetensors");
  expectRefusal(start, "gone.safetensors': No such file");
}

TEST_F(QwenRunTest, RefusesWhatItCannotWrite) {
  writeFile(folder / "file", "");
  expectRefusal("plan.fb --init random --data train.safetensors --out file",
                "is not a folder");
  expectRefusal("plan.fb --init random --data train.safetensors "
                "--out file/run",
                "is not a folder");
}

TEST_F(QwenRunTest, KeepsRunsApart) {
  ASSERT_EQ(run(std::string(basics) + "--steps 1").exitCode, 0);
  Outcome second = run(std::string(basics) + "--steps 1");
  EXPECT_EQ(second.exitCode, 1);
  EXPECT_NE(second.err.find("has checkpoints of an earlier run"),
            std::string::npos);
  Outcome other = run(std::string(basics) + "--steps 2 --seed 5 --resume");
  EXPECT_EQ(other.exitCode, 1);
  EXPECT_NE(other.err.find("seed was 0 and is 5"), std::string::npos);
  EXPECT_EQ(listCheckpoints(folder / "run").size(), 1u);
  ASSERT_EQ(run(std::string(basics) + "--steps 3 --resume").exitCode, 0);
  Outcome back =
      run(std::string(basics) + "--steps 3 --resume run/checkpoint-1");
  EXPECT_EQ(back.exitCode, 1);
  EXPECT_NE(back.err.find("has a checkpoint of step 3"), std::string::npos)
      << back.err;
}

TEST_F(QwenRunTest, ADamagedCheckpointIsPassedOverAndPushesNoneOut) {
  std::string options = std::string(basics) + "--steps 6 --save-every 2 ";
  ASSERT_EQ(run(options + "--keep 9").exitCode, 0);
  fs::resize_file(folder / "run/checkpoint-6/model.safetensors", 100);
  fs::remove_all(folder / "run/checkpoint-4");
  Outcome resumed = run(options + "--keep 1 --resume");
  ASSERT_EQ(resumed.exitCode, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("warning: passing over 'run/checkpoint-6'"),
            std::string::npos);
  EXPECT_NE(resumed.out.find("resuming from 'run/checkpoint-2'"),
            std::string::npos);
  ASSERT_OK(verifyCheckpoint(folder / "run/checkpoint-6"));
}
