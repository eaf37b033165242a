//===- Attention.cpp - Attention-23 and its successors -------------------------===//
#include "compiler/import/Handlers.h"
#include "compiler/import/Node.h"

#include <cmath>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// [B, S, H D] -> [B, H, S, D]
Value splitHeads(Node &node, Value x, int64_t heads) {
  auto dims = dimsOf(x);
  if (heads < 1 || dims[2] % heads != 0) {
    node.invalid(std::to_string(heads) + " heads do not divide " + std::to_string(dims[2]) + " channels");
    return {};
  }
  return node.transpose(node.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

/// Rank 4, last dimension that of the keys.
Value fitMask(Node &node, Value mask, int64_t keys) {
  llvm::SmallVector<int64_t> shape(dimsOf(mask));
  if (shape.size() > 4) {
    node.invalid("attn_mask has rank " + std::to_string(shape.size()));
    return {};
  }
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  if (shape[3] != keys && shape[3] != 1) {
    node.unsupported("attn_mask for " + std::to_string(shape[3]) + " of " + std::to_string(keys) + " keys");
    return {};
  }
  return node.reshape(mask, shape);
}

void attention(Node &node) {
  static const char *const extras[] = {"", "", "", "", "past_key", "past_value", "nonpad_kv_seqlen"};
  for (unsigned i = 4; i < node.numInputs(); ++i)
    if (node.has(i))
      return node.unsupported(std::string("input ") + (i < std::size(extras) ? extras[i] : "?"));
  if (node.floatAttr("softcap", 0) != 0)
    return node.unsupported("softcap");
  if (node.intAttr("softmax_precision", 1) != 1)
    return node.unsupported("softmax_precision other than float");
  for (const char *window : {"left_window_size", "right_window_size"})
    if (node.intAttr(window, -1) >= 0)
      return node.unsupported(window);

  Value q = node.input(0), k = node.input(1), v = node.input(2);
  int64_t rank = rankOf(q);
  if ((rank != 3 && rank != 4) || rankOf(k) != rank || rankOf(v) != rank)
    return node.invalid("operands have ranks " + std::to_string(rank) + ", " + std::to_string(rankOf(k)) + ", " +
                        std::to_string(rankOf(v)) + ", not all 3 or all 4");
  if (rank == 3) {
    int64_t heads = node.intAttr("q_num_heads", 0), keyHeads = node.intAttr("kv_num_heads", 0);
    q = splitHeads(node, q, heads);
    k = splitHeads(node, k, keyHeads);
    v = splitHeads(node, v, keyHeads);
  }
  if (node.failed())
    return;
  bool causal = node.intAttr("is_causal", 0) != 0;
  if (causal && dimsOf(q)[2] != dimsOf(k)[2]) // versions of the standard place the diagonal differently
    return node.unsupported("is_causal with " + std::to_string(dimsOf(q)[2]) + " queries and " +
                            std::to_string(dimsOf(k)[2]) + " keys");
  double scale = node.hasAttr("scale") ? node.floatAttr("scale", 1) : 1 / std::sqrt(static_cast<double>(dimsOf(q)[3]));
  llvm::SmallVector<Value> operands{q, k, v};
  if (Value mask = node.input(3))
    operands.push_back(fitMask(node, mask, dimsOf(k)[2]));
  auto attrs = node.attrs().real("scale", scale).flag("causal", causal);
  Value y = node.make<AttentionOp>(operands, attrs);
  if (node.failed())
    return;
  if (rank == 3)
    y = node.reshape(node.transpose(y, {0, 2, 1, 3}), {dimsOf(y)[0], dimsOf(y)[2], dimsOf(y)[1] * dimsOf(y)[3]});
  node.set(y);
}

} // namespace

void zc::importer::addAttentionHandlers(HandlerTable &table) { table.add("Attention", 23, 3, 7, attention); }
