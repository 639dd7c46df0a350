//===- Options.cpp - Command line and run.toml of qwenrun -----------------===//

#include "Options.h"

#include "runtime/support/Json.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

using namespace qwen;
namespace fs = std::filesystem;

namespace {
/// The command-line description, bound to one set of options. CLI11 reports by
/// exceptions; they end in `parse`.
class Parser {
public:
  explicit Parser(Options &options);
  /// Parses; `configPath` empty reads no file.
  StatusOr<std::optional<std::string>>
  parse(std::span<const std::string> arguments, const std::string &configPath);
  /// Names of the path options that have a value.
  std::set<std::string> givenPaths() const;
  /// Makes the values of path options that are not in `fromCommandLine`
  /// relative to `folder`.
  void rebasePaths(const std::set<std::string> &fromCommandLine,
                   const fs::path &folder);
  Status finish();

private:
  void addModelOptions();
  void addDataOptions();
  void addOptimizerOptions();
  void addRunOptions();
  void addPath(const char *name, std::string &value, const char *text);

  Options &options;
  CLI::App app{"Trains with a plan made by qwenc.", "qwenrun"};
  std::vector<std::pair<CLI::Option *, std::string *>> paths;
  std::string schedule = "cosine", warmup = "0", decay = "0.2", resume;
  CLI::Option *resumeOption = nullptr, *peakOption = nullptr;
};
} // namespace

static constexpr const char *footer =
    "Step lines: tokens/s counts tokens that are not padding. MFU = model "
    "FLOPs of\nthose tokens, forward and backward (--info lists the terms), / "
    "(time of the step x\n--peak-tflops). HFU counts instead what the launches "
    "of the step do by the cost\nmodel: recomputed layers, padding and the "
    "update too, attention by the pairs of\ntokens of its documents. GPU: "
    "utilisation, temperature, SM clock, memory in use.";

Parser::Parser(Options &options) : options(options) {
  app.option_defaults()->always_capture_default();
  app.footer(footer);
  app.add_option("plan", options.plan, "Plan file (plan.fb)");
  addModelOptions();
  addDataOptions();
  addOptimizerOptions();
  addRunOptions();
}

void Parser::addPath(const char *name, std::string &value, const char *text) {
  paths.emplace_back(app.add_option(name, value, text), &value);
}

void Parser::addModelOptions() {
  addPath("--weights", options.weights,
          "Hugging Face checkpoint folder to start from");
  app.add_option("--init", options.init,
                 "'random': start from random weights instead")
      ->check(CLI::IsMember({"random"}));
  addPath("--model-config", options.modelConfig,
          "config.json for the checkpoints of --init random");
  addPath("--tokenizer", options.tokenizer,
          "Folder whose tokenizer files go into the checkpoints");
  app.add_option("--carry", options.carry,
                 "Prefix of further tensors to carry through untrained "
                 "(mtp. and visual. are)");
}

void Parser::addDataOptions() {
  addPath("--data", options.data, "Token file to train on (qwen-prepare)");
  addPath("--eval", options.eval, "Token file to evaluate on");
  addPath("--out", options.out, "Folder for checkpoints and metrics");
  app.add_option("--steps", options.trainer.steps, "Optimizer steps");
  app.add_option(
      "--epochs", options.trainer.epochs,
      "Passes over the data (default 1), where --steps is not given");
  app.add_option("--accumulation", options.trainer.accumulation,
                 "Micro-batches of a step on each rank");
  app.add_option("--packs-per-step", options.trainer.packsPerStep,
                 "Micro-batches of a step over all ranks, instead of "
                 "--accumulation on each; 0: not given");
  app.add_option("--seed", options.trainer.seed,
                 "Seed of sampling, initialisation and rounding");
}

void Parser::addOptimizerOptions() {
  Schedule &rates = options.trainer.schedule;
  AdamWOptions &adamw = options.trainer.adamw;
  app.add_option("--lr", rates.peak, "Peak learning rate");
  app.add_option("--schedule", schedule, "constant, linear, cosine or wsd");
  app.add_option("--warmup", warmup, "Warm-up: steps, or a part (0.03, 3%)");
  app.add_option("--decay", decay, "Last part of wsd: steps, or a part");
  app.add_option("--min-lr", rates.minimum, "Learning rate at the end");
  app.add_option("--beta1", adamw.beta1, "AdamW beta1");
  app.add_option("--beta2", adamw.beta2, "AdamW beta2");
  app.add_option("--eps", adamw.epsilon, "AdamW epsilon");
  app.add_option("--weight-decay", adamw.weightDecay, "Decoupled decay");
  app.add_option("--clip", adamw.maxGradNorm,
                 "Largest global gradient norm; 0: no clipping");
}

