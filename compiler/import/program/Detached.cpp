//===- Detached.cpp - gradients that a model stops and its file does not --------===//
#include "compiler/import/program/Detached.h"
#include "compiler/import/base/Listed.h"
#include "dialects/graph/NodeNames.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

/// Of a node: "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %detach_1), ...".
static StringRef traceOf(const onnxpb::Node &node) {
  for (const onnxpb::StringStringEntry &entry : node.metadata_props())
    if (entry.key() == "pkg.torch.onnx.fx_node")
      return entry.value();
  return {};
}

static StringRef nameAt(StringRef trace, size_t percent) {
  return trace.substr(percent + 1).take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LostDetaches::LostDetaches(const onnxpb::Graph &graph) {
  for (const onnxpb::Node &node : graph.node())
    if (StringRef trace = traceOf(node); trace.contains("target=torch.ops.aten.detach"))
      kept.insert(nameAt(trace, 0));
}

bool LostDetaches::isTakenBy(const onnxpb::Node &node) const {
  StringRef trace = traceOf(node);
  for (size_t at = trace.find("%detach"); at != StringRef::npos; at = trace.find("%detach", at + 1))
    if (at > 0 && !kept.contains(nameAt(trace, at)))
      return true;
  return false;
}

/// One value, or one parameter: it is read anew at each use.
static bool isSame(Value a, Value b) {
  auto first = a.getDefiningOp<ReadOp>(), second = b.getDefiningOp<ReadOp>();
  return a == b || (first && second && first.getParameter() == second.getParameter());
}

/// The operand of `op` that is a difference which a straight-through step detaches.
static OpOperand *differenceOf(Operation &op) {
  if (!isa<AddOp, SubOp>(op))
    return nullptr;
  const bool isSum = isa<AddOp>(op);
  for (unsigned i : {1, 0}) {
    auto difference = op.getOperand(i).getDefiningOp<SubOp>();
    if (!difference || (!isSum && i == 0) || op.getResult(0).getType() != difference.getType())
      continue;
    Value x = op.getOperand(1 - i);
    if (isSame(x, difference.getOperand(isSum ? 1 : 0)) && !isSame(x, difference.getOperand(isSum ? 0 : 1)))
      return &op.getOpOperand(i);
  }
  return nullptr;
}

void zc::importer::detachStraightThrough(ProgramOp program) {
  std::vector<std::string> places;
  for (Operation &op : program.getBlock()) {
    OpOperand *difference = differenceOf(op);
    auto type = cast_or_null<RankedTensorType>(difference ? difference->get().getType() : Type());
    if (!type || !isa<FloatType>(type.getElementType()))
      continue;
    OpBuilder builder(&op);
    difference->set(builder.create<BitcastOp>(op.getLoc(), difference->get(), type.getElementType()));
    places.push_back(nodeOf(op.getLoc()).str());
  }
  if (places.empty())
    return;
  auto warning = emitWarning(program.getLoc())
                 << listed(places) << (places.size() == 1 ? " adds" : " add")
                 << " a difference to what it was taken from: no gradient goes through the difference, as models mean "
                    "it, though the file does not say so";
  warning.attachNote() << "help: 'zero export' writes what a model detaches";
}
