//===- ProductChoices.h - the choice for a product that is prepared ---------------===//
#pragma once

#include "kernels/cpu/Products.h"

namespace zc::cpu {

/// What computes a product: what the spec's table says of its shape, or what is done without one.
struct ChosenProduct {
  ProductChoice choice;
  bool isTuned = false; ///< the table says it
  /// For people: "oneDNN by columns, tuned".
  std::string text;
};

/// Of shapes that have choices. Errors: mismatch, of a table that names what this build does not have for the shape.
Result<ChosenProduct> chooseProduct(const KernelSpec &spec, const MatmulShape &shape);

/// What computes a product of 16-bit factors where oneDNN does not.
ChosenProduct withoutOnednn(const ProductShape &shape);

/// The error above.
Error lacksChoice(const ProductShape &shape, const ProductChoice &choice);

} // namespace zc::cpu
