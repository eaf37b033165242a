//===- FreeNames.h - symbols beside names that a model has given ------------------===//
#pragma once

#include "llvm/ADT/StringSet.h"

#include <string>

namespace zc::plan {

/// Parameters have the model's names, whatever those are: all else has names that are left.
class FreeNames {
public:
  void take(llvm::StringRef name) { taken.insert(name); }
  /// `name`, or that with as many '_' behind it as nobody has; taken from now on.
  std::string next(std::string name) {
    while (!taken.insert(name).second)
      name += '_';
    return name;
  }

private:
  llvm::StringSet<> taken;
};

} // namespace zc::plan
