//===- PropertyMain.cpp - One law over random cases -----------------------===//
//
// property-test --seed=S --cases=N: draws cases and checks laws on them; of the
// first one that fails it prints the command that checks it again, made small,
// and what differed. --help lists the options.
//
//===----------------------------------------------------------------------===//

#include "Laws.h"
#include "Shrink.h"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#ifdef QWEN_TEST_CUDA
#include "test/parity/cuda/RequireGpu.h"
#endif

using namespace qwen;
using namespace qwen::property;

static constexpr const char *help =
    R"(usage: property-test [options]
  --seed=S            of the cases (default 1)
  --cases=N           number of cases (default 1); 0: until one fails
  --case=C            this case, or the first one where --cases is given
  --law=NAME          this law only, in every case
  --layers=0,2        keep these layers of the model (with --case)
  --documents=1,5     keep these documents (with --case)
  --no-shrink         print a failing case as it was drawn
  --break=WHAT        spoil the variant: token, weight or scale
  --target=sm_90a     cases for a GPU; without one: skipped
  --plans=FOLDER      compiled plans, read or written
  --compile-only      with --plans: only compile
)";

namespace {

struct Options {
  Selection selection;
  uint32_t cases = 1;
  bool shrinks = true;
};

/// The command of the case that runs, for a crash.
char runningCommand[4096];

/// How often each law was checked.
using Counts = std::map<std::string, int64_t>;

} // namespace

template <typename T> static bool parseNumber(std::string_view text, T &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

static bool parseList(std::string_view text,
                      std::optional<std::vector<size_t>> &list) {
  list.emplace();
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    if (!parseNumber(text.substr(0, comma), list->emplace_back()))
      return false;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return !list->empty();
}

static bool parseBreak(std::string_view text, Break &fault) {
  for (Break known : {Break::Token, Break::Weight, Break::Scale})
    if (text == breakName(known)) {
      fault = known;
      return true;
    }
  return false;
}

static bool knowsLaw(std::string_view name) {
  for (const Law &law : laws())
    if (name == law.name)
      return true;
  return false;
}

static bool parseOption(std::string_view argument, Options &options,
                        bool &isOneCase, bool &hasCases) {
  size_t sign = argument.find('=');
  std::string_view name = argument.substr(0, sign);
  std::string_view value =
      sign == argument.npos ? "" : argument.substr(sign + 1);
  Selection &selection = options.selection;
  if (name == "--seed")
    return parseNumber(value, selection.name.seed);
  if (name == "--case")
    return isOneCase = parseNumber(value, selection.name.number);
  if (name == "--cases")
    return hasCases = parseNumber(value, options.cases);
  if (name == "--layers")
    return parseList(value, selection.name.layers);
  if (name == "--documents")
    return parseList(value, selection.name.documents);
  if (name == "--break")
    return parseBreak(value, selection.fault);
  if (name == "--law") {
    selection.law = value;
    return knowsLaw(value);
  }
  options.shrinks = options.shrinks && argument != "--no-shrink";
  return argument == "--no-shrink";
}

static std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  bool isOneCase = false, hasCases = false;
  for (int i = 1; i < argc; ++i)
    if (!parseOption(argv[i], options, isOneCase, hasCases)) {
      std::fprintf(stderr, "property-test: what is '%s'?\n%s", argv[i], help);
      return std::nullopt;
    }
  const CaseName &name = options.selection.name;
  if ((name.layers || name.documents) && (!isOneCase || hasCases)) {
    std::fprintf(stderr, "property-test: --layers and --documents are of one "
                         "case; give --case and not --cases\n");
    return std::nullopt;
  }
  return options;
}

/// A crash names its case too.
static void onCrash(int signal) {
  for (const char *text : {"crashed: ", (const char *)runningCommand, "\n"})
    if (write(2, text, std::strlen(text)) < 0)
      break;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

static void watchCrashes() {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    std::signal(signal, onCrash);
}

static void report(const Options &options, Selection selection,
                   Failure failure) {
  if (options.shrinks)
    std::tie(selection, failure) = shrink(selection, failure);
  std::printf("failed: %s\n", commandOf(selection).c_str());
  std::printf("  model: %s\n  documents: %s\n  law %s: %s\n",
              failure.model.c_str(), failure.packs.c_str(), failure.law.c_str(),
              failure.variant.c_str());
  constexpr size_t most = 8;
  for (size_t i = 0; i < failure.findings.size() && i < most; ++i)
    std::printf("  %s\n", failure.findings[i].c_str());
  if (failure.findings.size() > most)
    std::printf("  and %zu more differences\n", failure.findings.size() - most);
}

static int compileCases(const Options &options) {
  if (e2e::testOptions().plans.empty()) {
    std::fprintf(stderr, "property-test: --compile-only needs --plans\n");
    return 2;
  }
  int64_t plans = 0;
  Selection selection = options.selection;
  for (uint32_t i = 0; i < options.cases; ++i, ++selection.name.number) {
    Case drawn = drawCase(selection.name);
    std::vector<e2e::PlanSpec> specs = {drawn.spec};
    for (const Law &law : lawsOf(selection))
      for (const e2e::PlanSpec &spec : specsOf(law, drawn))
        specs.push_back(spec);
    if (int status = e2e::compileAll(specs))
      return status;
    plans += int64_t(specs.size());
  }
  std::printf("%lld plans of %u cases\n", (long long)plans, options.cases);
  return 0;
}

static std::string summary(const Counts &counts) {
  std::string text;
  for (const auto &[law, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", law, count);
  return text;
}

static int checkCases(const Options &options) {
  Counts counts;
  Selection selection = options.selection;
  uint32_t done = 0;
  while (options.cases == 0 || done < options.cases) {
    snprintf(runningCommand, sizeof runningCommand, "%s",
             commandOf(selection).c_str());
    std::vector<Law> chosen = lawsOf(selection);
    if (std::optional<Failure> failure = checkCase(selection, chosen)) {
      report(options, selection, *failure);
      return 1;
    }
    for (const Law &law : chosen)
      ++counts[law.name];
    e2e::forgetPlans();
    ++done;
    ++selection.name.number;
    if (options.cases == 0 && done % 50 == 0)
      std::printf("%u cases: %s\n", done, summary(counts).c_str());
  }
  std::printf("%u cases of seed %u hold: %s\n", done, selection.name.seed,
              summary(counts).c_str());
  return 0;
}

int main(int argc, char **argv) {
  e2e::takeTestOptions(argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--help") {
      std::fputs(help, stdout);
      return 0;
    }
  std::optional<Options> options = parseOptions(argc, argv);
  if (!options)
    return 2;
  setProgram(argv[0]);
  if (e2e::testOptions().compileOnly)
    return compileCases(*options);
#ifdef QWEN_TEST_CUDA
  if (e2e::testOptions().isCuda())
    cudatest::requireGpu();
#endif
  watchCrashes();
  // Lines of an endless run are seen at once, also in a file.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return checkCases(*options);
}
