//===- Options.cpp - Command line and run.toml of qwenrun -----------------===//

#include "Options.h"

#include "runtime/support/Json.h"
#include "tools/options/Arguments.h"

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
  bool isGiven(const char *name) const { return app[name]->count() > 0; }
  Status checkNames(const std::string &configPath) const;
  Status refuse(const CLI::ParseError &error,
                const std::string &configPath) const;
  Status checkContradictions() const;

  Options &options;
  CLI::App app{"Trains with a plan made by qwenc.", "qwenrun"};
  std::vector<std::pair<CLI::Option *, std::string *>> paths;
  std::string schedule = "cosine", warmup = "0", decay = "0.2", resume;
  CLI::Option *resumeOption = nullptr, *peakOption = nullptr;
};
} // namespace

/// Products of two counts fit 64 bits; a larger number is a slip.
static constexpr double largestCount = 1e9;
static constexpr OptionRange counts = OptionRange::whole(0, largestCount);
static constexpr OptionRange positive = OptionRange::whole(1, largestCount);
/// What kernels compute with is float32.
static constexpr OptionRange floats = {.most =
                                           std::numeric_limits<float>::max()};

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
                 "(mtp. and visual. are)")
      ->allow_extra_args(false);
}

void Parser::addDataOptions() {
  addPath("--data", options.data, "Token file to train on (qwen-prepare)");
  addPath("--eval", options.eval, "Token file to evaluate on");
  addPath("--out", options.out, "Folder for checkpoints and metrics");
  addNumber(app, "--steps", options.trainer.steps, counts, "Optimizer steps");
  addNumber(app, "--epochs", options.trainer.epochs, counts,
            "Passes over the data (default 1), where --steps is not given");
  addNumber(app, "--accumulation", options.trainer.accumulation, positive,
            "Micro-batches of a step on each rank");
  addNumber(app, "--packs-per-step", options.trainer.packsPerStep, counts,
            "Micro-batches of a step over all ranks, instead of "
            "--accumulation on each; 0: not given");
  addNumber(app, "--seed", options.trainer.seed,
            OptionRange::whole(0, std::numeric_limits<uint32_t>::max()),
            "Seed of sampling, initialisation and rounding");
}

void Parser::addOptimizerOptions() {
  Schedule &rates = options.trainer.schedule;
  AdamWOptions &adamw = options.trainer.adamw;
  addNumber(app, "--lr", rates.peak, floats, "Peak learning rate");
  app.add_option("--schedule", schedule, "constant, linear, cosine or wsd");
  app.add_option("--warmup", warmup, "Warm-up: steps, or a part (0.03, 3%)");
  app.add_option("--decay", decay, "Last part of wsd: steps, or a part");
  addNumber(app, "--min-lr", rates.minimum, floats, "Learning rate at the end");
  addNumber(app, "--beta1", adamw.beta1, {.most = 1, .mostExcluded = true},
            "AdamW beta1");
  addNumber(app, "--beta2", adamw.beta2, {.most = 1, .mostExcluded = true},
            "AdamW beta2");
  addNumber(app, "--eps", adamw.epsilon,
            {.least = std::numeric_limits<float>::min(), .most = floats.most},
            "AdamW epsilon");
  addNumber(app, "--weight-decay", adamw.weightDecay, floats,
            "Decoupled decay");
  addNumber(app, "--clip", adamw.maxGradNorm, floats,
            "Largest global gradient norm; 0: no clipping");
}

void Parser::addRunOptions() {
  RunOptions &run = options.run;
  addNumber(app, "--eval-every", run.evalEvery, counts,
            "Steps between evaluations; 0: at the end");
  addNumber(app, "--save-every", run.saveEvery, counts,
            "Steps between checkpoints; 0: at the end");
  addNumber(app, "--keep", run.keep, positive, "Checkpoints to keep");
  addNumber(app, "--max-nonfinite", run.maxNonFinite, positive,
            "Steps in a row that were not finite after which the run stops and "
            "names the first launch that wrote a NaN or an infinity");
  peakOption =
      addNumber(app, "--peak-tflops", run.peakTflops, OptionRange(),
                "Peak of a rank's device for MFU and HFU; 0: not shown")
          ->default_str("989.4, an H200's dense bf16, for sm_90a, else 0");
  addNumber(app, "--log-every", options.logEvery, positive,
            "Steps between lines where the output is no terminal");
  resumeOption =
      app.add_option("--resume", resume,
                     "Go on from the newest checkpoint in --out, or this one")
          ->expected(0, 1);
  app.add_flag("--eval-only", options.evalOnly,
               "Evaluate --weights on --eval and stop");
  app.add_flag("--info", options.info, "Print what the plan is and stop");
  addNumber(app, "--benchmark", options.benchmark, counts,
            "Time this many steps, print JSON and stop");
  addNumbers(app, "--documents", options.documents, positive,
             "Lengths of the documents of every pack of --benchmark and "
             "--profile: 1602,841,1038");
  app.add_flag("--profile{3}", options.profile,
               "Print where the time of a step goes, from this many steps, "
               "and stop")
      ->check(within(positive));
  addPath("--profile-trace", options.profileTrace,
          "Trace of --profile (default: profile.json in --out)");
  app.add_flag("--selfcheck", options.selfcheck,
               "Check what the plan computes on this machine and stop");
  app.add_flag("--dry-run", options.dryRun,
               "Check plan, data, weights, memory and output, print what would "
               "run, and stop");
  addNumber(app, "--threads", options.threads, OptionRange::whole(0, 4096),
            "Threads; 0: all cores");
  addNumber(app, "--device", options.device, OptionRange::whole(0, 4096),
            "GPU, by its number among those that CUDA_VISIBLE_DEVICES "
            "leaves")
      ->default_str("ranks of a machine take them in turn");
  addNumber(app, "--rank-timeout", options.rankTimeout,
            OptionRange::whole(1, 86400),
            "Seconds without a sign of life, or in one launch, after "
            "which a rank counts as lost");
  app.add_flag("--wait-each-launch", options.waitEachLaunch,
               "GPU: no graphs, and a wait after each launch, so that an error "
               "of the GPU names its launch (slow)");
  app.add_flag("--nccl-gathers", options.ncclGathers,
               "Several GPUs: gather parameters by NCCL also where GPUs could "
               "copy them from each other");
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
    if (!configPath.empty())
      QWEN_RETURN_IF_ERROR(checkNames(configPath));
    app.parse(reversed);
  } catch (const CLI::CallForHelp &) {
    return std::optional<std::string>(app.help());
  } catch (const CLI::ParseError &error) {
    return refuse(error, configPath);
  }
  return std::optional<std::string>();
}

