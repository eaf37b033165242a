//===- FusedSteps.h - the loops of a program's instructions, for the CPU at hand ---------------===//
//
// Over tiles of fp32 in the first cache (FusedTiles.h), with the functions that the kernels of single operations have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/FusedProgram.h"

namespace zc::cpu {

/// y = f(from[0], ...) of n elements.
using FusedStep = void (*)(const float *const *from, float *y, int64_t n);
/// A run of n elements of a tensor, that are one after the other (stride 1) or one again and again (0).
using FusedLoad = void (*)(const void *x, int64_t stride, float *y, int64_t n);
/// `runs` of these, each of `length` elements one after the other from element starts[i] on.
using FusedLoadRuns = void (*)(const void *x, const int64_t *starts, int64_t runs, int64_t length, float *y);
/// Of numbers that the type has.
using FusedStore = void (*)(const float *x, void *y, int64_t n);

/// The loop of an instruction whose register has type `type`; null where the plain function is all there is. It writes
/// a tile of fp32, or, if `isDirect`, numbers of the type itself.
FusedStep stepOf(FusedCode code, DType type, bool isDirect = false);
/// One loop for two instructions, of which the second reads the first alone as its operand `place`: from[] has the
/// first's operands, then the second's others. What arithmetic gives is rounded to `type`, the second's, and the
/// first's where that is no flag. Null where there is none.
FusedStep pairOf(FusedCode first, FusedCode second, size_t place, DType type, bool isDirect);
/// Rounding alone: of what a plain function gives.
FusedStep roundingOf(DType type);
FusedLoad loadOf(DType type);
FusedLoadRuns loadRunsOf(DType type);
FusedStore storeOf(DType type);
void fillWith(float value, float *y, int64_t n);

} // namespace zc::cpu
