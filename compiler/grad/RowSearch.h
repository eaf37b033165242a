//===- RowSearch.h - which rows are cut between the regions that the weights' cuts make ---------===//
#pragma once

#include "compiler/grad/ShardingSearch.h"

namespace zc {

/// Sequence parallelism (Korthikanti et al., arXiv 2205.05198, section 4.2.2), found in a program that is computed in
/// parts already. From a sum over the ranks on, what all of them compute alike (residuals, norms, dropouts, whatever is
/// elementwise) can be computed by each for some rows, up to where a cut weight reads it: the sum is scattered, and
/// what is read is gathered. Rows are whatever dimension the operations' rules lead along; of several the outermost is
/// taken, unless another sends clearly fewer bytes. Taken is what sends about as many as before; products never are,
/// whose weights' gradients would have to be summed. Where nothing is found, `operations` is empty and `why` says of
/// each sum what hinders.
struct Rows {
  llvm::DenseMap<mlir::Operation *, graph::OpCut> operations;
  double before = 0, after = 0; ///< bytes that a rank sends in a micro-step for what these operations exchange
  std::string why;
};
Rows findRows(graph::ProgramOp program, int64_t ranks);

} // namespace zc
