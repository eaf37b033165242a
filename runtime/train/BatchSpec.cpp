//===- BatchSpec.cpp - what a plan says about data ------------------------------------------------===//
//
// Which numbers a plan takes in its integer inputs follows from what its steps do with them: an input that a lookup
// reads has as many values as the table has rows, one that a loss reads has the classes. Values are followed through
// the steps that only move them; each slice holds one value (VerifySteps).
//
//===----------------------------------------------------------------------===//
#include "runtime/plan/Walk.h"
#include "runtime/train/Layout.h"
#include "runtime/train/Train.h"

#include <algorithm>
#include <map>

namespace zc::train {

namespace {

/// A graph input's elements in a slice.
struct Moved {
  size_t input = 0;
  int64_t shift = 0; ///< element t of the last dimension is the input's t + shift
};

class InputUses {
public:
  InputUses(const planpb::Plan &plan, data::BatchSpec &batch) : plan(plan), batch(batch) {}
  void see(const planpb::Step &step);

private:
  using Use = void (InputUses::*)(const planpb::Step &);
  void load(const planpb::Step &step);
  void move(const planpb::Step &step);
  void pad(const planpb::Step &step);
  void slice(const planpb::Step &step);
  void lookUp(const planpb::Step &step);
  void loss(const planpb::Step &step);
  void head(const planpb::Step &step) { headAt(step, 1); }
  void headGrad(const planpb::Step &step) { headAt(step, 2); }
  void headAt(const planpb::Step &step, int labels);
  void labelIndex(const planpb::Step &step);

  const Moved *movedTo(const planpb::Step &step, int operand) const;
  void pass(const planpb::Step &step, int64_t shift);
  void limit(const Moved &moved, data::IndexRange range);
  void label(const planpb::Step &step, const Moved &moved, int64_t classes);
  int64_t integer(const planpb::Step &step, const char *name, int64_t otherwise) const {
    const planpb::Attribute *attribute = findAttribute(plan, step, name);
    return attribute ? attribute->integer() : otherwise;
  }
  /// The last of a list of integers.
  int64_t last(const planpb::Step &step, const char *name) const {
    const planpb::Attribute *attribute = findAttribute(plan, step, name);
    return attribute && attribute->integers_size() > 0 ? attribute->integers(attribute->integers_size() - 1) : 0;
  }

  const planpb::Plan &plan;
  data::BatchSpec &batch;
  std::map<std::pair<uint32_t, uint64_t>, Moved> moved; ///< by slice and offset
};

void InputUses::see(const planpb::Step &step) {
  static const std::map<std::string, Use> kUses = {{"load_input", &InputUses::load},
                                                   {"h2d", &InputUses::move},
                                                   {"d2h", &InputUses::move},
                                                   {"cast", &InputUses::move},
                                                   {"pad", &InputUses::pad},
                                                   {"slice", &InputUses::slice},
                                                   {"gather", &InputUses::lookUp},
                                                   {"cross_entropy", &InputUses::loss},
                                                   {"linear_cross_entropy", &InputUses::head},
                                                   {"linear_cross_entropy_grad", &InputUses::headGrad},
                                                   {"label_index", &InputUses::labelIndex}};
  auto use = kUses.find(plan.strings(int(step.kernel())));
  if (use != kUses.end())
    return (this->*use->second)(step);
  for (int i = int(step.inputs()); i < step.operands_size(); ++i) // another value now
    moved.erase({step.operands(i).slice(), step.operands(i).offset()});
}

const Moved *InputUses::movedTo(const planpb::Step &step, int operand) const {
  if (operand >= step.operands_size())
    return nullptr;
  auto found = moved.find({step.operands(operand).slice(), step.operands(operand).offset()});
  return found == moved.end() ? nullptr : &found->second;
}

/// The step's one output has the elements of its first operand, `shift` further on.
void InputUses::pass(const planpb::Step &step, int64_t shift) {
  if (step.operands_size() != 2)
    return;
  const Moved *from = movedTo(step, 0);
  const planpb::Operand &to = step.operands(1);
  DType type = dtypeOf(plan.types(int(to.type())).type());
  if (from && (type == DType::i64 || type == DType::i32)) // a mask is no index
    moved[{to.slice(), to.offset()}] = Moved{from->input, from->shift + shift};
  else
    moved.erase({to.slice(), to.offset()});
}

void InputUses::load(const planpb::Step &step) {
  int64_t index = integer(step, "input", -1);
  if (uint64_t(index) >= batch.inputs.size() || step.operands_size() < 1)
    return;
  batch.inputs[size_t(index)].used = true;
  moved[{step.operands(0).slice(), step.operands(0).offset()}] = Moved{size_t(index), 0};
}

void InputUses::move(const planpb::Step &step) { pass(step, 0); }
void InputUses::pad(const planpb::Step &step) { pass(step, -last(step, "low")); }
void InputUses::slice(const planpb::Step &step) { pass(step, last(step, "offsets")); }

void InputUses::limit(const Moved &moved, data::IndexRange range) { batch.inputs[moved.input].range.meet(range); }

/// Operand 0 is a table, 1 the indices; negative ones count from its end.
void InputUses::lookUp(const planpb::Step &step) {
  const Moved *indices = movedTo(step, 1);
  if (!indices)
    return;
  const planpb::TensorType &table = plan.types(int(step.operands(0).type()));
  int64_t axis = integer(step, "axis", 0);
  if (axis >= 0 && axis < table.dims_size())
    limit(*indices, {-table.dims(int(axis)), table.dims(int(axis)), std::nullopt, false});
}

void InputUses::label(const planpb::Step &step, const Moved &moved, int64_t classes) {
  data::IndexRange range{0, classes, std::nullopt, true};
  if (const planpb::Attribute *ignored = findAttribute(plan, step, "ignore_index"))
    range.ignored = ignored->integer();
  limit(moved, range);
  batch.inputs[moved.input].shift = moved.shift;
}

void InputUses::loss(const planpb::Step &step) {
  const Moved *labels = movedTo(step, 1);
  if (!labels)
    return;
  const planpb::TensorType &logits = plan.types(int(step.operands(0).type()));
  if (logits.dims_size() > 0)
    label(step, *labels, logits.dims(logits.dims_size() - 1));
}

/// A layer and its loss: behind the labels stands the weight, one of whose dimensions are the classes.
void InputUses::headAt(const planpb::Step &step, int labels) {
  const Moved *moved = movedTo(step, labels);
  if (!moved || step.operands_size() <= labels + 1)
    return;
  const planpb::TensorType &weight = plan.types(int(step.operands(labels + 1).type()));
  if (int at = integer(step, "trans_weight", 0) ? 0 : 1; weight.dims_size() > at)
    label(step, *moved, weight.dims(at));
}

void InputUses::labelIndex(const planpb::Step &step) {
  if (const Moved *labels = movedTo(step, 0))
    label(step, *labels, integer(step, "classes", 0));
}

} // namespace

data::BatchSpec batchOf(const planpb::Plan &plan) {
  data::BatchSpec batch;
  batch.dataDegree = meshOf(plan).dataDegree();
  batch.accumulation = plan.accumulation();
  for (const planpb::Input &input : plan.inputs()) {
    const planpb::TensorType &type = plan.types(int(input.type()));
    batch.inputs.push_back({input.name(), {dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}}, false});
  }
  InputUses uses(plan, batch);
  for (const planpb::Step &step : plan.micro().steps())
    uses.see(step);
  return batch;
}

} // namespace zc::train
