//===- Harness.h - From a config to a plan in this process -----*- C++ -*-===//
//
// Runs the built qwen-import and qwenc, as a user would, and loads what they
// write. Where tests run on a machine without the compiler, they read plans
// that were compiled before.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_HARNESS_H
#define QWEN_TEST_E2E_HARNESS_H

#include "runtime/plan/Plan.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace qwen::e2e {

/// What to build. Plans with the same values are compiled once in a process.
struct PlanSpec {
  /// Name of a file in models/configs without ".json".
  std::string config;
  /// Text of a config.json to use instead of that file.
  std::string configText = {};
  std::string dtype = "f32";
  int64_t tokens = 128;
  int64_t maxDocuments = 8;
  std::string recompute = "none";
  std::string masters = "f32";
  std::string momentType = "f32";
  bool fuse = true;
  bool logits = false;
  int64_t worldSize = 1;
  int64_t prefetch = 1;
  bool reshardAfterForward = true;
  /// Of the gradients that ranks hold.
  std::string gradType = "f32";
  std::string embeddingExchange = "auto";
  /// As qwenc takes it.
  std::string target = defaultTarget;

  static constexpr const char *defaultTarget = "x86-64-v3";
  auto operator<=>(const PlanSpec &) const = default;
};

/// For test output.
inline void PrintTo(const PlanSpec &spec, std::ostream *os) {
  *os << spec.config << " in " << spec.dtype << " on " << spec.target;
}

/// What the command line of a test program says.
struct TestOptions {
  /// What the plans under test run on.
  std::string target = PlanSpec::defaultTarget;
  /// Folder of compiled plans: those that are there are used, others are
  /// written to it. Empty: a folder of this process.
  std::string plans;
  /// Root of the sources, for configs and golden files.
  std::string sources;
  /// Compile every plan of the program into `plans` and run nothing.
  bool compileOnly = false;

  bool isCuda() const;
};
const TestOptions &testOptions();

/// Takes --target=, --plans=, --sources= and --compile-only from a command
/// line; the rest stays, for GoogleTest.
void takeTestOptions(int &argc, char **argv);

/// `main` of a program that runs on either target: options, then the compiler
/// alone for --compile-only, else the tests. 77 where the target is a GPU and
/// there is none.
int runTests(int argc, char **argv,
             const std::function<std::vector<PlanSpec>()> &everyPlan);

/// The smallest models with a tied and with an untied head that the target's
/// kernels take.
std::vector<std::string> tinyConfigs();

/// A config's name as part of a test's name.
std::string testName(std::string config);

/// The plan for `spec`, or what the tools said instead of writing one.
StatusOr<Plan> compilePlan(const PlanSpec &spec);

/// Compiles plans into the folder of --plans. Status of a program: 0, 77 where
/// what assembles code for the target is not installed, 1 for other errors.
int compileAll(const std::vector<PlanSpec> &specs);

/// Forgets all plans and removes those that are in the folder of this process.
void forgetPlans();

/// The same plan as a file, for programs that load it themselves.
StatusOr<std::string> compilePlanFile(const PlanSpec &spec);

/// Path of a file or folder of the sources.
std::string sourcePath(const std::string &path);

} // namespace qwen::e2e

/// Declares `name` and takes the value of a StatusOr; ends the test on an
/// error.
#define ASSERT_OK_AND_TAKE(name, expression)                                   \
  auto QWEN_CONCAT(name, OrStatus) = (expression);                             \
  ASSERT_TRUE(QWEN_CONCAT(name, OrStatus).ok())                                \
      << QWEN_CONCAT(name, OrStatus).status().message();                       \
  auto name = std::move(QWEN_CONCAT(name, OrStatus)).value()

#endif // QWEN_TEST_E2E_HARNESS_H
