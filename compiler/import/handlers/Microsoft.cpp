//===- Microsoft.cpp - fused operators that ONNX Runtime writes -------------------===//
//
// com.microsoft, all of version 1: its contrib operators document.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

Value gelu(Node &node, Value x, bool tanh) { return node.make<GeluOp>({x}, node.attrs().flag("tanh", tanh)); }
/// `x` plus an optional input.
Value plus(Node &node, Value x, unsigned input) {
  return node.has(input) ? node.make<AddOp>({x, node.input(input)}) : x;
}

void plainGelu(Node &node) { node.set(gelu(node, node.input(0), false)); }
void biasGelu(Node &node) { node.set(gelu(node, plus(node, node.input(0), 1), false)); }
void fastGelu(Node &node) { node.set(gelu(node, plus(node, node.input(0), 1), true)); }

/// x sigmoid(alpha x)
void quickGelu(Node &node) {
  Value x = node.input(0);
  double alpha = node.floatAttr("alpha", 1.702f);
  Value scaled = alpha == 1 ? x : node.make<MulOp>({x, node.scalar(alpha, elementOf(x))});
  node.set(node.make<MulOp>({x, node.make<SigmoidOp>({scaled})}));
}

/// Rows in front of the batch brought behind it: [M, ..., K] -> [..., M, K].
Value behindBatch(Node &node, Value x) {
  llvm::SmallVector<int64_t> order;
  for (int64_t d = 1; d + 1 < rankOf(x); ++d)
    order.push_back(d);
  order.append({0, rankOf(x) - 1});
  return node.transpose(x, order);
}

/// alpha op(A) op(B)
void fusedMatMul(Node &node) {
  Value a = node.input(0), b = node.input(1);
  if (rankOf(a) < 2 || rankOf(b) < 2)
    return node.unsupported("of operands of ranks " + std::to_string(rankOf(a)) + " and " + std::to_string(rankOf(b)));
  if (node.intAttr("transBatchA", 0) != 0)
    a = behindBatch(node, a);
  if (node.intAttr("transBatchB", 0) != 0)
    b = behindBatch(node, b);
  Value y = node.make<MatmulOp>(
      {a, b},
      node.attrs().flag("trans_lhs", node.intAttr("transA", 0) != 0).flag("trans_rhs", node.intAttr("transB", 0) != 0));
  double alpha = node.floatAttr("alpha", 1);
  node.set(alpha == 1 ? y : node.make<MulOp>({y, node.scalar(alpha, elementOf(y))}));
}

/// A norm over the last dimension.
Value lastNorm(Node &node, llvm::StringRef op, Value x, Value scale, Value bias, double epsilon) {
  if (rankOf(x) < 1 || dimsOf(scale) != dimsOf(x).take_back(1)) {
    node.invalid("scale " + shapeText(dimsOf(scale)) + " does not fit an input of " + shapeText(dimsOf(x)));
    return {};
  }
  llvm::SmallVector<Value> operands{x, scale};
  if (bias)
    operands.push_back(bias);
  return node.make(op, operands, node.attrs().integer("axis", rankOf(x) - 1).real("epsilon", epsilon));
}

/// Norm of input + skip + bias; the sum is output 3.
void skipNorm(Node &node, bool simplified) {
  Value sum = plus(node, node.make<AddOp>({node.input(0), node.input(1)}), simplified ? 3 : 4);
  if (node.failed())
    return;
  llvm::StringRef op = simplified ? RmsNormOp::getOperationName() : LayerNormOp::getOperationName();
  node.set(0, lastNorm(node, op, sum, node.input(2), simplified ? Value() : node.input(3), node.epsilon(1e-12f)));
  node.set(3, sum);
}
void skipLayerNorm(Node &node) { skipNorm(node, false); }
void skipSimplifiedLayerNorm(Node &node) { skipNorm(node, true); }

} // namespace

void zc::importer::addMicrosoftHandlers(HandlerTable &table) {
  auto add = [&](llvm::StringRef op, int minInputs, int maxInputs, Handler handler) {
    table.add("com.microsoft", op, {1, minInputs, maxInputs, handler});
  };
  add("Gelu", 1, 1, plainGelu);
  add("BiasGelu", 2, 2, biasGelu);
  add("FastGelu", 1, 2, fastGelu);
  add("QuickGelu", 1, 1, quickGelu);
  add("FusedMatMul", 2, 2, fusedMatMul);
  add("SkipLayerNormalization", 3, 5, skipLayerNorm);
  add("SkipSimplifiedLayerNormalization", 3, 4, skipSimplifiedLayerNorm);
}
