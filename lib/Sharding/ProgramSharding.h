//===- ProgramSharding.h - One program on shards ---------------*- C++ -*-===//
//
// Rewrites one program: parameters come from gathered buckets, gradients go
// into scattered ones.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_SHARDING_PROGRAMSHARDING_H
#define QWEN_LIB_SHARDING_PROGRAMSHARDING_H

#include "lib/Sharding/Units.h"

namespace qwen {

/// What ranks send of a table of which a program looks up rows.
enum class EmbeddingExchange {
  Auto, ///< what is less
  Rows, ///< the rows of all ranks' tokens
  Table ///< the table, and its gradient
};

struct ShardingOptions {
  int64_t worldSize = 2;
  int64_t prefetch = 1;
  bool reshardAfterForward = true;
  EmbeddingExchange embeddingExchange = EmbeddingExchange::Auto;
};

/// One collective, for reports.
struct CollectiveNote {
  enum Kind { Gather, Scatter, Rows, RowGradients };
  int64_t unit;
  Kind kind;
  int64_t bytes; ///< of the whole bucket, or of all ranks' rows
  mlir::func::FuncOp program;
  mlir::Operation *op;
  int64_t ahead = 0; ///< units that a gather is ahead of its use
};

class ProgramSharding {
public:
  ProgramSharding(mlir::func::FuncOp program, const ShardingUnits &units,
                  const ShardingOptions &options)
      : program(program), units(units), options(options) {}

  mlir::LogicalResult run(llvm::SmallVectorImpl<CollectiveNote> &notes);

private:
  /// Uses of a unit that one gather serves.
  struct Phase {
    int64_t unit;
    int64_t lastStretch;
    llvm::SmallVector<mlir::OpOperand *> uses; // in program order
  };
  /// One contribution to the gradient of a parameter or stack.
  struct Contribution {
    AccumulateGradOp op;
    int64_t offset;
  };
  /// What one scatter of a bucket carries.
  using Round = llvm::SmallVector<Contribution>;

  void exchangeRows(llvm::SmallVectorImpl<CollectiveNote> &notes);
  void exchangeRows(EmbeddingOp op,
                    llvm::SmallVectorImpl<CollectiveNote> &notes);
  void exchangeRows(AccumulateGradOp op,
                    llvm::SmallVectorImpl<CollectiveNote> &notes);
  bool sendsRows(mlir::RankedTensorType rows, mlir::Type rowElement,
                 mlir::RankedTensorType table, mlir::Type tableElement) const;
  BucketOp tableBucket(mlir::ArrayAttr parameters) const;
  void findPhases();
  void gather(llvm::SmallVectorImpl<CollectiveNote> &notes);
  void readParts(Phase &phase, llvm::ArrayRef<mlir::Value> flats);
  mlir::LogicalResult scatter(llvm::SmallVectorImpl<CollectiveNote> &notes);
  mlir::LogicalResult
  scatterRound(int64_t bucket, Round &round, mlir::Operation *&last,
               llvm::SmallVectorImpl<CollectiveNote> &notes);
  mlir::Value join(mlir::OpBuilder &builder, BucketOp bucket, Round &round);

  mlir::func::FuncOp program;
  const ShardingUnits &units;
  ShardingOptions options;
  llvm::SmallVector<Phase> phases; // by first use
};

} // namespace qwen

#endif // QWEN_LIB_SHARDING_PROGRAMSHARDING_H
