//===- Groups.cpp - Times and results of generated kernels ----------------===//
//
// Runs each generated kernel of a plan on random data. With a plan of the same
// fused graph for the CPU, its kernel of the same name gets the same data.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "GroupCases.h"
#include "GroupReference.h"

#include "runtime/kernels/cuda/Group.h"
#include "runtime/support/Print.h"

#include <algorithm>
#include <cstdio>
#include <memory>

using namespace qwen;
using namespace qwen::bench;

namespace {

struct GroupsOptions {
  std::string plan, reference;
  std::vector<std::string> only;
  int samples = 30;
  bool checkOnly = false;
  bool table = false;
};

/// What one kernel showed.
struct GroupResult {
  std::string symbol;
  int64_t calls = 0;
  double bytes = 0;
  Times times;
  double worst = -1; ///< largest error, as part of its bound; -1: not compared
};

class GroupsBench {
public:
  explicit GroupsBench(const GroupsOptions &options) : options(options) {}
  Status run();

private:
  Status check(const GroupCase &group, const cuda::GroupKernel &kernel,
               GroupResult &result) const;
  Status measure(const GroupCase &group, const cuda::GroupKernel &kernel,
                 GroupResult &result) const;
  Status launch(const GroupArgs &args, const cuda::GroupKernel &kernel,
                cudaStream_t stream) const;
  void print(const GroupResult &result) const;
  void printRow(const GroupResult &result) const;

  const GroupsOptions &options;
  std::unique_ptr<GroupReference> reference;
  DeviceArray *workspace = nullptr;
  double copyRate = 0; ///< bytes a second
};

/// Sets rotate so that none of their bytes is left in the second-level cache
/// when its turn comes.
constexpr double rotatedBytes = 400e6;
constexpr int maxSets = 64;

Status GroupsBench::launch(const GroupArgs &args,
                           const cuda::GroupKernel &kernel,
                           cudaStream_t stream) const {
  cuda::LaunchContext context;
  context.stream = stream;
  context.workspace = workspace->bytes();
  context.group = kernel;
  return cudaStatus(cuda::launch(args, context), args.symbol);
}

/// Two runs give the same bits, an output in the place of an input too, and the
/// results are those of the reference.
Status GroupsBench::check(const GroupCase &group,
                          const cuda::GroupKernel &kernel,
                          GroupResult &result) const {
  QWEN_ASSIGN_OR_RETURN(GroupMemory memory, GroupMemory::create(group, false));
  QWEN_ASSIGN_OR_RETURN(auto before, memory.read());
  auto runOnce = [&](const GroupMemory &on)
      -> StatusOr<std::vector<std::vector<std::byte>>> {
    QWEN_RETURN_IF_ERROR(cudaStatus(
        cudaMemset(workspace->data(), 0xff, workspace->bytes().size()),
        "cudaMemset"));
    QWEN_RETURN_IF_ERROR(launch(on.arguments(), kernel, nullptr));
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaDeviceSynchronize(), group.args.symbol));
    return on.read();
  };
  QWEN_ASSIGN_OR_RETURN(auto first, runOnce(memory));
  QWEN_RETURN_IF_ERROR(memory.write(before));
  QWEN_ASSIGN_OR_RETURN(auto second, runOnce(memory));
  if (first != second)
    return makeError(StatusCode::Internal, "{}: two runs differ",
                     group.args.symbol);
  if (!group.inPlace.empty()) {
    QWEN_ASSIGN_OR_RETURN(GroupMemory shared, GroupMemory::create(group, true));
    QWEN_RETURN_IF_ERROR(shared.write(before));
    QWEN_ASSIGN_OR_RETURN(auto third, runOnce(shared));
    for (size_t i = group.args.inputs.size(); i < first.size(); ++i)
      if (third[i] != first[i])
        return makeError(StatusCode::Internal,
                         "{}: an output in the place of an input differs",
                         group.args.symbol);
  }
  if (!reference)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(result.worst, reference->compare(group, before, first));
  return okStatus();
}

Status GroupsBench::measure(const GroupCase &group,
                            const cuda::GroupKernel &kernel,
                            GroupResult &result) const {
  int sets = std::clamp(int(rotatedBytes / group.bytes()) + 1, 2, maxSets);
  std::vector<GroupMemory> memories;
  QWEN_ASSIGN_OR_RETURN(auto first, GroupMemory::create(group, false));
  memories.push_back(std::move(first));
  while (int(memories.size()) < sets) {
    QWEN_ASSIGN_OR_RETURN(auto memory, memories.front().clone());
    memories.push_back(std::move(memory));
  }
  auto enqueue = [&](cudaStream_t stream) {
    for (const GroupMemory &memory : memories)
      QWEN_RETURN_IF_ERROR(launch(memory.arguments(), kernel, stream));
    return okStatus();
  };
  TimingOptions timing;
  timing.samples = options.samples;
  QWEN_ASSIGN_OR_RETURN(Times times, timeReplay(enqueue, timing));
  result.times = {times.median / sets, times.least / sets, times.most / sets,
                  times.samples};
  return okStatus();
}

