//===- Picks.cpp - rows by position: taken out and put back ---------------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/rows/Finite.h"
#include "compiler/import/rows/PickedRows.h"
#include "dialects/graph/Gradient.h"

#include <limits>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

using Dims = llvm::SmallVector<int64_t>;

constexpr int64_t mostCopies = 64; ///< rows that may go to one place in turn

//===-- positions ------------------------------------------------------------------===//

Result<Value> PickedRows::positions(Value condition, Location loc) {
  TensorBuilder on(builder, loc);
  ArrayRef<int64_t> shape = graph::shapeOf(condition);
  int64_t rank = shape.size(), elements = graph::tensorOf(condition).getNumElements();
  Type wide = IntegerType::get(loc.getContext(), 64);
  auto number = [&](double value) { return FloatAttr::get(Float64Type::get(loc.getContext()), value); };
  llvm::SmallVector<Value> coordinates;
  Places places{Dims(shape), rank == 1 ? -1 : 0, {}};
  for (int64_t d = 0; d < rank; ++d) {
    Dims one(rank, 1);
    one[d] = shape[d];
    Value index = on.make<IotaOp>(TypeAttr::get(RankedTensorType::get({shape[d]}, wide)), number(0), number(1));
    coordinates.push_back(on.reshape(on.expand(on.reshape(index, one), shape), {1, elements}));
    places.list.push_back({0, Dims(rank, 0)});
    places.list.back().steps[d] = 1;
  }
  Value all = rank == 1 ? coordinates[0] : on.make<ConcatOp>(coordinates, uint64_t(0));
  infos[all] = {{RowMask(), maskOf(condition)}, std::move(places)};
  return all;
}

namespace {

/// `a` op `b` by coefficients.
Place combined(const Place &a, const Place &b, int64_t sign) {
  Place sum = a;
  sum.offset += sign * b.offset;
  for (size_t d = 0; d < sum.steps.size(); ++d)
    sum.steps[d] += sign * b.steps[d];
  return sum;
}

Place scaled(Place place, int64_t factor) {
  place.offset *= factor;
  for (int64_t &step : place.steps)
    step *= factor;
  return place;
}

/// Where the dimension that lists several positions goes in a reshape; nothing if it is taken apart.
std::optional<int64_t> listedDim(ArrayRef<int64_t> from, int64_t along, ArrayRef<int64_t> to) {
  int64_t before = 1, found = 1;
  for (int64_t size : from.take_front(along))
    before *= size;
  for (size_t d = 0; d < to.size(); found *= to[d++])
    if (found == before && to[d] == from[along])
      return static_cast<int64_t>(d);
  return std::nullopt;
}

/// A list of one is one for all elements.
Places listing(Places places, ArrayRef<Place> list, int64_t along) {
  places.list.assign(list.begin(), list.end());
  places.along = list.size() == 1 ? -1 : along;
  return places;
}

} // namespace

/// Some of the positions that a tensor lists, by number.
static std::optional<Places> someOf(const Places &places, ArrayRef<int64_t> which) {
  llvm::SmallVector<Place> list;
  for (int64_t i : which)
    list.push_back(places.list[i]);
  return list.empty() ? std::nullopt : std::optional(listing(places, list, places.along));
}

/// Tensors of positions side by side.
std::optional<Places> PickedRows::placesJoined(Operation *op, int64_t axis, const Places &first) const {
  llvm::SmallVector<Place> list;
  for (Value operand : op->getOperands()) {
    const Places *own = placesOf(operand);
    bool isListed = own && (own->along == axis || (own->along < 0 && graph::shapeOf(operand)[axis] == 1));
    if (!isListed || own->shape != first.shape)
      return std::nullopt;
    list.append(own->list.begin(), own->list.end());
  }
  return listing(first, list, axis);
}

