//===- Attention.cpp - Attention-23 and its successors -------------------------===//
//
// Caches, paddings, causal offsets and windows of unequal sides become part of the mask, so that all but two forms are
// one fused operation. Scores as an output, and a mask that depends on parameters (the fused operation has no gradient
// for it) are spelled out.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/base/Softcap.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/handlers/Heads.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;
constexpr double minusInfinity = -std::numeric_limits<double>::infinity();

class Attention {
public:
  explicit Attention(Node &node)
      : node(node), q(node.input(0)), k(node.input(1)), v(node.input(2)), context(node.loc.getContext()) {}

  void run() {
    readHeads();
    readCaches();
    if (node.failed())
      return;
    scale = node.hasAttr("scale") ? node.floatAttr("scale", 1) : 1 / std::sqrt(static_cast<double>(dimsOf(q)[3]));
    cap = node.floatAttr("softcap", 0);
    isFused = (cap <= 0 || mayBeSoftcap(cap)) && !node.wants(3) &&
              !(node.has(3) && isFloat(node.input(3)) && dependsOnParameters(node.input(3)));
    Value mask = readMask();
    if (node.failed())
      return;
    Value y = isFused ? fused(mask) : spelledOut(mask);
    if (node.failed())
      return;
    if (is3d)
      y = joinHeads(node, y);
    node.set(y);
  }

private:
  void readHeads() {
    int64_t rank = rankOf(q);
    if ((rank != 3 && rank != 4) || rankOf(k) != rank || rankOf(v) != rank)
      return node.invalid("operands have ranks " + std::to_string(rank) + ", " + std::to_string(rankOf(k)) + ", " +
                          std::to_string(rankOf(v)) + ", not all 3 or all 4");
    is3d = rank == 3;
    if (!is3d)
      return;
    q = splitHeads(node, q, node.intAttr("q_num_heads", 0));
    k = splitHeads(node, k, node.intAttr("kv_num_heads", 0));
    v = splitHeads(node, v, node.intAttr("kv_num_heads", 0));
  }

  void readCaches() {
    if (node.failed())
      return;
    if (node.has(4) != node.has(5))
      return node.invalid("past_key and past_value are not both given");
    if (node.has(4) && node.has(6))
      return node.invalid("nonpad_kv_seqlen together with past_key");
    if (node.has(4)) {
      if (rankOf(node.input(4)) != 4 || rankOf(node.input(5)) != 4)
        return node.invalid("past_key or past_value is not of rank 4");
      past = dimsOf(node.input(4))[2];
      k = node.make<ConcatOp>({node.input(4), k}, node.attrs().integer("axis", 2));
      v = node.make<ConcatOp>({node.input(5), v}, node.attrs().integer("axis", 2));
    }
    node.set(1, k);
    node.set(2, v);
  }

  //===-- the mask --------------------------------------------------------------===//

  mlir::Type i64() { return mlir::IntegerType::get(context, 64); }

  /// attn_mask in rank 4, as long as the keys: bool, or of the queries' type.
  Expr userMask(int64_t keys) {
    Expr mask(node, node.input(3));
    Dims shape(dimsOf(mask));
    if (!mask)
      return mask;
    if (shape.empty() || shape.size() > 4) {
      node.invalid("attn_mask has rank " + std::to_string(shape.size()));
      return mask;
    }
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    if (isFloat(mask))
      mask = mask.cast(elementOf(q));
    mask = mask.reshape(shape);
    int64_t missing = keys - shape[3];
    if (missing > 0 && shape[3] > 1) // shorter: what is not there is masked
      mask = {node, node.make<PadOp>({mask}, node.attrs()
                                                 .ints("low", {0, 0, 0, 0})
                                                 .ints("high", {0, 0, 0, missing})
                                                 .real("value", isFloat(mask) ? minusInfinity : 0))};
    return mask;
  }

