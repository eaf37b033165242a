//===- RowMask.cpp - which rows of a dimension count -------------------------------===//
#include "compiler/import/rows/RowMask.h"

#include "dialects/graph/Gradient.h"

#include "llvm/ADT/STLExtras.h"

using namespace zc;
using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

using Runs = llvm::SmallVector<RowMask::Run>;

int64_t RowMask::size() const {
  int64_t product = 1;
  for (const Run &run : runs)
    product *= run.size;
  return product;
}

/// Without runs of one element; runs that go on where the one inside them ends are one.
static Runs joined(ArrayRef<RowMask::Run> runs) {
  Runs result;
  for (const RowMask::Run &run : runs) {
    if (run.size == 1)
      continue;
    if (!result.empty() && result.back().stride == run.size * run.stride)
      result.back() = {result.back().size * run.size, run.stride};
    else
      result.push_back(run);
  }
  return result;
}

//===-- where a mask comes from ----------------------------------------------------===//

static llvm::SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// Runs over a tensor `shape` as runs over another, of which dimension d of this one has `strides[d]`. Nothing where a
/// run is not made of whole dimensions.
static std::optional<Runs> through(ArrayRef<RowMask::Run> runs, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  llvm::SmallVector<int64_t> own = stridesOf(shape);
  Runs result;
  for (RowMask::Run run : runs) {
    Runs parts; // inner first
    if (run.stride == 0)
      parts.push_back(run), run.size = 1;
    for (size_t d = shape.size(); d-- > 0 && run.size > 1;) {
      if (run.stride < own[d] || run.stride >= own[d] * shape[d])
        continue;
      int64_t step = run.stride / own[d], most = shape[d] / step, taken = std::min(run.size, most);
      if (run.stride % own[d] != 0 || shape[d] % step != 0 || run.size % taken != 0)
        return std::nullopt;
      parts.push_back({taken, step * strides[d]});
      run = {run.size / taken, run.stride * taken};
    }
    if (run.size > 1)
      return std::nullopt;
    result.append(parts.rbegin(), parts.rend());
  }
  return result;
}

RowMask zc::importer::maskOf(Value condition) {
  RowMask mask{condition, joined({{graph::tensorOf(condition).getNumElements(), 1}})};
  while (Operation *op = mask.root.getDefiningOp()) {
    std::optional<Runs> runs;
    if (isa<ReshapeOp>(op)) {
      runs = mask.runs;
    } else if (auto expand = dyn_cast<ExpandOp>(op)) {
      ArrayRef<int64_t> to = shapeOf(expand.getResult()), from = shapeOf(expand.getInput());
      llvm::SmallVector<int64_t> inner = stridesOf(from), strides(to.size(), 0);
      for (size_t d = 0, lead = to.size() - from.size(); d < from.size(); ++d)
        strides[lead + d] = from[d] == to[lead + d] ? inner[d] : 0;
      runs = through(mask.runs, to, strides);
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      llvm::SmallVector<int64_t> inner = stridesOf(shapeOf(transpose.getInput())), strides;
      for (int64_t d : transpose.getPermutation())
        strides.push_back(inner[d]);
      runs = through(mask.runs, shapeOf(transpose.getResult()), strides);
    }
    if (!runs)
      break;
    mask = {op->getOperand(0), joined(*runs)};
  }
  return mask;
}

/// Computed by the same operations from the same values; `budget`: how many operations may be looked at.
static bool sameValue(Value a, Value b, int &budget) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || --budget < 0 || x->getName() != y->getName() || x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getNumOperands() != y->getNumOperands() || x->getResultTypes() != y->getResultTypes() ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber() || !isa<KernelOp>(x) ||
      cast<KernelOp>(x).dependsOnMicroStep())
    return false;
  for (auto [p, q] : llvm::zip(x->getOperands(), y->getOperands()))
    if (!sameValue(p, q, budget))
      return false;
  return true;
}

bool zc::importer::areSame(const RowMask &a, const RowMask &b) {
  int budget = 256;
  return a.runs == b.runs && sameValue(a.root, b.root, budget);
}

//===-- shapes ---------------------------------------------------------------------===//

/// The innermost `size` elements of `runs`, which they are taken from. Nothing where they are not whole runs.
static std::optional<Runs> takeInner(Runs &runs, int64_t size) {
  Runs taken;
  while (size > 1) {
    if (runs.empty() || runs.back().size < 1)
      return std::nullopt;
    RowMask::Run run = runs.pop_back_val();
    if (run.size > size ? run.size % size != 0 : size % run.size != 0)
      return std::nullopt;
    if (run.size > size) {
      runs.push_back({run.size / size, run.stride * size});
      run.size = size;
    }
    taken.push_back(run);
    size /= run.size;
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

/// `group`: dimensions of one tensor that are dimensions `to` of another. Their masks, or nothing.
static std::optional<RowMasks> regrouped(ArrayRef<RowMask> masks, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  RowMasks result(to.size());
  Runs runs;
  Value root;
  for (auto [mask, size] : llvm::zip(masks, from)) {
    if (mask && root)
      return std::nullopt;
    if (mask)
      root = mask.root, runs.append(mask.runs);
    else
      runs.push_back({size, 0});
  }
  bool isFound = !root;
  for (size_t d = to.size(); d-- > 0 && root;) {
    std::optional<Runs> own = takeInner(runs, to[d]);
    if (!own)
      return std::nullopt;
    if (llvm::all_of(*own, [](const RowMask::Run &run) { return run.stride == 0; }))
      continue;
    if (isFound)
      return std::nullopt;
    isFound = true;
    result[d] = {root, joined(*own)};
  }
  return isFound ? std::optional(result) : std::nullopt;
}

std::optional<RowMasks> zc::importer::reshaped(ArrayRef<RowMask> masks, ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                               std::string &why) {
  RowMasks result;
  size_t i = 0, k = 0;
  while (i < from.size() || k < to.size()) {
    size_t firstFrom = i, firstTo = k;
    int64_t before = i < from.size() ? from[i++] : 1, after = k < to.size() ? to[k++] : 1;
    while (before != after && (before < after ? i < from.size() : k < to.size()))
      before < after ? before *= from[i++] : after *= to[k++];
    std::optional<RowMasks> group = regrouped(masks.slice(firstFrom, i - firstFrom),
                                              from.slice(firstFrom, i - firstFrom), to.slice(firstTo, k - firstTo));
    if (!group) {
      why = "from " + toText(from) + " to " + toText(to) + " it takes them apart";
      return std::nullopt;
    }
    result.append(*group);
  }
  return result;
}

//===-- building -------------------------------------------------------------------===//

/// Runs that are not repeated make up the root, in some order.
Value zc::importer::buildMask(TensorBuilder &on, const RowMask &mask) {
  llvm::SmallVector<int64_t> order, sizes, permutation, apart;
  for (size_t r = 0; r < mask.runs.size(); ++r)
    if (mask.runs[r].stride != 0)
      order.push_back(static_cast<int64_t>(r));
  llvm::SmallVector<int64_t> runs(order);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return mask.runs[a].stride > mask.runs[b].stride; });
  for (int64_t r : order)
    sizes.push_back(mask.runs[r].size);
  for (int64_t r : runs)
    permutation.push_back(llvm::find(order, r) - order.begin());
  for (const RowMask::Run &run : mask.runs)
    apart.push_back(run.stride == 0 ? 1 : run.size);
  Value value = on.reshape(mask.root, sizes);
  if (!llvm::is_sorted(permutation))
    value = on.make<TransposeOp>(value, permutation);
  return on.reshape(value, apart);
}
