//===- FusedPlain.h - what an instruction of a fused program does to one element ------===//
#pragma once

#include "kernels/FusedProgram.h"

namespace zc::cpu {

/// In fp32, before it is rounded to the register's type; bools are 0 and 1.
using FusedPlain = float (*)(float a, float b, float c);
/// Null of a constant and of the end.
FusedPlain fusedPlain(FusedCode code);

} // namespace zc::cpu
