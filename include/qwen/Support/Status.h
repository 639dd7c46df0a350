//===- Status.h - Errors as values -----------------------------*- C++ -*-===//
//
// A result that says what went wrong. Everything outside the compiler's passes
// (which use MLIR diagnostics) returns one; only `main` turns it into an exit
// code. A message is one line: what was expected, what was found, where.
//
//   Status save(const std::string &path) {
//     QWEN_ASSIGN_OR_RETURN(File file, File::create(path));
//     QWEN_RETURN_IF_ERROR(file.write(bytes));
//     return okStatus();
//   }
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_SUPPORT_STATUS_H
#define QWEN_SUPPORT_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace qwen {

/// Canonical error kinds; the text carries the details.
enum class StatusCode {
  Ok,
  InvalidArgument,    ///< the caller or the user gave something unusable
  NotFound,           ///< a file, tensor or symbol does not exist
  DataLoss,           ///< a file is cut, corrupt or contradicts itself
  FailedPrecondition, ///< right in itself, but not for this plan or machine
  ResourceExhausted,  ///< memory or disk
  IoError,            ///< the operating system refused
  Internal,           ///< a bug of ours
};

/// Name of a code as printed, e.g. "invalid argument".
std::string_view statusCodeName(StatusCode code);

/// Success, or a code with one line of text.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : rep(code == StatusCode::Ok
                ? nullptr
                : std::make_shared<Rep>(Rep{code, std::move(message)})) {}

  bool ok() const { return !rep; }
  StatusCode code() const { return rep ? rep->code : StatusCode::Ok; }
  const std::string &message() const {
    static const std::string none;
    return rep ? rep->message : none;
  }

  /// The same error with "context: " before its text; success stays success.
  Status withContext(std::string_view context) const {
    if (ok())
      return *this;
    return Status(rep->code, fmt::format("{}: {}", context, rep->message));
  }

private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep;
};

inline Status okStatus() { return Status(); }

/// Builds an error: `makeError(StatusCode::NotFound, "no file '{}'", path)`.
template <typename... Args>
Status makeError(StatusCode code, fmt::format_string<Args...> format,
                 Args &&...args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Status invalidArgument(fmt::format_string<Args...> format, Args &&...args) {
  return makeError(StatusCode::InvalidArgument, format,
                   std::forward<Args>(args)...);
}
template <typename... Args>
Status dataLoss(fmt::format_string<Args...> format, Args &&...args) {
  return makeError(StatusCode::DataLoss, format, std::forward<Args>(args)...);
}

/// A value, or the status that says why there is none.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(Status status) : error(std::move(status)) {
    assert(!error.ok() && "a StatusOr without a value needs an error");
  }
  StatusOr(T v) : held(std::move(v)) {}

  bool ok() const { return held.has_value(); }
  const Status &status() const { return error; }
  T &value() & {
    assert(ok());
    return *held;
  }
  const T &value() const & {
    assert(ok());
    return *held;
  }
  T &&value() && {
    assert(ok());
    return std::move(*held);
  }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

private:
  Status error;
  std::optional<T> held;
};

#define QWEN_CONCAT_IMPL(a, b) a##b
#define QWEN_CONCAT(a, b) QWEN_CONCAT_IMPL(a, b)

#define QWEN_RETURN_IF_ERROR(expression)                                       \
  do {                                                                         \
    if (::qwen::Status status_ = (expression); !status_.ok())                  \
      return status_;                                                          \
  } while (false)

#define QWEN_ASSIGN_OR_RETURN_IMPL(temporary, target, expression)              \
  auto temporary = (expression);                                               \
  if (!temporary.ok())                                                         \
    return temporary.status();                                                 \
  target = std::move(temporary).value()

#define QWEN_ASSIGN_OR_RETURN(target, expression)                              \
  QWEN_ASSIGN_OR_RETURN_IMPL(QWEN_CONCAT(statusOr_, __LINE__), target,         \
                             expression)

} // namespace qwen

#endif // QWEN_SUPPORT_STATUS_H
