//===- ChooseAlgorithms.cpp - Algorithms of products from a table ---------===//
//
// Writes what a tuning table says about each product into its op.
//
//===----------------------------------------------------------------------===//

#include "Passes.h"

#include "runtime/kernels/cuda/GemmTuning.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MemoryBuffer.h"

namespace qwen {
#define GEN_PASS_DEF_CHOOSEALGORITHMSPASS
#include "lib/Lowering/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

namespace {

struct ChooseAlgorithms
    : public qwen::impl::ChooseAlgorithmsPassBase<ChooseAlgorithms> {
  using ChooseAlgorithmsPassBase::ChooseAlgorithmsPassBase;

  void runOnOperation() override {
    if (failed(readTable()))
      return signalPassFailure();
    getOperation()->walk([&](Operation *op) {
      TypeSwitch<Operation *>(op)
          .Case([&](kernel::GemmOp op) {
            op.setAlgorithm(find(cuda::gemmShape(kernel::toArgs(op))));
          })
          .Case([&](kernel::LinearCrossEntropyOp op) {
            LinearCrossEntropyArgs args = kernel::toArgs(op);
            cuda::LossBlocks blocks(args.x, args.weight);
            op.setLogitsAlgorithm(find(blocks.logits()));
          })
          .Case([&](kernel::LinearCrossEntropyGradOp op) {
            LinearCrossEntropyGradArgs args = kernel::toArgs(op);
            cuda::LossBlocks blocks(args.x, args.weight);
            op.setLogitsAlgorithm(find(blocks.logits()));
            op.setDxAlgorithm(find(blocks.dx()));
            op.setDweightAlgorithm(find(blocks.dweight(args.accumulate)));
          });
    });
  }

private:
  LogicalResult readTable() {
    std::string content, name = "the built-in table";
    if (file.empty()) {
      content = cuda::shippedTuningTable();
    } else {
      name = file;
      auto buffer = llvm::MemoryBuffer::getFile(file);
      if (!buffer)
        return getOperation()->emitError()
               << "cannot read tuning table '" << file
               << "': " << buffer.getError().message();
      content = (*buffer)->getBuffer().str();
    }
    StatusOr<cuda::TuningTable> parsed = cuda::parseTuningTable(content, name);
    if (!parsed.ok())
      return getOperation()->emitError()
             << "tuning table: " << parsed.status().message();
    table = std::move(*parsed);
    return success();
  }

  /// The product's algorithm; empty where the table does not have it.
  ArrayRef<int64_t> find(const cuda::GemmShape &shape) {
    auto it = table.find(cuda::tunedShape(shape));
    if (it == table.end()) {
      ++numUnknown;
      return {};
    }
    ++numTuned;
    return it->second.algorithm;
  }

  cuda::TuningTable table;
};

} // namespace
