//===- EmitPlanPass.cpp - Write the plan file -----------------------------===//
//
// emitPlan as a pass, for qwen-opt and tests.
//
//===----------------------------------------------------------------------===//

#include "lib/Emit/EmitPlan.h"
#include "lib/Emit/Passes.h"
#include "runtime/support/Publish.h"

namespace qwen {
#define GEN_PASS_DEF_EMITPLANPASS
#include "lib/Emit/Passes.h.inc"
} // namespace qwen

using namespace qwen;

namespace {

class EmitPlanPass : public qwen::impl::EmitPlanPassBase<EmitPlanPass> {
public:
  using EmitPlanPassBase::EmitPlanPassBase;
  void runOnOperation() override {
    auto bytes = emitPlan(getOperation(), {compilerVersion, compilerFlags});
    if (failed(bytes))
      return signalPassFailure();
    Status status = publishFile(output, *bytes);
    if (!status.ok()) {
      getOperation().emitError() << status.message();
      signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
