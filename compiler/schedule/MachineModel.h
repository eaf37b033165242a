//===- MachineModel.h - machine files, and machines by name -------------------------===//
#pragma once

#include "base/Status.h"
#include "kernels/Target.h"
#include "runtime/plan/Machine.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zc {

/// A machine that is known by its name.
struct MachinePreset {
  std::string_view name;
  Target target;
  MachineModel model;
  int64_t memory; ///< bytes of a rank's device
};
/// Null where there is none of that name.
const MachinePreset *findMachine(std::string_view name);
std::vector<std::string> machineNames();

/// The machine of which --machine says the rates.
struct MachineChoice {
  const MachinePreset *preset = nullptr; ///< null: not known by its name
  std::string file;                      ///< that has the rates; empty without a preset: the default ones
  std::vector<std::pair<double MachineModel::*, double>> rates; ///< in the place of those

  bool isGiven() const { return preset || !file.empty(); }
};

/// "NAME|FILE[,RATE=VALUE...]"; rates are called as in a machine file. Errors: usage: a word that is neither a
/// machine's name nor a file that is there, a rate of another name or that is not positive, with the nearest name that
/// there is.
Result<MachineChoice> parseMachine(const std::string &text);

/// The rates of a choice. A machine file is what `zero-run bench-machine -o FILE` writes: one JSON object of positive
/// numbers; a rate that is not there keeps its default. Errors: the file cannot be read, is no such object, names an
/// unknown rate or one that is not positive (badInput).
Result<MachineModel> ratesOf(const MachineChoice &machine);

} // namespace zc
