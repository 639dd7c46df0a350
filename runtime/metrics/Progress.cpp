//===- Progress.cpp - The line that shows how training goes ---------------===//

#include "runtime/metrics/Progress.h"

#include "runtime/support/Format.h"
#include "runtime/support/Print.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

using namespace qwen;

std::string qwen::formatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    return "?";
  auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0)
    return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

/// "  GPU 98% 71 C 1755 MHz 91.20 GB", of what is known.
static std::string formatGpu(const GpuSample &gpu) {
  std::string text;
  if (gpu.utilization)
    text += fmt::format(" {}%", *gpu.utilization);
  if (gpu.temperature)
    text += fmt::format(" {} C", *gpu.temperature);
  if (gpu.smClockMegahertz)
    text += fmt::format(" {} MHz", *gpu.smClockMegahertz);
  if (gpu.memoryBytes)
    text += " " + formatBytes(double(*gpu.memoryBytes));
  return text.empty() ? text : "  GPU" + text;
}

std::string qwen::formatStep(const StepReport &report) {
  std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  grad norm {:.3g}  lr {:.3g}  {:.0f} tokens/s",
      report.step, report.totalSteps, report.loss, report.gradNorm,
      report.learningRate, report.tokensPerSecond);
  if (report.mfu)
    text += fmt::format("  MFU {:.1f}%", *report.mfu * 100);
  if (report.hfu)
    text += fmt::format("  HFU {:.1f}%", *report.hfu * 100);
  return text + formatGpu(report.gpu) + "  ETA " +
         formatDuration(report.secondsLeft);
}

Progress::Progress(std::FILE *out, int64_t plainEvery, bool mayOverwrite)
    : out(out), plainEvery(std::max<int64_t>(plainEvery, 1)),
      terminal(mayOverwrite && ::isatty(::fileno(out)) == 1) {}

Progress::~Progress() {
  if (lineOpen)
    print(out, "\n");
}

void Progress::clear() {
  if (lineOpen)
    print(out, "\r\x1b[K");
  lineOpen = false;
}

void Progress::step(const StepReport &report) {
  if (terminal) {
    print(out, "\r{}\x1b[K", formatStep(report));
    lineOpen = true;
  } else if (first || report.step % plainEvery == 0 ||
             report.step == report.totalSteps) {
    print(out, "{}\n", formatStep(report));
  }
  first = false;
}

void Progress::line(std::string_view text) {
  clear();
  print(out, "{}\n", text);
}

void Progress::activity(std::string_view text) {
  if (!terminal)
    return;
  print(out, "\r{}\x1b[K", text);
  lineOpen = true;
}
