//===- TuneProducts.h - which way of computing a product is fastest here -------------===//
#pragma once

#include "kernels/cpu/Products.h"

#include <functional>

namespace zc {

struct TuneOptions {
  int rounds = 5;      ///< in each of which every choice runs, in turn; medians decide
  double least = 0.03; ///< a choice that is not faster by this share is not taken: it may have been luck
  /// After each shape.
  std::function<void(const ProductShape &, const ProductEntry &)> done = {};
};

/// An entry for each shape: the fastest of its choices, or what is done without a table. Errors: budget.
Result<ProductTable> tuneProducts(const std::vector<ProductShape> &shapes, const TuneOptions &options);

} // namespace zc