/// Sums of positions and numbers, and products with a number.
std::optional<Places> PickedRows::placesComputed(Operation *op, const Places &first) const {
  auto numberAt = [&](unsigned i) -> std::optional<int64_t> {
    const HostTensor *known = constants.of(op->getOperand(i));
    return known && known->stored() == 1 && !known->isFloat() ? std::optional(known->intAt(0)) : std::nullopt;
  };
  auto placeAt = [&](unsigned i) -> std::optional<Place> {
    const Places *own = placesOf(op->getOperand(i));
    if (own && own->along < 0 && own->shape == first.shape)
      return own->list.front();
    std::optional<int64_t> number = own ? std::nullopt : numberAt(i);
    return number ? std::optional(Place{*number, Dims(first.shape.size(), 0)}) : std::nullopt;
  };
  if (!isa<AddOp, SubOp, MulOp>(op) || first.along >= 0)
    return std::nullopt;
  std::optional<Place> a = placeAt(0), b = placeAt(1);
  if (!a || !b)
    return std::nullopt;
  if (!isa<MulOp>(op))
    return listing(first, combined(*a, *b, isa<AddOp>(op) ? 1 : -1), -1);
  std::optional<int64_t> left = numberAt(0), right = numberAt(1);
  if (bool(left) == bool(right))
    return std::nullopt;
  return listing(first, left ? scaled(*b, *left) : scaled(*a, *right), -1);
}

/// What is known of the positions that a shape operation or arithmetic makes of positions.
std::optional<Places> PickedRows::placesThrough(Operation *op) const {
  const Places *in = nullptr;
  for (Value operand : op->getOperands())
    in = in ? in : placesOf(operand);
  if (!in || op->getNumResults() != 1 || !isa<IntegerType>(elementOf(op->getResult(0))))
    return std::nullopt;
  bool isListed = in->along >= 0;
  ArrayRef<int64_t> from = graph::shapeOf(op->getOperand(0)), to = graph::shapeOf(op->getResult(0));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    return listing(*in, in->list, llvm::find(permutation, in->along) - permutation.begin());
  }
  if (isa<ReshapeOp>(op) && isListed) {
    auto along = listedDim(from, in->along, to);
    return along ? std::optional(listing(*in, in->list, *along)) : std::nullopt;
  }
  if (isa<ExpandOp>(op))
    return listing(*in, in->list, in->along + int64_t(to.size() - from.size()));
  if (isa<CastOp, ReshapeOp>(op) || (isa<SliceOp>(op) && !isListed))
    return *in;
  llvm::SmallVector<int64_t> which;
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (int64_t i = 0, n = slice.getSizes()[in->along]; i < n; ++i)
      which.push_back(slice.getOffsets()[in->along] + i * slice.getStrides()[in->along]);
    return someOf(*in, which);
  }
  if (auto gather = dyn_cast<GatherOp>(op)) {
    const HostTensor *known = constants.of(gather.getIndices());
    if (!known || known->rank() > 1 || int64_t(gather.getAxis()) != in->along)
      return std::nullopt;
    for (int64_t i = 0, n = known->numElements(), size = in->list.size(); i < n; ++i)
      which.push_back(known->intAt(i) < 0 ? known->intAt(i) + size : known->intAt(i));
    return someOf(*in, which);
  }
  if (auto concat = dyn_cast<ConcatOp>(op))
    return placesJoined(op, int64_t(concat.getAxis()), *in);
  return placesComputed(op, *in);
}

//===-- taking out -----------------------------------------------------------------===//

/// Of a tensor [.., places, ..] along `axis`, the rows at `place`: a reshape where these are all of them in order, and
/// finite. What may be infinite becomes 1 where it does not count; integers 0, which is a class and an index.
Result<PickedRows::Values> PickedRows::pick(Operation *op, Value data, Value indices, const Place &place,
                                            int64_t axis) {
  const Places &places = *placesOf(indices);
  if (isAny(data))
    return rowsError(op, "picks by a mask from rows that a mask picked",
                     "pick once, by both masks: x[mask & other] on all rows");
  TensorBuilder on(builder, op->getLoc());
  int64_t size = graph::shapeOf(data)[axis], dim = axis;
  std::optional<PlaceGrid> grid = gridOf(place, places.shape, size);
  Value rows = op->getResult(0);
  if (!grid) {
    neutralizeIndices(op); // positions + 1 of a row that does not count need not be in the data
    builder.setInsertionPointAfter(op);
  }
  if (grid)
    rows = on.reshape(takeAlong(on, data, axis, places.shape, *grid), graph::shapeOf(rows));
  RowMask mask;
  for (auto [d, own] : llvm::enumerate(masksOf(indices)))
    if (own)
      mask = own, dim += int64_t(d);
  if (rows == data) // a value of its own: the tensor itself has all rows
    rows = on.make<ReshapeOp>(data, graph::shapeOf(data));
  Type element = elementOf(rows);
  if (isa<FloatType>(element) ? !isFinite(data, constants) : !element.isInteger(1))
    rows = replaced(on, rows, dim, mask, isa<FloatType>(element) ? 1 : 0);
  infos[rows].masks.resize(graph::tensorOf(rows).getRank());
  infos[rows].masks[dim] = mask;
  return Values{rows};
}

