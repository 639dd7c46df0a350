//===- Harness.cpp - From a config to a plan in this process --------------===//

#include "Harness.h"

#include "DrawnWeights.h"

#include "qwen/Plan/Target.h"
#ifdef QWEN_TEST_CUDA
#include "test/parity/cuda/RequireGpu.h"
#endif

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <map>

using namespace qwen;
using namespace qwen::e2e;

static TestOptions &mutableOptions() {
  static TestOptions options;
  return options;
}

const TestOptions &qwen::e2e::testOptions() { return mutableOptions(); }

bool TestOptions::isCuda() const {
  return targetKind(target) == TargetKind::Cuda;
}

void qwen::e2e::takeTestOptions(int &argc, char **argv) {
  TestOptions &options = mutableOptions();
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    auto take = [&](std::string_view prefix, std::string &value) {
      if (!argument.starts_with(prefix))
        return false;
      value = argument.substr(prefix.size());
      return true;
    };
    if (argument == "--compile-only")
      options.compileOnly = true;
    else if (!take("--target=", options.target) &&
             !take("--plans=", options.plans) &&
             !take("--sources=", options.sources))
      argv[kept++] = argv[i];
  }
  argc = kept;
  argv[kept] = nullptr;
}

/// What ctest takes for a skipped test.
static constexpr int skipped = 77;

int qwen::e2e::compileAll(const std::vector<PlanSpec> &specs) {
  for (const PlanSpec &spec : specs)
    if (auto plan = compilePlan(spec); !plan.ok()) {
      const std::string &message = plan.status().message();
      // What assembles GPU code comes with CUDA, not with the compiler.
      bool isMissing = message.find("needs nvJitLink") != std::string::npos;
      std::fprintf(stderr, "%s: %s\n", isMissing ? "skipped" : "error",
                   message.c_str());
      return isMissing ? skipped : 1;
    }
  return 0;
}

