//===- Status.h - errors are values -------------------------------------------===//
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace zc {

/// Exit codes of all tools (documented in README.md).
enum class Code : int {
  ok = 0,
  other = 1,
  usage = 2,
  badInput = 3,
  unsupported = 4,
  budget = 5,
  io = 6,
  peerLost = 7,
  numeric = 8,
  corrupt = 9,
  mismatch = 10,
  watchdog = 11,
  internal = 70,
  preempted = 75,
};

/// One failure: what is wrong, where, and what to do. Rendered as
/// `error[Z0312]: message`, `  --> where`, `  = note: ...`, `  = help: ...`.
struct Error {
  Code code = Code::other;
  int number = 0;      ///< the Z-number, stable, unique per message template (see base/README.md)
  std::string message; ///< lower case, names quoted, both numbers
  std::string where;   ///< file, node or flag; empty if none
  std::string note;
  std::string help;
};

/// Replaces control characters, escape sequences, bidirectional overrides and invalid UTF-8 of a name from a file by
/// \xNN, byte by byte; everything else is kept.
std::string escapeName(const std::string &name);
/// Well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool isValidUtf8(const std::string &text);
/// Several lines, no trailing newline. Every field is escaped.
std::string render(const Error &error);

/// Success or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}
  static Status success() { return {}; }
  bool ok() const { return !failure.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error &error() const { return *failure; }
  Error &error() { return *failure; }

private:
  std::optional<Error> failure;
};

/// A value or an Error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}
  Result(Status status) : state(std::in_place_index<1>, std::move(status.error())) {}
  bool ok() const { return state.index() == 0; }
  explicit operator bool() const { return ok(); }
  T &value() { return std::get<0>(state); }
  const T &value() const { return std::get<0>(state); }
  T &operator*() { return value(); }
  const T &operator*() const { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  const Error &error() const { return std::get<1>(state); }
  Status status() const { return ok() ? Status() : Status(error()); }

private:
  std::variant<T, Error> state;
};

inline Error makeError(Code code, int number, std::string message, std::string where = {}, std::string help = {}) {
  return Error{code, number, std::move(message), std::move(where), {}, std::move(help)};
}

} // namespace zc

/// Returns the error of `expr` (a Status) from the enclosing function.
#define ZC_RETURN_IF_ERROR(expr)                                                                                       \
  do {                                                                                                                 \
    if (auto zcStatus = (expr); !zcStatus.ok())                                                                        \
      return zcStatus.error();                                                                                         \
  } while (0)
