//===- Mpirun.cpp - Programs on several ranks of this machine -------------===//

#include "Mpirun.h"

#include "test/e2e/Harness.h"

#ifdef QWEN_TEST_CUDA
#include <cuda_runtime.h>
#endif

#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace qwen;
using namespace qwen::ranktest;
namespace fs = std::filesystem;

/// Ranks may be more than processors, also as root in a container. Other MPIs
/// than Open MPI need no permission.
static void setEnvironment() {
  for (const char *name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe", "OMP_NUM_THREADS"})
    setenv(name, "1", 1);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);
}

/// Whether plans run on GPUs of which there are fewer.
static bool shareGpus([[maybe_unused]] int ranks) {
#ifdef QWEN_TEST_CUDA
  int devices = 0;
  return e2e::testOptions().isCuda() &&
         cudaGetDeviceCount(&devices) == cudaSuccess && devices < ranks;
#else
  return false;
#endif
}

Mpirun::Mpirun(int ranks, const std::vector<std::string> &command) {
  std::vector<std::string> words;
  if (ranks > 1)
    words = {QWEN_MPIEXEC, "-n", std::to_string(ranks)};
  if (ranks > 1 && shareGpus(ranks))
    words.insert(words.end(),
                 {"sh", "-c",
                  "NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK-$PMI_RANK} "
                  "NCCL_SOCKET_IFNAME=lo exec \"$@\"",
                  "sh"});
  words.insert(words.end(), command.begin(), command.end());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  child = fork();
  if (child == 0) {
    setEnvironment();
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    std::vector<char *> arguments;
    for (std::string &word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  pipe = ends[0];
}

Mpirun::~Mpirun() {
  if (child > 0)
    kill(child, SIGTERM);
  finish();
}

bool Mpirun::read() {
  char part[4096];
  ssize_t count = ::read(pipe, part, sizeof(part));
  if (count <= 0)
    return false;
  text.append(part, size_t(count));
  return true;
}

bool Mpirun::waitFor(const std::string &wanted) {
  auto begin = std::chrono::steady_clock::now();
  while (text.find(wanted) == text.npos && read()) {
  }
  taken = std::chrono::steady_clock::now() - begin;
  return text.find(wanted) != text.npos;
}

bool Mpirun::finish() {
  if (child <= 0)
    return false;
  auto begin = std::chrono::steady_clock::now();
  while (read()) {
  }
  int status = 0;
  waitpid(child, &status, 0);
  taken = std::chrono::steady_clock::now() - begin;
  close(pipe);
  child = 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The launcher tells each of its children its rank in the environment.
pid_t Mpirun::processOf(int rank) const {
  std::error_code error;
  for (const auto &entry : fs::directory_iterator("/proc", error)) {
    std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != number.npos)
      continue;
    std::string status = readFile(entry.path() / "status");
    if (status.find("\nPPid:\t" + std::to_string(child) + "\n") ==
        std::string::npos)
      continue;
    std::string environment = '\0' + readFile(entry.path() / "environ");
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
      if (environment.find('\0' + std::string(name) + "=" +
                           std::to_string(rank) + '\0') != std::string::npos)
        return pid_t(std::stol(number));
  }
  return 0;
}
