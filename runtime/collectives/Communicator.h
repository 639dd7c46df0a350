//===- Communicator.h - What the ranks of a run say to each other -*- C++ -*-=//
//
// The collective operations of training. Every rank calls the same ones in the
// same order. Sums are made in the order of the ranks, so that a result is a
// function of its terms and of nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_COLLECTIVES_COMMUNICATOR_H
#define QWEN_RUNTIME_COLLECTIVES_COMMUNICATOR_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace qwen {

/// What a rank is doing, for those that watch whether it gets on.
enum class Activity {
  Other,     ///< loading, saving, counting: may take any time
  Launching, ///< running a program: launches end, one after the other
  Waiting,   ///< in a collective operation, for other ranks
};

class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Number of this rank among those of its machine.
  virtual int localRank() const { return 0; }
  /// Whether a rank runs on this one's machine.
  virtual bool isLocal(int /*rank*/) const { return true; }

  /// Returns when every rank has called it.
  virtual Status barrier() = 0;
  /// `all`, of size() * bytes, becomes the `mine` of the ranks, in their order.
  /// `mine` must not lie in `all`.
  virtual Status allGather(const void *mine, void *all, int64_t bytes) = 0;
  /// `mine` becomes the sum over the ranks of their elements
  /// [rank() * elements, (rank() + 1) * elements) of `all`, or has it added.
  /// The terms are added in float64, in the order of the ranks, `mine` first
  /// where it is one of them, and rounded once. Without `accumulate`, `mine`
  /// may be those elements of `all`.
  virtual Status reduceScatter(const float *all, float *mine, int64_t elements,
                               bool accumulate) = 0;
  /// `data` of every rank becomes that of rank `root`.
  virtual Status broadcast(void *data, int64_t bytes, int root) = 0;

  /// Sum over the ranks, in their order.
  StatusOr<double> sum(double mine);
  /// Whether any rank says so.
  StatusOr<bool> any(bool mine);
  /// What the first rank with a text says; empty where no rank has one.
  StatusOr<std::string> firstText(const std::string &mine);
  /// Success where all ranks have it; else the error of the first rank that has
  /// one, by whose number it is known on the others.
  Status agree(const Status &mine);
  /// Whether all ranks have this error, by agree(): one may speak for all.
  bool isAgreed(const Status &error) const;

  /// Tells the watching ranks that this one gets on.
  virtual void note(Activity activity) {}
  /// Tells them how many collective operations this rank's GPU has come to
  /// since the start. Where all ranks wait for too long, one that is behind the
  /// others is the one that hangs.
  virtual void noteArrivals(uint64_t count) {}
  /// Tells them the step that this rank works at, for their messages.
  virtual void enterStep(int64_t step) {}
  /// Tells the other ranks that this one ends by an error; they end too.
  /// Nothing else may be called afterwards.
  virtual void fail(const Status &error) {}
  /// The end of a run in which all went well; waits for all ranks. Nothing
  /// else may be called afterwards.
  virtual Status leave() { return okStatus(); }

private:
  std::string agreed; ///< the error that agree() returned last
};

/// The one rank of a run without others.
Communicator &selfCommunicator();

/// How to meet the other ranks.
struct CommunicatorOptions {
  /// Seconds without a sign of life after which a rank counts as lost.
  double rankTimeout = 30;
  /// Called from another thread, at most once, with a line that names the rank
  /// that was lost or failed. It must end the process: the thread that trains
  /// may wait for that rank forever.
  std::function<void(const std::string &line)> onLostRank;
};

/// Number of ranks that the launcher of this process (mpirun, srun) started;
/// 0 where it started several or one and does not say how many; 1 without one.
int64_t launchedRanks();

/// Number of this process among those that the launcher started on this
/// machine, where it says so.
std::optional<int> launchedLocalRank();

/// Joins the other ranks where the launcher started any: by MPI, from the
/// module libqwen_mpi.so beside this program or in ../lib. Null for one rank,
/// which needs no MPI.
StatusOr<std::unique_ptr<Communicator>>
joinRanks(const CommunicatorOptions &options);

} // namespace qwen

#endif // QWEN_RUNTIME_COLLECTIVES_COMMUNICATOR_H
