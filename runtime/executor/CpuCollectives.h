//===- CpuCollectives.h - Collectives of a plan on processors --*- C++ -*-===//
//
// The launches that are the communicator's.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CPUCOLLECTIVES_H
#define QWEN_RUNTIME_EXECUTOR_CPUCOLLECTIVES_H

#include "qwen/Plan/Kernels.h"
#include "runtime/collectives/Communicator.h"

namespace qwen::cpu {

/// Why the communicator cannot run the launch: another number of ranks than its
/// operands are made for, or elements that it cannot add.
Status checkCollective(const AllGatherArgs &args, const Communicator &ranks);
Status checkCollective(const ReduceScatterArgs &args,
                       const Communicator &ranks);

/// Runs the launch together with the other ranks; nothing is checked.
Status runCollective(const AllGatherArgs &args, Communicator &ranks);
Status runCollective(const ReduceScatterArgs &args, Communicator &ranks);

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_EXECUTOR_CPUCOLLECTIVES_H
