//===- Command.h - the flags of one command ----------------------------------------===//
//
// Each command says its flags to the parser when it is made, and what the parser cannot check when it was given. The
// parser keeps references into `Flags` and into the command.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Suggest.h"
#include "tools/zero-run/Flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <sstream>

namespace zc::run {

class Command {
public:
  /// `example`: a line of the command's own help; empty for the program itself, which has one written by hand.
  Command(CLI::App &app, Flags::Command kind, Flags &flags, std::string example)
      : app(app), kind(kind), example(std::move(example)), flags(flags) {}
  virtual ~Command() = default;
  /// What the parser cannot do by itself. Errors: usage.
  virtual Status complete() { return Status::success(); }

  CLI::App &app;
  Flags::Command kind;
  const std::string example;

protected:
  Flags &flags;
};

// `root`: of the program, whose own flags are those of training.
std::unique_ptr<Command> trainCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> evalCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> inspectCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> exportCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> checkpointCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> doctorCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> slurmCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> benchIoCommand(CLI::App &root, Flags &flags);
std::unique_ptr<Command> benchMachineCommand(CLI::App &root, Flags &flags);

/// What training and evaluation are told alike.
void addJob(CLI::App &app, Flags &flags);
/// `command`: for messages. Errors: usage.
Status completeJob(Flags &flags, const char *command);

Error usageError(std::string message, const std::string &flag);

/// Numbers of [least, most], told apart from other text before the parser converts it. The limits are for arithmetic,
/// not for people, so the help does not show them.
template <typename T> CLI::Validator within(T least, T most) {
  auto complaint = [least, most](const std::string &text) {
    T value = 0;
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return std::string();
    std::ostringstream out;
    out << "\"" << text.substr(0, 100) << "\" is not a " << (std::is_integral_v<T> ? "whole " : "") << "number from "
        << least << " to " << most;
    return out.str();
  };
  return {complaint, ""};
}
/// One of these words; of another one the nearest is told.
inline CLI::Validator oneOf(const std::vector<std::string> &words) {
  std::string shown;
  for (const std::string &word : words)
    shown += (shown.empty() ? "{" : ",") + word;
  return {[words](const std::string &text) {
            return std::find(words.begin(), words.end(), text) == words.end() ? notOneOf(text, words) : std::string();
          },
          shown + "}"};
}

/// An option of a word that names a value (base/Names.h).
template <typename E, typename To>
CLI::Option *addNamed(CLI::App &app, const std::string &name, To &to, const std::string &help) {
  const auto names = namesOf(E());
  return app
      .add_option_function<std::string>(
          name, [&to](const std::string &word) { to = *valueNamed<E>(word); }, help)
      ->check(oneOf({names.begin(), names.end()}));
}

inline CLI::Validator positive(int64_t most = int64_t(1) << 40) { return within<int64_t>(1, most); }

} // namespace zc::run
