//===- ScaleOptions.cpp - Options of qwen-plan --scale --------------------===//

#include "Scale.h"

#include "runtime/support/Json.h"
#include "tools/qwenrun/OptionRange.h"

#include <algorithm>
#include <cstdlib>

using namespace qwen;

namespace {

/// Larger than any cluster.
constexpr int64_t mostRanks = int64_t(1) << 20;

/// An option with a number.
struct NumberOption {
  const char *name, *help;
  OptionRange range;
  void (*set)(ScaleAssumptions &, double);
};

constexpr NumberOption numberOptions[] = {
    {"link-bandwidth",
     "GB/s of a GPU in one direction inside a node (450: NVLink of an H200)",
     OptionRange{1, 1e5},
     [](ScaleAssumptions &a, double v) { a.cluster.linkBandwidth = v * 1e9; }},
    {"network-bandwidth", "GB/s of a GPU's network adapter (50: 400 Gb/s)",
     OptionRange{0.1, 1e5},
     [](ScaleAssumptions &a, double v) {
       a.cluster.networkBandwidth = v * 1e9;
     }},
    {"node-size", "GPUs of a node (8)", OptionRange::whole(1, 1024),
     [](ScaleAssumptions &a, double v) { a.cluster.nodeSize = int64_t(v); }},
    {"link-efficiency", "what collectives reach of both bandwidths (0.8)",
     OptionRange{0.01, 1},
     [](ScaleAssumptions &a, double v) { a.cluster.efficiency = v; }},
    {"peak-tflops", "of a GPU, dense bf16 (989.4: H200)",
     OptionRange{0.001, 1e6},
     [](ScaleAssumptions &a, double v) { a.device.peakFlops = v * 1e12; }},
    {"memory-bandwidth", "GB/s of a GPU's memory (4800: H200)",
     OptionRange{1, 1e6},
     [](ScaleAssumptions &a, double v) { a.device.memoryBandwidth = v * 1e9; }},
    {"flops-efficiency", "what launches reach of the peak (0.7)",
     OptionRange{0.01, 1},
     [](ScaleAssumptions &a, double v) { a.device.flopsEfficiency = v; }},
    {"memory-efficiency", "what launches reach of the memory's bandwidth (0.8)",
     OptionRange{0.01, 1},
     [](ScaleAssumptions &a, double v) { a.device.bytesEfficiency = v; }},
    {"measured-ms",
     "a step of one GPU that holds all, as measured: all launches become "
     "longer or shorter by one factor",
     OptionRange{0.001, 1e9},
     [](ScaleAssumptions &a, double v) { a.measuredSeconds = v * 1e-3; }},
    {"micro-batches", "of a step and rank (1)", OptionRange::whole(1, 1e6),
     [](ScaleAssumptions &a, double v) { a.microBatches = int64_t(v); }},
    {"document-tokens", "length of the documents (one fills the micro-batch)",
     OptionRange::whole(1, 1e9),
     [](ScaleAssumptions &a, double v) { a.documentTokens = int64_t(v); }},
};

} // namespace

static Status parseRanks(const std::string &text, ScaleRequest &request) {
  constexpr OptionRange range = OptionRange::whole(1, double(mostRanks));
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    if (!range.check(word).empty())
      return invalidArgument("--scale: expected whole numbers from 1 to {}, "
                             "as 8,64,512; found '{}'",
                             mostRanks, printable(word));
    request.ranks.push_back(std::strtoll(word.c_str(), nullptr, 10));
    begin = end + 1;
  }
  return okStatus();
}

StatusOr<bool> qwen::parseScaleOption(const std::string &argument,
                                      ScaleRequest &request) {
  size_t equals = argument.find('=');
  std::string name = argument.substr(0, equals);
  bool hasValue = equals != argument.npos;
  std::string value = hasValue ? argument.substr(equals + 1) : "";
  if (name == "--scale") {
    QWEN_RETURN_IF_ERROR(parseRanks(value, request));
    return true;
  }
  for (const NumberOption &option : numberOptions) {
    if (name != std::string("--") + option.name)
      continue;
    if (std::string problem = option.range.check(printable(value));
        !problem.empty())
      return invalidArgument("{}: {}", name, problem);
    option.set(request.assumptions, std::strtod(value.c_str(), nullptr));
    request.option = name;
    return true;
  }
  return false;
}

Status qwen::checkScale(const ScaleRequest &request) {
  if (request.ranks.empty() && !request.option.empty())
    return invalidArgument("{} goes with --scale", request.option);
  int64_t node = request.assumptions.cluster.nodeSize;
  for (int64_t ranks : request.ranks)
    if (ranks > node && ranks % node != 0)
      return invalidArgument(
          "--scale: expected ranks that fill nodes of {} "
          "GPUs or lie in one, found {}; --node-size changes "
          "the nodes",
          node, ranks);
  return okStatus();
}

std::string qwen::scaleUsage() {
  std::string text = "  --scale=N,...   forecast of a step on N ranks, of a "
                     "plan for several\n";
  for (const NumberOption &option : numberOptions)
    text += fmt::format("    --{}=X  {}\n", option.name, option.help);
  return text;
}
