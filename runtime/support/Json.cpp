//===- Json.cpp - JSON from outside ---------------------------------------===//

#include "runtime/support/Json.h"

#include <limits>
#include <set>
#include <vector>

using namespace qwen;

StatusOr<Json> qwen::parseJsonObject(std::string_view text,
                                     std::string_view what, int maxDepth) {
  // The library keeps the last of two equal keys; a file with both lies.
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  bool tooDeep = false;
  auto watch = [&](int depth, Json::parse_event_t event, Json &value) {
    if (depth > maxDepth)
      tooDeep = true;
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == Json::parse_event_t::key && duplicate.empty() &&
             !keys.back().insert(value.get_ref<std::string &>()).second)
      duplicate = value.get_ref<std::string &>();
    return !tooDeep;
  };
  Json json = Json::parse(text.begin(), text.end(), watch,
                          /*allow_exceptions=*/false);
  if (tooDeep)
    return dataLoss("{}: JSON nested deeper than {} levels", what, maxDepth);
  if (!duplicate.empty())
    return dataLoss("{}: key '{}' stands twice in one object", what,
                    printable(duplicate));
  if (json.is_discarded())
    return dataLoss("{}: not valid JSON", what);
  if (!json.is_object())
    return dataLoss("{}: expected a JSON object, found {}", what,
                    json.type_name());
  return json;
}

std::optional<int64_t> qwen::jsonCount(const Json &value) {
  if (!value.is_number_unsigned())
    return std::nullopt;
  uint64_t number = value.get<uint64_t>();
  if (number > uint64_t(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string qwen::jsonString(std::string_view text) {
  return Json(std::string(text))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string qwen::printable(std::string_view text, size_t maxLength) {
  std::string out;
  for (unsigned char c : text.substr(0, maxLength)) {
    if (c < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", c);
    else
      out += static_cast<char>(c);
  }
  return text.size() > maxLength ? out + "..." : out;
}
