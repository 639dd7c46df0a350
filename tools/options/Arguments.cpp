//===- Arguments.cpp - Command lines read by CLI11 ------------------------===//

#include "tools/options/Arguments.h"

#include "runtime/support/Json.h"

#include <algorithm>

using namespace qwen;

CLI::Validator qwen::within(const OptionRange &range) {
  return {[range](std::string &given) { return range.check(given); }, ""};
}

std::vector<std::string> qwen::optionNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back(name);
  return names;
}

std::string qwen::guessName(const std::string &name,
                            std::span<const std::string> names,
                            const char *prefix) {
  std::string nearest = nearestName(name, names);
  return nearest.empty() ? ""
                         : fmt::format("; did you mean {}{}?", prefix, nearest);
}

std::string qwen::describe(const CLI::App &app, const CLI::ParseError &error) {
  // What CLI11 lists as left over, of which the first is the slip.
  std::vector<std::string> rest = app.remaining();
  auto option = std::find_if(rest.begin(), rest.end(), [](auto &argument) {
    return argument.starts_with("-");
  });
  if (option != rest.end()) {
    std::string name = option->substr(0, option->find('='));
    name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
    return fmt::format("no option '{}'{}", printable(*option),
                       guessName(name, optionNames(app), "--"));
  }
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  // "--seed: 1 required UINT missing".
  if (text.ends_with(" missing"))
    return text.substr(0, text.find(':')) + ": expected a value, found none";
  return text;
}
