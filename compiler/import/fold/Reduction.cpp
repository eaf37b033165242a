//===- Reduction.cpp - constants under reductions ---------------------------===//
#include "compiler/import/fold/Fold.h"
#include "dialects/graph/Graph.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;

namespace {

enum class Reduction { sum, mean, max };

/// Visits the input once; `out` position from the kept dimensions.
FoldFn reduce(Reduction kind) {
  return [=](mlir::Operation *op, Operands in, HostTensor &out, std::string &) {
    const HostTensor &x = *in[0];
    auto axes = op->getAttrOfType<mlir::DenseI64ArrayAttr>("axes");
    if (!axes || x.numElements() == 0 || out.splat || (kind == Reduction::mean && !x.isFloat()) ||
        (kind == Reduction::max && x.dtype == DType::u64)) // held as signed numbers
      return false;
    llvm::SmallVector<int64_t, 6> steps(x.rank(), 0), index(x.rank(), 0);
    int64_t step = 1;
    for (int64_t d = x.rank() - 1; d >= 0; --d) {
      if (llvm::is_contained(axes.asArrayRef(), d))
        continue;
      steps[d] = step;
      step *= x.dims[d];
    }
    std::vector<bool> seen(out.stored(), false);
    for (int64_t i = 0, n = x.numElements(); i < n; ++i) {
      int64_t at = 0;
      for (int64_t d = 0; d < x.rank(); ++d)
        at += index[d] * steps[d];
      bool first = !seen[at];
      seen[at] = true;
      if (x.isFloat()) {
        double v = x.floatAt(i), &y = out.floats[at];
        y = first ? v : kind == Reduction::max ? (std::isnan(v) || v > y ? v : y) : y + v;
      } else {
        int64_t v = x.intAt(i), &y = out.ints[at];
        y = first ? v : kind == Reduction::max ? std::max(v, y) : static_cast<int64_t>(uint64_t(v) + uint64_t(y));
      }
      for (int64_t d = x.rank() - 1; d >= 0 && ++index[d] == x.dims[d]; --d)
        index[d] = 0;
    }
    double count = static_cast<double>(x.numElements()) / static_cast<double>(out.numElements());
    for (double &y : out.floats)
      y = roundTo(out.dtype, kind == Reduction::mean ? y / count : y);
    for (int64_t &y : out.ints)
      y = wrapTo(out.dtype, y);
    return true;
  };
}

} // namespace

void zc::importer::addReductionFolds(FoldTable &table) {
  table["graph.reduce_sum"] = {reduce(Reduction::sum), false};
  table["graph.reduce_mean"] = {reduce(Reduction::mean), false};
  table["graph.reduce_max"] = {reduce(Reduction::max), false};
}
