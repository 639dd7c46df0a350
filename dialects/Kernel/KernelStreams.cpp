//===- KernelStreams.cpp - Streams and waits of launches ------------------===//

#include "dialects/Kernel/KernelStreams.h"
#include "qwen/Plan/Streams.h"

using namespace mlir;
using namespace qwen;

static constexpr llvm::StringLiteral streamName = "qwen.stream";
static constexpr llvm::StringLiteral waitsName = "qwen.waits";

bool kernel::isCollectiveLaunch(Operation *launch) {
  return isa<AllGatherOp, ReduceScatterOp>(launch);
}

bool kernel::hasStream(Operation *launch) {
  return launch->hasAttr(streamName) || launch->hasAttr(waitsName);
}

int64_t kernel::streamOf(Operation *launch) {
  auto stream = launch->getAttrOfType<IntegerAttr>(streamName);
  return stream ? stream.getInt() : computeStream;
}

ArrayRef<int64_t> kernel::waitsOf(Operation *launch) {
  auto waits = launch->getAttrOfType<DenseI64ArrayAttr>(waitsName);
  return waits ? waits.asArrayRef() : ArrayRef<int64_t>();
}

void kernel::setStream(Operation *launch, int64_t stream) {
  launch->setAttr(streamName,
                  Builder(launch->getContext()).getI64IntegerAttr(stream));
}

void kernel::addWait(Operation *launch, int64_t step) {
  SmallVector<int64_t> waits(waitsOf(launch));
  waits.push_back(step);
  launch->setAttr(waitsName,
                  DenseI64ArrayAttr::get(launch->getContext(), waits));
}

static LogicalResult verifyWaits(ArrayRef<kernel::KernelOpInterface> launches,
                                 int64_t step) {
  kernel::KernelOpInterface launch = launches[step];
  for (int64_t earlier : kernel::waitsOf(launch)) {
    if (earlier < 0 || earlier >= step)
      return launch.emitOpError() << "is launch " << step << " and waits for "
                                  << earlier << ", which is no earlier one";
    if (kernel::streamOf(launches[earlier]) == kernel::streamOf(launch))
      return launch.emitOpError()
             << "waits for launch " << earlier << " of its own stream";
  }
  return success();
}

LogicalResult kernel::verifyStreams(ArrayRef<KernelOpInterface> launches) {
  for (size_t step = 0; step < launches.size(); ++step) {
    KernelOpInterface launch = launches[step];
    Attribute stream = launch->getAttr(streamName);
    Attribute waits = launch->getAttr(waitsName);
    if ((stream && !isa<IntegerAttr>(stream)) ||
        (waits && !isa<DenseI64ArrayAttr>(waits)))
      return launch.emitOpError() << streamName << " must be a number and "
                                  << waitsName << " an array of i64";
    int64_t expected =
        isCollectiveLaunch(launch) ? collectiveStream : computeStream;
    if (streamOf(launch) != expected)
      return launch.emitOpError() << "is on stream " << streamOf(launch)
                                  << ", expected " << expected;
    if (failed(verifyWaits(launches, step)))
      return failure();
  }
  return success();
}
