//===- ConfigFields.h - Typed access to JSON fields ------------*- C++ -*-===//
//
// Reads the fields of one JSON object; each error names the field by its full
// path, what was expected and what was found.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MODELS_CONFIGFIELDS_H
#define QWEN_MODELS_CONFIGFIELDS_H

#include "qwen/Support/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace qwen {

class ConfigFields {
public:
  /// `path` comes before field names in messages: "" or "text_config.".
  ConfigFields(const llvm::json::Object &object, std::string path)
      : object(object), path(std::move(path)) {}

  /// Whether the field is there and not null.
  bool has(llvm::StringRef field) const;

  // Required fields.
  StatusOr<int64_t> positive(llvm::StringRef field) const;
  StatusOr<double> positiveNumber(llvm::StringRef field) const;
  StatusOr<ConfigFields> child(llvm::StringRef field) const;

  // Optional fields: none where absent or null, an error where of another type.
  StatusOr<std::optional<double>> number(llvm::StringRef field) const;
  StatusOr<std::optional<bool>> boolean(llvm::StringRef field) const;
  StatusOr<std::optional<std::string>> string(llvm::StringRef field) const;
  StatusOr<std::optional<std::vector<std::string>>>
  strings(llvm::StringRef field) const;
  StatusOr<std::optional<std::vector<int64_t>>>
  integers(llvm::StringRef field) const;

  // An optional field that may have no other value than those supported.
  Status requireBoolean(llvm::StringRef field, bool supported) const;
  Status requireZero(llvm::StringRef field) const;
  Status requireString(llvm::StringRef field,
                       llvm::ArrayRef<llvm::StringRef> supported) const;
  Status requireAbsent(llvm::StringRef field, llvm::StringRef why) const;

  /// "<path><field>: expected <expected>, found <value>".
  Status mismatch(llvm::StringRef field, llvm::StringRef expected) const;
  /// The field's name with its path.
  std::string fullName(llvm::StringRef field) const;

private:
  const llvm::json::Object &object;
  std::string path;
};

} // namespace qwen

#endif // QWEN_MODELS_CONFIGFIELDS_H
