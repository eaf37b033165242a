//===- TestPlan.h - small plans written by hand -------------------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "runtime/exec/Executor.h"
#include "runtime/plan/PlanMesh.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace zc::test {

/// Appends to a plan by name; slices are laid out one after the other.
class PlanBuilder {
public:
  PlanBuilder(const Mesh &mesh, uint32_t accumulation);
  /// Data-parallel ranks on one node.
  PlanBuilder(uint32_t worldSize, uint32_t accumulation);

  uint32_t string(const std::string &text);
  uint32_t type(planpb::Type type, std::vector<int64_t> dims);
  /// `at`: byte offset, or after the last one of its tier.
  uint32_t slice(const std::string &name, uint64_t bytes, bool persistent, int64_t at = -1,
                 planpb::Tier tier = planpb::DEVICE);
  /// Made when first asked for.
  uint32_t arena(planpb::Tier tier);
  planpb::Step &step(uint32_t section, planpb::Queue queue, const std::string &kernel, uint32_t inputs,
                     std::initializer_list<planpb::Operand> operands);
  void integer(planpb::Step &step, const std::string &name, int64_t value);
  void real(planpb::Step &step, const std::string &name, double value);
  void text(planpb::Step &step, const std::string &name, const std::string &value);
  static planpb::Operand operand(uint32_t slice, uint32_t type, planpb::Access access, uint64_t offset = 0,
                                 std::vector<uint64_t> strides = {});
  /// The strides of the own part, of so many bytes, of what is cut over `axes`.
  std::vector<uint64_t> ownStrides(AxisSet axes, uint64_t bytes) const;
  /// A collective runs along them, or a bucket is cut over them.
  template <typename Message> static void along(Message &message, AxisSet axes) {
    for (uint32_t axis = 0; axis < Mesh::kMaxAxes; ++axis)
      if (axes.has(axis))
        message.add_axes(axis);
  }

  Mesh mesh;
  planpb::Plan plan;
};

/// 100 parameters in one bucket of 128 (`W` ranks, G micro-steps): load_input on H2D, gradient and loss on COMPUTE,
/// reduce-scatter on COMM; the update changes a shard in place, gathers, and sums the loss. Waits are computed.
planpb::Plan tinyPlan(uint32_t worldSize = 2, uint32_t accumulation = 2);
/// The same on a mesh of data axes.
planpb::Plan tinyPlan(const Mesh &mesh, uint32_t accumulation);
/// tinyPlan with weights and update on the host, delayed after step `after`; without waits.
planpb::Plan delayedPlanWithoutWaits(uint32_t worldSize, uint32_t accumulation, uint64_t after);
/// tinyPlan on a mesh whose axis `model`, the innermost, is not of data: its ranks compute each a part of the gradient
/// and of the loss, and put them together along `model`; the bucket is cut over the data axes. Its parameters have the
/// bits of the tinyPlan of so many ranks as there are data-parallel ones.
planpb::Plan modelPlan(const Mesh &mesh, uint32_t accumulation);
/// As tinyPlan, without waits.
planpb::Plan tinyPlanWithoutWaits(uint32_t worldSize = 2, uint32_t accumulation = 2);

/// `steps` steps per section over random queues, reading and writing random slices of the tiers that the queue reaches,
/// some of which share bytes; every transient slice is written before it is read. Kernel "mix" makes all bytes written
/// depend on all bytes read; the queues between tiers copy.
planpb::Plan randomPlan(uint32_t seed, int steps, uint32_t accumulation);

/// test_gradient (p, x -> g = p * x, loss = sum g), test_update (g, p rw: p -= lr g), mix, test_fail (fails at a step,
/// micro-step and rank, or throws), test_slow (takes 300 ms), test_reverse (x -> y, never in place), accumulate_loss.
/// They note what their attribute `note` says.
KernelRegistry testKernels();

/// Element i of an input is a function of input, step, micro-step, data-parallel rank and i.
class TestLoader : public InputLoader {
public:
  explicit TestLoader(int rank) : rank(rank) {}
  static float element(const StepContext &context, int rank, uint64_t i);
  Status load(uint32_t input, const StepContext &context, void *destination, uint64_t bytes) override;

private:
  int rank;
};

} // namespace zc::test
