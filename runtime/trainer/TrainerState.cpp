//===- TrainerState.cpp - Where a run stands ------------------------------===//

#include "runtime/trainer/TrainerState.h"

#include "runtime/support/File.h"
#include "runtime/support/Json.h"

#include <array>
#include <charconv>
#include <fmt/ranges.h>
#include <limits>
#include <vector>

using namespace qwen;

namespace {
struct Counter {
  const char *name;
  int64_t TrainerState::*member;
};
struct IdentityNumber {
  const char *name;
  int64_t RunIdentity::*member;
};
} // namespace

static constexpr std::array<Counter, 11> counters = {{
    {"step", &TrainerState::step},
    {"updates", &TrainerState::updates},
    {"epoch", &TrainerState::epoch},
    {"pack", &TrainerState::pack},
    {"tokens", &TrainerState::tokens},
    {"supervised_tokens", &TrainerState::supervisedTokens},
    {"empty_steps", &TrainerState::emptySteps},
    {"empty_micro_batches", &TrainerState::emptyMicroBatches},
    {"non_finite_steps", &TrainerState::nonFiniteSteps},
    {"non_finite_in_a_row", &TrainerState::nonFiniteInARow},
    {"evaluated_step", &TrainerState::evaluatedStep},
}};

static constexpr std::array<IdentityNumber, 3> identityNumbers = {{
    {"pack_tokens", &RunIdentity::tokens},
    {"pack_documents", &RunIdentity::documents},
    {"accumulation", &RunIdentity::accumulation},
}};

std::string qwen::formatTrainerState(const TrainerState &state,
                                     const std::string &options) {
  std::string text = "{\n  \"format\": \"qwen-trainer-1\",\n";
  for (const Counter &counter : counters)
    text += fmt::format("  \"{}\": {},\n", counter.name, state.*counter.member);
  for (const IdentityNumber &number : identityNumbers)
    text += fmt::format("  \"{}\": {},\n", number.name,
                        state.identity.*number.member);
  text += fmt::format("  \"seed\": {},\n", state.identity.seed);
  // As text: JSON readers keep 53 bits of a number.
  text +=
      fmt::format("  \"data_hash\": \"{:016x}\",\n", state.identity.dataHash);
  return text + "  \"options\": " + options + "\n}\n";
}

static StatusOr<TrainerState> parseState(const Json &json) {
  TrainerState state;
  auto number = [&](const char *name, int64_t &value) -> Status {
    auto it = json.find(name);
    auto count = it == json.end() ? std::nullopt : jsonCount(*it);
    if (!count)
      return dataLoss("'{}' is missing or not a whole number", name);
    value = *count;
    return okStatus();
  };
  auto format = json.find("format");
  if (format == json.end() || *format != "qwen-trainer-1")
    return dataLoss("'format' is not 'qwen-trainer-1'");
  for (const Counter &counter : counters)
    QWEN_RETURN_IF_ERROR(number(counter.name, state.*counter.member));
  for (const IdentityNumber &entry : identityNumbers)
    QWEN_RETURN_IF_ERROR(number(entry.name, state.identity.*entry.member));
  int64_t seed = 0;
  QWEN_RETURN_IF_ERROR(number("seed", seed));
  if (seed > std::numeric_limits<uint32_t>::max())
    return dataLoss("'seed' is {}, expected at most {}", seed,
                    std::numeric_limits<uint32_t>::max());
  state.identity.seed = static_cast<uint32_t>(seed);
  if (auto options = json.find("options"); options != json.end())
    state.options = options->dump();
  auto hash = json.find("data_hash");
  if (hash == json.end() || !hash->is_string())
    return dataLoss("'data_hash' is missing");
  const std::string &text = hash->get_ref<const std::string &>();
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(),
                                      state.identity.dataHash, 16);
  if (error != std::errc() || end != text.data() + text.size())
    return dataLoss("'data_hash' is not a hexadecimal number");
  return state;
}

StatusOr<TrainerState> qwen::readTrainerState(const std::string &checkpoint) {
  std::string path = checkpoint + "/trainer_state.json";
  QWEN_ASSIGN_OR_RETURN(std::string text, readTextFile(path));
  QWEN_ASSIGN_OR_RETURN(Json json,
                        parseJsonObject(text, fmt::format("'{}'", path)));
  auto state = parseState(json);
  if (!state.ok())
    return state.status().withContext(fmt::format("'{}'", path));
  return state;
}

Status qwen::checkSameRun(const RunIdentity &saved, const RunIdentity &now) {
  std::vector<std::string> differences;
  for (const IdentityNumber &number : identityNumbers)
    if (saved.*number.member != now.*number.member)
      differences.push_back(fmt::format("{} was {} and is {}", number.name,
                                        saved.*number.member,
                                        now.*number.member));
  if (saved.seed != now.seed)
    differences.push_back(
        fmt::format("seed was {} and is {}", saved.seed, now.seed));
  if (saved.dataHash != now.dataHash)
    differences.push_back("the training data is not the same");
  if (differences.empty())
    return okStatus();
  return makeError(StatusCode::FailedPrecondition,
                   "a resumed run needs the same samples, but {}",
                   fmt::join(differences, "; "));
}
