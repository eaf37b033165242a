//===- Activations.h - activations that another operator's attribute names -------===//
#pragma once

#include "compiler/import/handlers/Expr.h"

namespace zc::importer {

/// Of a step of LSTM, GRU and RNN, or of a fused operator of ONNX Runtime's: its numbers are alpha and beta, or the
/// bounds of a clip.
struct Activation {
  const char *name; ///< lower case
  unsigned numbers; ///< how many it has
  double first, second;
  Expr (*formula)(Expr x, double first, double second);

  Expr operator()(Expr x) const { return x ? formula(x, first, second) : x; }
};

/// The one of that name, in any case, with the numbers it has where none are given; null: there is none.
const Activation *findActivation(llvm::StringRef name);

/// `y` under the activation that attribute "activation" names; `numbers` are given for it, as many as there are.
Expr activated(Node &node, Expr y, llvm::ArrayRef<double> numbers);

} // namespace zc::importer
