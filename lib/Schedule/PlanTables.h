//===- PlanTables.h - Arenas, buffers and views of a module ----*- C++ -*-===//
//
// Creates the memory ops of the plan dialect from the places that the memory
// stage left as attributes; one op for each distinct buffer and view.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_SCHEDULE_PLANTABLES_H
#define QWEN_LIB_SCHEDULE_PLANTABLES_H

#include "dialects/Plan/Plan.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Memory/ProgramMemory.h"

#include "llvm/ADT/StringMap.h"

#include <array>

namespace qwen {

class PlanTables {
public:
  /// Ops are created at `builder`'s place.
  PlanTables(mlir::ModuleOp module, mlir::OpBuilder &builder)
      : module(module), builder(builder) {
    if (auto n = module->getAttrOfType<mlir::IntegerAttr>("qwen.world_size"))
      worldSize = n.getInt();
  }

  /// Arenas, workspace, and the buffers of all parameters or buckets.
  llvm::LogicalResult createPersistent();
  /// Buffers of a program's arguments and allocations.
  llvm::LogicalResult createBuffers(mlir::func::FuncOp program);
  /// The `plan.view` for a memref value of a program.
  mlir::Value viewOf(mlir::Value value);
  /// The tables of parameters and buckets.
  void createParameters();

private:
  llvm::LogicalResult createArenas();
  llvm::LogicalResult createParameterBuffers();
  llvm::LogicalResult createBucketViews();
  void createBuckets();
  llvm::LogicalResult createPort(mlir::func::FuncOp program, unsigned index);
  void createSlots(mlir::func::FuncOp program);
  mlir::Value buffer(plan::MemoryClass holds, int64_t offset, int64_t size);
  mlir::Value view(mlir::Value buffer, int64_t offset, mlir::MemRefType type);
  mlir::Value parameterView(ParameterOp parameter, unsigned role);

  mlir::ModuleOp module;
  mlir::OpBuilder &builder;
  /// Where a root lies.
  struct Place {
    mlir::Value buffer;
    int64_t offset = 0;
  };
  llvm::DenseMap<mlir::Value, Place> places;
  /// Buffer and its offset in the arena, by storage role and stack.
  llvm::DenseMap<std::pair<unsigned, int64_t>, std::pair<mlir::Value, int64_t>>
      stackBuffers;
  /// Views of a bucket's shards by storage role; null where there is none.
  llvm::StringMap<std::array<mlir::Value, 5>> bucketViews;
  int64_t worldSize = 1;
  llvm::StringMap<ParameterOp> parameters;
  llvm::StringMap<mlir::Value> inputs;
  llvm::DenseMap<std::pair<std::pair<mlir::Value, int64_t>, mlir::Type>,
                 mlir::Value>
      views;
};

} // namespace qwen

#endif // QWEN_LIB_SCHEDULE_PLANTABLES_H