void Parser::addRunOptions() {
  RunOptions &run = options.run;
  app.add_option("--eval-every", run.evalEvery,
                 "Steps between evaluations; 0: at the end");
  app.add_option("--save-every", run.saveEvery,
                 "Steps between checkpoints; 0: at the end");
  app.add_option("--keep", run.keep, "Checkpoints to keep");
  app.add_option("--max-nonfinite", run.maxNonFinite,
                 "Steps in a row without a finite update before giving up");
  peakOption =
      app.add_option("--peak-tflops", run.peakTflops,
                     "Peak of a rank's device for MFU and HFU; 0: not shown")
          ->default_str("989.4, an H200's dense bf16, for sm_90a, else 0");
  app.add_option("--log-every", options.logEvery,
                 "Steps between lines where the output is no terminal");
  resumeOption =
      app.add_option("--resume", resume,
                     "Go on from the newest checkpoint in --out, or this one")
          ->expected(0, 1);
  app.add_flag("--eval-only", options.evalOnly,
               "Evaluate --weights on --eval and stop");
  app.add_flag("--info", options.info, "Print what the plan is and stop");
  app.add_option("--benchmark", options.benchmark,
                 "Time this many steps, print JSON and stop");
  app.add_option("--documents", options.documents,
                 "Lengths of the documents of every pack of --benchmark and "
                 "--profile: 1602,841,1038")
      ->delimiter(',');
  app.add_flag("--profile{3}", options.profile,
               "Print where the time of a step goes, from this many steps, "
               "and stop");
  addPath("--profile-trace", options.profileTrace,
          "Trace of --profile (default: profile.json in --out)");
  app.add_flag("--selfcheck", options.selfcheck,
               "Check what the plan computes on this machine and stop");
  app.add_option("--threads", options.threads, "Threads; 0: all cores");
  app.add_option("--device", options.device,
                 "GPU, by its number among those that CUDA_VISIBLE_DEVICES "
                 "leaves");
  app.add_option("--rank-timeout", options.rankTimeout,
                 "Seconds without a sign of life, or in one launch, after "
                 "which a rank counts as lost");
  app.add_flag("--wait-each-launch", options.waitEachLaunch,
               "GPU: no graphs, and a wait after each launch, so that an error "
               "of the GPU names its launch (slow)");
}

StatusOr<std::optional<std::string>>
Parser::parse(std::span<const std::string> arguments,
              const std::string &configPath) {
  // The option itself is needed in both passes, the reading in the second.
  if (configPath.empty())
    app.add_option("--config", options.config, "TOML file with options");
  else
    app.set_config("--config", configPath, "TOML file with options", true);
  app.allow_config_extras(CLI::config_extras_mode::error);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp &) {
    return std::optional<std::string>(app.help());
  } catch (const CLI::ParseError &error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (!configPath.empty())
      return invalidArgument("{} (options of the command line and '{}')", text,
                             configPath);
    return invalidArgument("{}; --help lists the options", text);
  }
  return std::optional<std::string>();
}

std::set<std::string> Parser::givenPaths() const {
  std::set<std::string> names;
  for (auto &[option, value] : paths)
    if (option->count() > 0)
      names.insert(option->get_name());
  if (resumeOption->count() > 0)
    names.insert(resumeOption->get_name());
  return names;
}

void Parser::rebasePaths(const std::set<std::string> &fromCommandLine,
                         const fs::path &folder) {
  auto rebase = [&](CLI::Option *option, std::string &value) {
    if (option->count() == 0 || fromCommandLine.count(option->get_name()) ||
        value.empty() || fs::path(value).is_absolute())
      return;
    value = (folder / value).lexically_normal().string();
  };
  for (auto &[option, value] : paths)
    rebase(option, *value);
  if (resume != "true")
    rebase(resumeOption, resume);
}

namespace {
/// What must hold of the options, and the message where it does not.
struct Rule {
  bool good;
  const char *text;
};
} // namespace

