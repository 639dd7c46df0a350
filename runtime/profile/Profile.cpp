//===- Profile.cpp - Sums and tables of a profile -------------------------===//

#include "runtime/profile/Profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

using namespace qwen;

ProfiledProgram ProfiledProgram::of(const Plan &plan, int program) {
  ProfiledProgram result;
  result.name = plan.programs()[size_t(program)].name;
  result.launches = launchFacts(plan, program);
  result.places = launchPlaces(result.launches);
  return result;
}

namespace {

using Key = std::pair<std::string, std::string>;
using KeyOf = std::function<Key(const ProfiledProgram &program, size_t launch)>;

std::map<Key, ProfileRow> sumBy(const StepProfile &profile,
                                const KeyOf &keyOf) {
  std::map<Key, ProfileRow> rows;
  double part = 1 / double(std::max<size_t>(profile.steps.size(), 1));
  for (const std::vector<ProgramRun> &step : profile.steps)
    for (const ProgramRun &run : step) {
      const ProfiledProgram &program = profile.programs[run.program];
      for (size_t i = 0; i < program.launches.size(); ++i) {
        const LaunchFacts &launch = program.launches[i];
        Key key = keyOf(program, i);
        ProfileRow &row = rows[key];
        row.kernel = key.first;
        row.shape = key.second;
        row.calls += part;
        row.deviceKernels += part * double(program.deviceKernels[i]);
        row.milliseconds += part * double(run.milliseconds[i]);
        row.flops += part * launch.flopsOf(run.contextPairs);
        row.bytes += part * double(launch.bytes);
      }
    }
  return rows;
}

std::vector<ProfileRow> longestFirst(std::map<Key, ProfileRow> sums) {
  std::vector<ProfileRow> rows;
  for (auto &[key, row] : sums)
    rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) {
    return a.milliseconds > b.milliseconds;
  });
  return rows;
}

} // namespace

std::vector<ProfileRow> qwen::rowsByKernel(const StepProfile &profile) {
  return longestFirst(sumBy(profile, [](auto &program, size_t i) {
    const LaunchFacts &launch = program.launches[i];
    return Key(launch.kernel, launch.shape);
  }));
}

std::vector<ProfileRow> qwen::rowsByStage(const StepProfile &profile) {
  auto sums = sumBy(profile, [](auto &program, size_t i) {
    return Key(stageName(program.places[i].stage), "");
  });
  std::vector<ProfileRow> rows;
  for (int stage = 0; stage < stageCount; ++stage)
    if (auto found = sums.find({stageName(Stage(stage)), ""});
        found != sums.end())
      rows.push_back(found->second);
  return rows;
}

std::vector<ProfileRow> qwen::rowsByLayerKind(const StepProfile &profile) {
  return longestFirst(sumBy(profile, [](auto &program, size_t i) {
    const LaunchPlace &place = program.places[i];
    return Key(!place.kind.empty()            ? place.kind
               : place.stage == Stage::Update ? "optimizer"
               : place.stage == Stage::Loss   ? "loss"
                                              : "outside of layers",
               "");
  }));
}

ProfileRow qwen::totalOf(const std::vector<ProfileRow> &rows) {
  ProfileRow total;
  total.kernel = "all";
  for (const ProfileRow &row : rows) {
    total.calls += row.calls;
    total.deviceKernels += row.deviceKernels;
    total.milliseconds += row.milliseconds;
    total.flops += row.flops;
    total.bytes += row.bytes;
  }
  return total;
}

/// A rate and its share of the ceiling; "-" where there is nothing to rate.
static std::string rateCells(double work, double milliseconds, double unit,
                             double ceiling) {
  if (work <= 0 || milliseconds <= 0)
    return fmt::format(" {:>8} {:>6}", "-", "-");
  double rate = work / (milliseconds * 1e-3);
  std::string share =
      ceiling > 0 ? fmt::format("{:.0f} %", 100 * rate / ceiling) : "-";
  return fmt::format(" {:>8} {:>6}", fmt::format("{:.3g}", rate / unit), share);
}

/// Rates are shown in units of which the machine has at least one.
static double unitOf(double ceiling) { return ceiling >= 1e12 ? 1e12 : 1e9; }

static std::string tableRow(const ProfileRow &row, double total,
                            const Ceilings &ceilings, size_t width) {
  std::string name =
      row.shape.empty() ? row.kernel : row.kernel + " " + row.shape;
  double mean = row.calls > 0 ? row.milliseconds * 1e3 / row.calls : 0;
  double share = total > 0 ? 100 * row.milliseconds / total : 0;
  return fmt::format("{:<{}} {:>6.6g} {:>7.6g} {:>9.1f} {:>9.3f} {:>5.1f} %",
                     name, width, row.calls, row.deviceKernels, mean,
                     row.milliseconds, share) +
         rateCells(row.flops, row.milliseconds, unitOf(ceilings.flops),
                   ceilings.flops) +
         rateCells(row.bytes, row.milliseconds, unitOf(ceilings.bytes),
                   ceilings.bytes) +
         "\n";
}

static std::string table(const char *title, const std::vector<ProfileRow> &rows,
                         const Ceilings &ceilings, size_t width) {
  std::string text = fmt::format(
      "{:<{}} {:>6} {:>7} {:>9} {:>9} {:>7} {:>8} {:>6} {:>8} {:>6}\n", title,
      width, "calls", "kernels", "mean us", "total ms", "share",
      unitOf(ceilings.flops) == 1e12 ? "TFLOP/s" : "GFLOP/s", "of max",
      unitOf(ceilings.bytes) == 1e12 ? "TB/s" : "GB/s", "of max");
  ProfileRow total = totalOf(rows);
  for (const ProfileRow &row : rows)
    text += tableRow(row, total.milliseconds, ceilings, width);
  return text + tableRow(total, total.milliseconds, ceilings, width);
}

std::string qwen::profileTables(const StepProfile &profile,
                                const Ceilings &ceilings) {
  std::vector<ProfileRow> kernels = rowsByKernel(profile);
  size_t width = 24;
  for (const ProfileRow &row : kernels)
    width = std::max(width, row.kernel.size() + 1 + row.shape.size());
  return table("kernel", kernels, ceilings, width) + "\n" +
         table("stage", rowsByStage(profile), ceilings, width) + "\n" +
         table("part of the model", rowsByLayerKind(profile), ceilings, width);
}
