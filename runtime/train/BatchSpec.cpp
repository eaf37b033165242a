//===- BatchSpec.cpp - what a plan says about data ------------------------------------------------===//
//
// Which numbers a plan takes in its integer inputs follows from what its steps do with them: an input that a lookup
// reads has as many values as the table has rows, one that a loss reads has the classes. Values are followed through
// the steps that only move them, and through those by which a rank finds its rows of a table that is cut: the position
// is the index, of a negative one with all rows added, and is checked by a label_index. Each slice holds one value
// (VerifySteps).
//
//===----------------------------------------------------------------------===//
#include "runtime/train/BatchSpec.h"
#include "runtime/plan/Walk.h"
#include "runtime/train/Layout.h"

#include <algorithm>
#include <map>

namespace zc::train {

namespace {

/// What a slice has of a graph input.
struct Moved {
  enum class What {
    elements,
    negative, ///< are they below 0?
    fromEnd,  ///< elements plus `rows`
    position, ///< elements, of negative ones those plus `rows`
  };
  /// How much of the input it is: what one column must hold another need not.
  enum class Share { all, most, few };
  size_t input = 0;
  int64_t shift = 0; ///< element t of the last dimension is of the input's t + shift
  What what = What::elements;
  int64_t rows = 0;
  Share share = Share::all;

  bool isOf(const Moved *other, What kind) const {
    return other && other->what == kind && other->input == input && other->shift == shift;
  }
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
  void constant(const planpb::Step &step);
  void less(const planpb::Step &step);
  void add(const planpb::Step &step);
  void select(const planpb::Step &step);

