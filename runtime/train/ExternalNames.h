//===- ExternalNames.h - the files beside an ONNX model under other names --------------------===//
#pragma once

#include "base/Status.h"

#include <map>
#include <string>

namespace zc::train {

/// The bytes of an ONNX model whose graph's initializers name external files by `names` (as it calls one -> its new
/// name); all else, other names too, as it is. Errors: badInput (no such message).
Result<std::string> withExternalNames(const std::string &model, const std::map<std::string, std::string> &names);

} // namespace zc::train
