//===- Executor.h - Runs the programs of a plan ----------------*- C++ -*-===//
//
// `create` allocates every arena, loads the generated code and turns each step
// into a ready argument struct. `run` is a loop over those: it checks nothing
// and allocates nothing.
//
//   QWEN_ASSIGN_OR_RETURN(Executor executor, Executor::create(plan, {}));
//   int microStep = *plan.findProgram("micro_step");
//   std::memcpy(executor.input("tokens")->data, ids, bytes);
//   executor.run(microStep);
//   Buffer nll = *executor.output(microStep, "nll");
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_EXECUTOR_H
#define QWEN_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/plan/Plan.h"

#include <memory>
#include <optional>
#include <string_view>

namespace qwen {

struct ExecutorOptions {
  /// OpenMP threads of the launches; 0 leaves OpenMP's own choice.
  int threads = 0;
  /// Asks the kernel for huge pages.
  bool hugePages = true;
  /// Fills activations, workspace and outputs with NaN before each run, so that
  /// a read of something unwritten shows. For tests.
  bool poison = false;
};

/// The memory and the launches of one plan on one CPU. Move-only. A run may be
/// started from one thread at a time.
class Executor {
public:
  /// FailedPrecondition where the processor lacks the plan's target level;
  /// ResourceExhausted, before anything is allocated, where memory is short.
  /// Persistent memory starts as zeros.
  static StatusOr<Executor> create(const Plan &plan,
                                   const ExecutorOptions &options);
  Executor(Executor &&) noexcept;
  Executor &operator=(Executor &&) noexcept;
  ~Executor();

  /// Runs a program by its index in `plan().programs()`.
  void run(int program);
  /// Runs the first `steps` launches of a program only (for finding the launch
  /// that goes wrong).
  void runPrefix(int program, int64_t steps);

  const Plan &plan() const;

  /// Input of that name, shared by all programs that have it.
  std::optional<Buffer> input(std::string_view name) const;
  /// Output of a program, valid from its run to the next run of it.
  std::optional<Buffer> output(int program, std::string_view name) const;

  /// Views of parameter `i` of `plan().parameters()`. Optimizer state that the
  /// plan does not have comes back with a null address.
  Buffer parameter(int i) const;
  Buffer gradient(int i) const;
  Buffer moment1(int i) const;
  Buffer moment2(int i) const;
  Buffer master(int i) const;

private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// OK where this processor can run code for `target` ("x86-64-v3");
/// FailedPrecondition "<who> a processor of level …" otherwise.
Status checkCpuTarget(std::string_view target,
                      std::string_view who = "the plan needs");

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_EXECUTOR_H
