//===- InPlace.h - which inputs a kernel may write its result over ------------------===//
//
// A plan may give the first output of a step, or any of a kernel of which each element depends on those of the same
// index alone, the very bytes of an input that nobody reads after it. Which inputs a kernel allows is a property of its
// name, the same for all targets: it stands here once, and every registry asks.
// The compiler's operations say no more than this (KernelOp::mayOverwrite; a test compares the two).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Kernel.h"

#include <string_view>

namespace zc {

/// Of a kernel of this project; kNoInput of other names.
InputSet overwritableInputs(std::string_view kernel);

/// May the output at `output` be the bytes of `input` (places among the operands), which the kernel allows for inputs
/// `allowed`? Types must be the same.
bool mayOverwrite(const KernelSpec &spec, InputSet allowed, size_t input, size_t output);

} // namespace zc
