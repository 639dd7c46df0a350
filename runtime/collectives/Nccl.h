//===- Nccl.h - The functions of NCCL that are called ----------*- C++ -*-===//
//
// NCCL is found when a plan for several GPUs is loaded, so that everything else
// builds and runs without it. The declarations are those of its ABI, which
// NcclTest compares with nccl.h where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_COLLECTIVES_NCCL_H
#define QWEN_RUNTIME_COLLECTIVES_NCCL_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <string>

#include <cuda_runtime.h>

namespace qwen::nccl {

/// ncclResult_t; 0 is success.
using Result = int;
inline constexpr Result success = 0;
/// ncclComm_t.
struct Comm;
/// ncclUniqueId.
struct UniqueId {
  char internal[128];
};
/// ncclDataType_t and ncclRedOp_t, as far as they are used.
enum class Type : int { Int8 = 0, Float32 = 7 };
enum class Reduction : int { Sum = 0 };

/// The oldest version that captured collectives are expected of: abort ends
/// kernels of graphs, and an algorithm may be fixed for all operations.
inline constexpr int leastVersion = 22000;

/// The library, which stays loaded.
struct Library {
  int version = 0; ///< 22809 is 2.28.9

  Result (*getUniqueId)(UniqueId *id) = nullptr;
  Result (*commInitRank)(Comm **comm, int ranks, UniqueId id,
                         int rank) = nullptr;
  Result (*commAbort)(Comm *comm) = nullptr;
  Result (*commGetAsyncError)(Comm *comm, Result *error) = nullptr;
  Result (*allGather)(const void *mine, void *all, size_t count, Type type,
                      Comm *comm, cudaStream_t stream) = nullptr;
  Result (*reduceScatter)(const void *all, void *mine, size_t count, Type type,
                          Reduction reduction, Comm *comm,
                          cudaStream_t stream) = nullptr;
  const char *(*getErrorString)(Result result) = nullptr;
  const char *(*getLastError)(Comm *comm) = nullptr;

  /// FailedPrecondition, one line, where there is none or one that is too old.
  static StatusOr<Library> load(const std::string &name = "libnccl.so.2");

  /// Success, or "<what>: NCCL: <its text>".
  Status check(Result result, std::string_view what,
               Comm *comm = nullptr) const;
};

/// "2.28.9".
std::string versionText(int version);

/// Sets the variables that fix how NCCL adds, where the user has not set them;
/// before the library is loaded. Which ones and why: README.md.
void setEnvironmentDefaults();

} // namespace qwen::nccl

#endif // QWEN_RUNTIME_COLLECTIVES_NCCL_H