static Status firstBroken(std::span<const Rule> rules) {
  for (const Rule &rule : rules)
    if (!rule.good)
      return invalidArgument("{}", rule.text);
  return okStatus();
}

/// Every number that shapes training is where it makes sense.
static Status checkTraining(const TrainerOptions &trainer) {
  const AdamWOptions &adamw = trainer.adamw;
  const Rule rules[] = {
      {trainer.steps >= 0, "--steps must not be negative"},
      {trainer.epochs >= 0, "--epochs must not be negative"},
      {trainer.accumulation >= 1, "--accumulation must be at least 1"},
      {trainer.packsPerStep >= 0, "--packs-per-step must not be negative"},
      {trainer.packsPerStep == 0 || trainer.accumulation == 1,
       "--packs-per-step and --accumulation exclude each other"},
      {trainer.steps == 0 || trainer.epochs == 0,
       "--steps and --epochs exclude each other"},
      {std::isfinite(trainer.schedule.peak) && trainer.schedule.peak >= 0,
       "--lr must be a number of at least 0"},
      {trainer.schedule.minimum >= 0 &&
           trainer.schedule.minimum <= trainer.schedule.peak,
       "--min-lr must lie between 0 and --lr"},
      {adamw.beta1 >= 0 && adamw.beta1 < 1, "--beta1 must lie in [0, 1)"},
      {adamw.beta2 >= 0 && adamw.beta2 < 1, "--beta2 must lie in [0, 1)"},
      {std::isfinite(adamw.epsilon) &&
           adamw.epsilon >= std::numeric_limits<float>::min(),
       "--eps must be a positive float32 number"},
      {std::isfinite(adamw.weightDecay) && adamw.weightDecay >= 0,
       "--weight-decay must be a number of at least 0"},
      {std::isfinite(adamw.maxGradNorm) && adamw.maxGradNorm >= 0,
       "--clip must be a number of at least 0"},
  };
  return firstBroken(rules);
}

/// Every other number, too.
static Status checkRun(const Options &options) {
  const RunOptions &run = options.run;
  int ways = int(options.benchmark > 0) + int(options.profile > 0) +
             int(options.selfcheck) + int(options.evalOnly);
  const std::vector<int64_t> &documents = options.documents;
  const Rule rules[] = {
      {run.evalEvery >= 0, "--eval-every must not be negative"},
      {run.saveEvery >= 0, "--save-every must not be negative"},
      {run.keep >= 1, "--keep must be at least 1"},
      {run.maxNonFinite >= 1, "--max-nonfinite must be at least 1"},
      {run.peakTflops >= 0, "--peak-tflops must not be negative"},
      {options.benchmark >= 0, "--benchmark must not be negative"},
      {options.profile >= 0, "--profile must not be negative"},
      {ways <= 1, "--benchmark, --profile, --selfcheck and --eval-only exclude "
                  "each other"},
      {options.threads >= 0 && options.threads <= 4096,
       "--threads must lie between 0 and 4096"},
      {options.device >= 0, "--device must not be negative"},
      {options.rankTimeout >= 1 && options.rankTimeout <= 86400,
       "--rank-timeout must lie between 1 and 86400"},
      {std::all_of(documents.begin(), documents.end(),
                   [](int64_t length) { return length >= 1; }),
       "--documents must be lengths of at least 1"},
      {documents.empty() || options.data.empty(),
       "--documents and --data exclude each other"},
      {documents.empty() || options.benchmark > 0 || options.profile > 0,
       "--documents needs --benchmark or --profile"},
      {options.logEvery >= 1, "--log-every must be at least 1"},
  };
  return firstBroken(rules);
}

/// Products of two counts fit 64 bits; a larger number is a slip.
static Status checkCounts(const Options &options) {
  constexpr int64_t largest = 1'000'000'000;
  const TrainerOptions &trainer = options.trainer;
  for (int64_t count :
       {trainer.steps, trainer.epochs, trainer.accumulation,
        trainer.packsPerStep, options.run.evalEvery, options.run.saveEvery,
        options.run.keep, options.run.maxNonFinite, options.benchmark,
        options.profile, options.logEvery})
    if (count > largest)
      return invalidArgument("a number of steps, epochs, micro-batches or "
                             "checkpoints is {}, expected at most {}",
                             count, largest);
  return okStatus();
}

