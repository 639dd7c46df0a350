//===- Trace.cpp - A profile as a Chrome and Perfetto trace ---------------===//
//
// Complete events ("ph": "X") on one thread; a viewer nests them by their
// times. Launches follow each other without gaps, as they were timed; those of
// two streams lie where they were timed, communication on a second thread.
//
//===----------------------------------------------------------------------===//

#include "runtime/profile/Profile.h"

#include "runtime/support/Json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

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
            double begin, const std::string &args = "{}", int thread = 1) {
    events[slot] = fmt::format(
        R"({{"ph": "X", "name": {}, "cat": "{}", "pid": 1, "tid": {}, )"
        R"("ts": {:.3f}, "dur": {:.3f}, "args": {}}})",
        jsonString(name), category, thread, begin, now - begin, args);
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
    double last = begin;
    for (size_t i = 0; i < program.launches.size(); ++i) {
      bool isTimed = !run.starts.empty();
      double start = isTimed ? begin + rounded(double(run.starts[i])) : now;
      if (isTimed && program.launches[i].stream > 0) {
        double before = std::exchange(now, start);
        writeLaunch(program, i, run, /*thread=*/2);
        last = std::max(last, std::exchange(now, before));
        continue;
      }
      const LaunchPlace &place = program.places[i];
      // What ends does so before a gap.
      bool isSamePass = pass && pass->name == passName(place);
      if (!isSamePass || !layer || layer->name != layerName(place))
        close(layer, "layer");
      if (!isSamePass)
        close(pass, "pass");
      now = std::max(now, start);
      enter(pass, passName(place), "pass");
      enter(layer, layerName(place), "layer");
      writeLaunch(program, i, run);
    }
    close(layer, "layer");
    close(pass, "pass");
    now = std::max(now, last);
    fill(slot, program.name, "program", begin);
  }

  /// Microseconds, rounded as they are written, so that sums of slices are
  /// exact.
  static double rounded(double milliseconds) {
    return std::max(0.0, std::round(milliseconds * 1e6) * 1e-3);
  }

  void writeLaunch(const ProfiledProgram &program, size_t i,
                   const ProgramRun &run, int thread = 1) {
    const LaunchFacts &launch = program.launches[i];
    double begin = now;
    now += rounded(double(run.milliseconds[i]));
    std::string args = fmt::format(
        R"({{"launch": {}, "stage": "{}", "shape": {}, "kernels": {}, )"
        R"("flops": {:.6g}, "bytes": {}}})",
        i, stageName(program.places[i].stage), jsonString(launch.shape),
        program.deviceKernels[i], launch.flopsOf(run.contextPairs),
        launch.bytes);
    fill(reserve(), launch.symbol.empty() ? launch.kernel : launch.symbol,
         "launch", begin, args, thread);
  }

  std::vector<std::string> events;
  double now = 0; ///< microseconds
};

} // namespace

std::string qwen::profileTrace(const StepProfile &profile) {
  return TraceWriter().write(profile);
}
