//===- ConfigFields.cpp - Typed access to JSON fields ---------------------===//

#include "models/ConfigFields.h"
#include "qwen/Plan/Buffer.h"
#include "runtime/support/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace qwen;

/// A value as it stands in the file, cut where it is long.
static std::string textOf(const json::Value &value) {
  std::string text;
  raw_string_ostream(text) << value;
  return printable(text, 80);
}

std::string ConfigFields::fullName(StringRef field) const {
  return path + field.str();
}

Status ConfigFields::mismatch(StringRef field, StringRef expected) const {
  const json::Value *value = object.get(field);
  if (!value)
    return invalidArgument("{}: expected {}, but the field is missing",
                           fullName(field), expected.str());
  return invalidArgument("{}: expected {}, found {}", fullName(field),
                         expected.str(), textOf(*value));
}

bool ConfigFields::has(StringRef field) const {
  const json::Value *value = object.get(field);
  return value && value->kind() != json::Value::Null;
}

StatusOr<int64_t> ConfigFields::positive(StringRef field) const {
  std::optional<int64_t> value = object.getInteger(field);
  if (!value || *value < 1 || *value > maxDimension)
    return mismatch(field, "a whole number between 1 and 2^31 - 1");
  return *value;
}

StatusOr<double> ConfigFields::positiveNumber(StringRef field) const {
  std::optional<double> value = object.getNumber(field);
  if (!value || !std::isfinite(*value) || *value <= 0)
    return mismatch(field, "a positive number");
  return *value;
}

StatusOr<ConfigFields> ConfigFields::child(StringRef field) const {
  const json::Object *value = object.getObject(field);
  if (!value)
    return mismatch(field, "an object");
  return ConfigFields(*value, fullName(field) + ".");
}

StatusOr<std::optional<double>> ConfigFields::number(StringRef field) const {
  if (!has(field))
    return std::optional<double>();
  std::optional<double> value = object.getNumber(field);
  if (!value || !std::isfinite(*value))
    return mismatch(field, "a number");
  return value;
}

StatusOr<std::optional<bool>> ConfigFields::boolean(StringRef field) const {
  if (!has(field))
    return std::optional<bool>();
  std::optional<bool> value = object.getBoolean(field);
  if (!value)
    return mismatch(field, "true or false");
  return value;
}

StatusOr<std::optional<std::string>>
ConfigFields::string(StringRef field) const {
  if (!has(field))
    return std::optional<std::string>();
  std::optional<StringRef> value = object.getString(field);
  if (!value)
    return mismatch(field, "a string");
  return std::optional<std::string>(value->str());
}

StatusOr<std::optional<std::vector<std::string>>>
ConfigFields::strings(StringRef field) const {
  if (!has(field))
    return std::optional<std::vector<std::string>>();
  const json::Array *array = object.getArray(field);
  if (!array)
    return mismatch(field, "a list of strings");
  std::vector<std::string> result;
  for (const json::Value &element : *array) {
    std::optional<StringRef> text = element.getAsString();
    if (!text)
      return mismatch(field, "a list of strings");
    result.push_back(text->str());
  }
  return std::optional(std::move(result));
}

StatusOr<std::optional<std::vector<int64_t>>>
ConfigFields::integers(StringRef field) const {
  if (!has(field))
    return std::optional<std::vector<int64_t>>();
  const json::Array *array = object.getArray(field);
  if (!array)
    return mismatch(field, "a list of whole numbers");
  std::vector<int64_t> result;
  for (const json::Value &element : *array) {
    std::optional<int64_t> number = element.getAsInteger();
    if (!number)
      return mismatch(field, "a list of whole numbers");
    result.push_back(*number);
  }
  return std::optional(std::move(result));
}

Status ConfigFields::requireBoolean(StringRef field, bool supported) const {
  QWEN_ASSIGN_OR_RETURN(std::optional<bool> value, boolean(field));
  if (value && *value != supported)
    return mismatch(field, supported ? "true, the only form supported"
                                     : "false, the only form supported");
  return okStatus();
}

Status ConfigFields::requireZero(StringRef field) const {
  QWEN_ASSIGN_OR_RETURN(std::optional<double> value, number(field));
  if (value && *value != 0)
    return mismatch(field, "0, the only value supported");
  return okStatus();
}

Status ConfigFields::requireString(StringRef field,
                                   ArrayRef<StringRef> supported) const {
  QWEN_ASSIGN_OR_RETURN(std::optional<std::string> value, string(field));
  if (value && !is_contained(supported, *value))
    return mismatch(field, "\"" + join(supported, "\" or \"") +
                               "\", which is what is supported");
  return okStatus();
}

Status ConfigFields::requireAbsent(StringRef field, StringRef why) const {
  if (!has(field))
    return okStatus();
  return mismatch(field, "no such field (" + why.str() + ")");
}
