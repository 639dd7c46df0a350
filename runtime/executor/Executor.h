//===- Executor.h - Runs the programs of a plan ----------------*- C++ -*-===//
//
// `create` allocates every arena, loads the generated code and turns each step
// into a ready argument struct. `start` is a loop over those, or the replay of
// a graph of them: it checks nothing and allocates nothing.
//
//   QWEN_ASSIGN_OR_RETURN(auto executor, Executor::create(plan, {}));
//   int microStep = *plan.findProgram("first_micro_step");
//   std::memcpy(executor->input("tokens")->data, ids, bytes);
//   QWEN_ASSIGN_OR_RETURN(RunTicket run, executor->start(microStep));
//   QWEN_RETURN_IF_ERROR(executor->finish(run));
//   Buffer nll = *executor->output(run, microStep, "nll");
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_EXECUTOR_H
#define QWEN_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/collectives/Communicator.h"
#include "runtime/plan/Plan.h"
#include "runtime/support/DeviceMemory.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace qwen {

struct AdamWArgs;

/// Sees the number of a launch that has just ended, while the device is idle.
using LaunchObserver = std::function<Status(int64_t launch)>;

struct ExecutorOptions {
  /// OpenMP threads of the launches; 0 leaves OpenMP's own choice.
  int threads = 0;
  /// Asks the kernel for huge pages.
  bool hugePages = true;
  /// Fills activations, workspace and outputs with NaN before each run, so that
  /// a read of something unwritten shows. For tests.
  bool poison = false;
  /// Number of the GPU, among those that the driver shows; -1: ranks of a
  /// machine take them in turn.
  int device = -1;
  /// GPU: captures each program once and replays it; false: plain launches.
  bool graph = true;
  /// GPU: ranks of one machine gather shards by copies between their GPUs,
  /// where these can read each other's memory; false: by NCCL.
  bool copyGathers = true;
  /// GPU, plain launches: waits after each, so that an error names its step.
  bool synchronous = false;
  /// The ranks that run the plan together; null: this one alone. It must
  /// outlive the executor.
  Communicator *ranks = nullptr;
};

/// Runs whose outputs are kept, and that may be started without any having
/// ended.
inline constexpr int64_t runsInFlight = 64;

/// One run of a program; runs are numbered from 0 in the order they started.
struct RunTicket {
  int64_t number = -1;
};

/// What a run of a program asks of the GPU and of its driver.
struct LaunchCounts {
  int64_t kernels = 0;     ///< GPU kernels
  int64_t driverCalls = 0; ///< copies, launches and records that start() makes
};

/// Bytes of the device's memory.
struct MemoryReport {
  int64_t plan = 0; ///< what the plan's forecast counts
  /// In use before the plan was loaded: the driver's context, other programs.
  int64_t before = 0;
  /// Taken while it was loaded beside the plan's: kernels, graphs, libraries.
  int64_t libraries = 0;
};

/// The memory and the launches of one plan on one device. Used from one thread
/// at a time. Of several ranks on GPUs, one whose others have not come as far
/// takes some seconds to end.
class Executor {
public:
  /// For the plan's target. FailedPrecondition where this machine or build
  /// cannot run it; ResourceExhausted, before anything is allocated, where
  /// memory is short. Persistent memory starts as zeros.
  static StatusOr<std::unique_ptr<Executor>>
  create(const Plan &plan, const ExecutorOptions &options);
  virtual ~Executor();

  /// Takes the inputs as they stand and starts a program by its index in
  /// `plan().programs()`. Waits for the device only where `runsInFlight` runs
  /// are pending. After an error nothing more can be run.
  virtual StatusOr<RunTicket> start(int program) = 0;
  /// Waits until that run and all before it are done.
  virtual Status finish(RunTicket run) = 0;
  /// start, then finish.
  Status run(int program);
  /// Runs the first `steps` launches of a program only, plainly, and waits (for
  /// finding the launch that goes wrong). Its outputs are those of a run.
  virtual Status runPrefix(int program, int64_t steps) = 0;
  /// The same, waiting after each launch and calling `observe`, an error of
  /// which ends the run.
  virtual Status runObserved(int program, int64_t steps,
                             const LaunchObserver &observe) = 0;
  /// Runs a program plainly and waits; `milliseconds` takes the time of each
  /// launch by the device's clock. Its outputs are those of a run.
  virtual Status runTimed(int program, std::span<float> milliseconds);
  /// Milliseconds of the latest runTimed() in which nothing was computed, as
  /// what other ranks send was missing.
  virtual float exposedMilliseconds() const { return 0; }
  /// When the launches of the latest runTimed() started, in milliseconds after
  /// the program. Empty where each follows the one before it.
  virtual std::span<const float> launchStarts() const { return {}; }
  /// How many kernels the device runs for each launch of a program.
  virtual StatusOr<std::vector<int64_t>> kernelsByLaunch(int program);

