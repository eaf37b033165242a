//===- Traits.h - what all kernels of a name can ---------------------------------===//
//
// Said once, where the plain kernel of that name is registered (kernels/cpu/reference): it holds for all targets, since
// a plan is compiled, and may be verified, where the target is not. Every registry asks. The compiler's operations say
// no more than this (KernelOp::mayOverwrite, traits TakesProgram and Strided; a test compares the two).
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zc {

struct KernelSpec;

/// Bit i: input i.
using InputSet = uint32_t;
constexpr InputSet kNoInput = 0, kAnyInput = ~InputSet(0);

/// Bytes of workspace (Workspace.h), of a spec that has operands; 0 for one that no kernel takes.
using WorkspaceFormula = int64_t (*)(const KernelSpec &);

class KernelTraits {
public:
  KernelTraits() = default;
  /// Works in more than its operands, on a CPU.
  KernelTraits(WorkspaceFormula formula) : formula(formula) {}

  /// The first output may be the bytes of one of these inputs that has its type, where nobody reads that later.
  KernelTraits &overwriting(InputSet inputs) { return overwritten = inputs, *this; }
  /// So may any of its outputs: each of their elements depends on those of the same index alone.
  KernelTraits &withAnyOutput() { return anyOutput = true, *this; }
  /// Reads and writes through views (Views.h).
  KernelTraits &throughViews() { return views = true, *this; }
  /// Where input `input` stays the same through the micro-steps of a step, rearranges it in the first into what it
  /// keeps, bytes as `formula` says, and reads that in the others.
  KernelTraits &keeping(size_t input, WorkspaceFormula formula) { return kept = {input, formula}, *this; }
  /// A program may compute the first of its `inputs` (Prologue.h).
  KernelTraits &behindProgram(size_t inputs) { return described = inputs, *this; }

  InputSet overwrites() const { return overwritten; }
  bool takesViews() const { return views; }
  bool takesProgram() const { return described != 0; }
  /// Inputs of the description of a kernel that takes programs.
  size_t describedInputs() const { return described; }
  /// Null: it works in its operands alone.
  WorkspaceFormula workspace() const { return formula; }
  struct Kept {
    size_t input = 0;
    WorkspaceFormula formula = nullptr; ///< null: it keeps nothing
  };
  const Kept &keeps() const { return kept; }

  /// May the output at `output` be the bytes of the input at `input` (places among the operands)?
  bool mayOverwrite(const KernelSpec &spec, size_t input, size_t output) const;

private:
  InputSet overwritten = kNoInput;
  bool anyOutput = false, views = false;
  size_t described = 0;
  WorkspaceFormula formula = nullptr;
  Kept kept;
};

/// Element i of the result needs element i of each input of its type alone.
inline KernelTraits elementwise() { return KernelTraits().overwriting(kAnyInput); }

/// Of this project's kernels; of other names: none.
const KernelTraits &traitsOf(std::string_view kernel);

} // namespace zc
