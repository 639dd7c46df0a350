//===- ClusterTest.cpp - Seconds of rings, counted by hand ----------------===//

#include "runtime/forecast/Cluster.h"

#include <gtest/gtest.h>

using namespace qwen;

namespace {

/// Round numbers: 100 GB/s in a node, 10 GB/s between nodes, both reached.
Cluster roundCluster(int64_t nodeSize) {
  Cluster cluster;
  cluster.nodeSize = nodeSize;
  cluster.linkBandwidth = 100e9;
  cluster.networkBandwidth = 10e9;
  cluster.linkEfficiency = cluster.networkEfficiency = 1;
  return cluster;
}

TEST(Cluster, OneRankMovesNothing) {
  EXPECT_EQ(roundCluster(8).ringSeconds(1, 1e9), 0);
  EXPECT_EQ(roundCluster(8).replicaSumSeconds(1, 1e9), 0);
}

/// 4 ranks pass 3/4 of 100 GB on, at 100 GB/s, with 3 hops of 3.4 us.
TEST(Cluster, ManyBytesInANode) {
  EXPECT_DOUBLE_EQ(roundCluster(8).ringSeconds(4, 100e9), 0.75 + 3 * 3.4e-6);
}

/// Of nothing only the hops are left, by the protocol with the shortest ones.
TEST(Cluster, FewBytesTakeTheHops) {
  EXPECT_DOUBLE_EQ(roundCluster(8).ringSeconds(8, 0), 7 * 0.6e-6);
  // 4 nodes: 3 of 31 hops go between nodes.
  EXPECT_DOUBLE_EQ(roundCluster(8).ringSeconds(32, 0),
                   28 * 0.6e-6 + 3 * 2.7e-6);
}

/// Half of LL's bytes are data, 15 of 16 of LL128's: in between LL128 is best.
TEST(Cluster, TheFastestProtocolIsTaken) {
  double moved = 3.5e6; // of 8 ranks; 35 us at 100 GB/s
  EXPECT_DOUBLE_EQ(roundCluster(8).ringSeconds(8, 4e6),
                   7 * 1.9e-6 + moved / 100e9 * 128 / 120);
}

/// All adapters of a node together are 2 x 10 GB/s, less than a link.
TEST(Cluster, TheNetworkLimitsRingsOverNodes) {
  EXPECT_DOUBLE_EQ(roundCluster(2).ringSeconds(4, 100e9),
                   75.0 / 20 + 2 * 3.4e-6 + 14e-6);
  // 16 adapters are more than a link, which limits then.
  EXPECT_DOUBLE_EQ(roundCluster(16).ringSeconds(32, 100e9),
                   31.0 / 32 + 30 * 3.4e-6 + 14e-6);
}

TEST(Cluster, EfficiencyIsOfTheBandwidth) {
  Cluster cluster = roundCluster(2);
  cluster.linkEfficiency = 0.5;
  EXPECT_DOUBLE_EQ(cluster.ringSeconds(2, 100e9), 1 + 3.4e-6);
  // Adapters limit as before.
  EXPECT_DOUBLE_EQ(cluster.ringSeconds(4, 100e9),
                   roundCluster(2).ringSeconds(4, 100e9));
  cluster.networkEfficiency = 0.5;
  EXPECT_DOUBLE_EQ(cluster.ringSeconds(4, 100e9),
                   75.0 / 10 + 2 * 3.4e-6 + 14e-6);
}

/// A sum is a scatter and a gather: 2 x 3/4 of 10 GB at 10 GB/s, 6 hops.
TEST(Cluster, SumsAcrossNodesUseTheirOwnAdapter) {
  EXPECT_DOUBLE_EQ(roundCluster(8).replicaSumSeconds(4, 10e9), 1.5 + 6 * 14e-6);
}

} // namespace
