//===- ScatterReduction.h - what scatters do to an element -----------------------------===//
#pragma once

#include "base/Names.h"

#include <cstdint>

namespace zc {

/// ONNX ScatterElements-18 and ScatterND-18: an update takes the element's place (the last of several), or is joined
/// with it in index order.
enum class ScatterReduction : uint8_t { none, add, mul, min, max };
constexpr std::array<const char *, 5> namesOf(ScatterReduction) { return {"none", "add", "mul", "min", "max"}; }

} // namespace zc
