//===- ScaleForecast.h - A sharded plan on more ranks ----------*- C++ -*-===//
//
// What a training step of a plan takes on other numbers of ranks, by the plan's
// cost model: every launch takes as long as its operations or its bytes do at
// given rates, every collective as long as a ring over given lines, and both
// streams run in the plan's own order with the plan's own waits.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_FORECAST_SCALEFORECAST_H
#define QWEN_RUNTIME_FORECAST_SCALEFORECAST_H

#include "runtime/forecast/Cluster.h"
#include "runtime/forecast/StreamSimulation.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace qwen {

struct LaunchFacts;
struct TableShard;

/// What a GPU does a second: the data sheet's rates of an H200 SXM, and the
/// parts of them with which this forecast meets steps that were measured there
/// (4 and 12 layers at the 27B's widths).
struct DeviceRates {
  double peakFlops = 989.4e12;     ///< dense bf16
  double memoryBandwidth = 4.8e12; ///< bytes
  double flopsEfficiency = 0.70, bytesEfficiency = 0.80;
};

/// What a forecast rests on.
struct ScaleAssumptions {
  Cluster cluster;
  DeviceRates device;
  int64_t microBatches = 1; ///< of a step and rank
  /// Length of every document; 0: one fills the pack.
  int64_t documentTokens = 0;
  /// Seconds of a step of one rank that holds all, as measured; 0: by
  /// `device`. All launches become longer or shorter by one factor.
  double measuredSeconds = 0;
};

/// What a step spends on the parameters that travel together.
struct UnitForecast {
  std::string name;
  double gathered = 0, scattered = 0; ///< bytes of the whole
  double gatherSeconds = 0, scatterSeconds = 0;
  double exposedSeconds = 0; ///< while nothing was computed
};

/// A step. Of a unit's gradients, `shardedOver` ranks hold the shards; where
/// these are not all ranks, groups of them add up their shards.
struct StepForecast {
  int64_t ranks = 1, shardedOver = 1;
  double seconds = 0, compute = 0, exposed = 0;
  double gatherSeconds = 0, scatterSeconds = 0;
  double tokensPerSecond = 0; ///< of a rank
  double memoryBytes = 0;     ///< of a rank
  std::vector<UnitForecast> units;

  double exposedPart() const { return exposed / seconds; }
};

/// The plan's launches as a forecast needs them.
class ScaleForecast {
public:
  /// FailedPrecondition for a plan of one rank, which has no collectives.
  static StatusOr<ScaleForecast> create(const Plan &plan,
                                        const ScaleAssumptions &assumptions);

  /// A step on so many ranks, sharded over all or over groups of them; both
  /// numbers fill nodes or fit into one.
  StepForecast step(int64_t ranks, int64_t shardedOver) const;
  StepForecast step(int64_t ranks) const { return step(ranks, ranks); }

private:
  enum class Collective { None, Gather, Scatter };
  /// A launch. A collective without a bucket (-1) moves `shardBytes` of each
  /// rank, and so does one that exchanges rows of its bucket's table.
  struct Launch {
    int stream = 0;
    std::vector<uint32_t> waits;
    double seconds = 0;
    bool ofShard = false; ///< works on shards alone
    Collective collective = Collective::None;
    int bucket = -1;
    int64_t elementBytes = 0, shardBytes = 0;
    /// Of an exchange: bytes of an element that would be moved instead, with
    /// the whole table. 0: no exchange.
    int64_t tableElementBytes = 0;
    bool ofGradients = false; ///< replicas add what comes of it
  };
  struct Bucket {
    int unit = 0;
    int64_t used = 0;       ///< elements without padding
    int64_t stateBytes = 0; ///< of an element of the shard, all of its tensors
    int64_t elements(int64_t ranks) const;
  };
  /// A program and how often a step runs it.
  struct Program {
    std::vector<Launch> launches;
    double runs = 0;
  };

  ScaleForecast(const Plan &plan, const ScaleAssumptions &assumptions);
  void readBuckets();
  Status addProgram(const char *name, double runs);
  Launch makeLaunch(const LaunchFacts &facts) const;
  void setCollective(Launch &launch, const LaunchFacts &facts) const;
  void setExchange(Launch &launch, const LaunchFacts &facts,
                   const TableShard &table) const;
  std::optional<int> bucketOf(uint32_t view) const;
  double bytesOf(const Launch &launch, int64_t ranks) const;
  double shardElements(int64_t ranks) const;
  double secondsOf(const Launch &launch, const StepForecast &step) const;
  void addRun(const Program &program, StepForecast &step) const;

  Plan plan;
  ScaleAssumptions assumptions;
  double pace = 1; ///< of all launches that are no collectives
  std::vector<Bucket> buckets;
  /// Buckets by buffer and offset of their values and gradients.
  std::map<std::pair<uint32_t, int64_t>, int> bucketOfPlace;
  /// Names; the last one is what no bucket is for.
  std::vector<std::string> units;
  std::vector<Program> programs;
};

/// The least number of ranks from which on the exposed communication of plain
/// sharding is more than `part` of a step; 0 where there is none up to `most`.
/// Looks at powers of two in a node, then of nodes.
int64_t findScalingLimit(const ScaleForecast &forecast, int64_t nodeSize,
                         double part, int64_t most);

} // namespace qwen

#endif // QWEN_RUNTIME_FORECAST_SCALEFORECAST_H
