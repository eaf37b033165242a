//===- AppendLoss.cpp - --loss-op: a loss for a graph that has none ------------===//
#include "compiler/import/handlers/LossOps.h"
#include "compiler/import/program/Importer.h"

#include "llvm/ADT/StringExtras.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

bool Importer::isValueName(const std::string &name) const {
  auto isNamed = [&](const auto &item) { return item.name() == name; };
  const onnxpb::Graph &graph = file.graph();
  return llvm::any_of(graph.input(), isNamed) || llvm::any_of(graph.initializer(), isNamed) ||
         llvm::any_of(graph.node(), [&](const onnxpb::Node &node) { return llvm::is_contained(node.output(), name); });
}

/// "cross_entropy:LOGITS:LABELS". Exporters put colons into names: the split is the one whose first part exists.
Status Importer::parseLossOp() {
  if (options.lossOp.empty())
    return {};
  auto refuse = [&](const std::string &problem, const std::string &help) {
    return makeError(Code::usage, badLossOp, problem, "--loss-op " + options.lossOp, help);
  };
  auto [kind, rest] = StringRef(options.lossOp).split(':');
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
    if (target.empty() || !isValueName(out))
      continue;
    appended.out = out;
    appended.target = target;
    return {};
  }
  std::string outputs;
  for (const onnxpb::ValueInfo &output : file.graph().output())
    outputs += (outputs.empty() ? "'" : ", '") + output.name() + "'";
  return refuse("the graph has no value of that name", "give " + kind.str() + ":OUT:TARGET; outputs are " + outputs);
}

/// The graph's value, or a new input.
Result<Value> Importer::targetOf(Value out) {
  if (isValueName(appended.target)) {
    auto bound = lookup(appended.target, out.getLoc());
    if (!bound.ok())
      return bound.error();
    if (bound->isSequence)
      return unsupportedError(unsupportedForm, "'" + appended.target + "' is a sequence", file.path);
    return bound->value;
  }
  auto type = cast<RankedTensorType>(out.getType());
  if (appended.loss->hasLabels)
    type = RankedTensorType::get(labelShape(type.getShape()), builder.getI64Type());
  llvm::SmallVector<Attribute> names(program.getInputNames().begin(), program.getInputNames().end());
  names.push_back(builder.getStringAttr(appended.target));
  program.setInputNamesAttr(builder.getArrayAttr(names));
  return program.getBlock().addArgument(type, NameLoc::get(builder.getStringAttr(appended.target)));
}

Result<Value> Importer::appendLoss() {
  Location loc = NameLoc::get(builder.getStringAttr("--loss-op " + options.lossOp));
  auto bound = lookup(appended.out, loc);
  if (!bound.ok())
    return bound.error();
  onnxpb::Node proto;
  proto.set_op_type(appended.loss->name);
  Node node(*this, proto, 0, "", loc);
  if (bound->isSequence || !isFloat(bound->value))
    return makeError(Code::usage, badLossOp, "'" + appended.out + "' is not a float tensor",
                     "--loss-op " + options.lossOp);
  auto target = targetOf(bound->value);
  if (!target.ok())
    return target.error();
  if (!appended.loss->hasLabels && dimsOf(*target) != dimsOf(bound->value))
    return makeError(Code::usage, badLossOp,
                     "'" + appended.out + "' has shape " + shapeText(dimsOf(bound->value)) + ", '" + appended.target +
                         "' has " + shapeText(dimsOf(*target)),
                     "--loss-op " + options.lossOp, "they must be equal: " + std::string(appended.loss->torch));
  Value wanted = appended.loss->hasLabels ? *target : node.cast(*target, elementOf(bound->value));
  Value loss = appended.loss->build(node, bound->value, wanted);
  if (!node.failed())
    return loss;
  Error error = node.status.error();
  error.code = Code::usage;
  error.where = "--loss-op " + options.lossOp;
  return error;
}
