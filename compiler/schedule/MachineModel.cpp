//===- MachineModel.cpp - which machine, and its file ---------------------------------===//

#include "compiler/schedule/MachineModel.h"
#include "base/Suggest.h"
#include "compiler/options/JsonFile.h"
#include "compiler/options/OptionList.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <charconv>
#include <cmath>

using namespace zc;

static const MachineModel::Field *findRate(const std::string &name) {
  const auto *field = llvm::find_if(MachineModel::kFields, [&](const auto &each) { return name == each.name; });
  return field == std::end(MachineModel::kFields) ? nullptr : field;
}

/// Per second, or seconds; of other numbers times have no end, or are none.
static bool isRate(double value) { return value >= 1e-12 && value <= 1e24; }

static Error wrongMachine(std::string message, const std::string &near, const std::vector<std::string> &known) {
  return makeError(Code::usage, 390, std::move(message), "--machine",
                   near.empty() ? "there are " + llvm::join(known, ", ") : "did you mean \"" + near + "\"?");
}

/// A name of which only the beginning is given, or the letters in another case, or one of them wrong, is told.
static Status readName(const std::string &name, MachineChoice &machine) {
  machine.preset = findMachine(name);
  if (machine.preset)
    return {};
  const std::vector<std::string> known = machineNames();
  const std::string lower = llvm::StringRef(name).lower();
  const auto whole =
      llvm::find_if(known, [&](const std::string &each) { return each.compare(0, lower.size(), lower) == 0; });
  const std::string near = whole != known.end() && lower.size() > 1 ? *whole : nearest(lower, known);
  bool isPath = name.find_first_of("./") != std::string::npos && near.empty();
  if (!isPath && !llvm::sys::fs::exists(name))
    return wrongMachine(quotedText(name) + " is neither a machine's name nor a file", near, known);
  machine.file = name;
  return {};
}

/// "NAME=VALUE".
static Status readRate(const std::string &text, MachineChoice &machine) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals), value = equals == std::string::npos ? "" : text.substr(equals + 1);
  const MachineModel::Field *field = findRate(name);
  if (!field) {
    std::vector<std::string> known;
    for (const MachineModel::Field &each : MachineModel::kFields)
      known.emplace_back(each.name);
    return wrongMachine(quotedText(name) + " is no rate of a machine", nearest(name, known), known);
  }
  double rate = 0;
  auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), rate);
  if (problem != std::errc() || end != value.data() + value.size() || !isRate(rate))
    return optionError(quotedText(text) + " is no positive number", "machine");
  machine.rates.emplace_back(field->rate, rate);
  return {};
}

Result<MachineChoice> zc::parseMachine(const std::string &text) {
  MachineChoice machine;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  ZC_RETURN_IF_ERROR(readName(parts[0].str(), machine));
  for (llvm::StringRef part : llvm::drop_begin(parts))
    ZC_RETURN_IF_ERROR(readRate(part.str(), machine));
  return machine;
}

static Result<MachineModel> readMachineFile(const std::string &path) {
  Result<nlohmann::json> json = readJsonFile(
      path, "zero-run bench-machine writes one; machines known by name: " + llvm::join(machineNames(), ", "),
      Code::badInput);
  if (!json)
    return json.error();
  if (!json->is_object())
    return makeError(Code::badInput, 397, "a machine file is one JSON object", path);
  MachineModel machine;
  for (const auto &[name, value] : json->items()) {
    const MachineModel::Field *field = findRate(name);
    if (!field)
      return makeError(Code::badInput, 392, "unknown field \"" + name + "\" in the machine file", path);
    if (!value.is_number() || !isRate(value.get<double>()))
      return makeError(Code::badInput, 393, "field \"" + name + "\" is no positive number", path);
    machine.*field->rate = value.get<double>();
  }
  return machine;
}

Result<MachineModel> zc::ratesOf(const MachineChoice &machine) {
  Result<MachineModel> rates = machine.preset ? machine.preset->model : Result<MachineModel>(MachineModel());
  if (!machine.file.empty())
    rates = readMachineFile(machine.file);
  if (rates)
    for (auto [rate, value] : machine.rates)
      (*rates).*rate = value;
  return rates;
}