//===-- putting back ---------------------------------------------------------------===//

namespace {

/// What leaves an element as it is under a scatter's reduction.
std::optional<double> neutralOf(ScatterReduction reduction) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (reduction) {
  case ScatterReduction::add:
    return 0;
  case ScatterReduction::mul:
    return 1;
  case ScatterReduction::min:
    return infinity;
  case ScatterReduction::max:
    return -infinity;
  case ScatterReduction::none:
    break;
  }
  return std::nullopt;
}

Value reduced(TensorBuilder &on, ScatterReduction reduction, Value data, Value updates) {
  switch (reduction) {
  case ScatterReduction::add:
    return on.add(data, updates);
  case ScatterReduction::mul:
    return on.mul(data, updates);
  case ScatterReduction::min:
    return on.make<MinOp>(data, updates);
  case ScatterReduction::max:
    return on.make<MaxOp>(data, updates);
  case ScatterReduction::none:
    break;
  }
  return updates;
}

Value sliceOff(TensorBuilder &on, Value value, int64_t index) {
  Shape offsets(graph::tensorOf(value).getRank(), 0), sizes(shapeOf(value)), strides(offsets.size(), 1);
  offsets[0] = index;
  sizes[0] = 1;
  Value slice = on.make<SliceOp>(value, offsets, sizes, strides);
  return on.reshape(slice, shapeOf(value).drop_front());
}

} // namespace

/// Rows `updates` [.., rows, ..] into data [.., places, ..] along `axis`, where they count. Of several rows for one
/// place the last wins, as in a scatter.
Result<PickedRows::Values> PickedRows::put(Operation *op, Value data, Value indices, Value updates, const Place &place,
                                           int64_t axis, ScatterReduction reduction) {
  const Places &places = *placesOf(indices);
  RowMask mask;
  for (const RowMask &own : masksOf(indices))
    mask = own ? own : mask;
  const RowMask *other = maskAt(updates, axis);
  if (other ? !areSame(*other, mask) : !isUniform(updates, axis))
    return rowsError(op,
                     other ? "puts rows that one mask picked where another mask says"
                           : "puts all rows of a tensor where a mask says",
                     "out[mask] = x[mask], by the same mask");
  if (isAny(data))
    return rowsError(op, "puts rows into rows that a mask picked");
  TensorBuilder on(builder, op->getLoc());
  std::optional<PlaceGrid> grid = gridOf(place, places.shape, graph::shapeOf(data)[axis]);
  bool isFloat = isa<FloatType>(elementOf(updates));
  if (!grid || (!isFloat && reduction != ScatterReduction::none)) {
    if (reduction != ScatterReduction::add)
      return rowsError(op, "puts rows that a mask picked at positions that are not the mask's own",
                       "out[mask] = rows, or out.index_add_(0, positions, rows)");
    neutralizeIndices(op);
    op->setOperand(2, replaced(on, updates, axis, mask, 0));
    return Values(op->getResults());
  }
  bool isInOrder = grid->unused.empty() && llvm::is_sorted(grid->used);
  if (isInOrder && reduction == ScatterReduction::none)
    return Values{chosen(on, mask, axis, updates, data)};
  if (isInOrder && reduction == ScatterReduction::add)
    return Values{on.add(data, replaced(on, updates, axis, mask, 0))};
  Value condition = layOver(on, vectorOf(on, mask), 0, places.shape, *grid);
  Value rows = layOver(on, updates, axis, places.shape, *grid);
  int64_t copies = graph::shapeOf(rows)[0];
  Shape shape(graph::tensorOf(rows).getRank(), 1);
  shape[0] = copies;
  shape[1 + axis] = graph::shapeOf(condition)[1];
  condition = on.reshape(condition, shape);
  if (reduction == ScatterReduction::add && copies > 1) {
    rows = on.reduceSum(on.select(condition, rows, on.scalar(0, rows)), {0}, /*keepdims=*/false);
    return Values{on.add(data, rows)};
  }
  if (copies > mostCopies)
    return rowsError(op, "puts up to " + Twine(copies) + " rows at one place, one after the other",
                     "out.index_add_(0, positions, rows) adds any number of them");
  for (int64_t i = 0; i < copies; ++i) {
    Value where = sliceOff(on, condition, i), own = sliceOff(on, rows, i);
    std::optional<double> neutral = neutralOf(reduction);
    data = neutral ? reduced(on, reduction, data, on.select(where, own, on.scalar(*neutral, own)))
                   : on.select(where, own, data);
  }
  return Values{data};
}

