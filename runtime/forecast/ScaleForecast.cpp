//===- ScaleForecast.cpp - A sharded plan on more ranks -------------------===//

#include "runtime/forecast/ScaleForecast.h"

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Sharding.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/profile/ExchangedRows.h"

#include <algorithm>

using namespace qwen;

int64_t ScaleForecast::Bucket::elements(int64_t ranks) const {
  return paddedElements(used, bucketAlignment * ranks);
}

ScaleForecast::ScaleForecast(const Plan &plan,
                             const ScaleAssumptions &assumptions)
    : plan(plan), assumptions(assumptions) {}

StatusOr<ScaleForecast>
ScaleForecast::create(const Plan &plan, const ScaleAssumptions &assumptions) {
  if (plan.info().worldSize == 1)
    return makeError(StatusCode::FailedPrecondition,
                     "the plan is for one rank and has no collectives; "
                     "compile it with qwenc --world-size=2 or more");
  ScaleForecast forecast(plan, assumptions);
  forecast.readBuckets();
  QWEN_RETURN_IF_ERROR(forecast.addProgram("first_micro_step", 1));
  if (assumptions.microBatches > 1)
    QWEN_RETURN_IF_ERROR(forecast.addProgram(
        "micro_step", double(assumptions.microBatches - 1)));
  QWEN_RETURN_IF_ERROR(forecast.addProgram("update", 1));
  if (assumptions.measuredSeconds > 0)
    forecast.pace = assumptions.measuredSeconds / forecast.step(1).seconds;
  return forecast;
}

void ScaleForecast::readBuckets() {
  for (const PlanBucket &from : plan.buckets()) {
    // "model.layers.0.bf16": a unit has a bucket for each element type.
    std::string unit = from.name.substr(0, from.name.rfind('.'));
    if (units.empty() || units.back() != unit)
      units.push_back(unit);
    Bucket bucket;
    bucket.unit = int(units.size()) - 1;
    for (const PlanPlace *place : {&from.value, &from.gradient, &from.moment1,
                                   &from.moment2, &from.master})
      if (place->exists())
        bucket.stateBytes += dtypeBytes(place->type.dtype);
    for (const PlanPlace *place : {&from.value, &from.gradient})
      bucketOfPlace[{place->buffer, place->byteOffset}] = int(buckets.size());
    buckets.push_back(bucket);
  }
  for (const PlanParameter &parameter : plan.parameters()) {
    int64_t &used = buckets[parameter.bucket].used;
    used = std::max(used, parameter.bucketOffset + parameter.type.elements());
  }
  units.push_back("gradient norm");
}

void ScaleForecast::setCollective(Launch &launch,
                                  const LaunchFacts &facts) const {
  for (const LaunchOperand &operand : facts.operands) {
    launch.elementBytes = dtypeBytes(operand.type.dtype);
    if (operand.name != "shard")
      continue;
    launch.bucket = bucketOf(operand.view).value_or(-1);
  }
  // Sums are made of the whole's type, whatever they are stored as.
  for (const LaunchOperand &operand : facts.operands)
    if (operand.name == "full") {
      launch.elementBytes = dtypeBytes(operand.type.dtype);
      launch.shardBytes = operand.type.bytes() / plan.info().worldSize;
    }
  launch.ofGradients = launch.collective == Collective::Scatter;
}

std::optional<int> ScaleForecast::bucketOf(uint32_t id) const {
  const plan::View &view = *plan.raw().views()->Get(id);
  auto found = bucketOfPlace.find({view.buffer(), int64_t(view.byte_offset())});
  if (found == bucketOfPlace.end())
    return std::nullopt;
  return found->second;
}

/// With more ranks than pay for an exchange the compiler chooses the table.
void ScaleForecast::setExchange(Launch &launch, const LaunchFacts &facts,
                                const TableShard &table) const {
  std::optional<int> bucket = bucketOf(table.view);
  if (!bucket)
    return;
  launch.bucket = *bucket;
  const PlanBucket &of = plan.buckets()[size_t(*bucket)];
  // Gradients are scattered in float32 or wider.
  launch.tableElementBytes = dtypeBytes(of.dtype);
  if (table.isGradient)
    launch.tableElementBytes =
        std::max(launch.tableElementBytes, dtypeBytes(DType::F32));
  // Once: ids come with them.
  bool isIds = facts.operands.front().type.dtype == DType::I32;
  launch.ofGradients = table.isGradient && !isIds;
}

ScaleForecast::Launch
ScaleForecast::makeLaunch(const LaunchFacts &facts) const {
  Launch launch;
  if (facts.kernel == AllGatherArgs::kernelName)
    launch.collective = Collective::Gather;
  else if (facts.kernel == ReduceScatterArgs::kernelName)
    launch.collective = Collective::Scatter;
  if (launch.collective != Collective::None) {
    setCollective(launch, facts);
    return launch;
  }
  launch.ofShard = facts.kernel == GradNormLocalArgs::kernelName ||
                   facts.kernel == AdamWArgs::kernelName;
  int64_t tokens = plan.info().tokens;
  int64_t length = assumptions.documentTokens;
  if (length == 0)
    length = tokens;
  double pairs = double(tokens) * double(length + 1) / 2;
  const DeviceRates &device = assumptions.device;
  launch.seconds = std::max(
      facts.flopsOf(pairs) / (device.peakFlops * device.flopsEfficiency),
      double(facts.bytes) / (device.memoryBandwidth * device.bytesEfficiency));
  return launch;
}

