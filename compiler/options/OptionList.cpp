//===- OptionList.cpp - options by name -------------------------------------------------===//

#include "compiler/options/OptionList.h"
#include "base/Size.h"
#include "base/Suggest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>

using namespace zc;

Error zc::optionError(const std::string &message, const std::string &name) {
  return makeError(Code::usage, 121, message, name.empty() ? "" : "--" + name, "see zero-compile --help");
}

std::string zc::quotedText(const std::string &text) { return "\"" + escapeName(text.substr(0, 200)) + "\""; }

std::string zc::flagText(const Option &option, const std::string &value) {
  if (option.kind == Option::Kind::flag)
    return value == "true" ? " --" + option.name : "";
  return " --" + option.name + " " + value;
}

namespace {

std::string joined(const std::vector<std::string> &texts, const char *between) {
  std::string all;
  for (const std::string &text : texts)
    all += (all.empty() ? "" : between) + text;
  return all;
}

template <typename T> Status readInteger(const std::string &text, const char *name, Range<T> range, T &value) {
  T read = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), read);
  const bool isTooLarge = problem == std::errc::result_out_of_range;
  if ((problem != std::errc() && !isTooLarge) || end != text.data() + text.size())
    return optionError(quotedText(text) + " is not a whole number", name);
  if (isTooLarge || read < range.least || read > range.most)
    return optionError(text + " is not in [" + std::to_string(range.least) + ", " + std::to_string(range.most) + "]",
                       name);
  value = read;
  return Status::success();
}

Status readNumber(const std::string &text, const char *name, Range<double> range, double &value) {
  double read = 0; // strtod would take " 5", "+5" and "0x10", which numbers elsewhere are not
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), read);
  const bool isTooLarge = problem == std::errc::result_out_of_range;
  if ((problem != std::errc() && !isTooLarge) || end != text.data() + text.size())
    return optionError(quotedText(text) + " is not a number", name);
  if (isTooLarge || !std::isfinite(read))
    return optionError("a finite number is wanted", name);
  if (read < range.least || read > range.most) {
    std::ostringstream message;
    message << text << " is not in [" << range.least << ", " << range.most << "]";
    return optionError(message.str(), name);
  }
  value = read;
  return Status::success();
}

} // namespace

Option &OptionList::add(const char *name, Option::Kind kind, const char *values,
                        std::function<Status(const std::string &)> read, const char *help) {
  return options.emplace_back(Option{name, kind, values, help, current, isFlag, std::move(read), currentNeeds});
}

Option &OptionList::add(const char *name, std::string &value, const char *help) {
  return add(
      name, Option::Kind::value, "TEXT", [&value](const std::string &text) { return value = text, Status(); }, help);
}

Option &OptionList::add(const char *name, std::vector<std::string> &values, const char *help) {
  return add(
      name, Option::Kind::several, "TEXT",
      [&values](const std::string &text) { return values.push_back(text), Status(); }, help);
}

Option &OptionList::add(const char *name, bool &value, const char *help) {
  return add(
      name, Option::Kind::flag, "",
      [&value, name](const std::string &text) -> Status {
        if (text != "true" && text != "false")
          return optionError(quotedText(text) + " is neither true nor false", name);
        value = text == "true";
        return Status::success();
      },
      help);
}

Option &OptionList::add(const char *name, int64_t &value, Range<int64_t> range, const char *help) {
  return add(
      name, Option::Kind::value, "INT",
      [&value, name, range](const std::string &text) { return readInteger(text, name, range, value); }, help);
}

Option &OptionList::add(const char *name, uint64_t &value, const char *help) {
  return add(
      name, Option::Kind::value, "INT",
      [&value, name](const std::string &text) { return readInteger(text, name, Range<uint64_t>(), value); }, help);
}

Option &OptionList::add(const char *name, double &value, Range<double> range, const char *help) {
  return add(
      name, Option::Kind::value, "FLOAT",
      [&value, name, range](const std::string &text) { return readNumber(text, name, range, value); }, help);
}

Option &OptionList::add(const char *name, std::optional<double> &value, Range<double> range, const char *help) {
  return add(
      name, Option::Kind::value, "FLOAT",
      [&value, name, range](const std::string &text) { return readNumber(text, name, range, value.emplace()); }, help);
}

Option &OptionList::add(const char *name, int64_t &value, ByteCount bytes, const char *help) {
  std::string values = "SIZE";
  for (const auto &[word, meaning] : bytes.words)
    values += std::string("|") + word;
  return add(
      name, Option::Kind::value, values.c_str(),
      [&value, name, bytes = std::move(bytes)](const std::string &text) -> Status {
        for (const auto &[word, meaning] : bytes.words)
          if (text == word)
            return value = meaning, Status();
        std::optional<uint64_t> size = parseSize(text);
        if (!size)
          return optionError(quotedText(text) + " is not a size such as 25MiB, 800MB or 4096", name);
        if (*size < static_cast<uint64_t>(bytes.least))
          return optionError(quotedText(text) + " is less than " + std::to_string(bytes.least) + " B", name);
        value = static_cast<int64_t>(*size); // parseSize ends at 2^62
        return Status::success();
      },
      help);
}

Option &OptionList::addChoice(const char *name, std::vector<std::string> names, std::function<void(size_t)> choose,
                              const char *help) {
  std::string values = joined(names, "|");
  return add(
      name, Option::Kind::value, values.c_str(),
      [name, names = std::move(names), choose = std::move(choose)](const std::string &text) -> Status {
        auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end())
          return optionError(notOneOf(text, names), name);
        choose(static_cast<size_t>(found - names.begin()));
        return Status::success();
      },
      help);
}

const Option *OptionList::find(const std::string &name) const {
  auto found = std::find_if(options.begin(), options.end(), [&](const Option &option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

Status OptionList::readText(const std::string &text) const {
  std::istringstream parts(text);
  for (std::string part; parts >> part;) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    const Option *option = find(name);
    if (!option) {
      std::vector<std::string> names;
      for (const Option &known : options)
        names.push_back(known.name);
      std::string near = nearest(name, names);
      return optionError("there is no option " + quotedText(name) +
                             (near.empty() ? ": there are " + joined(names, ", ") : "; did you mean \"" + near + "\"?"),
                         "");
    }
    if (option->kind == Option::Kind::flag && equals == std::string::npos)
      value = "true";
    if (option->kind != Option::Kind::several) {
      ZC_RETURN_IF_ERROR(option->read(value));
      continue;
    }
    std::istringstream values(value);
    for (std::string one; std::getline(values, one, ',');)
      ZC_RETURN_IF_ERROR(option->read(one));
  }
  return Status::success();
}
