#include "compiler/import/handlers/Heads.h"

#include <limits>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

Value zc::importer::splitHeads(Node &node, Value x, int64_t heads) {
  auto dims = dimsOf(x);
  if (dims.size() != 3)
    node.invalid("an operand has rank " + std::to_string(dims.size()) + ", not 3");
  else if (heads < 1 || dims[2] % heads != 0)
    node.invalid(std::to_string(heads) + " heads do not divide " + std::to_string(dims[2]) + " channels");
  if (node.failed())
    return {};
  return node.transpose(node.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

Value zc::importer::joinHeads(Node &node, Value x) {
  auto dims = dimsOf(x);
  return node.reshape(node.transpose(x, {0, 2, 1, 3}), {dims[0], dims[2], dims[1] * dims[3]});
}

Expr zc::importer::causalBias(Node &node, Expr scores, int64_t first) {
  const auto shape = dimsOf(scores);
  const int64_t queries = shape[shape.size() - 2], keys = shape.back();
  const mlir::Type i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
  Expr key(node, node.iota(keys, i64));
  Expr query(node, node.reshape(node.iota(queries, i64, static_cast<double>(first)), {queries, 1}));
  return scores.number(0).where(key.apply<LessEqualOp>(query), scores.number(-std::numeric_limits<double>::infinity()));
}