//===-- operations at positions ----------------------------------------------------===//

/// The values of an operation whose indices are positions of picked rows; nothing of any other.
Result<std::optional<PickedRows::Values>> PickedRows::followPositions(Operation *op) {
  std::optional<Values> none;
  if (!isa<GatherOp, GatherNdOp, ScatterNdOp, ScatterElementsOp>(op))
    return none;
  Value data = op->getOperand(0), indices = op->getOperand(1);
  const Places *places = placesOf(indices);
  bool isNd = isa<GatherNdOp, ScatterNdOp>(op), isScatter = isa<ScatterNdOp, ScatterElementsOp>(op);
  if (!places) {
    if (isNd || isScatter)
      return rowsError(op, "uses rows that a mask picked at positions that are not the mask's own");
    return none;
  }
  auto done = [](Result<Values> made) {
    return made.ok() ? Result<std::optional<Values>>(std::optional<Values>(std::move(*made))) : made.error();
  };
  ArrayRef<int64_t> whole = graph::shapeOf(data), tuples = graph::shapeOf(indices);
  int64_t rank = tuples.size();
  if (auto gather = dyn_cast<GatherOp>(op)) {
    if (places->along >= 0)
      return rowsError(op, "picks by several positions of a row");
    return done(pick(op, data, indices, places->list.front(), int64_t(gather.getAxis())));
  }
  if (auto scatter = dyn_cast<ScatterElementsOp>(op)) {
    int64_t axis = scatter.getAxis();
    Shape wanted(whole);
    wanted[axis] = tuples[axis];
    if (places->along >= 0 || !maskAt(indices, axis) || ArrayRef<int64_t>(wanted) != tuples)
      return rowsError(op, "puts elements that a mask picked at positions that are not whole rows'");
    return done(put(op, data, indices, op->getOperand(2), places->list.front(), axis, scatter.getReduction()));
  }
  bool isPlain = rank == 2 && maskAt(indices, 0) && (places->along == 1 || tuples[1] == 1) &&
                 int64_t(places->list.size()) == tuples[1];
  if (auto gather = dyn_cast<GatherNdOp>(op))
    isPlain &= gather.getBatchDims() == 0;
  if (!isPlain)
    return rowsError(op, "uses positions of rows that a mask picked in the shape " + toText(tuples));
  int64_t leading = tuples[1];
  Shape flat{1};
  for (int64_t size : whole.take_front(leading))
    flat[0] *= size;
  flat.append(whole.begin() + leading, whole.end());
  TensorBuilder on(builder, op->getLoc());
  if (isAny(data) && !isScatter)
    return rowsError(op, "picks by a mask from rows that a mask picked",
                     "pick once, by both masks: x[mask & other] on all rows");
  Place place = flattened(places->list, whole.take_front(leading));
  // Followed by hand: what the reshape makes is not the tensor that has picked rows.
  if (!isScatter) {
    Result<Values> rows = pick(op, on.reshape(data, flat), indices, place, 0);
    return done(std::move(rows));
  }
  if (isAny(data))
    return rowsError(op, "puts rows into rows that a mask picked");
  Result<Values> made = put(op, leading == 1 ? data : on.reshape(data, flat), indices, op->getOperand(2), place, 0,
                            cast<ScatterNdOp>(op).getReduction());
  if (made.ok() && (*made)[0] != op->getResult(0))
    (*made)[0] = on.reshape((*made)[0], whole);
  return done(std::move(made));
}
