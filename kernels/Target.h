//===- Target.h - kinds of processors --------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>

namespace zc {

/// What the kernels of a plan run on.
enum class Target : uint8_t { cpu, cuda };
constexpr std::array<const char *, 2> namesOf(Target) { return {"cpu", "cuda"}; }

} // namespace zc