  using Place = std::pair<uint32_t, uint64_t>; ///< slice and offset
  static Place placeOf(const planpb::Operand &operand) { return {operand.slice(), operand.offset()}; }
  static Place outputOf(const planpb::Step &step) { return placeOf(step.operands(step.operands_size() - 1)); }
  const Moved *follow(const planpb::Step &step, int operand) const;
  /// The input's elements themselves.
  const Moved *movedTo(const planpb::Step &step, int operand) const {
    const Moved *found = follow(step, operand);
    return found && found->what == Moved::What::elements ? found : nullptr;
  }
  std::optional<int64_t> numberAt(const planpb::Step &step, int operand) const;
  void forgetOutputs(const planpb::Step &step);
  Moved::Share shareOf(const planpb::Step &step, const Moved &from) const;
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
  std::map<Place, Moved> moved;
  std::map<Place, int64_t> numbers; ///< scalar constants
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
                                                   {"label_index", &InputUses::labelIndex},
                                                   {"constant", &InputUses::constant},
                                                   {"less", &InputUses::less},
                                                   {"add", &InputUses::add},
                                                   {"select", &InputUses::select}};
  auto use = kUses.find(plan.strings(int(step.kernel())));
  if (use != kUses.end())
    return (this->*use->second)(step);
  forgetOutputs(step);
}

/// They have other values now.
void InputUses::forgetOutputs(const planpb::Step &step) {
  for (int i = int(step.inputs()); i < step.operands_size(); ++i) {
    moved.erase(placeOf(step.operands(i)));
    numbers.erase(placeOf(step.operands(i)));
  }
}

const Moved *InputUses::follow(const planpb::Step &step, int operand) const {
  if (operand >= step.operands_size())
    return nullptr;
  auto found = moved.find(placeOf(step.operands(operand)));
  return found == moved.end() ? nullptr : &found->second;
}

std::optional<int64_t> InputUses::numberAt(const planpb::Step &step, int operand) const {
  if (operand >= step.operands_size())
    return std::nullopt;
  auto found = numbers.find(placeOf(step.operands(operand)));
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

/// Of the input, what the step's output is whose first operand is `from`.
Moved::Share InputUses::shareOf(const planpb::Step &step, const Moved &from) const {
  int64_t all = batch.inputs[from.input].type.numElements(), taken = 1;
  for (int64_t dim : plan.types(int(step.operands(1).type())).dims())
    taken *= dim;
  return std::max(from.share, taken >= all      ? Moved::Share::all
                              : taken > all / 2 ? Moved::Share::most
                                                : Moved::Share::few);
}

/// The step's one output has the elements of its first operand, `shift` further on.
void InputUses::pass(const planpb::Step &step, int64_t shift) {
  if (step.operands_size() != 2)
    return;
  const Moved *from = movedTo(step, 0);
  DType type = dtypeOf(plan.types(int(step.operands(1).type())).type());
  const std::optional<Moved> found =
      from && (type == DType::i64 || type == DType::i32) // a mask is no index
          ? std::optional(Moved{from->input, from->shift + shift, Moved::What::elements, 0, shareOf(step, *from)})
          : std::nullopt;
  forgetOutputs(step);
  if (found)
    moved[outputOf(step)] = *found;
}

void InputUses::load(const planpb::Step &step) {
  int64_t index = integer(step, "input", -1);
  if (uint64_t(index) >= batch.inputs.size() || step.operands_size() < 1)
    return;
  batch.inputs[size_t(index)].used = true;
  forgetOutputs(step);
  moved[outputOf(step)] = Moved{size_t(index), 0};
}

void InputUses::move(const planpb::Step &step) { pass(step, 0); }
void InputUses::pad(const planpb::Step &step) { pass(step, -last(step, "low")); }
void InputUses::slice(const planpb::Step &step) { pass(step, last(step, "offsets")); }

void InputUses::limit(const Moved &moved, data::IndexRange range) { batch.inputs[moved.input].range.meet(range); }

/// Operand 0 is a table, 1 the indices; negative ones count from its end. Those of a part of the input are seen where
/// they are used.
void InputUses::lookUp(const planpb::Step &step) {
  const Moved *indices = movedTo(step, 1);
  if (!indices || indices->share != Moved::Share::all)
    return;
  const planpb::TensorType &table = plan.types(int(step.operands(0).type()));
  int64_t axis = integer(step, "axis", 0);
  if (axis >= 0 && axis < table.dims_size())
    limit(*indices, {-table.dims(int(axis)), table.dims(int(axis)), std::nullopt, false});
}

/// Labels that were moved on are most of the input, those of one of several tasks a column.
void InputUses::label(const planpb::Step &step, const Moved &moved, int64_t classes) {
  if (moved.share == Moved::Share::few)
    return;
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
  const int64_t classes = integer(step, "classes", 0);
  const Moved *from = follow(step, 0);
  if (from && from->what == Moved::What::elements)
    label(step, *from, classes);
  else if (from && from->what == Moved::What::position && from->rows == classes && from->share == Moved::Share::all)
    limit(*from, {-classes, classes, std::nullopt, false});
  forgetOutputs(step);
}

void InputUses::constant(const planpb::Step &step) {
  forgetOutputs(step);
  const planpb::Attribute *value = findAttribute(plan, step, "value");
  if (value && step.operands_size() == 1 && plan.types(int(step.operands(0).type())).dims_size() == 0)
    numbers[outputOf(step)] = value->integer(); // 0 of a float, which no index is compared with
}

void InputUses::less(const planpb::Step &step) {
  const Moved *from = movedTo(step, 0);
  const std::optional<Moved> found =
      from && numberAt(step, 1) == 0
          ? std::optional(Moved{from->input, from->shift, Moved::What::negative, 0, from->share})
          : std::nullopt;
  forgetOutputs(step);
  if (found && step.operands_size() == 3)
    moved[outputOf(step)] = *found;
}

void InputUses::add(const planpb::Step &step) {
  const Moved *from = movedTo(step, 0);
  const std::optional<int64_t> rows = numberAt(step, 1);
  const std::optional<Moved> found =
      from && rows ? std::optional(Moved{from->input, from->shift, Moved::What::fromEnd, *rows, from->share})
                   : std::nullopt;
  forgetOutputs(step);
  if (found && step.operands_size() == 3)
    moved[outputOf(step)] = *found;
}

void InputUses::select(const planpb::Step &step) {
  const Moved *from = movedTo(step, 2), *fromEnd = follow(step, 1);
  const bool isPosition =
      from && from->isOf(follow(step, 0), Moved::What::negative) && from->isOf(fromEnd, Moved::What::fromEnd);
  const std::optional<Moved> found =
      isPosition ? std::optional(Moved{from->input, from->shift, Moved::What::position, fromEnd->rows, from->share})
                 : std::nullopt;
  forgetOutputs(step);
  if (found && step.operands_size() == 4)
    moved[outputOf(step)] = *found;
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
