//===- Cluster.cpp - What moving bytes between GPUs costs -----------------===//

#include "runtime/forecast/Cluster.h"

#include <algorithm>
#include <limits>

using namespace qwen;

/// Seconds of the fastest protocol for so many hops over each kind of line,
/// with so many seconds of bytes.
static double fastestRing(int64_t linkHops, int64_t networkHops,
                          double seconds) {
  double fastest = std::numeric_limits<double>::max();
  for (const RingProtocol &ring : ncclRings)
    fastest = std::min(fastest, double(linkHops) * ring.linkHop +
                                    double(networkHops) * ring.networkHop +
                                    seconds / ring.data);
  return fastest;
}

double Cluster::ringSeconds(int64_t ranks, double bytes) const {
  if (ranks <= 1)
    return 0;
  int64_t nodes = (ranks + nodeSize - 1) / nodeSize;
  double links = linkBandwidth * linkEfficiency;
  double adapters = networkBandwidth * networkEfficiency * double(nodeSize);
  double moved = bytes * double(ranks - 1) / double(ranks);
  return fastestRing(ranks - nodes, nodes - 1,
                     moved / (nodes == 1 ? links : std::min(links, adapters)));
}

double Cluster::replicaSumSeconds(int64_t replicas, double bytes) const {
  if (replicas <= 1)
    return 0;
  double moved = 2 * bytes * double(replicas - 1) / double(replicas);
  return fastestRing(0, 2 * (replicas - 1),
                     moved / (networkBandwidth * networkEfficiency));
}
