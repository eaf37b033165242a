//===- Scheduled.h - what operations answer a schedule --------------------------===//
//
// The words of the interface ScheduledOp. They speak of values and tiers, not of queues and slices: these are the
// plan's, and compiler/schedule translates.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

#include "base/Mesh.h"
#include "dialects/zero/ZeroEnums.h.inc"

#include <functional>
#include <optional>

namespace zc::zero {
class BucketOp;

/// What it takes to execute an operation. Who works follows from the kind: for `compute` the processors of `tier`, for
/// `copy` the link from `tier` to `target`. Bytes on the wire and in memory do not add up: the slower counts.
struct Work {
  enum class Kind {
    address,       ///< none, and nobody has to wait for its turn: says where bytes are
    none,          ///< none, in its place among what computes
    compute,       ///< a kernel
    communication, ///< a collective, or what prepares its bytes and takes them in: compute goes on beside it
    copy,          ///< between tiers
  };
  Kind kind = Kind::none;
  Tier tier = Tier::device, target = Tier::device;
  double flops = 0;
  double bytes = 0;          ///< read and written; of a copy, moved
  double gathered = 0;       ///< bytes of a buffer of which each member sends every other member its part
  mlir::ArrayAttr axes = {}; ///< names of those along which these are; null: the data axes

  static Work address() { return {Kind::address}; }
  static Work none() { return {}; }
  static Work compute(Tier tier, double bytes, double flops = 0) { return {Kind::compute, tier, tier, flops, bytes}; }
  /// A kernel beside collectives.
  static Work packing(double bytes) { return {Kind::communication, Tier::device, Tier::device, 0, bytes}; }
  static Work collective(double gathered, mlir::ArrayAttr axes = {}) {
    return {Kind::communication, Tier::device, Tier::device, 0, 0, gathered, axes};
  }
  static Work copy(Tier from, Tier to, double bytes) { return {Kind::copy, from, to, 0, bytes}; }
};

/// Bytes that only the step itself touches: a kernel's scratch, or what peers send of a sum. They live while it runs.
struct Workspace {
  int64_t bytes = 0;
  Tier tier = Tier::device;
};

/// What outlives the step and is no value.
struct State {
  enum class Kind { none, parameter, storage, losses, norm };
  Kind kind = Kind::none;
  mlir::FlatSymbolRefAttr symbol = {}; ///< of the parameter, or of the bucket of a storage
  Storage what = Storage::parameters;  ///< of a storage

  explicit operator bool() const { return kind != Kind::none; }
  static State parameter(mlir::FlatSymbolRefAttr symbol) { return {Kind::parameter, symbol}; }
  static State storage(mlir::FlatSymbolRefAttr bucket, Storage what) { return {Kind::storage, bucket, what}; }
  /// The step's sums: of losses, and of their weights where they have some; one f64 each.
  static State losses() { return {Kind::losses, {}}; }
  /// The norm of the step's gradients, one f32.
  static State norm() { return {Kind::norm, {}}; }
};

/// Where the bytes of a result are: among an operand's, among what outlives the step, or in bytes of its own.
struct ResultPlace {
  mlir::Value within = {};                    ///< an operand, or null
  State state = {};                           ///< else
  int64_t offset = 0;                         ///< bytes, from the begin of the operand or state
  llvm::SmallVector<int64_t, 2> strides = {}; ///< bytes by axis of the mesh: times the rank's coordinate, added too
  bool fromFirstUse = false; ///< bytes of its own live from their first use on, not from this operation on
  bool activation = false;   ///< ... and the report counts them as one
};

/// What an operation may have to know of its module. Valid as long as buckets stay what they are.
class ScheduleContext {
public:
  explicit ScheduleContext(mlir::ModuleOp module);
  BucketOp bucketOf(mlir::FlatSymbolRefAttr name) const;
  /// What peers send of a sum over `members` is staged beside what is summed in `tier`: of a reduce-scatter to parts of
  /// `part` elements, of an all-reduce of `whole` elements (runtime/comm/Staging.h).
  Workspace stagingOfReduceScatter(int64_t members, int64_t part, mlir::Type element, Tier tier) const;
  Workspace stagingOfAllReduce(int64_t members, int64_t whole, mlir::Type element, Tier tier) const;

  mlir::ModuleOp module;
  Mesh mesh;
  int64_t stage = 0, accumulation = 1;

private:
  llvm::StringMap<mlir::Operation *> buckets;
};

enum class Access { read, write, readWrite };

/// An operand of a step: bytes of a value, or of what outlives the step.
struct StepOperand {
  Access access = Access::read;
  mlir::Value value = {};
  State state = {};                           ///< where there is no value
  mlir::RankedTensorType type = {};           ///< as the kernel sees them; null: as the value says
  int64_t offset = 0;                         ///< elements of `type`, from the value's begin
  llvm::SmallVector<int64_t, 2> strides = {}; ///< bytes by axis of the mesh, as in ResultPlace
};

/// A step: a kernel on operands, inputs first.
struct Step {
  explicit Step(llvm::StringRef kernel) : kernel(kernel) {}
  std::string kernel; ///< empty: the copy of the link that executes it
  int64_t numInputs = 0;
  llvm::SmallVector<StepOperand, 4> operands;
  llvm::SmallVector<mlir::NamedAttribute, 4> attributes;
  std::optional<AxisSet> axes; ///< of a collective

  Step &input(mlir::Value value) {
    ++numInputs;
    return operand({Access::read, value, {}, {}, 0});
  }
  Step &output(mlir::Value value, Access access = Access::write) { return operand({access, value, {}, {}, 0}); }
  Step &operand(StepOperand operand) {
    operands.push_back(operand);
    return *this;
  }
  Step &set(llvm::StringRef name, mlir::Attribute value) {
    attributes.emplace_back(mlir::StringAttr::get(value.getContext(), name), value);
    return *this;
  }
};

/// What an operation may have to know to say which step it becomes: bytes have places by then.
class StepContext : public ScheduleContext {
public:
  using ScheduleContext::ScheduleContext;
  std::function<bool(const StepOperand &, const StepOperand &)> samePlace; ///< do two operands begin at one byte?
  int64_t numOutputs = 0;                                                  ///< so far, numbered as their steps
};

} // namespace zc::zero

#include "dialects/zero/ZeroInterfaces.h.inc"
