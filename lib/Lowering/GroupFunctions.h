//===- GroupFunctions.h - One function for equal groups --------*- C++ -*-===//

#ifndef QWEN_LIB_LOWERING_GROUPFUNCTIONS_H
#define QWEN_LIB_LOWERING_GROUPFUNCTIONS_H

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace qwen {

/// Rows that one thread takes at a time. Depends on the iteration space (and on
/// whether there are column sums) alone: the partial sums of blocks are added
/// in order, so the result must not depend on the machine.
int64_t chooseRowsPerBlock(llvm::ArrayRef<int64_t> domain, bool hasColumnSums);

/// Operations of the body for one row; an elementary function counts as one.
int64_t countFlopsPerRow(GroupOp group);

/// Indexes of the results that are sums over all rows.
llvm::SmallVector<int64_t> columnSums(GroupOp group);

/// The kernel.group_functions of a module. Groups with the same body, layouts
/// and iteration space share one.
class GroupFunctions {
public:
  explicit GroupFunctions(mlir::ModuleOp module) : module(module) {}

  /// The function for `group` on buffers of these types.
  kernel::GroupFunctionOp get(GroupOp group, mlir::TypeRange inputs,
                              mlir::TypeRange outputs);

  int64_t size() const { return functions.size(); }

private:
  std::string makeName(llvm::StringRef label);

  mlir::ModuleOp module;
  /// By the printed function without its name and locations.
  llvm::StringMap<kernel::GroupFunctionOp> functions;
  llvm::StringSet<> names;
};

} // namespace qwen

#endif // QWEN_LIB_LOWERING_GROUPFUNCTIONS_H
