//===- Units.h - Which parameters travel together --------------*- C++ -*-===//
//
// Units of the model and the buckets that hold their parameters.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_SHARDING_UNITS_H
#define QWEN_LIB_SHARDING_UNITS_H

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace qwen {

/// Functions with the attribute `qwen.program`.
llvm::SmallVector<mlir::func::FuncOp> shardedPrograms(mlir::ModuleOp module);

/// Where a parameter lies.
struct ParameterHome {
  int64_t unit = 0, bucket = 0;
  int64_t offset = 0; ///< in the bucket, in elements
};

/// Parameters that are gathered and scattered together.
struct ShardingUnit {
  std::string name; ///< what its parameters' names have in common
  llvm::SmallVector<int64_t> buckets;
};

/// The units of a module, in the order of their first parameters.
class ShardingUnits {
public:
  /// Forms the units and creates their buckets behind the parameters.
  /// `gradient` is the element type of gradients, but for f64; null: float32.
  static mlir::FailureOr<ShardingUnits>
  create(mlir::ModuleOp module, int64_t worldSize, mlir::Type gradient);

  llvm::ArrayRef<ShardingUnit> units() const { return unitList; }
  BucketOp bucket(int64_t number) const { return bucketList[number]; }
  const ParameterHome &home(mlir::Attribute parameter) const;

private:
  llvm::SmallVector<ShardingUnit> unitList;
  llvm::SmallVector<BucketOp> bucketList;
  llvm::StringMap<ParameterHome> homes;
};

} // namespace qwen

#endif // QWEN_LIB_SHARDING_UNITS_H
