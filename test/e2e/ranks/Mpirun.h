//===- Mpirun.h - Programs on several ranks of this machine ----*- C++ -*-===//

#ifndef QWEN_TEST_E2E_RANKS_MPIRUN_H
#define QWEN_TEST_E2E_RANKS_MPIRUN_H

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

namespace qwen::ranktest {

/// A program under mpirun, or alone where `ranks` is 1. Ended with the object.
/// Tests for GPUs have one for each rank where there are enough. Else ranks
/// share: NCCL lets those of different machines, which NCCL_HOSTID makes of
/// them, and moves their data through sockets.
class Mpirun {
public:
  Mpirun(int ranks, const std::vector<std::string> &command);
  ~Mpirun();
  Mpirun(const Mpirun &) = delete;

  /// Reads on until the output has `text`; false where it ends before.
  bool waitFor(const std::string &text);
  /// Waits for the end; true for exit status 0.
  bool finish();
  /// Everything that was read of stdout and stderr.
  const std::string &output() const { return text; }
  /// Process of a rank; 0 where there is none (any more).
  pid_t processOf(int rank) const;
  pid_t launcher() const { return child; }
  /// Since finish() or waitFor() began last.
  std::chrono::duration<double> waited() const { return taken; }

private:
  bool read();

  pid_t child = 0;
  int pipe = -1;
  std::string text;
  std::chrono::duration<double> taken{};
};

} // namespace qwen::ranktest

#endif // QWEN_TEST_E2E_RANKS_MPIRUN_H
