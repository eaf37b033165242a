//===- Options.h - what the schedule stage can be told ------------------------------===//
#pragma once

#include "compiler/options/Budgets.h"
#include "compiler/options/OptionList.h"
#include "compiler/schedule/MachineModel.h"
#include "kernels/Target.h"

namespace zc {

/// Which waits of one queue for another, for memory's sake, a plan spares.
enum class Overlap {
  none,    ///< none: the least memory
  planned, ///< those where all takes as long as expected
  slower,  ///< also those where links are slower than expected
};
constexpr std::array<const char *, 3> namesOf(Overlap) { return {"none", "planned", "slower"}; }

/// What goes on while ranks that share samples sum what they multiplied.
enum class TensorParallelOverlap {
  off,    ///< what there is besides
  halves, ///< the product itself: of two halves of its rows the second beside the first one's sum, where that pays
};
constexpr std::array<const char *, 2> namesOf(TensorParallelOverlap) { return {"off", "halves"}; }

/// Do kernels keep what they make of weights from micro-step to micro-step?
enum class KeepPacked {
  off,
  on, ///< as far as the device has room
};
constexpr std::array<const char *, 2> namesOf(KeepPacked) { return {"off", "on"}; }

struct ScheduleOptions {
  int64_t prefetch = -1; ///< bytes gathered ahead; -1: auto
  MachineChoice machine; ///< not given: default rates
  Target target = Target::cpu;
  Budgets budgets;
  Overlap overlap = Overlap::slower;
  TensorParallelOverlap overlapTensorParallel = TensorParallelOverlap::off;
  KeepPacked keepPacked = KeepPacked::on;
};

void listOptions(ScheduleOptions &options, OptionList &list);
/// They always go together.
inline Status validate(const ScheduleOptions &) { return Status::success(); }

} // namespace zc
