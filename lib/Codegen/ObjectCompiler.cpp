//===- ObjectCompiler.cpp - LLVM IR to a loadable object ------------------===//

#include "ObjectCompiler.h"
#include "Optimize.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

static Error makeError(const Twine &text) {
  return createStringError(inconvertibleErrorCode(), text);
}

/// The linker of this LLVM, else the one that is found first.
static Expected<std::string> findLinker() {
  if (sys::fs::can_execute(QWEN_LINKER))
    return std::string(QWEN_LINKER);
  for (StringRef name : {"ld.lld", "ld"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
  return makeError("no linker: neither " QWEN_LINKER
                   " nor ld.lld or ld on the PATH");
}

/// A temporary file that goes away with its holder, or by a signal.
struct TemporaryFile {
  SmallString<128> path;
  std::unique_ptr<FileRemover> remover;

  Error create(StringRef suffix) {
    if (std::error_code error =
            sys::fs::createTemporaryFile("qwenc", suffix, path))
      return makeError("cannot create a temporary file: " + error.message());
    remover = std::make_unique<FileRemover>(path);
    sys::RemoveFileOnSignal(path);
    return Error::success();
  }
  Error write(StringRef data) const {
    std::error_code error;
    raw_fd_ostream os(path, error);
    if (!error) {
      os << data;
      os.flush();
      // Left in the stream, the error would end the process.
      error = os.error();
      os.clear_error();
    }
    return error ? makeError("cannot write " + path + ": " + error.message())
                 : Error::success();
  }
  Expected<std::string> read() const {
    auto buffer = MemoryBuffer::getFile(path);
    if (!buffer)
      return makeError("cannot read " + path + ": " +
                       buffer.getError().message());
    return (*buffer)->getBuffer().str();
  }
};

/// Links one object into a shared object. In a process of its own: lld as a
/// library resets the command line options of its host.
static Expected<std::string> link(StringRef object) {
  Expected<std::string> linker = findLinker();
  if (!linker)
    return linker.takeError();
  TemporaryFile in, out, messages;
  for (auto [file, suffix] :
       {std::pair(&in, "o"), {&out, "so"}, {&messages, "txt"}})
    if (Error error = file->create(suffix))
      return error;
  if (Error error = in.write(object))
    return error;

  // No build id, no time stamps: the same code gives the same plan. The
  // mathematical functions of f64 code (exp, log …) stay undefined and are
  // found in the runtime's C library.
  StringRef arguments[] = {*linker,   "-shared",     "--hash-style=gnu",
                           "-z",      "noexecstack", "--build-id=none",
                           "-soname", "qwen_groups", "-o",
                           out.path,  in.path};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(),
                                          StringRef(messages.path)};
  std::string failure;
  if (sys::ExecuteAndWait(*linker, arguments, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &failure)) {
    Expected<std::string> text = messages.read();
    if (!text)
      return text.takeError();
    return makeError("linking the generated code failed: " + failure + *text);
  }
  return out.read();
}

Expected<std::string> qwen::compileToSharedObject(Module &module,
                                                  StringRef cpu) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  auto machine = createMachine(Triple("x86_64-unknown-linux-gnu"), cpu,
                               /*features=*/"");
  if (!machine)
    return machine.takeError();
  for (Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", cpu);
      function.setDoesNotThrow();
    }
  auto object = emitCode(module, **machine, CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  return link(*object);
}
