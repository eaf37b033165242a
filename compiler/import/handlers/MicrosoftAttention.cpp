//===- MicrosoftAttention.cpp - attention as ONNX Runtime's optimizer fuses it ----===//
//
// Attention (queries, keys and values of one product), MultiHeadAttention (projected before) and
// EmbedLayerNormalization of com.microsoft. Products and softmaxes are spelled out: raise-composites makes one
// operation of them where the mask does not train.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/handlers/Heads.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

mlir::Type int64Of(Node &node) { return mlir::IntegerType::get(node.loc.getContext(), 64); }

/// What the two attention operators share, once there are queries, keys and values of [batch, heads, length, size].
class FusedAttention {
public:
  explicit FusedAttention(Node &node) : node(node), heads(node.intAttr("num_heads", 0)) {}

  Value split(Value x) { return splitHeads(node, x, heads); }

  /// The output of the node. `padding`, `bias`: inputs of the node.
  void run(Value q, Value k, Value v, unsigned padding, unsigned bias) {
    if (node.failed())
      return;
    double scale = node.floatAttr("scale", 0);
    scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(dimsOf(q)[3])) : scale;
    Expr scores(node, node.make<MatmulOp>({q, k}, node.attrs().flag("trans_rhs")));
    scores = scores * scale;
    if (node.has(bias))
      scores = scores + Expr(node, node.input(bias));
    if (node.has(padding))
      if (Value mask = paddingMask(padding, scores); mask && !node.failed())
        scores = scores + Expr(node, mask);
    if (node.intAttr("unidirectional", 0) != 0 && !node.failed())
      scores = scores + causalBias(node, scores, dimsOf(scores)[3] - dimsOf(scores)[2]);
    if (node.failed())
      return;
    Value y = node.make<MatmulOp>({node.make<SoftmaxOp>({scores}, node.attrs().integer("axis", 3)), v});
    if (!node.failed())
      node.set(joinHeads(node, y));
  }

private:
  /// 0 where keys count, mask_filter_value elsewhere: of a mask per key, per query and key, or of keys' numbers.
  Value paddingMask(unsigned input, Expr scores) {
    Expr mask(node, node.input(input));
    Dims shape(dimsOf(mask)), whole(dimsOf(scores));
    Value counts;
    if (shape.size() == 1 && shape[0] == whole[0]) { // each sample's first so many keys
      Expr key(node, node.reshape(node.iota(whole[3], int64Of(node)), {1, 1, 1, whole[3]}));
      counts = key.apply<LessOp>(mask.cast(int64Of(node)).reshape({whole[0], 1, 1, 1}));
    } else if ((shape.size() == 2 || shape.size() == 3) && shape.back() == whole[3]) {
      shape.insert(shape.begin() + 1, 4 - shape.size(), 1);
      counts = mask.number(0).apply<LessOp>(mask.reshape(shape));
    } else {
      node.unsupported("with a mask of shape " + shapeText(shape));
      return {};
    }
    return scores.number(0).where(counts, scores.number(node.floatAttr("mask_filter_value", -10000.0f)));
  }

  Node &node;
  int64_t heads;
};

/// Whether one of `inputs` is given, which is then refused.
bool hasCache(Node &node, llvm::ArrayRef<unsigned> inputs) {
  for (unsigned i : inputs)
    if (node.has(i)) {
      node.unsupported("with a cache (input " + std::to_string(i) + ")");
      return true;
    }
  return false;
}

