//===- Kernels.h - Argument structs of all kernels -------------*- C++ -*-===//
//
// The contract of compiler and runtime about kernels: one struct a kernel,
// generated from dialects/Kernel/KernelOps.td, where each kernel's meaning is
// written down, and the macro QWEN_KERNELS(K) that lists them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_KERNELS_H
#define QWEN_PLAN_KERNELS_H

#include "qwen/Plan/Buffer.h"

#include <string>
#include <type_traits>
#include <vector>

namespace qwen {
#include "qwen/Plan/KernelArgs.h.inc"

/// Kernels that talk to other ranks: the executor hands them to its
/// communicator.
template <typename Args>
inline constexpr bool isCollective = std::is_same_v<Args, AllGatherArgs> ||
                                     std::is_same_v<Args, ReduceScatterArgs>;

/// Kernels on a rank's part of a table: their `begin` is that of rank 0 until
/// the executor subtracts what the ranks before it hold.
template <typename Args>
inline constexpr bool holdsPartOfTable =
    std::is_same_v<Args, EmbeddingShardArgs> ||
    std::is_same_v<Args, EmbeddingGradShardArgs>;
} // namespace qwen

#endif // QWEN_PLAN_KERNELS_H