int qwen::e2e::runTests(
    int argc, char **argv,
    const std::function<std::vector<PlanSpec>()> &everyPlan) {
  takeTestOptions(argc, argv);
  if (testOptions().compileOnly) {
    if (!testOptions().plans.empty()) {
      std::vector<PlanSpec> specs = everyPlan();
      int status = compileAll(specs);
      if (status == 0)
        std::printf("%zu plans in %s\n", specs.size(),
                    testOptions().plans.c_str());
      return status;
    }
    std::fprintf(stderr, "error: --compile-only needs --plans=FOLDER\n");
    return 2;
  }
#ifdef QWEN_TEST_CUDA
  if (testOptions().isCuda())
    cudatest::requireGpu();
#endif
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

std::string qwen::e2e::sourcePath(const std::string &path) {
  const std::string &given = testOptions().sources;
  return (given.empty() ? QWEN_SOURCE_FOLDER : given) + "/" + path;
}

/// The CUDA kernels have other head sizes than the smallest models.
std::vector<std::string> qwen::e2e::tinyConfigs() {
  if (testOptions().isCuda())
    return {"tiny-hopper-tied", "tiny-hopper-untied"};
  return {"tiny-tied-1to1", "tiny-untied-1to3"};
}

std::string qwen::e2e::testName(std::string config) {
  for (char &c : config)
    c = c == '-' ? '_' : c;
  return config;
}

static std::string shellWord(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Runs a command line; an exit code other than 0 is an error with everything
/// it printed.
static Status runTool(const std::string &commandLine) {
  FILE *pipe = ::popen((commandLine + " 2>&1").c_str(), "r");
  if (!pipe)
    return makeError(StatusCode::IoError, "cannot start: {}", commandLine);
  std::string printed;
  char part[4096];
  while (size_t count = std::fread(part, 1, sizeof(part), pipe))
    printed.append(part, count);
  int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return okStatus();
  return makeError(StatusCode::Internal, "status {} from: {}\n{}", status,
                   commandLine, printed);
}

/// Path of a spec's config.json.
static std::string configOf(const PlanSpec &spec, const std::string &stem) {
  if (spec.configText.empty())
    return sourcePath("models/configs/" + spec.config + ".json");
  writeFile(stem + ".json", spec.configText);
  return stem + ".json";
}

/// What qwenc needs to know for several ranks.
static std::string shardingFlags(const PlanSpec &spec) {
  if (spec.worldSize == 1)
    return {};
  return fmt::format(
      " --world-size={} --prefetch={} --reshard-after-forward={} "
      "--embedding-exchange={}{}",
      spec.worldSize, spec.prefetch, spec.reshardAfterForward ? "on" : "off",
      spec.embeddingExchange,
      spec.gradType == "f32" ? "" : " --grad-dtype=" + spec.gradType);
}

static StatusOr<Plan> compile(const PlanSpec &spec, const std::string &stem) {
  std::string model = stem + ".mlir", plan = stem + ".fb";
  QWEN_RETURN_IF_ERROR(runTool(
      fmt::format("{} {} --tokens={} --max-documents={} --dtype={}{} -o {}",
                  shellWord(QWEN_IMPORT_TOOL), shellWord(configOf(spec, stem)),
                  spec.tokens, spec.maxDocuments, spec.dtype,
                  spec.logits ? " --logits" : "", shellWord(model))));
  QWEN_RETURN_IF_ERROR(runTool(fmt::format(
      "{} {} --target={} --recompute={} --masters={} --moment-type={} "
      "--fusion={}{} -o {}",
      shellWord(QWEN_COMPILER_TOOL), shellWord(model), shellWord(spec.target),
      spec.recompute, spec.masters, spec.momentType, spec.fuse ? "on" : "off",
      shardingFlags(spec), shellWord(plan))));
  return Plan::load(plan);
}

/// A file name that says all of a spec.
static std::string stemOf(const PlanSpec &spec) {
  std::string ranks;
  if (spec.worldSize > 1)
    ranks = fmt::format("-ranks-{}-prefetch-{}{}-gradients-{}-exchange-{}",
                        spec.worldSize, spec.prefetch,
                        spec.reshardAfterForward ? "" : "-kept", spec.gradType,
                        spec.embeddingExchange);
  std::string config = spec.config;
  if (!spec.configText.empty())
    config += fmt::format("-{:08x}", hashName(spec.configText));
  return fmt::format("{}-{}-{}-t{}-d{}-{}-masters-{}-moments-{}{}{}{}", config,
                     spec.target, spec.dtype, spec.tokens, spec.maxDocuments,
                     spec.recompute, spec.masters, spec.momentType,
                     spec.fuse ? "" : "-unfused", spec.logits ? "-logits" : "",
                     ranks);
}

static const std::string &processFolder() {
  static const TemporaryFolder folder;
  return folder.path;
}

/// Path of a spec's files without their endings.
static std::string pathOf(const PlanSpec &spec) {
  const std::string &given = testOptions().plans;
  return (given.empty() ? processFolder() : given) + "/" + stemOf(spec);
}

static std::map<PlanSpec, StatusOr<Plan>> &compiledPlans() {
  static std::map<PlanSpec, StatusOr<Plan>> plans;
  return plans;
}

void qwen::e2e::forgetPlans() {
  compiledPlans().clear();
  for (const auto &file : std::filesystem::directory_iterator(processFolder()))
    std::filesystem::remove(file.path());
}

StatusOr<std::string> qwen::e2e::compilePlanFile(const PlanSpec &spec) {
  QWEN_RETURN_IF_ERROR(compilePlan(spec).status());
  return pathOf(spec) + ".fb";
}

StatusOr<Plan> qwen::e2e::compilePlan(const PlanSpec &spec) {
  auto &compiled = compiledPlans();
  auto found = compiled.find(spec);
  if (found == compiled.end()) {
    std::string stem = pathOf(spec);
    bool isThere =
        !testOptions().compileOnly && std::filesystem::exists(stem + ".fb");
    found = compiled
                .emplace(spec, isThere ? Plan::load(stem + ".fb")
                                       : compile(spec, stem))
                .first;
  }
  return found->second;
}
