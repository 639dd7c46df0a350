//===- Trace.cpp - A profile as a Chrome and Perfetto trace ---------------===//
//
// Complete events ("ph": "X") on one thread; a viewer nests them by their
// times. Launches follow each other without gaps, as they were timed.
//
//===----------------------------------------------------------------------===//

#include "runtime/profile/Profile.h"

#include "runtime/support/Json.h"

#include <cmath>
#include <optional>

using namespace qwen;

namespace {

/// The name of what encloses a launch at each depth below the program.
std::string passName(const LaunchPlace &place) {
  // A value computed again is part of the pass that needs it.
  Stage stage = place.stage == Stage::Recompute ? Stage::Backward : place.stage;
  return stageName(stage);
}
std::string layerName(const LaunchPlace &place) {
  return place.layer.empty() ? place.kind : place.layer + " " + place.kind;
}

class TraceWriter {
public:
  std::string write(const StepProfile &profile) {
    for (size_t i = 0; i < profile.steps.size(); ++i) {
      double begin = now;
      size_t slot = reserve();
      for (const ProgramRun &run : profile.steps[i])
        writeRun(profile.programs[run.program], run);
      fill(slot, fmt::format("step {}", i + 1), "step", begin);
    }
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    text += R"({"ph": "M", "name": "process_name", "pid": 1, "tid": 1, )"
            R"("args": {"name": "qwenrun"}})";
    for (const std::string &event : events)
      text += ",\n" + event;
    return text + "\n]}\n";
  }

private:
  /// A slice that is still open.
  struct Open {
    std::string name;
    size_t slot;
    double begin;
  };

  /// Parents stand before their children in the file; their length is known
  /// later.
  size_t reserve() {
    events.emplace_back();
    return events.size() - 1;
  }
  void fill(size_t slot, const std::string &name, const char *category,
            double begin, const std::string &args = "{}") {
    events[slot] = fmt::format(
        R"({{"ph": "X", "name": {}, "cat": "{}", "pid": 1, "tid": 1, )"
        R"("ts": {:.3f}, "dur": {:.3f}, "args": {}}})",
        jsonString(name), category, begin, now - begin, args);
  }
  void close(std::optional<Open> &open, const char *category) {
    if (open && !open->name.empty())
      fill(open->slot, open->name, category, open->begin);
    open.reset();
  }
  /// Goes on with the slice of this name, or ends it and begins another. An
  /// empty name is no slice.
  void enter(std::optional<Open> &open, const std::string &name,
             const char *category) {
    if (open && open->name == name)
      return;
    close(open, category);
    open = Open{name, name.empty() ? 0 : reserve(), now};
  }

  void writeRun(const ProfiledProgram &program, const ProgramRun &run) {
    double begin = now;
    size_t slot = reserve();
    std::optional<Open> pass, layer;
    for (size_t i = 0; i < program.launches.size(); ++i) {
      const LaunchPlace &place = program.places[i];
      if (!pass || pass->name != passName(place))
        close(layer, "layer");
      enter(pass, passName(place), "pass");
      enter(layer, layerName(place), "layer");
      writeLaunch(program, i, run);
    }
    close(layer, "layer");
    close(pass, "pass");
    fill(slot, program.name, "program", begin);
  }

  void writeLaunch(const ProfiledProgram &program, size_t i,
                   const ProgramRun &run) {
    const LaunchFacts &launch = program.launches[i];
    double begin = now;
    // Rounded as it is written, so that sums of slices are exact.
    now += std::max(0.0, std::round(double(run.milliseconds[i]) * 1e6) * 1e-3);
    std::string args = fmt::format(
        R"({{"launch": {}, "stage": "{}", "shape": {}, "kernels": {}, )"
        R"("flops": {:.6g}, "bytes": {}}})",
        i, stageName(program.places[i].stage), jsonString(launch.shape),
        program.deviceKernels[i], launch.flopsOf(run.contextPairs),
        launch.bytes);
    fill(reserve(), launch.symbol.empty() ? launch.kernel : launch.symbol,
         "launch", begin, args);
  }

  std::vector<std::string> events;
  double now = 0; ///< microseconds
};

} // namespace

std::string qwen::profileTrace(const StepProfile &profile) {
  return TraceWriter().write(profile);
}