void GroupsBench::printRow(const GroupResult &result) const {
  double rate = 1e3 * result.bytes / result.times.median;
  std::string error =
      result.worst < 0 ? "" : fmt::format("{:.3f} of bound", result.worst);
  std::string time =
      result.times.samples == 0
          ? ""
          : fmt::format("{:8.1f} us {:6.3f} TB/s {:4.0f} % of copy",
                        1e3 * result.times.median, rate * 1e-12,
                        100 * rate / copyRate);
  qwen::print(stdout, "{:<32}{:4} calls {:9.1f} MB {} {}\n", result.symbol,
              result.calls, 1e-6 * result.bytes, time, error);
}

void GroupsBench::print(const GroupResult &result) const {
  if (options.table)
    return printRow(result);
  std::string line = fmt::format(
      "{{\"bench\": \"group\", \"symbol\": \"{}\", \"calls\": {}, \"bytes\": "
      "{:.6g}",
      result.symbol, result.calls, result.bytes);
  if (result.times.samples > 0) {
    double rate = 1e3 * result.bytes / result.times.median;
    line +=
        fmt::format(", \"median_ms\": {:.4f}, \"min_ms\": {:.4f}, "
                    "\"max_ms\": {:.4f}, \"samples\": {}, \"tbps\": "
                    "{:.3f}, \"of_copy\": {:.3f}",
                    result.times.median, result.times.least, result.times.most,
                    result.times.samples, rate * 1e-12, rate / copyRate);
  }
  if (result.worst >= 0)
    line += fmt::format(", \"error_of_bound\": {:.3f}", result.worst);
  qwen::print(stdout, "{}}}\n", line);
}

Status GroupsBench::run() {
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(options.plan));
  QWEN_ASSIGN_OR_RETURN(auto code, cuda::GroupCode::load(plan.raw()));
  QWEN_ASSIGN_OR_RETURN(auto groups, collectGroups(plan));
  if (!options.reference.empty()) {
    QWEN_ASSIGN_OR_RETURN(reference, GroupReference::create(options.reference));
  }
  int64_t bytes = 0;
  for (const GroupCase &group : groups)
    bytes = std::max(bytes, cuda::workspaceBytes(group.args));
  QWEN_ASSIGN_OR_RETURN(DeviceArray scratch, DeviceArray::create(bytes));
  workspace = &scratch;
  if (!options.checkOnly) {
    QWEN_ASSIGN_OR_RETURN(copyRate, measureCopyRate());
    qwen::print(stdout, "{{\"bench\": \"ceilings\", \"copy_tbps\": {:.3f}}}\n",
                copyRate * 1e-12);
  }
  int wrong = 0;
  for (const GroupCase &group : groups) {
    if (!options.only.empty() &&
        std::count(options.only.begin(), options.only.end(),
                   group.args.symbol) == 0)
      continue;
    GroupResult result{group.args.symbol, group.calls, group.bytes(), {}, -1};
    QWEN_ASSIGN_OR_RETURN(auto kernel, code.find(group.args.symbol));
    if (reference || options.checkOnly)
      if (Status status = check(group, kernel, result); !status.ok()) {
        qwen::print(stderr, "qwen-bench: error: {}\n", status.message());
        ++wrong;
      }
    if (!options.checkOnly)
      QWEN_RETURN_IF_ERROR(measure(group, kernel, result));
    print(result);
    wrong += result.worst > 1;
  }
  if (wrong > 0)
    return makeError(StatusCode::Internal, "{} kernels are wrong", wrong);
  return okStatus();
}

} // namespace

Action bench::addGroupsCommand(CLI::App &command) {
  auto options = std::make_shared<GroupsOptions>();
  command.add_option("plan", options->plan, "Plan for a GPU")->required();
  command.add_option("--reference", options->reference,
                     "Plan for the CPU with the same groups: compare results");
  command.add_option("--only", options->only, "Names of kernels")
      ->delimiter(',');
  addNumber(command, "--samples", options->samples,
            OptionRange::whole(1, 10000), "Timed samples");
  command.add_flag("--table", options->table,
                   "Lines for reading instead of JSON");
  command.add_flag("--check-only", options->checkOnly, "Do not measure times");
  return [options] { return GroupsBench(*options).run(); };
}
