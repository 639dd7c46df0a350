//===- KernelBench.h - One line a kernel -----------------------*- C++ -*-===//
//
// Times a kernel, sets its time against the card's measured ceilings and prints
// a line of JSON.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_KERNELBENCH_H
#define QWEN_TOOLS_QWEN_BENCH_KERNELBENCH_H

#include "Kernels.h"

#include "qwen/Plan/KernelCosts.h"
#include "runtime/benchmark/KernelTiming.h"

namespace qwen::bench {

/// What stands in a line beside the times.
struct KernelLine {
  std::string model;
  std::string shape;       ///< "24/4x256"
  int64_t tokens = 0;      ///< 0: not a kernel over tokens
  int64_t documents = 0;   ///< 0: not a kernel over documents
  double contextPairs = 0; ///< of the documents
  /// Bytes that must move; 0: kernelBytes.
  double bytes = 0;
  /// FLOPs of matrix products, which the matrix ceiling bounds.
  double matrixFlops = 0;
};

class KernelBench {
public:
  /// Measures the ceilings.
  static StatusOr<KernelBench> create(const KernelsOptions &options);

  bool wants(std::string_view kernel) const;

  template <typename Args>
  Status measure(const Args &args, const KernelLine &line) const {
    QWEN_ASSIGN_OR_RETURN(auto run, KernelRun<Args>::create(args));
    if (options.once)
      return runOnce([&] { return run.enqueue(nullptr); });
    TimingOptions timing;
    timing.samples = options.samples;
    QWEN_ASSIGN_OR_RETURN(
        Times times,
        timeReplay([&](cudaStream_t stream) { return run.enqueue(stream); },
                   timing));
    double flops = double(kernelFlops(args)) +
                   kernelFlopsPerPair(args) * line.contextPairs;
    print(Args::kernelName, line, times, flops,
          line.bytes > 0 ? line.bytes : double(kernelBytes(args)));
    return okStatus();
  }

  /// A line for products that belong together, timed as one replay.
  Status measureProducts(const std::vector<GemmArgs> &products,
                         const char *name, const KernelLine &line) const;

private:
  explicit KernelBench(const KernelsOptions &options) : options(options) {}
  static Status runOnce(const std::function<Status()> &enqueue);
  void print(const char *kernel, const KernelLine &line, const Times &times,
             double flops, double bytes) const;

  KernelsOptions options;
  double copyRate = 0;   ///< bytes a second
  double matrixRate = 0; ///< bf16 FLOP a second
};

// The groups of kernels; each prints its lines.
Status benchGatedDelta(const KernelBench &bench, const KernelsOptions &options);
Status benchConv(const KernelBench &bench, const KernelsOptions &options);
Status benchAttention(const KernelBench &bench, const KernelsOptions &options);
Status benchEmbedding(const KernelBench &bench, const KernelsOptions &options);
Status benchLoss(const KernelBench &bench, const KernelsOptions &options);
Status benchMoves(const KernelBench &bench, const KernelsOptions &options);
Status benchOptimizer(const KernelBench &bench, const KernelsOptions &options);

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_KERNELBENCH_H