Status ScaleForecast::addProgram(const char *name, double runs) {
  std::optional<int> index = plan.findProgram(name);
  if (!index)
    return makeError(StatusCode::FailedPrecondition,
                     "expected a plan that trains, found none of its programs "
                     "'{}'",
                     name);
  Program program;
  program.runs = runs;
  const auto *steps = plan.raw().programs()->Get(*index)->steps();
  std::vector<LaunchFacts> launches = launchFacts(plan, *index);
  for (size_t i = 0; i < launches.size(); ++i) {
    const plan::Step &step = *steps->Get(uint32_t(i));
    Launch launch = makeLaunch(launches[i]);
    if (launch.collective != Collective::None)
      if (auto table = tableOfExchange(plan, launches, i))
        setExchange(launch, launches[i], *table);
    launch.stream = step.stream();
    if (step.waits())
      launch.waits.assign(step.waits()->begin(), step.waits()->end());
    program.launches.push_back(std::move(launch));
  }
  programs.push_back(std::move(program));
  return okStatus();
}

double ScaleForecast::bytesOf(const Launch &launch, int64_t ranks) const {
  double parts = double(launch.shardBytes) * double(ranks);
  if (launch.bucket < 0)
    return parts;
  double elements = double(buckets[launch.bucket].elements(ranks));
  if (launch.tableElementBytes > 0)
    return std::min(parts, elements * double(launch.tableElementBytes));
  return elements * double(launch.elementBytes);
}

double ScaleForecast::shardElements(int64_t ranks) const {
  double sum = 0;
  for (const Bucket &bucket : buckets)
    sum += double(bucket.elements(ranks) / ranks);
  return sum;
}

double ScaleForecast::secondsOf(const Launch &launch,
                                const StepForecast &step) const {
  if (launch.collective == Collective::None) {
    double shards = launch.ofShard ? shardElements(step.shardedOver) /
                                         shardElements(plan.info().worldSize)
                                   : 1;
    return launch.seconds * pace * shards;
  }
  // What belongs to no bucket is of all ranks.
  int64_t over = launch.bucket < 0 ? step.ranks : step.shardedOver;
  double bytes = bytesOf(launch, over);
  double seconds = assumptions.cluster.ringSeconds(over, bytes);
  if (launch.ofGradients && launch.bucket >= 0) {
    double shard =
        double(buckets[launch.bucket].elements(over)) / double(over) *
        double(std::max(launch.elementBytes, launch.tableElementBytes));
    seconds += assumptions.cluster.replicaSumSeconds(step.ranks / over, shard);
  }
  return seconds;
}

/// Adds a step's runs of a program.
void ScaleForecast::addRun(const Program &program, StepForecast &step) const {
  std::vector<TimedStep> timed;
  for (const Launch &launch : program.launches)
    timed.push_back({launch.stream, secondsOf(launch, step), launch.waits});
  StreamTimes times = simulateStreams(timed);
  step.seconds += times.seconds * program.runs;
  step.compute += times.compute * program.runs;
  for (size_t i = 0; i < timed.size(); ++i) {
    const Launch &launch = program.launches[i];
    if (launch.collective == Collective::None)
      continue;
    int unit =
        launch.bucket < 0 ? int(units.size()) - 1 : buckets[launch.bucket].unit;
    UnitForecast &of = step.units[unit];
    bool gathers = launch.collective == Collective::Gather;
    int64_t over = launch.bucket < 0 ? step.ranks : step.shardedOver;
    (gathers ? of.gathered : of.scattered) +=
        bytesOf(launch, over) * program.runs;
    (gathers ? of.gatherSeconds : of.scatterSeconds) +=
        timed[i].seconds * program.runs;
    of.exposedSeconds += times.exposed[i] * program.runs;
  }
}

StepForecast ScaleForecast::step(int64_t ranks, int64_t shardedOver) const {
  StepForecast result;
  result.ranks = ranks;
  result.shardedOver = shardedOver;
  for (const std::string &name : units)
    result.units.push_back({name});
  for (const Program &program : programs)
    addRun(program, result);
  result.exposed = result.seconds - result.compute;
  for (const UnitForecast &unit : result.units) {
    result.gatherSeconds += unit.gatherSeconds;
    result.scatterSeconds += unit.scatterSeconds;
  }
  const PlanInfo &info = plan.info();
  result.tokensPerSecond =
      double(info.tokens * assumptions.microBatches) / result.seconds;
  result.memoryBytes =
      double(info.forecast.total() - info.forecast.parameters -
             info.forecast.gradients - info.forecast.optimizer);
  for (const Bucket &bucket : buckets)
    result.memoryBytes +=
        double(bucket.elements(shardedOver) / shardedOver * bucket.stateBytes);
  return result;
}

int64_t qwen::findScalingLimit(const ScaleForecast &forecast, int64_t nodeSize,
                               double part, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t ranks = 2; ranks < nodeSize; ranks *= 2)
    sizes.push_back(ranks);
  for (int64_t ranks = std::max<int64_t>(nodeSize, 2); ranks <= most;
       ranks *= 2)
    sizes.push_back(ranks);
  int64_t limit = 0;
  while (!sizes.empty() && forecast.step(sizes.back()).exposedPart() > part) {
    limit = sizes.back();
    sizes.pop_back();
  }
  return limit;
}
