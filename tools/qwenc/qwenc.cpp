//===- qwenc.cpp - Compiles a model to a plan -----------------------------===//
//
// qwenc model.mlir -o plan.fb: runs the stages of lib/Pipelines, printing the
// IR after any of them on request, and writes the plan.
//
//===----------------------------------------------------------------------===//

#include "lib/Emit/EmitPlan.h"
#include "lib/Import/DiagnosticText.h"
#include "lib/Import/ModelFile.h"
#include "lib/Pipelines/Pipelines.h"
#include "qwen/Plan/Sharding.h"
#include "qwen/Plan/Target.h"
#include "runtime/plan/PlanText.h"
#include "runtime/support/Format.h"
#include "tools/CommandLine.h"
#include "tools/WriteOutput.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace qwen;
namespace cl = llvm::cl;

/// No model has more layers.
static constexpr int64_t maxPrefetch = 4096;

namespace {

struct Flags {
  cl::OptionCategory category{"qwenc options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("model.mlir"),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Plan (or IR) to write"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> target{
      "target", cl::init("x86-64-v3"), cl::cat(category),
      cl::desc("What the plan runs on: x86-64-v2, x86-64-v3, x86-64-v4 or "
               "sm_90a (an NVIDIA Hopper GPU)")};
  cl::opt<std::string> recompute{
      "recompute", cl::init("none"), cl::cat(category),
      cl::desc("Values computed again in the backward pass: none, cheap "
               "(all but GEMM, attention and gated-delta results) or full")};
  cl::opt<std::string> fusion{
      "fusion", cl::init("on"), cl::cat(category),
      cl::desc("off: every elementwise or row-wise op is its own kernel")};
  cl::opt<std::string> momentType{"moment-type", cl::init("f32"),
                                  cl::cat(category),
                                  cl::desc("AdamW moments: f32 or bf16")};
  cl::opt<std::string> masters{
      "masters", cl::init("f32"), cl::cat(category),
      cl::desc("Master copies of bf16 parameters: f32 or none (stochastic "
               "rounding)")};
  cl::list<std::string> noDecay{
      "no-decay", cl::CommaSeparated, cl::cat(category),
      cl::desc("Regular expressions of parameters without weight decay; "
               "default: as the model says (norms, A_log, dt_bias)")};
  cl::opt<std::string> tuning{
      "tuning", cl::cat(category), cl::value_desc("file"),
      cl::desc("Table of matrix product algorithms, made by qwen-bench tune; "
               "default: the built-in one of the target's card")};
  CountOption worldSize{
      "world-size",
      Between{1, maxWorldSize},
      cl::init(Count{1}),
      cl::cat(category),
      cl::value_desc("ranks"),
      cl::desc("Ranks that parameters, gradients and optimizer state are "
               "spread over")};
  CountOption prefetch{
      "prefetch",
      Between{0, maxPrefetch},
      cl::init(Count{1}),
      cl::cat(category),
      cl::value_desc("units"),
      cl::desc("Layers that are gathered ahead of their use, with several "
               "ranks")};
  cl::opt<std::string> gradType{
      "grad-dtype", cl::init("f32"), cl::cat(category),
      cl::value_desc("f32|bf16"),
      cl::desc("Element type of the gradients that ranks hold, with several "
               "ranks; bf16 allows one micro-batch a step")};
  cl::opt<std::string> reshardAfterForward{
      "reshard-after-forward", cl::init("on"), cl::cat(category),
      cl::desc("off: a layer gathered for the forward pass stays for the "
               "backward pass")};
  cl::opt<std::string> embeddingExchange{
      "embedding-exchange", cl::init("auto"), cl::cat(category),
      cl::value_desc("auto|rows|table"),
      cl::desc("What ranks send of the embedding: the rows of all ranks' "
               "tokens, the whole table, or auto for what is less")};
  cl::list<std::string> remarks{
      "remarks", cl::CommaSeparated, cl::cat(category),
      cl::desc("Explain decisions: fusion, sharding")};
  cl::opt<std::string> stopAfter{
      "stop-after", cl::cat(category), cl::value_desc("stage"),
      cl::desc("Print the IR after this stage to -o, or standard output")};
  cl::opt<std::string> dumpStages{
      "dump-stages", cl::cat(category), cl::value_desc("directory"),
      cl::desc("Write the IR after each stage to NN-stage.mlir there")};
  cl::opt<bool> listStages{"list-stages", cl::cat(category),
                           cl::desc("Print the stages and exit")};
};

LogicalResult usageError(const Twine &text) {
  llvm::errs() << "qwenc: error: " << text << "\n";
  return failure();
}

LogicalResult written(const Status &status) {
  return status.ok() ? success() : usageError(status.message());
}

/// Prints a diagnostic, but only the first error of a place.
LogicalResult printDiagnostic(Diagnostic &diagnostic,
                              std::set<std::string> &faultyPlaces) {
  std::string where = placeText(diagnostic.getLocation());
  // A layer's ops stand in forward, backward and recomputation: one fault.
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error && !where.empty() &&
      !faultyPlaces.insert(where).second)
    return success();
  llvm::errs() << diagnosticText(diagnostic) << "\n";
  return success();
}

/// Refuses a value that is not among those allowed.
LogicalResult oneOf(StringRef flag, StringRef value,
                    ArrayRef<StringRef> allowed) {
  if (llvm::is_contained(allowed, value))
    return success();
  return usageError("--" + flag + "=" + value + ": expected " +
                    llvm::join(allowed, ", "));
}

LogicalResult checkRanks(const Flags &flags) {
  bool isSharding = llvm::is_contained(flags.remarks, "sharding");
  if (flags.worldSize == 1)
    for (auto [name, given] :
         {std::pair("prefetch", flags.prefetch.getNumOccurrences() > 0),
          std::pair("grad-dtype", flags.gradType.getNumOccurrences() > 0),
          std::pair("reshard-after-forward",
                    flags.reshardAfterForward.getNumOccurrences() > 0),
          std::pair("embedding-exchange",
                    flags.embeddingExchange.getNumOccurrences() > 0),
          std::pair("remarks=sharding", isSharding)})
      if (given)
        return usageError("--" + Twine(name) + " needs a --world-size above 1");
  return success(
      succeeded(oneOf("grad-dtype", flags.gradType, {"f32", "bf16"})) &&
      succeeded(oneOf("embedding-exchange", flags.embeddingExchange,
                      {"auto", "rows", "table"})) &&
      succeeded(oneOf("reshard-after-forward", flags.reshardAfterForward,
                      {"on", "off"})));
}

LogicalResult checkFlags(const Flags &flags) {
  if (flags.input.empty())
    return usageError("no input; usage: qwenc model.mlir -o plan.fb");
  std::optional<Stage> last = Stage::Emit;
  if (!flags.stopAfter.empty())
    last = stageByName(flags.stopAfter);
  if (!last)
    return usageError("--stop-after=" + flags.stopAfter +
                      ": no such stage; --list-stages lists them");
  if (flags.output.empty() && *last == Stage::Emit)
    return usageError("no output; give -o plan.fb, or an earlier stage by "
                      "--stop-after=STAGE");
  if (Status status = checkOutput(flags.input, flags.output); !status.ok())
    return usageError(status.message());
  if (!flags.tuning.empty() && !StringRef(flags.target).starts_with("sm_"))
    return usageError("--tuning is for matrix products on a GPU, but the "
                      "target is " +
                      flags.target);
  for (const std::string &remark : flags.remarks)
    if (failed(oneOf("remarks", remark, {"fusion", "sharding"})))
      return failure();
  if (failed(checkRanks(flags)))
    return failure();
  return success(
      succeeded(oneOf("target", flags.target,
                      {"x86-64-v2", "x86-64-v3", "x86-64-v4", "sm_90a"})) &&
      succeeded(
          oneOf("recompute", flags.recompute, {"none", "cheap", "full"})) &&
      succeeded(oneOf("fusion", flags.fusion, {"on", "off"})) &&
      succeeded(oneOf("moment-type", flags.momentType, {"f32", "bf16"})) &&
      succeeded(oneOf("masters", flags.masters, {"f32", "none"})));
}

CompileOptions compileOptions(const Flags &flags) {
  CompileOptions options;
  options.target = flags.target;
  options.fuse = flags.fusion == "on";
  options.recompute = flags.recompute;
  options.momentType = flags.momentType;
  options.masters = flags.masters;
  options.tuning = flags.tuning;
  options.noDecay.assign(flags.noDecay.begin(), flags.noDecay.end());
  options.worldSize = flags.worldSize;
  options.prefetch = flags.prefetch;
  options.gradType = flags.gradType;
  options.reshardAfterForward = flags.reshardAfterForward == "on";
  options.embeddingExchange = flags.embeddingExchange;
  options.fusionRemarks = llvm::is_contained(flags.remarks, "fusion");
  options.shardingRemarks = llvm::is_contained(flags.remarks, "sharding");
  return options;
}

/// The flags that shaped the plan, as recorded in it.
std::string flagText(const CompileOptions &options) {
  std::string text = "--target=" + options.target +
                     " --fusion=" + (options.fuse ? "on" : "off") +
                     " --recompute=" + options.recompute +
                     " --moment-type=" + options.momentType +
                     " --masters=" + options.masters;
  for (const std::string &pattern : options.noDecay)
    text += " --no-decay=" + pattern;
  if (!options.tuning.empty())
    text += " --tuning=" + options.tuning;
  if (options.worldSize > 1)
    text += " --world-size=" + std::to_string(options.worldSize) +
            " --prefetch=" + std::to_string(options.prefetch) +
            " --reshard-after-forward=" +
            (options.reshardAfterForward ? "on" : "off") +
            " --grad-dtype=" + options.gradType +
            " --embedding-exchange=" + options.embeddingExchange;
  return text;
}

LogicalResult writeIR(ModuleOp module, StringRef path) {
  // Machine code is not for reading.
  OpPrintingFlags printing;
  printing.elideLargeElementsAttrs(64).elideLargeResourceString(64);
  return written(writeOutput(
      path.str(), [&](llvm::raw_ostream &os) { module.print(os, printing); }));
}

LogicalResult dumpStage(ModuleOp module, Stage stage, StringRef directory) {
  if (std::error_code error = llvm::sys::fs::create_directories(directory))
    return usageError("cannot create " + directory + ": " + error.message());
  SmallString<128> path(directory);
  std::string name =
      llvm::formatv("0{0}-{1}.mlir", static_cast<int>(stage), stageName(stage));
  llvm::sys::path::append(path, name);
  return writeIR(module, path);
}

OwningOpRef<ModuleOp> readModel(const std::string &path, MLIRContext &context) {
  StatusOr<std::string> text = readModelText(path);
  if (!text.ok()) {
    (void)usageError(text.status().message());
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(*text, path),
                             llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, &context);
}

LogicalResult runStage(ModuleOp module, Stage stage,
                       const CompileOptions &options, TimingScope &timing) {
  PassManager pm(module.getContext());
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  TimingScope scope = timing.nest(stageName(stage));
  pm.enableTiming(scope);
  buildStage(pm, stage, options);
  return pm.run(module);
}

/// What the plan will need, exactly.
void printForecast(StringRef plan, StringRef path) {
  StatusOr<Plan> parsed = Plan::parse(
      std::as_bytes(std::span(plan.data(), plan.size())), path.str());
  if (parsed.ok()) // emitPlan has read it back; this only fetches the numbers
    llvm::outs() << path << ": " << formatBytes(double(plan.size())) << "; "
                 << describeForecast(parsed->info()) << "\n";
}

/// Writes the plan beside its place and renames it: no half plan is ever there.
LogicalResult writePlan(ModuleOp module, StringRef path,
                        const CompileOptions &options) {
  EmitOptions emit;
  emit.compilerVersion = QWEN_COMPILER_VERSION;
  emit.compilerFlags = flagText(options);
  FailureOr<std::string> plan = emitPlan(module, emit);
  if (failed(plan))
    return failure();
  if (failed(written(writeOutput(path.str(),
                                 [&](llvm::raw_ostream &os) { os << *plan; }))))
    return failure();
  if (path != "-") // else the plan itself went to standard output
    printForecast(*plan, path);
  return success();
}

void printStages() {
  for (Stage stage : allStages())
    llvm::outs() << llvm::left_justify(stageName(stage), 10)
                 << stageSummary(stage) << "\n";
}

LogicalResult compile(const Flags &flags) {
  if (failed(checkFlags(flags)))
    return failure();
  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry);
  // Diagnostics are one line each; the IR is there for the asking.
  context.printOpOnDiagnostic(false);
  std::set<std::string> faultyPlaces;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    return printDiagnostic(diagnostic, faultyPlaces);
  });
  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();

  OwningOpRef<ModuleOp> module = readModel(flags.input, context);
  if (!module)
    return failure();
  CompileOptions options = compileOptions(flags);
  for (Stage stage : allStages()) {
    if (stage == Stage::Emit)
      break;
    if (failed(runStage(*module, stage, options, timing)) ||
        (!flags.dumpStages.empty() &&
         failed(dumpStage(*module, stage, flags.dumpStages))))
      return failure();
    if (flags.stopAfter == stageName(stage))
      return writeIR(*module,
                     flags.output.empty() ? "-" : flags.output.c_str());
  }
  TimingScope scope = timing.nest("emit");
  return writePlan(*module, flags.output, options);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  reportLargeFiles();
  // Else the plan could get the number of a closed standard stream.
  if (llvm::sys::Process::FixupStandardFileDescriptors())
    return 1;
  // LLVM's code generator registers options for its own tools, one of them by
  // the name of ours.
  auto &registered = cl::getRegisteredOptions();
  if (auto it = registered.find("stop-after"); it != registered.end())
    it->second->removeArgument();
  cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "qwenc " << QWEN_COMPILER_VERSION << "\n";
  });
  Flags flags;
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerAsmPrinterCLOptions();
  registerDefaultTimingManagerCLOptions();
  // Those of LLVM and MLIR are in --help-hidden.
  cl::HideUnrelatedOptions(flags.category);
  if (!parseCommandLine(
          argc, argv,
          "compiles the training graph of a Qwen model to a plan\n"))
    return 1;
  if (flags.listStages)
    printStages();
  else if (failed(compile(flags)))
    return 1;
  return succeeded(written(checkStandardOutput())) ? 0 : 1;
}
