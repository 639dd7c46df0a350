//===- StreamOrder.cpp - What waits say about the order of launches -------===//

#include "qwen/Plan/StreamOrder.h"

using namespace qwen;

StreamOrder::StreamOrder(const std::vector<StreamLaunch> &launches)
    : done(launches.size(), int64_t(launches.size())) {
  for (const StreamLaunch &launch : launches)
    computes.push_back(launch.stream == computeStream);
  int64_t known = 0; // collectives before this launch are done
  for (int64_t step = 0; step < int64_t(launches.size()); ++step) {
    if (!computes[std::size_t(step)])
      continue;
    done[std::size_t(step)] = step;
    for (int64_t earlier : launches[std::size_t(step)].waits)
      for (; known <= earlier && known < step; ++known)
        if (!computes[std::size_t(known)])
          done[std::size_t(known)] = step;
  }
}
