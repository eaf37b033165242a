//===- Kernel.h - what a plan's compute step calls ---------------------------===//
//
// A kernel is prepared once, from the types and attributes of a plan step, and then run many times on raw pointers.
// Preparing may allocate what does not grow with shapes (oneDNN's primitives); running may not. What a kernel works in
// besides its operands it is given (Workspace.h). Names and operand orders are those of the graph dialect's operations
// (dialects/graph/*.td: operands, then results) and of kernels/README.md.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "base/Tensor.h"
#include "kernels/Target.h"
#include "kernels/Traits.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zc {

/// Attribute of a step: an integer (also bools and unit attributes: 1), a real, a string or a list of integers.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

struct ProductShape;
struct ProductEntry;
/// How products of some shapes are computed (kernels/cpu/Products.h).
using ProductTable = std::map<ProductShape, ProductEntry>;

/// What a kernel is prepared from.
struct KernelSpec {
  std::string name;
  std::vector<TensorType> operands; ///< inputs then outputs; an absent optional operand is simply not there
  size_t numInputs = 0;             ///< operands read only; the rest are written (or both, where the kernel says so)
  std::map<std::string, Attribute> attributes;
  /// Inputs that are given at the very bytes of an output: (input, output), by their places among the operands.
  std::vector<std::pair<size_t, size_t>> inPlace = {};
  int64_t workspace = 0; ///< bytes that runs are given at operands[operands.size()], 64-byte aligned
  /// Bytes one behind it, which the next micro-step has as this one left them, for what the kernel makes of an input
  /// that stays the same (Workspace.h).
  int64_t kept = 0;
  size_t keptInput = 0; ///< that one
  int threads = 1;      ///< OpenMP threads the kernel may use
  int rank = 0;         ///< data-parallel rank
  int modelRank = 0;    ///< among those that share its samples
  uint64_t seed = 0;
  bool tf32 = false; ///< products of f32 may be of factors rounded to TF32, where tensor cores do that
  const ProductTable *products = nullptr; ///< read while the kernel is prepared; null: none

  /// Attribute `key`, or `fallback` (empty) where it is absent or of another kind. getReal takes an integer too.
  int64_t getInt(const std::string &key, int64_t fallback) const;
  double getReal(const std::string &key, double fallback) const;
  std::vector<int64_t> getInts(const std::string &key) const;
  std::string getText(const std::string &key) const;
  bool has(const std::string &key) const { return attributes.count(key) != 0; }
};

/// What changes from run to run.
struct StepContext {
  int64_t step = 1;  ///< optimizer step, from 1
  int64_t micro = 0; ///< micro-step within the step, from 0
  double learningRate = 0;
  int64_t skipped = 0;  ///< steps before this one that left the weights as they were (loss scaling)
  double lossScale = 1; ///< what the gradient of the loss is multiplied by
};

/// A prepared kernel. `run` is called from one thread at a time.
class Kernel {
public:
  virtual ~Kernel() = default;
  /// `operands[i]` points at operand i's elements, and one past the last operand at the workspace, if there is one:
  /// what it holds before and after means nothing. One further on is what is kept from micro-step to micro-step, where
  /// the spec has such bytes; in a step's first they hold nothing yet. Errors: label or index out of range (bad input).
  virtual Status run(void *const *operands, const StepContext &context) = 0;
  /// What the user should know of how it was prepared, as in "uses fewer threads than it was given: ..."; mostly empty.
  virtual std::string note() const { return {}; }
  /// Which of several ways it computes by, as in "oneDNN by columns"; empty where its implementation says it.
  virtual std::string method() const { return {}; }
};

using KernelFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec &)>;

/// As above; `note` says what the user should know of the kernel, or of why it is left to the next one (Kernel::note).
using NotingFactory = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec &, std::string &note)>;

/// Who computes a step.
struct Implementation {
  enum class Kind : uint8_t {
    own,
    library,
    reference, ///< plain loops
    runtime,   ///< no kernel of a registry: copies between tiers, collectives, inputs and outputs
  };
  Kind kind = Kind::own;
  std::string_view library; ///< its name, where it is one
  std::string method = {};  ///< Kernel::method
};
constexpr std::array<const char *, 4> namesOf(Implementation::Kind) {
  return {"own", "library", "reference", "runtime"};
}

/// What every target asks of a spec before it makes the kernel, whose name has these `traits`. Errors: corrupt plan.
Status checkSpec(const KernelSpec &spec, Target target, const KernelTraits &traits);

/// Kernels by name, with who computes them. One registry per target; filled by registerCpuKernels().
class KernelRegistry {
public:
  explicit KernelRegistry(Target target = Target::cpu) : runsOn(target) {}
  Target target() const { return runsOn; }
  /// Of what is added from now on.
  void implementedBy(Implementation implementation) { current = implementation; }
  /// Comes before what was added under that name. `factory` may decline a spec, for its types or shape, with a null
  /// kernel: then that is used. The name keeps its traits.
  void add(const std::string &name, KernelFactory factory);
  void addNoting(const std::string &name, NotingFactory factory);
  /// A kernel, and what all that are added over it can.
  void add(const std::string &name, KernelFactory factory, KernelTraits traits);
  bool contains(const std::string &name) const { return entries.count(name) != 0; }
  const KernelTraits &traitsOf(std::string_view name) const;
  /// Errors: unknown name, types, attributes or operands in place that the kernel does not take, less workspace than
  /// workspaceBytes() (internal or corrupt plan).
  Result<std::unique_ptr<Kernel>> prepare(const KernelSpec &spec) const;
  /// Who would compute it; prepares it to know. Errors as prepare.
  Result<Implementation> implementationOf(const KernelSpec &spec) const;
  std::vector<std::string> names() const;

private:
  struct Entry {
    Implementation implementation;
    NotingFactory factory;
  };
  struct Entries {
    KernelTraits traits;
    std::vector<Entry> all; ///< the last one is asked first
  };
  Result<std::unique_ptr<Kernel>> prepare(const KernelSpec &spec, Implementation &by) const;

  Target runsOn;
  Implementation current;
  std::map<std::string, Entries, std::less<>> entries;
};

/// Plain loops for every kernel, all floats; library zc_reference.
void registerReferenceKernels(KernelRegistry &registry);
/// Reference kernels (plain loops, all floats) overlaid, unless `referenceOnly`, by the fast ones where the CPU has
/// AVX2.
void registerCpuKernels(KernelRegistry &registry, bool referenceOnly = false);

} // namespace zc
