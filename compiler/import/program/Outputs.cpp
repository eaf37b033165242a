//===- Outputs.cpp - what the program returns, and the module around it -===//
#include "compiler/import/Passes.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Listed.h"
#include "compiler/import/parameters/Roles.h"
#include "compiler/import/program/Importer.h"
#include "compiler/import/program/Likelihood.h"
#include "dialects/graph/ModuleAttrs.h"
#include "dialects/graph/Rewrite.h"
#include "dialects/graph/VerifyModule.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

/// A number that may be the loss; of one that nobody named a vector at most: a single sample's logit is no loss.
static bool isFloatScalar(Value value, bool isNamed) {
  auto type = cast<RankedTensorType>(value.getType());
  return isa<FloatType>(type.getElementType()) && type.getNumElements() == 1 && (isNamed || type.getRank() <= 1);
}

/// Of a forward-only graph's outputs.
bool Importer::returns(const std::string &name) const {
  return options.outputs.empty() || llvm::is_contained(options.outputs, name) ||
         (name == options.loss && !appended.loss);
}

Result<int> Importer::chooseLoss() {
  const onnxpb::Graph &graph = file.graph();
  std::vector<int> candidates;
  std::vector<std::string> names, all;
  for (int i = 0; i < graph.output_size(); ++i) {
    const std::string &name = graph.output(i).name();
    if ((!options.loss.empty() && name != options.loss) || (options.forwardOnly && !returns(name))) // not imported
      continue;
    auto bound = lookup(named(name), builder.getUnknownLoc());
    if (!bound.ok())
      return bound.error();
    all.push_back(name);
    if (bound->isSequence || bound->isEmpty || !isFloatScalar(bound->value, !options.loss.empty()))
      continue;
    if (name == (options.loss.empty() ? "loss" : options.loss))
      return i;
    candidates.push_back(i);
    names.push_back(name);
  }
  if (!options.loss.empty())
    return makeError(Code::usage, badLoss, "output '" + options.loss + "' is not a floating-point scalar", file.path,
                     "the loss must have one element");
  if (candidates.size() == 1)
    return candidates[0];
  if (candidates.empty())
    return makeError(Code::usage, noLoss, "no output is a floating-point scalar, so there is no loss to train",
                     file.path, "outputs are " + listed(all) + "; add a loss with --loss-op");
  return makeError(Code::usage, severalLosses,
                   std::to_string(candidates.size()) + " outputs could be the loss: " + listed(names), file.path,
                   "choose one with --loss NAME");
}

/// The loss as tensor<f32>.
Status Importer::returnLoss(Value loss) {
  if (!loss) {
    auto chosen = chooseLoss();
    if (!chosen.ok())
      return chosen.error();
    loss = lookup(named(file.graph().output(*chosen).name()), builder.getUnknownLoc())->value;
  }
  onnxpb::Node none;
  Node node(*this, none, 0, "", loss.getLoc());
  Value result = node.cast(node.reshape(loss, {}), builder.getF32Type());
  ZC_RETURN_IF_ERROR(std::move(node.status));
  builder.create<graph::ReturnOp>(builder.getUnknownLoc(), result);
  return Status::success();
}

/// What a forward-only program returns: graph outputs and the loss of --loss-op. Which one is the loss is recorded
/// where that is clear; there need not be one.
Status Importer::returnOutputs(Value appendedLoss) {
  const onnxpb::Graph &graph = file.graph();
  llvm::SmallVector<Value> results;
  graph::Outputs outputs;
  std::vector<std::string> &names = outputs.names;
  Result<int> chosen = appendedLoss ? Result<int>(-1) : chooseLoss();
  if (!chosen.ok() && !options.loss.empty())
    return chosen.error();
  for (int i = 0; i < graph.output_size(); ++i) {
    const std::string &name = graph.output(i).name();
    if (!returns(name))
      continue;
    auto bound = lookup(named(name), builder.getUnknownLoc());
    if (!bound.ok())
      return bound.error();
    if (rows.isAny(bound->value) || rows.isAny(bound->sequence))
      return unsupportedError(unsupportedForm, "output '" + name + "' has as many rows as a mask picks", file.path,
                              "return all rows, or choose other outputs with --output");
    for (auto [k, element] : llvm::enumerate(bound->sequence)) { // a sequence is as many outputs
      results.push_back(element);
      names.push_back(name + "[" + std::to_string(k) + "]");
    }
    if (bound->isSequence)
      continue;
    if (bound->isEmpty)
      return unsupportedError(unsupportedForm, "output '" + name + "' is an optional without an element", file.path);
    if (chosen.ok() && *chosen == i)
      outputs.loss = static_cast<int64_t>(results.size());
    results.push_back(bound->value);
    names.push_back(name);
  }
  if (appendedLoss) {
    outputs.loss = static_cast<int64_t>(results.size());
    names.push_back(llvm::is_contained(names, "loss") ? "loss_op" : "loss");
    results.push_back(appendedLoss);
  }
  graph::setOutputs(program, outputs);
  builder.create<graph::ReturnOp>(builder.getUnknownLoc(), results);
  return Status::success();
}

