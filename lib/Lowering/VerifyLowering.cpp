//===- VerifyLowering.cpp - What holds after the lowering stage -----------===//

#include "Passes.h"

namespace qwen {
#define GEN_PASS_DEF_VERIFYLOWERINGPASS
#include "lib/Lowering/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

/// Operands of a group call against the types that its function states.
static LogicalResult matchTypes(kernel::GroupOp call, ValueRange operands,
                                ArrayAttr types, StringRef kind) {
  if (operands.size() != types.size())
    return call.emitOpError()
           << "has " << operands.size() << " " << kind << "s, but @"
           << call.getSymbol() << " takes " << types.size();
  for (auto [i, operand] : llvm::enumerate(operands)) {
    Type expected = cast<TypeAttr>(types[i]).getValue();
    if (operand.getType() != expected)
      return call.emitOpError()
             << kind << " #" << i << " is " << operand.getType() << ", but @"
             << call.getSymbol() << " takes " << expected;
  }
  return success();
}

static LogicalResult verifyGroupCall(kernel::GroupOp call, SymbolTable &symbols,
                                     bool isCompiled) {
  auto function = symbols.lookup<kernel::GroupFunctionOp>(call.getSymbol());
  if (!function && isCompiled)
    return success(); // machine code states no types
  if (!function)
    return call.emitOpError() << "names the group function @"
                              << call.getSymbol() << ", which does not exist";
  if (failed(matchTypes(call, call.getInputs(), function.getInputTypes(),
                        "input")) ||
      failed(matchTypes(call, call.getOutputs(), function.getOutputTypes(),
                        "output")))
    return failure();
  int64_t rows = 1;
  for (int64_t size : function.getDomain().drop_back())
    rows *= size;
  if (static_cast<int64_t>(call.getRows()) != rows ||
      call.getRowsPerBlock() != function.getRowsPerBlock() ||
      call.getColumnSums() != function.getColumnSums())
    return call.emitOpError()
           << "must have the rows, rows_per_block and column_sums of @"
           << call.getSymbol();
  return success();
}

static bool mayStand(Operation *op) {
  return isa<kernel::KernelOpInterface, kernel::StorageOp, kernel::ViewOp,
             memref::AllocOp, func::CallOp, func::ReturnOp>(op);
}

namespace {
struct VerifyLowering : qwen::impl::VerifyLoweringPassBase<VerifyLowering> {
  using VerifyLoweringPassBase::VerifyLoweringPassBase;

  void runOnOperation() override {
    std::optional<TargetKind> kind = targetKind(target);
    if (!kind) {
      getOperation().emitError()
          << "unknown target '" << target << "'; there are " << listTargets();
      return signalPassFailure();
    }
    bool bad = failed(verifyTarget(*kind));
    SymbolTable symbols(getOperation());
    bool isCompiled = !getOperation().getOps<kernel::BinaryOp>().empty();
    for (Operation &op : getOperation().getOps()) {
      if (auto func = dyn_cast<func::FuncOp>(op)) {
        bad |= failed(verifyFunction(func, symbols, isCompiled));
      } else if (!isa<ParameterOp, BucketOp, kernel::GroupFunctionOp,
                      kernel::BinaryOp>(op)) {
        op.emitOpError("is not expected in a module after lowering");
        bad = true;
      }
    }
    if (bad)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// Every call has a kernel: nothing is found missing when the plan runs.
  LogicalResult verifyTarget(TargetKind kind) {
    bool bad = false;
    getOperation().walk([&](kernel::KernelOpInterface call) {
      std::string reason = call.unsupportedReason(kind);
      if (reason.empty())
        return;
      call.emitOpError() << "in @"
                         << call->getParentOfType<func::FuncOp>().getSymName()
                         << " has no kernel for " << target << ": " << reason;
      bad = true;
    });
    return failure(bad);
  }

  static LogicalResult verifyFunction(func::FuncOp func, SymbolTable &symbols,
                                      bool isCompiled) {
    auto isBuffer = [](Type type) {
      return isa<MemRefType>(type) &&
             cast<MemRefType>(type).getLayout().isIdentity();
    };
    if (!llvm::all_of(func.getArgumentTypes(), isBuffer) ||
        func.getNumResults() != 0)
      return func.emitOpError("must take contiguous buffers and return nothing "
                              "after lowering");
    for (Operation &op : func.getOps()) {
      if (!mayStand(&op))
        return op.emitOpError()
               << "in @" << func.getSymName()
               << " is no kernel call: only kernel ops may remain after "
                  "lowering";
      if (auto call = dyn_cast<kernel::GroupOp>(op))
        if (failed(verifyGroupCall(call, symbols, isCompiled)))
          return failure();
    }
    return success();
  }
};
} // namespace
