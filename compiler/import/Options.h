//===- Options.h - options of the import stage by name --------------------------------===//
#pragma once

#include "compiler/import/base/Options.h"
#include "compiler/options/OptionList.h"

namespace zc::importer {

constexpr std::array<const char *, 3> namesOf(DropoutPolicy) { return {"as-exported", "off", "force"}; }
constexpr std::array<const char *, 3> namesOf(BatchNormPolicy) { return {"as-exported", "train", "eval"}; }
constexpr std::array<const char *, 2> namesOf(BatchNormVariance) { return {"torch", "onnx"}; }

void listOptions(ImportOptions &options, OptionList &list);

} // namespace zc::importer
