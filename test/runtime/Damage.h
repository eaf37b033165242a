//===- Damage.h - changes to a plan that verifies ------------------------------===//
//
// Most make it one that does not; some add what it then has to hold.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/StridedView.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <initializer_list>

namespace zc::test {
using planpb::Plan;

planpb::Step *micro(Plan &plan, int i);
planpb::Step *update(Plan &plan, int i);
void setAxes(planpb::Step *step, std::initializer_list<uint32_t> axes);
void setStrides(planpb::Operand *operand, std::initializer_list<uint64_t> strides);
/// Parameter 0 moves into a buffer slice of its own.
void makeBuffer(Plan &plan, bool persistent, uint64_t bytes);
/// A persistent slice on a tier, in an arena of that tier; its index.
int addSlice(Plan &plan, uint64_t bytes, planpb::Tier tier);
/// Reads the parameters and hands over a loss, in the bytes of the micro-step's transients.
void addEvaluation(Plan &plan);
/// The update is delayed, though no step publishes.
void delay(Plan &plan);
/// The plan trains in fp16; none of its steps is a norm_finish.
void scaleLoss(Plan &plan, double initial = 65536, double minimum = 1, uint64_t hysteresis = 2);
/// A micro-step's step 1 works in a slice added for it.
planpb::Operand *worksIn(Plan &plan, planpb::Tier tier, bool persistent = false);
/// Has the first kernel of micro keep what it makes of its parameters; a plan that verifies still does.
planpb::Kept *keeps(Plan &plan, planpb::Tier tier = planpb::DEVICE, bool persistent = false);
/// A step that writes over it.
void overwriteKept(Plan &plan);
/// A micro-step's step 1, of two inputs and two outputs of 128, 128, 128 and 1 elements, has the attribute `views`.
void addViewWords(Plan &plan, const std::vector<int64_t> &words);
void seeThrough(Plan &plan, const std::vector<StridedView> &views);
uint32_t addString(Plan &plan, const char *text);
/// A step that hands over output 0, which there is not.
void addOutputStep(Plan &plan, uint32_t section);
/// A step that copies `bytes` bytes from slice to slice at the end of the update.
planpb::Step &addCopy(Plan &plan, const char *kernel, planpb::Queue queue, uint32_t from, uint32_t to, int64_t bytes);
/// A copy of a host slice to an nvme slice of `bytes` bytes, of `moved` bytes from byte `offset` on.
planpb::Step &addSpill(Plan &plan, uint64_t bytes, uint64_t moved, uint64_t offset = 0);
void addThreadShare(Plan &plan, planpb::Queue queue, uint32_t thousandths);
void addSecondParameter(Plan &plan, uint64_t offset);

} // namespace zc::test