  /// Which keys the positions allow: true everywhere is null. Sets `causal` and `window` where the fused operation's
  /// own rules are meant.
  Value positions(int64_t queries, int64_t keys) {
    bool isCausal = node.intAttr("is_causal", 0) != 0;
    int64_t left = node.intAttr("left_window_size", -1), right = node.intAttr("right_window_size", -1);
    bool padded = node.has(6);
    const bool isAsFar = isCausal || left == right; // on either side, where that is not hidden
    if (!padded && past == keys - queries && isAsFar && (left < 0 || isFused)) {
      causal = isCausal;
      window = left < 0 ? 0 : std::min(left, keys) + 1;
      return {};
    }
    Expr key(node, node.reshape(node.iota(keys, i64()), {1, 1, 1, keys}));
    Expr query(node, node.reshape(node.iota(queries, i64(), static_cast<double>(past)), {1, 1, queries, 1}));
    Expr count(node, padded ? node.input(6) : Value());
    if (padded && !node.failed()) {
      count = count.cast(i64()).reshape({dimsOf(q)[0], 1, 1, 1});
      query = query + (count - static_cast<double>(queries));
    }
    Expr allowed(node, {});
    auto require = [&](Expr condition) { allowed = allowed ? allowed.apply<AndOp>(condition) : condition; };
    if (isCausal)
      require(key.apply<LessEqualOp>(query));
    if (left >= 0)
      require((query - key).apply<LessEqualOp>(static_cast<double>(left)));
    if (right >= 0)
      require((key - query).apply<LessEqualOp>(static_cast<double>(right)));
    if (padded)
      require(key.apply<LessOp>(count));
    return allowed;
  }

  Value readMask() {
    int64_t queries = dimsOf(q)[2], keys = dimsOf(k)[2];
    Expr mask = userMask(keys);
    Value allowed = node.failed() ? Value() : positions(queries, keys);
    if (!allowed || !mask)
      return allowed ? allowed : mask;
    return isFloat(mask) ? mask.where(allowed, mask.number(minusInfinity)) : mask.apply<AndOp>(allowed);
  }

  //===-- products ----------------------------------------------------------------===//

  Value fused(Value mask) {
    llvm::SmallVector<Value> operands{q, k, v};
    if (mask)
      operands.push_back(mask);
    Attrs attributes = node.attrs().real("scale", scale).flag("causal", causal);
    if (window != 0)
      attributes.integer("window", window);
    if (cap > 0)
      attributes.real("softcap", cap);
    return node.make<AttentionOp>(operands, attributes);
  }

  /// Key and value heads, each as often as query heads share it.
  Value repeated(Value x) {
    Dims dims(dimsOf(x));
    int64_t heads = dimsOf(q)[1];
    if (dims[1] == heads)
      return x;
    if (dims[1] == 0 || heads % dims[1] != 0) {
      node.invalid(std::to_string(dims[1]) + " key heads do not divide " + std::to_string(heads) + " query heads");
      return x;
    }
    Value groups = node.expand(node.reshape(x, {dims[0], dims[1], 1, dims[2], dims[3]}),
                               {dims[0], dims[1], heads / dims[1], dims[2], dims[3]});
    return node.failed() ? x : node.reshape(groups, {dims[0], heads, dims[2], dims[3]});
  }

  /// attn_mask and positions as what is added to scores.
  Expr bias(Value mask, Expr scores) {
    Expr none = scores.number(0), masked = scores.number(minusInfinity), sum(node, {});
    if (mask)
      sum = isFloat(mask) ? Expr(node, mask) : none.where(mask, masked);
    if (!causal)
      return sum;
    Expr frontier = causalBias(node, scores, past);
    return sum ? sum + frontier : frontier;
  }

  Value spelledOut(Value mask) {
    int64_t mode = node.intAttr("qk_matmul_output_mode", 0);
    k = repeated(k);
    v = repeated(v);
    if (node.failed())
      return {};
    mlir::Type element = elementOf(q);
    Expr scores(node, node.make<MatmulOp>({Expr(node, q) * scale, k}, node.attrs().flag("trans_rhs")));
    Expr shown = scores;
    if (cap > 0)
      scores = (scores / cap).apply<TanhOp>() * cap;
    shown = mode >= 1 ? scores : shown;
    if (Expr added = bias(mask, scores); added)
      scores = scores + added;
    shown = mode >= 2 ? scores : shown;
    if (int64_t precision = node.intAttr("softmax_precision", 0); precision == 1 || precision == 11)
      scores =
          scores.cast(precision == 1 ? mlir::Type(mlir::Float32Type::get(context)) : mlir::Float64Type::get(context));
    if (node.failed())
      return {};
    Expr weights(node, node.make<SoftmaxOp>({scores}, node.attrs().integer("axis", 3).flag("zero_masked")));
    weights = weights.cast(element);
    node.set(3, mode == 3 ? weights : shown);
    return weights ? node.make<MatmulOp>({weights, v}) : Value();
  }

  Node &node;
  Value q, k, v;
  mlir::MLIRContext *context;
  bool is3d = false, isFused = false, causal = false;
  int64_t past = 0, window = 0;
  double scale = 1, cap = 0;
};

void attention(Node &node) { Attention(node).run(); }

} // namespace

void zc::importer::addAttentionHandlers(HandlerTable &table) { table.add("Attention", 23, 3, 7, attention); }