/// The options that each way of running needs.
static Status checkRequired(const Options &options) {
  if (options.plan.empty())
    return invalidArgument("no plan given: qwenrun plan.fb …; --help lists the "
                           "options");
  if (options.info)
    return okStatus();
  bool random = !options.init.empty();
  if (random && !options.weights.empty())
    return invalidArgument("--weights and --init exclude each other");
  if (options.benchmark > 0 || options.profile > 0 || options.selfcheck)
    return okStatus();
  if (!random && options.weights.empty() && !options.resume)
    return invalidArgument(
        "no weights: give --weights FOLDER or --init random");
  if (options.evalOnly)
    return options.eval.empty() ? invalidArgument("--eval-only needs --eval")
                                : okStatus();
  if (options.data.empty())
    return invalidArgument("no training data: give --data FILE");
  if (options.out.empty())
    return invalidArgument("no output folder: give --out FOLDER");
  return okStatus();
}

Status Parser::finish() {
  auto kind = parseScheduleKind(schedule);
  if (!kind)
    return invalidArgument("--schedule '{}' is not one of constant, linear, "
                           "cosine, wsd",
                           schedule);
  options.trainer.schedule.kind = *kind;
  for (auto [name, text, target] :
       {std::tuple("--warmup", &warmup, &options.trainer.schedule.warmup),
        std::tuple("--decay", &decay, &options.trainer.schedule.decay)}) {
    auto span = parseStepSpan(*text);
    if (!span.ok())
      return span.status().withContext(name);
    *target = *span;
  }
  options.peakGiven = peakOption->count() > 0;
  options.resume = resumeOption->count() > 0 && resume != "false";
  // In a file an option without a value is written `resume = true`.
  if (options.resume && resume != "true")
    options.resumeFrom = resume;
  QWEN_RETURN_IF_ERROR(checkCounts(options));
  QWEN_RETURN_IF_ERROR(checkTraining(options.trainer));
  QWEN_RETURN_IF_ERROR(checkRun(options));
  QWEN_RETURN_IF_ERROR(checkRequired(options));
  if (options.trainer.steps == 0 && options.trainer.epochs == 0)
    options.trainer.epochs = 1;
  options.run.optionsText = options.trainingText();
  return okStatus();
}

StatusOr<ParsedOptions>
qwen::parseOptions(std::span<const std::string> arguments) {
  ParsedOptions parsed;
  Parser first(parsed.options);
  QWEN_ASSIGN_OR_RETURN(parsed.message, first.parse(arguments, ""));
  if (parsed.message)
    return parsed;
  std::string config = parsed.options.config;
  if (config.empty() && !parsed.options.plan.empty()) {
    fs::path beside = fs::path(parsed.options.plan).parent_path() / "run.toml";
    std::error_code error;
    if (fs::exists(beside, error))
      config = beside.string();
  }
  if (config.empty()) {
    QWEN_RETURN_IF_ERROR(first.finish());
    return parsed;
  }
  std::error_code error;
  if (!fs::is_regular_file(config, error))
    return makeError(StatusCode::NotFound, "no options file '{}'", config);
  // A second parser reads both: the first one's values are no defaults.
  bool weightsGiven = !parsed.options.weights.empty();
  bool initGiven = !parsed.options.init.empty();
  parsed.options = Options();
  Parser second(parsed.options);
  QWEN_RETURN_IF_ERROR(second.parse(arguments, config).status());
  parsed.options.config = config;
  // Of these two the command line's replaces the other one in the file.
  if (weightsGiven && !initGiven)
    parsed.options.init.clear();
  if (initGiven && !weightsGiven)
    parsed.options.weights.clear();
  second.rebasePaths(first.givenPaths(), fs::path(config).parent_path());
  QWEN_RETURN_IF_ERROR(second.finish());
  return parsed;
}

std::string Options::trainingText() const {
  Json json = {{"steps", trainer.steps},
               {"epochs", trainer.epochs},
               {"lr", trainer.schedule.peak},
               {"min_lr", trainer.schedule.minimum},
               {"schedule", scheduleKindName(trainer.schedule.kind)},
               {"warmup", toString(trainer.schedule.warmup)},
               {"decay", toString(trainer.schedule.decay)},
               {"beta1", trainer.adamw.beta1},
               {"beta2", trainer.adamw.beta2},
               {"eps", trainer.adamw.epsilon},
               {"weight_decay", trainer.adamw.weightDecay},
               {"clip", trainer.adamw.maxGradNorm}};
  return json.dump();
}
