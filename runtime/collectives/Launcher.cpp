//===- Launcher.cpp - How many ranks were started, and how to meet them ---===//
//
// What mpirun and srun leave in the environment, and the module with MPI.
//
//===----------------------------------------------------------------------===//

#include "runtime/collectives/Communicator.h"
#include "runtime/collectives/MpiModule.h"
#include "runtime/collectives/MpiModuleVersion.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <limits>

using namespace qwen;
namespace fs = std::filesystem;

static std::optional<int64_t> environmentNumber(const char *name) {
  const char *text = std::getenv(name);
  if (!text)
    return std::nullopt;
  int64_t value = 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0)
    return std::nullopt;
  return value;
}

int64_t qwen::launchedRanks() {
  // Open MPI, then MPICH and its relatives.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (auto size = environmentNumber(name))
      return *size;
  // SLURM_NTASKS is that of the allocation and also there in a batch script,
  // which is no rank; this one is that of the step which srun started.
  if (environmentNumber("SLURM_PROCID"))
    if (auto size = environmentNumber("SLURM_STEP_NUM_TASKS"))
      return *size;
  return environmentNumber("PMIX_RANK") ? 0 : 1;
}

std::optional<int> qwen::launchedLocalRank() {
  // Open MPI, MPICH and its relatives, then srun.
  for (const char *name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (auto number = environmentNumber(name);
        number && *number <= std::numeric_limits<int>::max())
      return static_cast<int>(*number);
  return std::nullopt;
}

/// The module beside this program or in ../lib.
static StatusOr<std::string> findModule() {
  constexpr const char *name = "libqwen_mpi.so";
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path folder = program.parent_path();
  for (const fs::path &place : {folder / name, folder / "../lib" / name})
    if (fs::exists(place, error))
      return place.lexically_normal().string();
  return makeError(StatusCode::FailedPrecondition,
                   "several ranks need {}, which is neither in '{}' nor in "
                   "../lib of it: it is built where MPI is installed",
                   name, folder.string());
}

static std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "unknown reason";
}

StatusOr<std::unique_ptr<Communicator>>
qwen::joinRanks(const CommunicatorOptions &options) {
  int64_t launched = launchedRanks();
  if (launched == 1)
    return std::unique_ptr<Communicator>();
  QWEN_ASSIGN_OR_RETURN(std::string path, findModule());
  // MPI libraries load parts of their own, which look for its symbols.
  void *module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!module)
    return makeError(StatusCode::FailedPrecondition,
                     "several ranks need MPI, but '{}' cannot be loaded: {}",
                     path, loaderError());
  auto *version =
      static_cast<const uint64_t *>(dlsym(module, mpiModuleVersionSymbol));
  auto *join =
      reinterpret_cast<JoinByMpi *>(dlsym(module, mpiModuleJoinSymbol));
  if (!version || !join || *version != mpiModuleVersion)
    return makeError(StatusCode::FailedPrecondition,
                     "'{}' is of another build, with another interface, than "
                     "this program: install both from one build",
                     path);
  Status status;
  std::unique_ptr<Communicator> joined(join(options, launched, status));
  if (!status.ok())
    return status;
  return joined;
}
