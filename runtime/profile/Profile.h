//===- Profile.h - Where the time of a training step goes ------*- C++ -*-===//
//
// Times of launches, summed by kernel, stage and kind of layer. Times come in
// as numbers; nothing here measures.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PROFILE_PROFILE_H
#define QWEN_RUNTIME_PROFILE_PROFILE_H

#include "runtime/profile/Ceilings.h"
#include "runtime/profile/LaunchFacts.h"

#include <string>
#include <vector>

namespace qwen {

/// A program whose launches are timed.
struct ProfiledProgram {
  std::string name;
  std::vector<LaunchFacts> launches;
  std::vector<LaunchPlace> places;
  /// What the device runs for each launch; as many as launches.
  std::vector<int64_t> deviceKernels;

  /// Everything but `deviceKernels` from the plan.
  static ProfiledProgram of(const Plan &plan, int program);
};

/// One execution of a program.
struct ProgramRun {
  size_t program; ///< index in StepProfile::programs
  double contextPairs = 0;
  std::vector<float> milliseconds; ///< of each launch
  /// Of each launch, after the program's start; empty where each follows the
  /// one before it.
  std::vector<float> starts = {};
};

/// The steps that were timed; each is a list of executions.
struct StepProfile {
  std::vector<ProfiledProgram> programs;
  std::vector<std::vector<ProgramRun>> steps;
};

/// A sum of launches, per step.
struct ProfileRow {
  std::string kernel, shape; ///< or stage, or kind of layer, and nothing
  double calls = 0;
  double deviceKernels = 0;
  double milliseconds = 0;
  double flops = 0;
  double bytes = 0;
};

/// Sums by kernel and shape, longest first.
std::vector<ProfileRow> rowsByKernel(const StepProfile &profile);
/// Sums by stage, in the order of a step; stages without launches are left out.
std::vector<ProfileRow> rowsByStage(const StepProfile &profile);
/// Sums by kind of layer and by what stands outside of layers.
std::vector<ProfileRow> rowsByLayerKind(const StepProfile &profile);
/// Sum of all rows.
ProfileRow totalOf(const std::vector<ProfileRow> &rows);

/// Three tables: kernels, stages, kinds of layers.
std::string profileTables(const StepProfile &profile, const Ceilings &ceilings);

/// A trace in the format of Chrome and Perfetto: programs, passes, layers and
/// launches as nested slices, communication that has a stream of its own below.
std::string profileTrace(const StepProfile &profile);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_PROFILE_H