/// x W + b, in as many parts as attention needs.
void attention(Node &node) {
  if (hasCache(node, {4, 6}))
    return;
  if (node.intAttr("do_rotary", 0) != 0)
    return node.unsupported("with do_rotary");
  node.noteWeight(1, "weight of Attention");
  Expr all(node, node.make<MatmulOp>({node.input(0), node.input(1)}));
  if (node.has(2)) {
    node.noteWeight(2, "bias of Attention");
    all = all + Expr(node, node.input(2));
  }
  if (node.failed() || rankOf(all) != 3)
    return node.failed() ? void() : node.invalid("the input has rank " + std::to_string(rankOf(all)) + ", not 3");
  Dims sizes = node.intsAttr("qkv_hidden_sizes");
  if (sizes.empty())
    sizes.assign(3, dimsOf(all)[2] / 3);
  if (sizes.size() != 3)
    return node.invalid("qkv_hidden_sizes has " + std::to_string(sizes.size()) + " entries, not 3");
  auto parts = splitBy(node, all, 2, sizes);
  FusedAttention fused(node);
  llvm::SmallVector<Value> split;
  for (Value part : parts)
    split.push_back(node.failed() ? Value() : fused.split(part));
  if (!node.failed())
    fused.run(split[0], split[1], split[2], 3, 5);
}

/// Queries, keys and values as they are, their biases joined.
void multiHeadAttention(Node &node) {
  if (hasCache(node, {6, 7, 8, 9}))
    return;
  if (!node.has(1) || !node.has(2) || rankOf(node.input(0)) != 3 || rankOf(node.input(1)) != 3)
    return node.unsupported("with packed queries, keys and values");
  llvm::SmallVector<Value> parts{node.input(0), node.input(1), node.input(2)};
  if (node.has(3)) {
    node.noteWeight(3, "bias of MultiHeadAttention");
    Dims sizes;
    for (Value part : parts)
      sizes.push_back(dimsOf(part).empty() ? 0 : dimsOf(part).back());
    auto biases = splitBy(node, node.input(3), 0, sizes);
    for (size_t i = 0; i < parts.size() && !node.failed(); ++i)
      parts[i] = node.make<AddOp>({parts[i], biases[i]});
  }
  FusedAttention fused(node);
  for (Value &part : parts)
    part = node.failed() ? Value() : fused.split(part);
  if (!node.failed())
    fused.run(parts[0], parts[1], parts[2], 4, 5);
}

/// Norm of the sum of words', positions' and segments' rows; of a mask the number of words that count.
void embedLayerNorm(Node &node) {
  Value ids = node.input(0);
  for (unsigned i : {2u, 3u, 5u, 6u})
    if (!node.has(i))
      return node.invalid("input " + std::to_string(i) + " is missing");
  if (rankOf(ids) != 2)
    return node.invalid("input_ids has rank " + std::to_string(rankOf(ids)) + ", not 2");
  auto rows = [&](Value table, Value places, std::optional<int64_t> padding = std::nullopt) {
    Attrs attributes = node.attrs().integer("axis", 0);
    if (padding)
      attributes.integer("padding_index", *padding < 0 ? *padding + dimsOf(table)[0] : *padding);
    return Expr(node, node.make<GatherOp>({table, places}, attributes));
  };
  auto padding = node.isInitializer(2) ? node.paddingOf(2, std::nullopt) : std::nullopt;
  Value places = node.has(8) ? node.input(8) : node.iota(dimsOf(ids)[1], int64Of(node));
  Expr sum = rows(node.input(2), ids, padding) + rows(node.input(3), places);
  if (node.has(1) && node.has(4))
    sum = sum + rows(node.input(4), node.input(1));
  if (node.failed())
    return;
  node.set(0, node.make<LayerNormOp>({sum, node.input(5), node.input(6)},
                                     node.attrs().integer("axis", 2).real("epsilon", node.epsilon(1e-12f))));
  node.set(2, sum);
  if (!node.wants(1))
    return;
  Expr mask(node, node.has(7) ? node.input(7) : node.expand(node.scalar(0, elementOf(ids)), dimsOf(ids)));
  node.set(1, node.make<ReduceSumOp>({mask}, node.attrs().ints("axes", {1})));
}

} // namespace

void zc::importer::addMicrosoftAttentionHandlers(HandlerTable &table) {
  table.add("com.microsoft", "Attention", {1, 2, 7, attention});
  table.add("com.microsoft", "MultiHeadAttention", {1, 1, 10, multiHeadAttention});
  table.add("com.microsoft", "EmbedLayerNormalization", {1, 1, 9, embedLayerNorm});
}