Status Importer::finishProgram() {
  Value loss;
  if (appended.loss) {
    auto made = appendLoss(appended, file, *this, program);
    if (!made.ok())
      return made.error();
    loss = *made;
  }
  return options.forwardOnly ? returnOutputs(loss) : returnLoss(loss);
}

/// What exporters write that trains otherwise than the model in PyTorch (docs/onnx.md 1.3).
static void warnOf(const ExporterHabits &habits, const ImportOptions &options, Location loc) {
  auto count = [](int64_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  if (habits.frozenBatchNorms > 0 && options.batchNorm == BatchNormPolicy::asExported)
    emitWarning(loc) << count(habits.frozenBatchNorms, "batch norm")
                     << " in evaluation mode, as the file says: statistics stay as they are; "
                        "--batch-norm train uses each batch's own (torch's dynamo exporter writes "
                        "evaluation mode always), --batch-norm eval says that this is meant";
  if (habits.foldedBatchNorms > 0)
    emitWarning(loc) << count(habits.foldedBatchNorms, "batch norm")
                     << " folded into the convolutions before by the exporter: the sums are trained, not "
                        "the norms; export with optimize=False and give --batch-norm train, or with dynamo=False and "
                        "training=TrainingMode.TRAINING";
  if (!habits.undetached.empty() && !options.forwardOnly)
    emitWarning(loc) << "gradients go through what the model detaches before " << listed(habits.undetached)
                     << ", as the exporter's optimizer left detach out; export with optimize=False to train that";
  if (habits.inactiveDropouts > 0 && options.dropout == DropoutPolicy::asExported)
    emitWarning(loc) << count(habits.inactiveDropouts, "dropout")
                     << " without training_mode, an identity as the file says; --dropout force makes "
                        "them active (exporters leave it out of attention), --dropout off says that "
                        "this is meant";
}

/// torch.export's traces, where its optimizer kept what they name, and `zero export` say what is detached.
bool Importer::knowsDetached() const {
  return (parameters.origins.hasTraces() && habits.undetached.empty()) || !options.findDetached ||
         llvm::any_of(file.model.metadata_props(), [](const onnxpb::StringStringEntry &entry) {
           return StringRef(entry.key()).starts_with("zero.");
         });
}

Status Importer::finishModule() {
  graph::Model model;
  model.path = file.folder + (file.folder == "/" ? "" : "/") + file.name;
  model.bytes = static_cast<int64_t>(file.bytes);
  model.hash = file.hash;
  graph::setModel(*module, model);
  constants.clear();
  modelScope.bindings.clear();
  diagnostic.clear();
  if (!options.forwardOnly && !knowsDetached())
    detachStraightThrough(program);
  PassManager passes(&context);
  passes.enableVerifier(false); // done below, in less time
  if (options.raise)
    passes.addPass(createRaiseComposites());
  else
    graph::canonicalize(*module);
  if (failed(passes.run(*module)) || failed(graph::verifyModule(*module)))
    return makeError(Code::internal, badNode, "the imported graph does not verify: " + diagnostic, file.path);
  markLikelihood(program); // once cross-entropies are recognised
  ParameterBytes parameterBytes = parameters.bytes();
  ZC_RETURN_IF_ERROR(assignRoles(*module, options, parameters.origins, parameterBytes));
  warnOf(habits, options, module->getLoc());
  return {};
}
