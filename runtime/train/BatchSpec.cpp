//===- BatchSpec.cpp - what a plan says about data ------------------------------------------------===//
#include "runtime/plan/Walk.h"
#include "runtime/train/Layout.h"
#include "runtime/train/Train.h"

namespace zc::train {

/// Rows of the table that a lookup on axis 0 with `indices` reads; 0 when there is none.
static int64_t rowsLookedUp(const planpb::Plan &plan, const planpb::Operand &indices) {
  for (const planpb::Step &step : plan.micro().steps()) {
    if (plan.strings(int(step.kernel())) != "gather" || step.operands_size() < 2)
      continue;
    const planpb::Operand &table = step.operands(0), &index = step.operands(1);
    const planpb::Attribute *axis = findAttribute(plan, step, "axis");
    const planpb::TensorType &type = plan.types(int(table.type()));
    if (index.slice() == indices.slice() && index.offset() == indices.offset() && type.dims_size() > 0 &&
        (!axis || axis->integer() == 0))
      return type.dims(0);
  }
  return 0;
}

data::BatchSpec batchOf(const planpb::Plan &plan) {
  data::BatchSpec batch;
  batch.dataDegree = meshOf(plan).dataDegree();
  batch.accumulation = plan.accumulation();
  for (const planpb::Input &input : plan.inputs()) {
    const planpb::TensorType &type = plan.types(int(input.type()));
    batch.inputs.push_back({input.name(), {dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}}, false});
  }
  for (const planpb::Step &step : plan.micro().steps()) {
    if (plan.strings(int(step.kernel())) != "load_input")
      continue;
    const planpb::Attribute *index = findAttribute(plan, step, "input");
    if (!index || uint64_t(index->integer()) >= batch.inputs.size() || step.operands_size() < 1)
      continue;
    data::InputSpec &input = batch.inputs[size_t(index->integer())];
    input.used = true;
    if (input.name == "input_ids")
      batch.vocabulary = rowsLookedUp(plan, step.operands(0));
  }
  return batch;
}

} // namespace zc::train
