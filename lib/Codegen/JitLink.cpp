//===- JitLink.cpp - PTX to a cubin ---------------------------------------===//

#include "GpuCompiler.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace llvm;

namespace {

constexpr StringLiteral libraryName = "libnvJitLink.so.13";

/// The C interface of nvJitLink, as far as it is used (nvJitLink.h): every
/// function returns 0 where it succeeds.
struct JitLink {
  using Handle = void *;
  int (*create)(Handle *, uint32_t optionCount, const char **options);
  int (*destroy)(Handle *);
  int (*addData)(Handle, int inputType, const void *data, size_t size,
                 const char *name);
  int (*complete)(Handle);
  int (*cubinSize)(Handle, size_t *);
  int (*cubin)(Handle, void *);
  int (*errorSize)(Handle, size_t *);
  int (*error)(Handle, char *);

  /// Loads the library at the first call; it stays loaded.
  static Expected<const JitLink *> load();
};

constexpr int inputPtx = 2; // NVJITLINK_INPUT_PTX

/// Where the library may be: where QWEN_NVJITLINK says; else what the system's
/// loader knows, then the usual places of the toolkit.
SmallVector<std::string> candidates() {
  if (const char *path = std::getenv("QWEN_NVJITLINK"))
    return {path};
  SmallVector<std::string> paths{libraryName.str()};
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable))
      paths.push_back(std::string(root) + "/lib64/" + libraryName.str());
  paths.push_back("/usr/local/cuda/lib64/" + libraryName.str());
  return paths;
}

Expected<void *> openLibrary() {
  SmallVector<std::string> paths = candidates();
  for (const std::string &path : paths)
    if (void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
  return createStringError(
      "compiling for a GPU needs nvJitLink of the CUDA toolkit 13, looked for "
      "as " +
      join(paths, ", "));
}

Expected<const JitLink *> JitLink::load() {
  static JitLink api;
  static bool loaded = false;
  if (loaded)
    return &api;
  auto library = openLibrary();
  if (!library)
    return library.takeError();
  std::string missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(*library, name));
    if (!function)
      missing = name;
  };
  find(api.create, "nvJitLinkCreate");
  find(api.destroy, "nvJitLinkDestroy");
  find(api.addData, "nvJitLinkAddData");
  find(api.complete, "nvJitLinkComplete");
  find(api.cubinSize, "nvJitLinkGetLinkedCubinSize");
  find(api.cubin, "nvJitLinkGetLinkedCubin");
  find(api.errorSize, "nvJitLinkGetErrorLogSize");
  find(api.error, "nvJitLinkGetErrorLog");
  if (!missing.empty())
    return createStringError(libraryName + " has no function " + missing);
  loaded = true;
  return &api;
}

/// One assembly of one text.
class Session {
public:
  explicit Session(const JitLink &api) : api(api) {}
  ~Session() {
    if (handle)
      api.destroy(&handle);
  }

  Expected<std::string> assemble(StringRef ptx, StringRef arch) {
    std::string option = ("-arch=" + arch).str();
    const char *options[] = {option.c_str()};
    if (int code = api.create(&handle, 1, options))
      return fail("cannot be set up for " + arch, code);
    if (int code = api.addData(handle, inputPtx, ptx.data(), ptx.size(),
                               "qwen_groups.ptx"))
      return fail("refuses the generated PTX", code);
    if (int code = api.complete(handle))
      return fail("cannot assemble the generated PTX", code);
    size_t size = 0;
    if (int code = api.cubinSize(handle, &size))
      return fail("has made no object", code);
    std::string object(size, '\0');
    if (int code = api.cubin(handle, object.data()))
      return fail("has made no object", code);
    return object;
  }

private:
  Error fail(const Twine &what, int code) {
    std::string log;
    size_t size = 0;
    if (handle && api.errorSize(handle, &size) == 0 && size > 0) {
      log.resize(size);
      if (api.error(handle, log.data()) != 0)
        log.clear();
    }
    return createStringError("nvJitLink " + what + " (code " + Twine(code) +
                             ") " + StringRef(log.c_str()).rtrim());
  }

  const JitLink &api;
  JitLink::Handle handle = nullptr;
};

} // namespace

Expected<std::string> qwen::linkPtx(StringRef ptx, StringRef arch) {
  auto api = JitLink::load();
  if (!api)
    return api.takeError();
  return Session(**api).assemble(ptx, arch);
}
