//===- MpiModule.h - What libqwen_mpi.so exports ---------------*- C++ -*-===//
//
// The module is loaded only where more than one rank was started, so that one
// rank runs on machines without MPI.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_COLLECTIVES_MPIMODULE_H
#define QWEN_RUNTIME_COLLECTIVES_MPIMODULE_H

#include "runtime/collectives/Communicator.h"

namespace qwen {

/// Of a uint64_t, to be compared with that of MpiModuleVersion.h.
inline constexpr const char *mpiModuleVersionSymbol = "qwenMpiModuleVersion";
inline constexpr const char *mpiModuleJoinSymbol = "qwenJoinByMpi";

/// Initialises MPI and meets `launched` ranks (0: as many as MPI says). Null
/// where there is only one, or with an error in `status`.
using JoinByMpi = Communicator *(const CommunicatorOptions &options,
                                 int64_t launched, Status &status);

} // namespace qwen

#endif // QWEN_RUNTIME_COLLECTIVES_MPIMODULE_H
