//===- Linear.cpp - matrix products --------------------------------------------===//
#include "compiler/import/handlers/Activations.h"
#include "compiler/import/handlers/Handlers.h"

#include <cmath>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Vectors become matrices and back. A batch times one matrix is one product of all rows, so that the weight's gradient
/// needs no sum over the batch.
void matmul(Node &node) {
  Value a = node.input(0), b = node.input(1);
  bool rowVector = rankOf(a) == 1, columnVector = rankOf(b) == 1;
  if (rankOf(a) == 0 || rankOf(b) == 0)
    return node.invalid("an operand is a scalar");
  if (rowVector)
    a = node.reshape(a, {1, dimsOf(a)[0]});
  if (columnVector)
    b = node.reshape(b, {dimsOf(b)[0], 1});
  if (node.failed())
    return;
  Value y;
  if (rankOf(a) > 2 && rankOf(b) == 2) {
    Dims rows(dimsOf(a).drop_back());
    int64_t count = 1;
    for (int64_t d : rows)
      count *= d;
    y = matrixProduct(node, node.reshape(a, {count, dimsOf(a).back()}), b);
    rows.push_back(dimsOf(b).back());
    y = node.reshape(y, rows);
  } else {
    y = matrixProduct(node, a, b);
  }
  if (node.failed())
    return;
  Dims shape(dimsOf(y));
  if (columnVector)
    shape.pop_back();
  if (rowVector)
    shape.erase(shape.end() - (columnVector ? 1 : 2));
  node.set(node.reshape(y, shape));
}

/// alpha op(A) op(B) + beta C of integers.
Value integerGemm(Node &node, double alpha, double beta) {
  if (std::trunc(alpha) != alpha || std::trunc(beta) != beta) {
    node.unsupported("of integers with an alpha or beta that is none");
    return {};
  }
  auto operand = [&](unsigned i, const char *transposed) {
    return node.intAttr(transposed, 0) != 0 ? node.transpose(node.input(i), {1, 0}) : node.input(i);
  };
  Expr y(node, matrixProduct(node, operand(0, "transA"), operand(1, "transB")));
  y = alpha == 1 ? y : y * alpha;
  if (!node.has(2))
    return y;
  Expr c(node, node.input(2));
  return y + (beta == 1 ? c : c * beta);
}

/// alpha op(A) op(B) + beta C
Value gemmOf(Node &node) {
  Value a = node.input(0), b = node.input(1), c = node.input(2);
  double alpha = node.floatAttr("alpha", 1), beta = node.floatAttr("beta", 1);
  if (rankOf(a) != 2 || rankOf(b) != 2) {
    node.invalid("operands have ranks " + std::to_string(rankOf(a)) + " and " + std::to_string(rankOf(b)) + ", not 2");
    return {};
  }
  if (!isFloat(a))
    return integerGemm(node, alpha, beta);
  auto attrs =
      node.attrs().flag("trans_lhs", node.intAttr("transA", 0) != 0).flag("trans_rhs", node.intAttr("transB", 0) != 0);
  int64_t columns = dimsOf(b)[node.intAttr("transB", 0) != 0 ? 0 : 1];
  if (c && beta != 1)
    c = node.make<MulOp>({c, node.scalar(beta, elementOf(c))});
  if (c && alpha == 1 && dimsOf(c) == llvm::ArrayRef<int64_t>{columns})
    return node.make<MatmulOp>({a, b, c}, attrs);
  Value y = node.make<MatmulOp>({a, b}, attrs);
  if (alpha != 1)
    y = node.make<MulOp>({y, node.scalar(alpha, elementOf(y))});
  return c ? node.make<AddOp>({y, c}) : y;
}
void gemm(Node &node) { node.set(gemmOf(node)); }

/// ONNX Runtime's: an activation of it.
void fusedGemm(Node &node) {
  llvm::SmallVector<double> numbers;
  for (const char *name : {"activation_alpha", "activation_beta"})
    if (node.hasAttr(name))
      numbers.push_back(node.floatAttr(name, 0));
  node.set(activated(node, Expr(node, gemmOf(node)), numbers));
}

} // namespace

void zc::importer::addLinearHandlers(HandlerTable &table) {
  table.add("MatMul", 1, 2, 2, matmul);
  table.add("Gemm", 7, 3, 3, gemm);
  table.add("Gemm", 11, 2, 3, gemm);
  table.add("com.microsoft", "FusedGemm", {1, 2, 3, fusedGemm});
}
