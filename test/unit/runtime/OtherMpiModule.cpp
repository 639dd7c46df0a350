//===- OtherMpiModule.cpp - A module of another build ---------------------===//
//
// Ends the process where it is asked to join: it must not be.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/MpiModule.h"
#include "runtime/collectives/MpiModuleVersion.h"

#include <cstdlib>

using namespace qwen;

extern "C" {
extern const uint64_t qwenMpiModuleVersion;
const uint64_t qwenMpiModuleVersion = mpiModuleVersion + 1;

Communicator *qwenJoinByMpi(const CommunicatorOptions &, int64_t, Status &) {
  std::abort();
}
}
