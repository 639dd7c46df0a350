//===- Harness.h - From a config to a plan in this process -----*- C++ -*-===//
//
// Runs the built qwen-import and qwenc, as a user would, and loads what they
// write.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_HARNESS_H
#define QWEN_TEST_E2E_HARNESS_H

#include "runtime/plan/Plan.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace qwen::e2e {

/// What to build. Plans with the same values are compiled once in a process.
struct PlanSpec {
  /// Name of a file in models/configs without ".json".
  std::string config;
  std::string dtype = "f32";
  int64_t tokens = 128;
  int64_t maxDocuments = 8;
  std::string recompute = "none";
  std::string masters = "f32";
  std::string momentType = "f32";
  bool fuse = true;
  bool logits = false;

  auto operator<=>(const PlanSpec &) const = default;
};

/// For test output.
inline void PrintTo(const PlanSpec &spec, std::ostream *os) {
  *os << spec.config << " in " << spec.dtype;
}

/// The plan for `spec`, or what the tools said instead of writing one.
StatusOr<Plan> compilePlan(const PlanSpec &spec);

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
