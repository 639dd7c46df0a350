//===- Group.h - Generated kernels on a GPU --------------------*- C++ -*-===//
//
// The cubin of a plan in the process, and handles of its kernels.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GROUP_H
#define QWEN_RUNTIME_KERNELS_CUDA_GROUP_H

#include "qwen/Support/Status.h"
#include "runtime/kernels/cuda/Kernels.h"

#include <span>
#include <string>

namespace qwen {
namespace plan {
struct Plan;
} // namespace plan

namespace cuda {

/// The loaded machine code of a plan; the kernels it hands out live as long as
/// it does. Move-only.
class GroupCode {
public:
  /// No code, no kernels.
  GroupCode() = default;
  /// Loads the code of a verified plan for the current device and all others of
  /// the process. FailedPrecondition where the driver refuses it.
  static StatusOr<GroupCode> load(const plan::Plan &plan);
  GroupCode(GroupCode &&other) noexcept;
  GroupCode &operator=(GroupCode &&other) noexcept;
  ~GroupCode();

  /// A kernel by its name, with the geometry that the plan has for it.
  StatusOr<GroupKernel> find(const std::string &symbol) const;

private:
  const plan::Plan *plan = nullptr;
  cudaLibrary_t library = nullptr;
};

} // namespace cuda
} // namespace qwen

#endif // QWEN_RUNTIME_KERNELS_CUDA_GROUP_H
