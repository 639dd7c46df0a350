//===- PlanSeeds.cpp - Valid plans to start from --------------------------===//
//
// Usage: plan-seeds FOLDER. Plans made by hand, for the CPU and for a GPU: none
// of them needs the compiler.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/File.h"
#include "test/unit/plan/PlanDraft.h"
#include "test/unit/runtime/TinyPlan.h"

#include <cstdio>

using namespace qwen;

namespace {

Status write(const std::string &path, const std::string &bytes) {
  QWEN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  QWEN_RETURN_IF_ERROR(file.write(bytes));
  return file.close();
}

Status writeAll(const std::string &folder) {
  TinyPlanOptions gpu{.parameters = DType::BF16, .masters = true};
  gpu.target = "sm_90a";
  QWEN_RETURN_IF_ERROR(write(folder + "/valid-bigram.fb", makeTinyPlan({})));
  QWEN_RETURN_IF_ERROR(
      write(folder + "/valid-bigram-gpu.fb", makeTinyPlan(gpu)));
  QWEN_RETURN_IF_ERROR(
      write(folder + "/valid-sharded.fb", test::shardedPlan().build()));
  return write(folder + "/valid-matrix.fb", test::matrixPlan().build());
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: plan-seeds FOLDER\n");
    return 1;
  }
  Status status = writeAll(argv[1]);
  if (status.ok())
    return 0;
  fmt::print(stderr, "plan-seeds: {}\n", status.message());
  return 1;
}
