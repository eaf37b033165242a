//===- Random.cpp - random tensors ----------------------------------------------===//
//
// Drawn by graph.random, per step and rank. ONNX leaves the generator open; with attribute `seed` the stream does not
// depend on how many random nodes stand before.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include <cstring>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// Attribute dtype, else `fallback`.
mlir::Type typeAttr(Node &node, mlir::Type fallback) {
  if (!node.hasAttr("dtype"))
    return fallback;
  int64_t number = node.intAttr("dtype", 0);
  auto dtype = number >= 0 && number < 256 ? dtypeOfOnnx(static_cast<int32_t>(number)) : std::nullopt;
  if (!dtype && !node.failed())
    node.unsupported("of element type " + onnxTypeName(static_cast<int32_t>(number)));
  return dtype ? typeOf(*dtype, node.loc.getContext()) : fallback;
}

Expr draw(Node &node, llvm::ArrayRef<int64_t> shape, mlir::Type element, bool normal) {
  int64_t id = node.nextDropoutId();
  if (node.hasAttr("seed")) { // apart from the numbers that are counted
    auto seed = static_cast<float>(node.floatAttr("seed", 0));
    uint32_t bits;
    std::memcpy(&bits, &seed, sizeof(bits));
    // Of which numbers depend on the low 32 bits: 0 is counted, what has the sign's is not.
    id = (int64_t(1) << 32) + (bits == 0 ? 0x80000001u : bits);
  }
  if (!llvm::isa<mlir::FloatType>(element))
    node.invalid("the element type is not a float");
  auto type = node.failed() ? mlir::RankedTensorType() : mlir::RankedTensorType::get(shape, element);
  return {node, node.failed() ? Value()
                              : node.make<RandomOp>(
                                    {}, node.attrs().type("type", type).integer("id", id).flag("normal", normal))};
}

mlir::Type f32(Node &node) { return mlir::Float32Type::get(node.loc.getContext()); }

void normalBy(Node &node, llvm::ArrayRef<int64_t> shape, mlir::Type element) {
  node.set(draw(node, shape, element, true) * node.floatAttr("scale", 1) + node.floatAttr("mean", 0));
}
void uniformBy(Node &node, llvm::ArrayRef<int64_t> shape, mlir::Type element) {
  double low = node.floatAttr("low", 0), high = node.floatAttr("high", 1);
  node.set(draw(node, shape, element, false) * (high - low) + low);
}
using By = void (*)(Node &, llvm::ArrayRef<int64_t>, mlir::Type);
template <By by> void ofShape(Node &node) { by(node, node.intsAttr("shape"), typeAttr(node, f32(node))); }
template <By by> void like(Node &node) { by(node, dimsOf(node.input(0)), typeAttr(node, elementOf(node.input(0)))); }

/// 1 with the input's probability.
void bernoulli(Node &node) {
  Value p = node.input(0);
  Expr hit = draw(node, dimsOf(p), elementOf(p), false).apply<LessOp>(p);
  node.set(hit.cast(typeAttr(node, elementOf(p))));
}

/// Classes by their unnormalized log-probabilities: the largest after Gumbel noise (Gumbel 1954).
void multinomial(Node &node) {
  Value logits = node.input(0);
  int64_t samples = node.intAttr("sample_size", 1);
  if (rankOf(logits) != 2 || samples < 1)
    return node.invalid("needs [batch, classes] and a positive sample_size");
  auto dims = dimsOf(logits);
  Expr u = draw(node, {dims[0], samples, dims[1]}, elementOf(logits), false) + 1e-20;
  Expr scores = Expr(node, logits).reshape({dims[0], 1, dims[1]}) - (-u.apply<LogOp>()).apply<LogOp>();
  if (node.failed())
    return;
  auto i32 = mlir::IntegerType::get(node.loc.getContext(), 32);
  node.set(node.cast(node.make<ArgMaxOp>({scores}, node.attrs().integer("axis", 2)), typeAttr(node, i32)));
}

} // namespace

void zc::importer::addRandomHandlers(HandlerTable &table) {
  table.add("RandomNormal", 1, 0, 0, ofShape<normalBy>);
  table.add("RandomUniform", 1, 0, 0, ofShape<uniformBy>);
  table.add("RandomNormalLike", 1, 1, 1, like<normalBy>);
  table.add("RandomUniformLike", 1, 1, 1, like<uniformBy>);
  table.add("Bernoulli", 15, 1, 1, bernoulli);
  table.add("Multinomial", 7, 1, 1, multinomial);
}
