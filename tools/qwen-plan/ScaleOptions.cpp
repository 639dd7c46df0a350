//===- ScaleOptions.cpp - Options of qwen-plan --scale --------------------===//

#include "Scale.h"

#include "tools/options/Arguments.h"

using namespace qwen;

namespace {

/// Larger than any cluster.
constexpr OptionRange ranksRange = OptionRange::whole(1, int64_t(1) << 20);
/// What launches or collectives reach of a rate.
constexpr OptionRange partRange = {0.01, 1};

/// Adds options that go with --scale alone.
class Adder {
public:
  Adder(CLI::App &app, CLI::Option *scale) : app(app), scale(scale) {}

  /// A number that is given in units of what it sets. The value that is there
  /// is the default.
  template <typename T>
  CLI::Option *add(const char *name, T &value, double unit,
                   const OptionRange &range, const char *text) {
    auto set = [&value, unit](double given) {
      value = static_cast<T>(given * unit);
    };
    return app.add_option_function<double>(name, set, text)
        ->check(within(range))
        ->default_str(fmt::format("{:.6g}", double(value) / unit))
        ->needs(scale)
        ->group("With --scale");
  }

private:
  CLI::App &app;
  CLI::Option *scale;
};

} // namespace

static void addRates(Adder &options, Cluster &cluster, DeviceRates &device) {
  options.add("--link-bandwidth", cluster.linkBandwidth, 1e9, {1, 1e5},
              "GB/s of a GPU in one direction inside a node; NVLink of an "
              "H200");
  options.add("--network-bandwidth", cluster.networkBandwidth, 1e9, {0.1, 1e5},
              "GB/s of a GPU's network adapter; 400 Gb/s");
  options.add("--node-size", cluster.nodeSize, 1, OptionRange::whole(1, 1024),
              "GPUs of a node");
  options.add("--link-efficiency", cluster.linkEfficiency, 1, partRange,
              "What collectives reach of the links; measured on two H200s");
  options.add("--network-efficiency", cluster.networkEfficiency, 1, partRange,
              "What collectives reach of the network");
  options.add("--peak-tflops", device.peakFlops, 1e12, {0.001, 1e6},
              "Of a GPU, dense bf16; an H200's");
  options.add("--memory-bandwidth", device.memoryBandwidth, 1e9, {1, 1e6},
              "GB/s of a GPU's memory; an H200's");
  options.add("--flops-efficiency", device.flopsEfficiency, 1, partRange,
              "What launches reach of the peak");
  options.add("--memory-efficiency", device.bytesEfficiency, 1, partRange,
              "What launches reach of the memory's bandwidth");
}

void qwen::addScaleOptions(CLI::App &app, ScaleRequest &request) {
  CLI::Option *scale = addNumbers(
      app, "--scale", request.ranks, ranksRange,
      "Forecast of a step on so many ranks, of a plan for several: 8,64,512");
  Adder options(app, scale);
  ScaleAssumptions &assumptions = request.assumptions;
  addRates(options, assumptions.cluster, assumptions.device);
  options
      .add("--measured-ms", assumptions.measuredSeconds, 1e-3, {0.001, 1e9},
           "A step of one GPU that holds all, as measured: all launches become "
           "longer or shorter by one factor")
      ->default_str("by the rates");
  options.add("--micro-batches", assumptions.microBatches, 1,
              OptionRange::whole(1, 1e6), "Of a step and rank");
  options
      .add("--document-tokens", assumptions.documentTokens, 1,
           OptionRange::whole(1, 1e9), "Length of the documents")
      ->default_str("one fills the micro-batch");
}

Status qwen::checkScale(const ScaleRequest &request) {
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
