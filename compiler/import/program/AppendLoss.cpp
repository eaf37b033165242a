//===- AppendLoss.cpp - --loss-op: a loss for a graph that has none ------------===//
#include "compiler/import/program/AppendLoss.h"
#include "compiler/import/base/Errors.h"

#include "llvm/ADT/StringExtras.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

static bool isValueName(const onnxpb::Graph &graph, const std::string &name) {
  auto isNamed = [&](const auto &item) { return item.name() == name; };
  return llvm::any_of(graph.input(), isNamed) || llvm::any_of(graph.initializer(), isNamed) ||
         llvm::any_of(graph.node(), [&](const onnxpb::Node &node) { return llvm::is_contained(node.output(), name); });
}

/// Exporters put colons into names: the split is the one whose first part exists.
Result<AppendedLoss> zc::importer::parseLossOp(const ModelFile &file, const std::string &lossOp) {
  AppendedLoss appended;
  if (lossOp.empty())
    return appended;
  appended.flag = "--loss-op " + lossOp;
  auto refuse = [&](const std::string &problem, const std::string &help) {
    return makeError(Code::usage, badLossOp, problem, appended.flag, help);
  };
  auto [kind, rest] = StringRef(lossOp).split(':');
  std::vector<std::string> kinds;
  for (const NamedLoss &known : namedLosses()) {
    kinds.push_back(known.name);
    if (known.name == kind)
      appended.loss = &known;
  }
  if (!appended.loss)
    return refuse("there is no loss '" + kind.str() + "'", "losses are " + llvm::join(kinds, ", "));
  for (size_t at = rest.find(':'); at != StringRef::npos; at = rest.find(':', at + 1)) {
    std::string out = rest.take_front(at).str(), target = rest.drop_front(at + 1).str();
    if (target.empty() || !isValueName(file.graph(), out))
      continue;
    appended.out = out;
    appended.target = target;
    return appended;
  }
  std::string outputs;
  for (const onnxpb::ValueInfo &output : file.graph().output())
    outputs += (outputs.empty() ? "'" : ", '") + output.name() + "'";
  return refuse("the graph has no value of that name", "give " + kind.str() + ":OUT:TARGET; outputs are " + outputs);
}

/// The graph's value, or a new input.
static Result<Value> targetOf(const AppendedLoss &appended, Value out, const ModelFile &file, NodeContext &context,
                              graph::ProgramOp program) {
  if (isValueName(file.graph(), appended.target)) {
    auto bound = context.lookup(context.named(appended.target), out.getLoc());
    if (!bound.ok())
      return bound.error();
    if (bound->isSequence || bound->isEmpty)
      return unsupportedError(unsupportedForm, "'" + appended.target + "' is no tensor", file.path);
    return bound->value;
  }
  OpBuilder &builder = context.opBuilder();
  auto type = cast<RankedTensorType>(out.getType());
  if (appended.loss->hasLabels)
    type = RankedTensorType::get(labelShape(type.getShape()), builder.getI64Type());
  llvm::SmallVector<Attribute> names(program.getInputNames().begin(), program.getInputNames().end());
  names.push_back(builder.getStringAttr(appended.target));
  program.setInputNamesAttr(builder.getArrayAttr(names));
  return program.getBlock().addArgument(type, NameLoc::get(builder.getStringAttr(appended.target)));
}

Result<Value> zc::importer::appendLoss(const AppendedLoss &appended, const ModelFile &file, NodeContext &context,
                                       graph::ProgramOp program) {
  Location loc = NameLoc::get(context.opBuilder().getStringAttr(appended.flag));
  auto bound = context.lookup(context.named(appended.out), loc);
  if (!bound.ok())
    return bound.error();
  onnxpb::Node proto;
  proto.set_op_type(appended.loss->name);
  Node node(context, proto, 0, "", loc);
  if (bound->isSequence || bound->isEmpty || !isFloat(bound->value))
    return makeError(Code::usage, badLossOp, "'" + appended.out + "' is not a float tensor", appended.flag);
  auto target = targetOf(appended, bound->value, file, context, program);
  if (!target.ok())
    return target.error();
  if (!appended.loss->hasLabels && dimsOf(*target) != dimsOf(bound->value))
    return makeError(Code::usage, badLossOp,
                     "'" + appended.out + "' has shape " + shapeText(dimsOf(bound->value)) + ", '" + appended.target +
                         "' has " + shapeText(dimsOf(*target)),
                     appended.flag, "they must be equal: " + std::string(appended.loss->torch));
  Value wanted = appended.loss->hasLabels ? *target : node.cast(*target, elementOf(bound->value));
  Value loss = appended.loss->build(node, bound->value, wanted);
  if (!node.failed())
    return loss;
  Error error = node.status.error();
  error.code = Code::usage;
  error.where = appended.flag;
  return error;
}
