//===- VerifySchedule.cpp - Check what the schedule stage promises --------===//
//
// The rules of single ops are their verifiers'; this is about the module.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelStreams.h"
#include "lib/Schedule/Passes.h"

namespace qwen {
#define GEN_PASS_DEF_VERIFYSCHEDULEPASS
#include "lib/Schedule/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

namespace {

class VerifySchedulePass
    : public qwen::impl::VerifySchedulePassBase<VerifySchedulePass> {
public:
  void runOnOperation() override {
    int64_t headers = 0, programs = 0, binaries = 0;
    for (Operation &op : *getOperation().getBody()) {
      headers += isa<plan::HeaderOp>(op);
      programs += isa<plan::ProgramOp>(op);
      binaries += isa<kernel::BinaryOp>(op);
      if (!isa<kernel::BinaryOp>(op) &&
          !isa_and_nonnull<plan::PlanDialect>(op.getDialect())) {
        op.emitOpError("must not be left after the stage schedule");
        return signalPassFailure();
      }
    }
    if (headers != 1 || programs == 0 || binaries > 1) {
      getOperation().emitError()
          << "a plan needs one header, at least one program and at most one "
             "binary, but has "
          << headers << ", " << programs << " and " << binaries;
      return signalPassFailure();
    }
    plan::HeaderOp header = *getOperation().getOps<plan::HeaderOp>().begin();
    if (header.getWorldSize() == 1 && failed(verifyOneRank()))
      signalPassFailure();
  }

private:
  /// There is nobody to talk to, so that one stream has all launches.
  LogicalResult verifyOneRank() {
    for (auto program : getOperation().getOps<plan::ProgramOp>())
      for (Operation &launch : program.getBody().front())
        if (kernel::isCollectiveLaunch(&launch))
          return launch.emitOpError("is for several ranks, but there is one");
    return success();
  }
};

} // namespace
