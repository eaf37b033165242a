//===- PlanText.h - plan files as text and back ----------------------------------===//
#pragma once

#include "base/Status.h"

#include <string>

namespace llvm {
class raw_ostream;
}

namespace zc::translate {

/// Prints a plan file as a module of the plan dialect, nodes as locations. The plan need not be verified, but its
/// container must be sound. Errors: those of readPlan; a message that refers to what it does not have (bad input).
Status planToMlir(const std::string &path, llvm::raw_ostream &out);

/// The plan file's bytes of a module of the plan dialect: report filled, verified. Errors: text that does not parse, or
/// does not verify as a plan (bad input).
Result<std::string> mlirToPlan(const std::string &path);

} // namespace zc::translate
