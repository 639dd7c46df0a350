//===- Nccl.cpp - The functions of NCCL that are called -------------------===//

#include "runtime/collectives/Nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <utility>

using namespace qwen;
using namespace qwen::nccl;

/// In files that a library was built from, a version is one number.
std::string nccl::versionText(int version) {
  // 2.8 and before had three digits behind the first one.
  int base = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / base, version % base / 100,
                     version % 100);
}

static std::string loaderError() {
  const char *text = dlerror();
  return text ? text : "unknown reason";
}

namespace {
/// Looks functions up; remembers the first one that is missing.
struct Symbols {
  void *library;
  const char *missing = nullptr;

  template <typename F> void find(const char *name, F &function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function && !missing)
      missing = name;
  }
};
} // namespace

StatusOr<Library> Library::load(const std::string &name) {
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return makeError(StatusCode::FailedPrecondition,
                     "several GPUs need NCCL, but '{}' cannot be loaded: {}",
                     name, loaderError());
  Library result;
  Symbols symbols{library};
  Result (*getVersion)(int *) = nullptr;
  symbols.find("ncclGetVersion", getVersion);
  symbols.find("ncclGetUniqueId", result.getUniqueId);
  symbols.find("ncclCommInitRank", result.commInitRank);
  symbols.find("ncclCommAbort", result.commAbort);
  symbols.find("ncclCommGetAsyncError", result.commGetAsyncError);
  symbols.find("ncclAllGather", result.allGather);
  symbols.find("ncclReduceScatter", result.reduceScatter);
  symbols.find("ncclGetErrorString", result.getErrorString);
  symbols.find("ncclGetLastError", result.getLastError);
  if (getVersion && getVersion(&result.version) != success)
    result.version = 0;
  if (result.version < leastVersion)
    return makeError(StatusCode::FailedPrecondition,
                     "several GPUs need NCCL {} or later, '{}' is {}",
                     versionText(leastVersion), name,
                     result.version ? versionText(result.version)
                                    : "no NCCL that tells its version");
  if (symbols.missing)
    return makeError(StatusCode::FailedPrecondition,
                     "'{}' is NCCL {} but has no '{}'", name,
                     versionText(result.version), symbols.missing);
  return result;
}

Status Library::check(Result result, std::string_view what, Comm *comm) const {
  if (result == success)
    return okStatus();
  const char *details = getLastError(comm);
  std::string text = getErrorString(result);
  if (details && *details)
    text += fmt::format(" ({})", details);
  // One line, whatever the library writes.
  for (char &c : text)
    if (c == '\n' || c == '\r')
      c = ' ';
  while (text.ends_with(' '))
    text.pop_back();
  return makeError(StatusCode::IoError, "{}: NCCL: {}", what, text);
}

void nccl::setEnvironmentDefaults() {
  for (auto [name, value] :
       {std::pair("NCCL_ALGO", "Ring"), std::pair("NCCL_PROTO", "Simple"),
        std::pair("NCCL_NVLS_ENABLE", "0")})
    setenv(name, value, /*overwrite=*/0);
}
