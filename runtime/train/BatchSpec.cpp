//===- BatchSpec.cpp - what a plan says about data ------------------------------------------------===//
#include "runtime/train/BatchSpec.h"
#include "runtime/plan/StepNames.h"
#include "runtime/plan/Walk.h"
#include "runtime/train/Layout.h"

namespace zc::train {

static data::InputSpec specOf(const planpb::Plan &plan, const planpb::Input &input) {
  const planpb::TensorType &type = plan.types(int(input.type()));
  data::InputSpec spec{input.name(), {dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}}, false};
  if (input.has_range()) {
    const planpb::IndexRange &range = input.range();
    spec.range = {range.lowest(), range.limit(), std::nullopt, range.label()};
    if (range.has_ignored())
      spec.range.ignored = range.ignored();
    if (range.has_shift())
      spec.shift = range.shift();
  }
  return spec;
}

data::BatchSpec batchOf(const planpb::Plan &plan) {
  data::BatchSpec batch;
  batch.dataDegree = meshOf(plan).dataDegree();
  batch.accumulation = plan.accumulation();
  for (const planpb::Input &input : plan.inputs())
    batch.inputs.push_back(specOf(plan, input));
  for (const planpb::Step &step : plan.micro().steps())
    if (plan.strings(int(step.kernel())) == kLoadInput)
      if (const planpb::Attribute *input = findAttribute(plan, step, "input"))
        batch.inputs[size_t(input->integer())].used = true;
  return batch;
}

} // namespace zc::train
