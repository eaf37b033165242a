//===- FusedSteps.h - the loops of a program's instructions, for the CPU at hand ---------------===//
//
// Over numbers in the types that registers have (FusedTiles.h), with the functions that the kernels of single
// operations have: what is of 16 bits is widened and narrowed in vectors.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/FusedProgram.h"

namespace zc::cpu {

/// y = f(from[0], ...) of n elements, each of its register's type.
using FusedStep = void (*)(const void *const *from, void *y, int64_t n);

/// The loop of an instruction on operands of `type`, where not all have one that of its numbers; null where the plain
/// function is all there is.
FusedStep stepOf(FusedCode code, DType type);
/// Bools are 0 and 1 as numbers.
FusedStep castOf(DType from, DType to);
/// One loop for two instructions, of which the second reads the first alone as its operand `place`: from[] has the
/// first's operands, then the second's others. All numbers have this type. Null where there is none.
FusedStep pairOf(FusedCode first, FusedCode second, size_t place, DType type);
/// `runs` runs of a tensor, each of `length` elements of `size` bytes from element starts[i] on, one behind the other.
void copyRunsOf(const void *x, const int64_t *starts, int64_t runs, int64_t length, int64_t size, void *y);

} // namespace zc::cpu
