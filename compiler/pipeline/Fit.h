//===- Fit.h - plans made to fit ---------------------------------------------------===//
//
// What a plan needs is known when its memory is planned, so what it takes to fit is found by planning: sizes that no
// flag sets are tuned to the budgets, and where that is not enough, other flags are tried. Without a budget nothing
// here compiles anything; what --auto and --micro-order auto compare, they compile themselves.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/pipeline/CompileOptions.h"

#include <functional>
#include <string>

namespace zc {

/// What bounds the number of trials, and how finely they may cut.
struct ModelSize {
  size_t operations = 0;
  int64_t parameters = 0; ///< elements
};

/// What goes through host buffers at once unless those are short (ShardOptions::chunk): more of a model that would else
/// be thousands of pieces on a rank, each of which is several steps.
int64_t usualChunk(const ShardOptions &given, const ModelSize &size);

/// What a plan takes, whatever the budgets say.
struct Planned {
  Budgets needs; ///< bytes per rank
  /// Once it is scheduled: what goes through host buffers piece by piece is many times the model's.
  size_t operations = 0;
};
using Trial = std::function<Result<Planned>(const Strategy &)>;

/// Does every tier with a budget keep it?
bool fits(const Budgets &needs, const Budgets &budgets);

struct Tuned {
  Strategy strategy;
  Budgets needs; ///< zero where nothing had to be tried
};

/// Gradients in the file, and smaller host buffers, where the host's budget is short; as little selective recomputation
/// as fits the device's; then as many resident parameters as still fit, on the device and, instead of in a file, on the
/// host, as many gradients there, and state read from the file ahead of its update. Queues that wait for each other to
/// take less memory come last, unless `leastMemory` is asked for. Errors: those of the trials.
Result<Tuned> tune(const Strategy &given, const ModelSize &size, const Trial &trial, bool leastMemory = false);

/// For plans over budget: the cheapest change of flags that fits all budgets, as "FLAGS fits (...)", found by trying
/// changes in order of what they cost in time; or the smallest memory that was found. The number of trials is bounded
/// by the operations that they compile.
std::string cheapestFit(const Strategy &given, const ModelSize &size, const Trial &trial);

/// One line: the smallest budget of the device's memory for these flags, and for those that need the least.
std::string smallestBudget(const Strategy &given, const ModelSize &size, const Trial &trial);

} // namespace zc