/// Every key of the file is an option.
Status Parser::checkNames(const std::string &configPath) const {
  std::vector<std::string> known = optionNames(app);
  std::set<std::string> seen;
  for (const CLI::ConfigItem &item :
       app.get_config_formatter()->from_file(configPath)) {
    bool isSection = item.name == "++" || item.name == "--";
    if (isSection || !item.parents.empty())
      return invalidArgument(
          "'{}': section '{}': expected options alone", configPath,
          printable(item.parents.empty() ? item.name : item.parents.front()));
    if (std::find(known.begin(), known.end(), item.name) == known.end())
      return invalidArgument("'{}': no option '{}'{}", configPath,
                             printable(item.name),
                             guessName(item.name, known, ""));
    if (!seen.insert(item.name).second)
      return invalidArgument("'{}': '{}' is given twice", configPath,
                             item.name);
    // Of a flag it is 0.
    auto most = size_t(app["--" + item.name]->get_items_expected_max());
    if (item.inputs.size() > std::max<size_t>(most, 1))
      return invalidArgument("'{}': '{}': expected one value, found {}",
                             configPath, item.name, item.inputs.size());
  }
  return okStatus();
}

Status Parser::refuse(const CLI::ParseError &error,
                      const std::string &configPath) const {
  std::string text = describe(app, error);
  if (!configPath.empty())
    return invalidArgument("{} (options of the command line and '{}')", text,
                           configPath);
  return invalidArgument("{}; --help lists the options", text);
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

/// The part of a run that is given as one.
static double partOf(const StepSpan &span) {
  return span.isRatio ? span.value : 0;
}

/// Options that contradict each other or that nothing would look at.
Status Parser::checkContradictions() const {
  const TrainerOptions &trainer = options.trainer;
  const Schedule &rates = trainer.schedule;
  int ways = int(options.benchmark > 0) + int(options.profile > 0) +
             int(options.selfcheck) + int(options.evalOnly) +
             int(options.dryRun) + int(options.info);
  bool isMeasuring = options.benchmark > 0 || options.profile > 0;
  const Rule rules[] = {
      {trainer.packsPerStep == 0 || trainer.accumulation == 1,
       "--packs-per-step and --accumulation exclude each other"},
      {trainer.steps == 0 || trainer.epochs == 0,
       "--steps and --epochs exclude each other"},
      {rates.minimum <= rates.peak, "--min-lr must lie between 0 and --lr"},
      {rates.minimum == 0 || rates.kind != ScheduleKind::Constant,
       "--min-lr needs another --schedule than constant"},
      {!isGiven("--decay") || rates.kind == ScheduleKind::Wsd,
       "--decay needs --schedule wsd"},
      {rates.kind != ScheduleKind::Wsd ||
           partOf(rates.warmup) + partOf(rates.decay) <= 1,
       "--warmup and --decay are together more than all steps"},
      {ways <= 1, "--benchmark, --profile, --selfcheck, --eval-only, "
                  "--dry-run and --info exclude each other"},
      {options.documents.empty() || options.data.empty(),
       "--documents and --data exclude each other"},
      {options.documents.empty() || isMeasuring,
       "--documents needs --benchmark or --profile"},
      {options.profileTrace.empty() || options.profile > 0,
       "--profile-trace needs --profile"},
      {!isGiven("--eval-every") || !options.isTraining() ||
           !options.eval.empty(),
       "--eval-every needs --eval"},
      {options.carry.empty() || options.init.empty(),
       "--carry and --init exclude each other: random weights have nothing to "
       "carry"},
  };
  return firstBroken(rules);
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
  // What --resume goes on with is a run.
  bool isResuming = options.resume && !options.evalOnly;
  if (!random && options.weights.empty() && !isResuming)
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
  QWEN_RETURN_IF_ERROR(checkContradictions());
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
