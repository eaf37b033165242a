//===- OptionList.h - options by name ----------------------------------------------===//
//
// A stage has one struct of options, and one function that lists its fields: name, range, what it is. From the list
// come the flags of zero-compile ("--NAME VALUE"), what a configuration file sets, and the options that zero-opt gives
// to passes and pipelines in text ("NAME=VALUE"). So reading and its errors are the same everywhere.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Names.h"
#include "base/Status.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zc {

/// A usage error about an option.
Error optionError(const std::string &message, const std::string &name);
/// What was given, for its messages: in quotes, escaped, and not all of a long one.
std::string quotedText(const std::string &text);

/// One option.
struct Option {
  enum class Kind {
    value,
    several, ///< may be given more than once: each value is read
    flag,    ///< without a value: read as true
  };
  /// What a plan must do for the option to say anything of it.
  enum class Needs {
    nothing,
    training,
    lossScale, ///< training in fp16
  };
  std::string name; ///< without dashes
  Kind kind = Kind::value;
  std::string values; ///< what may be said, for help: "INT", "none|host|nvme"
  std::string help;
  std::string group;
  bool isFlag = true; ///< else the compiler chooses it: known to zero-opt's text alone
  std::function<Status(const std::string &)> read;
  Needs needs = Needs::nothing;

  void forTraining() { needs = Needs::training; }
  void forAnyPlan() { needs = Needs::nothing; }
};

/// As it stands on a command line, with a space before: " --NAME VALUE", " --NAME", of a flag that is off nothing.
std::string flagText(const Option &option, const std::string &value);

/// Values from `least` to `most`, both included.
template <typename T> struct Range {
  T least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
};

/// A size in bytes, as parseSize reads it, and words that stand for one.
struct ByteCount {
  int64_t least = 0;
  std::vector<std::pair<const char *, int64_t>> words;
};

/// Options that were given, by name: the texts that were read, in order.
using GivenOptions = std::map<std::string, std::vector<std::string>>;

/// The options of one struct, or of several. It must not outlive them.
class OptionList {
public:
  std::vector<Option> options;

  /// Of what follows; it `needs` that unless it says otherwise (`add(...).forTraining()`).
  void group(const char *name, Option::Needs needs = Option::Needs::nothing) {
    current = name;
    currentNeeds = needs;
  }
  /// Of what follows in the group.
  void needs(Option::Needs needs) { currentNeeds = needs; }
  /// Is what follows chosen by the compiler? Up to the end of the struct.
  void chosen(bool isChosen = true) { isFlag = !isChosen; }

  /// What they return stands until the next one is added.
  Option &add(const char *name, std::string &value, const char *help);
  Option &add(const char *name, std::vector<std::string> &values, const char *help);
  Option &add(const char *name, bool &value, const char *help);
  Option &add(const char *name, int64_t &value, Range<int64_t> range, const char *help);
  Option &add(const char *name, uint64_t &value, const char *help);
  Option &add(const char *name, double &value, Range<double> range, const char *help);
  Option &add(const char *name, std::optional<double> &value, Range<double> range, const char *help);
  Option &add(const char *name, int64_t &value, ByteCount bytes, const char *help);
  /// Of a form of its own.
  Option &add(const char *name, Option::Kind kind, const char *values, std::function<Status(const std::string &)> read,
              const char *help);
  template <typename E, size_t = std::tuple_size<decltype(namesOf(E()))>::value>
  Option &add(const char *name, E &value, const char *help) {
    const auto names = namesOf(E());
    return addChoice(
        name, {names.begin(), names.end()}, [&value](size_t index) { value = static_cast<E>(index); }, help);
  }

  /// Null if there is none.
  const Option *find(const std::string &name) const;
  /// Reads "NAME=VALUE NAME ...", separated by spaces; values of several are separated by commas. Errors: usage.
  Status readText(const std::string &text) const;

private:
  Option &addChoice(const char *name, std::vector<std::string> names, std::function<void(size_t)> choose,
                    const char *help);

  std::string current;
  Option::Needs currentNeeds = Option::Needs::nothing;
  bool isFlag = true;
};

} // namespace zc
