//===- Schedule.cpp - Learning rate and optimizer constants ---------------===//

#include "runtime/trainer/Schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

using namespace qwen;

static constexpr std::pair<ScheduleKind, std::string_view> kinds[] = {
    {ScheduleKind::Constant, "constant"},
    {ScheduleKind::Linear, "linear"},
    {ScheduleKind::Cosine, "cosine"},
    {ScheduleKind::Wsd, "wsd"},
};

std::optional<ScheduleKind> qwen::parseScheduleKind(std::string_view name) {
  for (auto [kind, text] : kinds)
    if (text == name)
      return kind;
  return std::nullopt;
}

std::string_view qwen::scheduleKindName(ScheduleKind kind) {
  for (auto [other, text] : kinds)
    if (other == kind)
      return text;
  return "?";
}

int64_t StepSpan::steps(int64_t total) const {
  double count = isRatio ? std::ceil(value * double(total)) : value;
  return std::min(static_cast<int64_t>(count), total);
}

StatusOr<StepSpan> qwen::parseStepSpan(std::string_view text) {
  std::string_view number = text;
  bool percent = number.ends_with('%');
  if (percent)
    number.remove_suffix(1);
  double value = 0;
  auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  bool read = error == std::errc() && end == number.data() + number.size();
  if (percent)
    value /= 100;
  bool ratio = percent || (value > 0 && value < 1);
  bool usable = read && value >= 0 && (ratio ? value <= 1 : value < 1e15) &&
                (ratio || value == std::floor(value));
  if (!usable)
    return invalidArgument("'{}' is neither a number of steps nor a part of "
                           "all steps (0.05 or 5%)",
                           text);
  return StepSpan{value, ratio};
}

std::string qwen::toString(const StepSpan &span) {
  return span.isRatio ? fmt::format("{}%", span.value * 100)
                      : fmt::format("{}", span.value);
}

double Schedule::rate(int64_t step, int64_t total) const {
  int64_t warm = warmup.steps(total);
  if (step < warm)
    return peak * double(step + 1) / double(warm);
  double floor = std::min(minimum, peak);
  auto progress = [&](int64_t begin) {
    double span = double(std::max<int64_t>(total - begin, 1));
    return std::clamp(double(step - begin) / span, 0.0, 1.0);
  };
  // lerp gives both ends exactly.
  switch (kind) {
  case ScheduleKind::Constant:
    return peak;
  case ScheduleKind::Linear:
    return std::lerp(peak, floor, progress(warm));
  case ScheduleKind::Cosine:
    return std::lerp(floor, peak,
                     (1 + std::cos(std::numbers::pi * progress(warm))) / 2);
  case ScheduleKind::Wsd:
    return std::lerp(peak, floor,
                     progress(std::max(warm, total - decay.steps(total))));
  }
  return peak;
}

std::array<float, 8> qwen::makeHyper(const AdamWOptions &options, double rate,
                                     int64_t update) {
  double bias1 = -std::expm1(double(update) * std::log(options.beta1));
  double bias2 = -std::expm1(double(update) * std::log(options.beta2));
  return {static_cast<float>(rate),
          static_cast<float>(1 - options.beta1),
          static_cast<float>(1 - options.beta2),
          static_cast<float>(options.epsilon),
          static_cast<float>(options.weightDecay),
          static_cast<float>(options.maxGradNorm),
          static_cast<float>(bias1),
          static_cast<float>(bias2)};
}
