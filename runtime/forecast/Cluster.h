//===- Cluster.h - What moving bytes between GPUs costs --------*- C++ -*-===//
//
// Ring collectives on nodes of GPUs with a network adapter for each GPU.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_FORECAST_CLUSTER_H
#define QWEN_RUNTIME_FORECAST_CLUSTER_H

#include <array>
#include <cstdint>

namespace qwen {

/// A way to send in a ring: what a hop takes, and the part of the bandwidth
/// that is data.
struct RingProtocol {
  double linkHop = 0, networkHop = 0; ///< seconds
  double data = 1;
};

/// Seconds of a hop and data of NCCL's protocols for rings on Hopper: the
/// constants of its own choice among them (src/graph/tuning.cc), and 4 of 8 or
/// 120 of 128 bytes that are data. A collective takes the fastest.
inline constexpr std::array<RingProtocol, 3> ncclRings = {{
    {0.6e-6, 2.7e-6, 0.5},           // LL
    {1.9e-6, 4.0e-6, 120.0 / 128.0}, // LL128
    {3.4e-6, 14.0e-6, 1.0},          // Simple
}};

/// Nodes of GPUs; what is left unsaid is the same everywhere.
struct Cluster {
  int64_t nodeSize = 8; ///< GPUs of a node
  /// Bytes a second of a GPU in one direction, to GPUs of its node and of
  /// others.
  double linkBandwidth = 450e9, networkBandwidth = 50e9;
  /// What collectives reach of these. Links: all-gathers of 1.27 GB a rank on
  /// two H200s (tools/bench/results); network: not measured.
  double linkEfficiency = 0.57, networkEfficiency = 0.8;

  /// Seconds of an all-gather or a reduce-scatter over `ranks` GPUs that fill
  /// nodes or lie in one. `bytes` are those of the whole.
  ///
  /// Each GPU passes (ranks - 1) / ranks of the bytes on. The rings enter a
  /// node through all its adapters, which are together one GPU's limit.
  double ringSeconds(int64_t ranks, double bytes) const;
  /// Seconds of the sum of `bytes` over as many GPUs, each of another node.
  double replicaSumSeconds(int64_t replicas, double bytes) const;
};

} // namespace qwen

#endif // QWEN_RUNTIME_FORECAST_CLUSTER_H
