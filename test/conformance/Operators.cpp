#include "test/conformance/Operators.h"
#include "compiler/import/handlers/Handlers.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/DenseSet.h"

#include <sstream>

using namespace zc;
using namespace zc::test;

static bool isFloat(mlir::Value value) {
  return mlir::isa<mlir::FloatType>(mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType());
}

/// "yes" where every way from a float input to a float result is differentiable, "no" where an operation on it is not,
/// "" where there is none.
static std::string gradientOf(graph::ProgramOp program) {
  llvm::DenseSet<mlir::Value> active, lost;
  for (mlir::BlockArgument argument : program.getBlock().getArguments())
    if (isFloat(argument))
      active.insert(argument);
  for (mlir::Operation &op : program.getBlock()) {
    bool isActive = llvm::any_of(op.getOperands(), [&](mlir::Value v) { return active.contains(v); });
    bool isLost = llvm::any_of(op.getOperands(), [&](mlir::Value v) { return lost.contains(v); });
    for (mlir::Value result : op.getResults()) {
      if (!isFloat(result))
        continue;
      if (isActive && mlir::isa<graph::Differentiable>(op))
        active.insert(result);
      else if (isActive)
        lost.insert(result);
      if (isLost)
        lost.insert(result);
    }
  }
  auto results = program.getBlock().getTerminator()->getOperands();
  if (llvm::any_of(results, [&](mlir::Value v) { return lost.contains(v) && !active.contains(v); }))
    return "no";
  return llvm::any_of(results, [&](mlir::Value v) { return active.contains(v); }) ? "yes" : "";
}

std::string test::evidenceOf(const NodeTest &test, mlir::ModuleOp module) {
  const onnxpb::Graph &graph = test.model.graph();
  if (graph.node_size() != 1)
    return "";
  const onnxpb::Node &node = graph.node(0);
  std::ostringstream line;
  line << (node.domain() == "ai.onnx" ? "" : node.domain()) << '.' << node.op_type() << ' ';
  line << '"' << gradientOf(*module.getOps<graph::ProgramOp>().begin()) << '"';
  // The types of its data: the first input, or the first output of what has none.
  const std::vector<NodeValue> &values = test.inputs.empty() ? test.expected : test.inputs;
  if (!values.empty() && values[0].dtype)
    line << ' ' << nameOf(*values[0].dtype);
  return line.str();
}

void OperatorPage::add(const std::string &evidence) {
  std::istringstream line(evidence);
  std::string op, gradient, type;
  line >> op >> gradient;
  if (op.empty())
    return;
  Shown &shown = operators[op];
  ++shown.tests;
  shown.gradients.insert(gradient.substr(1, gradient.size() - 2));
  while (line >> type)
    shown.types.insert(type);
}

std::string OperatorPage::text() const {
  std::ostringstream page;
  page
      << "# Operators\n\nWritten by `test/conformance/run.sh BUILD --operators compiler/import/OPERATORS.md` and kept "
         "true "
         "by the conformance suite: versions\nare the rows of the handler table (opsets up to "
      << importer::newestOpset
      << "), types those of the first input of\nONNX's node tests that pass, gradients those of the graphs these tests "
         "import to. A row without tests has none with a single node.\nFunctions of a model, If, Loop, Scan and "
         "SequenceMap are unrolled.\n\n| operator | since | types | gradient | tests | limits "
         "|\n|---|---|---|---|---|---|\n";
  int count = 0;
  importer::allHandlers().forEach([&](const std::string &domain, const std::string &op,
                                      const std::vector<importer::HandlerRow> &rows, const std::string &limits) {
    ++count;
    page << "| " << (domain.empty() ? "" : domain + ".") << op << " | ";
    for (size_t i = 0; i < rows.size(); ++i)
      page << (i ? ", " : "") << rows[i].since;
    auto found = operators.find(domain + "." + op);
    page << " | ";
    if (found != operators.end())
      for (const std::string &type : found->second.types)
        page << (type == *found->second.types.begin() ? "" : " ") << type;
    page << " | ";
    if (found != operators.end()) {
      const std::set<std::string> &gradients = found->second.gradients;
      page << (gradients.count("no") && gradients.count("yes") ? "partly"
               : gradients.count("no")                         ? "no"
               : gradients.count("yes")                        ? "yes"
                                                               : "");
    }
    page << " | ";
    if (found != operators.end())
      page << found->second.tests;
    page << " | " << limits << " |\n";
  });
  page << "\n" << count << " operators.\n";
  return page.str();
}
