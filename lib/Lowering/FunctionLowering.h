//===- FunctionLowering.h - One function from tensors to buffers -*- C++
//-*-===//

#ifndef QWEN_LIB_LOWERING_FUNCTIONLOWERING_H
#define QWEN_LIB_LOWERING_FUNCTIONLOWERING_H

#include "GroupFunctions.h"
#include "Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace qwen {

/// What all functions of a module share.
struct LoweringContext {
  explicit LoweringContext(mlir::ModuleOp module)
      : module(module), groups(module) {}

  mlir::ModuleOp module;
  GroupFunctions groups;
  /// Results of a function that its callers add to a gradient.
  llvm::StringMap<llvm::SmallVector<bool>> accumulatedResults;
  /// Position of each parameter in the module: its number in AdamW.
  llvm::StringMap<int64_t> parameterNumbers;
  /// Of a module for several ranks: all buckets in the module's order, and
  /// each parameter's number in them.
  llvm::SmallVector<BucketOp> buckets;
  llvm::StringMap<int64_t> bucketNumbers;
  int64_t worldSize = 1;
  bool remarks = false;
  int64_t copies = 0;
};

/// Where a value is written.
struct Destination {
  mlir::Value buffer;
  /// The writer adds to what the buffer holds.
  bool accumulate = false;
};

/// Rewrites one function in place: kernel calls go to a second block, which
/// then replaces the first.
class FunctionLowering {
public:
  FunctionLowering(mlir::func::FuncOp func, LoweringContext &context)
      : func(func), context(context), builder(func.getContext()) {}

  mlir::LogicalResult run();

private:
  // FunctionLowering.cpp
  void changeSignature();
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerReturn(mlir::func::ReturnOp op);
  mlir::LogicalResult lowerCall(mlir::func::CallOp op);
  mlir::LogicalResult lowerGroup(GroupOp op);
  void lowerSplit(SplitOp op);
  void lowerConcat(ConcatOp op);
  void lowerReshape(ReshapeOp op);
  mlir::Value storage(mlir::Location loc, kernel::StorageRole role,
                      mlir::ArrayAttr parameters, mlir::MemRefType type);

  // LowerKernelOps.cpp
  mlir::LogicalResult lowerKernelOp(mlir::Operation *op);
  mlir::LogicalResult lowerRegionOp(mlir::Operation *op);
  mlir::LogicalResult lowerLossOp(mlir::Operation *op);
  mlir::LogicalResult lowerOptimizerOp(mlir::Operation *op);
  mlir::LogicalResult lowerAdamW(AdamWOp op);

  // LowerCollectives.cpp
  mlir::LogicalResult lowerAllGather(AllGatherOp op);
  void lowerBucketPart(BucketPartOp op);
  mlir::LogicalResult lowerReduceScatter(ReduceScatterOp op);
  void lowerShardedEmbedding(ShardedEmbeddingOp op);
  void lowerShardedEmbeddingGrad(ShardedEmbeddingGradOp op);
  mlir::Value gatherRanks(mlir::Location loc, mlir::Value part,
                          llvm::StringRef name);
  mlir::LogicalResult lowerShardedGradNorm(GradNormOp op);
  mlir::LogicalResult lowerShardedAdamW(AdamWOp op);
  llvm::SmallVector<int64_t> bucketsOf(mlir::ArrayAttr parameters);
  mlir::Value shard(mlir::Location loc, kernel::StorageRole role,
                    BucketOp bucket, mlir::Type element);

  // Destinations.cpp
  /// The buffer of a value that has been written, or of a constant.
  mlir::Value buffer(mlir::Value value);
  /// The same as a contiguous buffer, copied where it is not.
  mlir::Value contiguousBuffer(mlir::Value value, llvm::StringRef why);
  /// Where the kernel is to write its result; registers it as the value's
  /// buffer. Fails where it would have to accumulate but cannot.
  mlir::FailureOr<Destination> destination(mlir::OpResult result,
                                           bool canAccumulate);
  /// The same for results that no kernel accumulates into.
  mlir::FailureOr<mlir::Value> output(mlir::OpResult result);
  /// A place that some use of the value wants it in, marked as taken.
  std::optional<Destination> claim(mlir::Value value);
  std::optional<mlir::MemRefType> wantedType(mlir::Value value);
  std::optional<Destination> claimThroughReshape(mlir::OpOperand &use);
  mlir::Value joinedBuffer(ConcatOp concat);
  mlir::Value pieceView(ConcatOp concat, unsigned piece);
  mlir::Value createAlloc(mlir::Value value);
  mlir::Value createView(mlir::Location loc, mlir::Value source, int64_t offset,
                         mlir::MemRefType type);
  void createFill(mlir::Location loc, mlir::arith::ConstantOp constant,
                  mlir::Value to);
  void createCopy(mlir::Location loc, mlir::Value from, mlir::Value to,
                  llvm::StringRef why);

  mlir::func::FuncOp func;
  LoweringContext &context;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Value> outputArguments;
  llvm::DenseMap<mlir::Value, mlir::Value> bufferOf;
  /// Uses that read nothing, because the producer wrote in their place.
  llvm::DenseSet<mlir::OpOperand *> inPlace;
};

} // namespace qwen

#endif // QWEN_LIB_LOWERING_FUNCTIONLOWERING_H
