//===- StreamOrder.cpp - What waits say about the order of launches -------===//

#include "lib/Memory/StreamOrder.h"
#include "dialects/Kernel/KernelStreams.h"
#include "qwen/Plan/Streams.h"

using namespace mlir;
using namespace qwen;

StreamOrder::StreamOrder(ArrayRef<kernel::KernelOpInterface> launches)
    : done(launches.size(), launches.size()) {
  int64_t known = 0; // collectives before this launch are done
  for (auto [number, launch] : llvm::enumerate(launches)) {
    if (kernel::streamOf(launch) != computeStream)
      continue;
    auto step = static_cast<int64_t>(number);
    done[step] = step;
    for (int64_t earlier : kernel::waitsOf(launch))
      for (; known <= earlier && known < step; ++known)
        if (kernel::streamOf(launches[known]) != computeStream)
          done[known] = step;
  }
}