  const Plan &plan() const { return held; }
  /// Memory of a view by its index in the plan, in memory().
  Buffer operand(uint32_t view) const;

  /// Host buffer of the input of that name, shared by all programs that have
  /// it; keeps its address and its contents.
  virtual std::optional<Buffer> input(std::string_view name) const = 0;
  /// Host buffer of an output, valid from finish(run) until `runsInFlight`
  /// further starts. Nothing where `run` is not such a run of `program`.
  std::optional<Buffer> output(RunTicket run, int program,
                               std::string_view name) const;
  /// The same of the latest run of the program.
  std::optional<Buffer> output(int program, std::string_view name) const;

  /// Views of parameter `i` of `plan().parameters()`, in memory(). Optimizer
  /// state that the plan does not have comes back with a null address. Of a
  /// sharded parameter: this rank's slice, of rank 1 and maybe empty.
  Buffer parameter(int i) const;
  Buffer gradient(int i) const;
  Buffer moment1(int i) const;
  Buffer moment2(int i) const;
  Buffer master(int i) const;
  /// Index in parameter `i` of the first element of this rank's slice.
  int64_t firstElement(int i) const;
  virtual DeviceMemory &memory() = 0;
  Communicator &ranks() const { return *group; }

  /// One line: the processor or GPU that runs the plan.
  virtual std::string deviceName() const = 0;
  /// Where the GPU is on the PCI bus ("0000:18:00.0"); empty for a processor.
  virtual std::string pciAddress() const { return {}; }
  virtual LaunchCounts launchCounts(int program) const = 0;
  virtual MemoryReport memoryReport() const = 0;
  /// One line about a choice of the plan that this machine's libraries could
  /// not follow, or an empty string.
  virtual std::string warning() const { return {}; }

protected:
  explicit Executor(const Plan &plan, Communicator *ranks = nullptr);

  /// Where a buffer of the plan lies.
  virtual std::byte *address(uint32_t buffer) const = 0;
  /// Host memory for the outputs of the run in a slot of the ring.
  virtual std::byte *outputSlot(int64_t slot) const = 0;
  Buffer view(const PlanPlace &place) const;
  /// The part of parameter `i` that this rank holds.
  PlanSlice slice(int i) const;
  /// Puts this rank's slices of parameters in the place of its shards of
  /// buckets.
  Status expandBuckets(AdamWArgs &args) const;

  /// The bytes of an arena that hold a program's outputs, with what lies
  /// between them.
  struct OutputRange {
    uint32_t arena = 0;
    int64_t begin = 0, end = 0;
    int64_t bytes() const { return end - begin; }
  };
  /// FailedPrecondition where a program has outputs in two arenas.
  Status findOutputRanges();
  const OutputRange &outputRange(int program) const {
    return outputRanges[static_cast<size_t>(program)];
  }
  /// Bytes of a slot: those of the largest range, whole pages.
  int64_t outputSlotBytes() const;

  static int64_t slotOf(RunTicket run) { return run.number % runsInFlight; }
  int64_t startedRuns() const { return started; }
  /// Program of a run whose outputs are kept.
  int programOf(RunTicket run) const {
    return slotProgram[static_cast<size_t>(slotOf(run))];
  }
  /// Gives the next run its number and its slot.
  RunTicket nextRun(int program);

private:
  /// A place of parameter `i`: its own or a slice of its bucket's.
  Buffer tensor(int i, PlanPlace PlanParameter::*own,
                PlanPlace PlanBucket::*shared) const;

  Plan held;
  Communicator *group;
  std::vector<OutputRange> outputRanges; ///< by program
  int64_t started = 0;
  std::vector<int> slotProgram;     ///< of the latest run in each slot
  std::vector<RunTicket> latestRun; ///< by program
};

/// OK where this processor can run code for `target` ("x86-64-v3");
/// FailedPrecondition "<who> a processor of level …" otherwise.
Status checkCpuTarget(std::string_view target,
                      std::string_view who = "the plan needs");

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_EXECUTOR_H
