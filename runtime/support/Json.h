//===- Json.h - JSON from outside ------------------------------*- C++ -*-===//
//
// Parsing that refuses what nlohmann-json would let pass: duplicate keys and
// absurd nesting. Without exceptions a wrong type access aborts, so callers ask
// for the type first.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_JSON_H
#define QWEN_RUNTIME_SUPPORT_JSON_H

#include "qwen/Support/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qwen {

using Json = nlohmann::json;

/// Parses one JSON object. DataLoss that begins with `what` where the text is
/// not JSON, not an object, repeats a key or nests deeper than `maxDepth`.
StatusOr<Json> parseJsonObject(std::string_view text, std::string_view what,
                               int maxDepth = 64);

/// A non-negative integer that fits int64_t, else nothing.
std::optional<int64_t> jsonCount(const Json &value);

/// `text` as a JSON string with its quotes; bytes that are not UTF-8 are
/// replaced.
std::string jsonString(std::string_view text);

/// Text of outside origin made fit for one line of a message: control
/// characters escaped, at most `maxLength` bytes.
std::string printable(std::string_view text, size_t maxLength = 120);

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_JSON_H
