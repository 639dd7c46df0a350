//===- qwen-import.cpp - config.json to model.mlir ------------------------===//
//
// Writes the training graph of a model as text that can be read, edited and
// compiled.
//
//===----------------------------------------------------------------------===//

#include "models/Import.h"
#include "runtime/support/Json.h"
#include "tools/CommandLine.h"
#include "tools/WriteOutput.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace qwen;

namespace {

cl::OptionCategory category("qwen-import");
cl::opt<std::string> configPath(cl::Positional, cl::desc("<config.json>"),
                                cl::cat(category));
cl::opt<std::string> outputPath("o", cl::init("-"),
                                cl::value_desc("model.mlir"),
                                cl::desc("Output file"), cl::cat(category));
CountOption tokens("tokens", Between{1, mostTokens},
                   cl::desc("Tokens of a micro-batch"), cl::cat(category));
CountOption maxDocuments("max-documents", Between{1, mostDocuments},
                         cl::desc("Most documents of a micro-batch"),
                         cl::cat(category));
cl::opt<std::string> dtype("dtype", cl::value_desc("f32|bf16|f64"),
                           cl::desc("Element type; default: the config's"),
                           cl::cat(category));
cl::opt<std::string>
    namePrefix("name-prefix", cl::value_desc("prefix"),
               cl::desc("Prefix of parameter names; default: "
                        "model.language_model. for a config with a "
                        "text_config, else model."),
               cl::cat(category));
cl::opt<bool> logits("logits", cl::desc("Add the program @logits"),
                     cl::cat(category));
cl::opt<std::string> modelName("name",
                               cl::desc("What reports call the model; default: "
                                        "from the config's path"),
                               cl::cat(category));

/// "configs/tiny.json" -> "tiny"; "Qwen3.5-4B/config.json" -> "Qwen3.5-4B".
std::string nameFromPath(StringRef path) {
  StringRef stem = sys::path::stem(path);
  StringRef folder = sys::path::filename(sys::path::parent_path(path));
  return (stem == "config" && !folder.empty() ? folder : stem).str();
}

StatusOr<std::string> readConfig(const std::string &path) {
  constexpr uint64_t largest = 16 << 20;
  auto buffer = MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return makeError(StatusCode::IoError, "{}", buffer.getError().message());
  if ((*buffer)->getBufferSize() > largest)
    return invalidArgument("expected a config of at most {} bytes, found {}",
                           largest, (*buffer)->getBufferSize());
  return (*buffer)->getBuffer().str();
}

StatusOr<ModelConfig> loadConfig() {
  StatusOr<std::string> text = readConfig(configPath);
  if (!text.ok())
    return text.status().withContext(configPath);
  StatusOr<ModelConfig> config = parseConfig(*text);
  if (!config.ok())
    return config.status().withContext(configPath);
  if (std::vector<std::string> unknown = unknownFields(*text); !unknown.empty())
    errs() << "qwen-import: warning: " << configPath
           << ": not known here and left out: "
           << printable(join(unknown, ", "), 500) << "\n";
  return config;
}

/// What has no default.
Status checkGiven() {
  if (configPath.empty())
    return invalidArgument("no input; usage: qwen-import config.json --tokens "
                           "N --max-documents N -o model.mlir");
  if (tokens.getNumOccurrences() == 0)
    return invalidArgument("no size of a micro-batch; give --tokens N");
  if (maxDocuments.getNumOccurrences() == 0)
    return invalidArgument("no limit of documents; give --max-documents N");
  return okStatus();
}

Status run() {
  QWEN_RETURN_IF_ERROR(checkGiven());
  QWEN_RETURN_IF_ERROR(checkOutput(configPath, outputPath));
  QWEN_ASSIGN_OR_RETURN(ModelConfig config, loadConfig());
  ImportOptions options;
  options.tokens = tokens;
  options.maxDocuments = maxDocuments;
  options.dtype = dtype;
  if (namePrefix.getNumOccurrences())
    options.namePrefix = namePrefix;
  options.logits = logits;
  options.modelName = modelName.empty() ? nameFromPath(configPath) : modelName;

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  QWEN_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                        importModel(context, config, options));
  return writeOutput(outputPath, [&](raw_ostream &os) {
    module->print(os, mlir::OpPrintingFlags().printNameLocAsPrefix());
  });
}

} // namespace

int main(int argc, char **argv) {
  reportLargeFiles();
  // Else the output could get the number of a closed standard stream.
  if (std::error_code error = sys::Process::FixupStandardFileDescriptors())
    return 1;
  cl::HideUnrelatedOptions(category);
  if (!parseCommandLine(argc, argv,
                        "Builds the training graph of a Qwen hybrid model\n"))
    return 1;
  Status status = run();
  if (status.ok())
    return 0;
  errs() << "qwen-import: error: " << status.message() << "\n";
  return 1;
}
