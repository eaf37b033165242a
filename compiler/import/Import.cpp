//===- Import.cpp - an ONNX file becomes a graph module ------------------------===//
#include "compiler/import/Import.h"
#include "compiler/import/Passes.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"
#include "compiler/import/program/Importer.h"
#include "compiler/import/training/TrainingInfo.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

namespace {

/// "'a', 'b' and 3 more"
std::string listed(const std::vector<std::string> &names, size_t most = 8) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

bool isFloatScalar(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return isa<FloatType>(type.getElementType()) && type.getNumElements() == 1 && type.getRank() <= 1;
}

/// onnxscript's optimizer writes which of its rules made a node.
bool hasFoldedBatchNorm(const onnxpb::Node &node) {
  return llvm::any_of(node.metadata_props(), [](const onnxpb::StringStringEntry &entry) {
    return entry.key() == "pkg.onnxscript.rewriter.rule_name" && StringRef(entry.value()).contains("FuseBatchNorm");
  });
}

} // namespace

std::string Importer::nodeWhere(const onnxpb::Node &node, int index) const {
  return file.path + ": node \"" + scope->prefix + nodeLabel(node, index) + "\"";
}

/// Of a forward-only graph's outputs.
bool Importer::returns(const std::string &name) const {
  return options.outputs.empty() || llvm::is_contained(options.outputs, name) ||
         (name == options.loss && !appended.loss);
}

/// Only what a used output needs is imported; exporters leave dangling nodes.
Status Importer::findLiveNodes() {
  const onnxpb::Graph &graph = file.graph();
  std::vector<std::string> outputs;
  for (const onnxpb::ValueInfo &output : graph.output())
    outputs.push_back(output.name());
  if (!options.loss.empty() && !llvm::is_contained(outputs, options.loss))
    return makeError(Code::usage, noLoss, "there is no graph output '" + options.loss + "'", file.path,
                     "outputs are " + listed(outputs));
  for (const std::string &name : options.outputs)
    if (!llvm::is_contained(outputs, name))
      return makeError(Code::usage, noOutput, "there is no graph output '" + name + "'", file.path,
                       "outputs are " + listed(outputs));
  if (!options.loss.empty() && !options.forwardOnly)
    outputs = {options.loss};
  if (options.forwardOnly)
    llvm::erase_if(outputs, [&](const std::string &name) { return !returns(name); });
  if (appended.loss && options.forwardOnly)
    outputs.insert(outputs.end(), {appended.out, appended.target});
  else if (appended.loss)
    outputs = {appended.out, appended.target};
  for (const onnxpb::Function &function : file.model.functions())
    functions[functionKey(function.domain(), function.name(), function.overload())] = &function;
  modelScope.opsets = &file.model.opset_import();
  modelScope.body = &bodyOf(graph.node(), outputs);
  return Status::success();
}

/// All operators without a handler, at once.
Status Importer::checkOperators() {
  int64_t opset = opsetOf("", file.model.opset_import());
  if (opset > newestOpset)
    return unsupportedError(
        badVersion, "imports opset " + std::to_string(opset) + "; the newest known is " + std::to_string(newestOpset),
        file.path);
  std::map<std::string, std::vector<std::string>> missing;
  findMissing(missing);
  if (missing.empty())
    return Status::success();
  size_t nodes = 0;
  std::string text;
  for (const auto &[op, names] : missing) {
    text += (text.empty() ? "'" : "; '") + op + " (" + listed(names, 5) + ")";
    nodes += names.size();
  }
  return unsupportedError(
      unsupportedOp, std::to_string(nodes) + (nodes == 1 ? " node has" : " nodes have") + " no import handler: " + text,
      file.path);
}

Status Importer::bindInputs() {
  const onnxpb::Graph &graph = file.graph();
  for (const onnxpb::Tensor &tensor : graph.initializer())
    initializers[tensor.name()] = &tensor;
  ZC_RETURN_IF_ERROR(resolveTies());
  std::vector<std::string> unbound, symbols;
  std::vector<StringRef> names;
  std::vector<Type> types;
  struct Fixed {
    std::string name;
    RankedTensorType type;
    const std::vector<char> *bytes;
  };
  std::vector<Fixed> fixed;
  for (const onnxpb::ValueInfo &input : graph.input()) {
    if (initializers.count(input.name()))
      continue;
    std::string where = file.path + ": input \"" + input.name() + "\"";
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
      return unsupportedError(unsupportedForm, "the input is not a tensor with a shape", where);
    const onnxpb::TensorTypeInfo &tensor = input.type().tensor_type();
    auto dtype = dtypeOfOnnx(tensor.elem_type());
    if (!dtype)
      return unsupportedError(unsupportedForm, "the input has element type " + onnxTypeName(tensor.elem_type()), where);
    if (tensor.shape().dim_size() > options.limits.rank)
      return badFile(badTensor, "the input has rank " + std::to_string(tensor.shape().dim_size()), where);
    llvm::SmallVector<int64_t> dims;
    int64_t elements = 1;
    for (int d = 0; d < tensor.shape().dim_size(); ++d) {
      const onnxpb::Dimension &dim = tensor.shape().dim(d);
      int64_t size = dim.dim_value();
      if (!dim.has_dim_value()) {
        std::string symbol = dim.dim_param().empty() ? input.name() + "." + std::to_string(d) : dim.dim_param();
        auto bound = options.dims.find(symbol);
        symbols.push_back(symbol);
        if (bound == options.dims.end() && !llvm::is_contained(unbound, symbol))
          unbound.push_back(symbol);
        size = bound == options.dims.end() ? 1 : bound->second;
      }
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > options.limits.tensorBits / 64)
        return badFile(badTensor, "dimension " + std::to_string(size) + " of the input is negative or too large",
                       where);
      dims.push_back(size);
    }
    auto type = RankedTensorType::get(dims, typeOf(*dtype, &context));
    auto value = options.fixedInputs.find(input.name());
    if (value != options.fixedInputs.end()) {
      if (static_cast<int64_t>(value->second.size()) != elements * sizeOf(*dtype))
        return makeError(Code::usage, badFixedInput,
                         "the value given for the input has " + std::to_string(value->second.size()) +
                             " bytes, but its shape needs " + std::to_string(elements * sizeOf(*dtype)),
                         where);
      fixed.push_back({input.name(), type, &value->second});
      continue;
    }
    names.push_back(input.name());
    types.push_back(type);
  }
  if (!unbound.empty()) {
    std::string help = "give";
    for (const std::string &symbol : unbound)
      help += " --dim '" + symbol + "=N'";
    return makeError(Code::usage, unboundDims,
                     std::to_string(unbound.size()) + " symbolic dimension" +
                         (unbound.size() == 1 ? " has" : "s have") + " no size: " + listed(unbound, 64),
                     file.path, help);
  }
  for (const auto &[symbol, size] : options.dims)
    if (!llvm::is_contained(symbols, symbol))
      return makeError(Code::usage, unknownDim, "there is no symbolic dimension '" + symbol + "'", file.path,
                       symbols.empty() ? "all dimensions are fixed" : "dimensions are " + listed(symbols, 64));

  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(file.name)));
  builder.setInsertionPointToEnd(module->getBody());
  OperationState state(module->getLoc(), graph::ProgramOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr("micro"));
  state.addAttribute("phase", graph::PhaseAttr::get(&context, graph::Phase::micro));
  state.addAttribute("input_names", builder.getStrArrayAttr(names));
  state.addRegion();
  program = cast<graph::ProgramOp>(builder.create(state));
  Block &block = program.getBody().emplaceBlock();
  for (size_t i = 0; i < names.size(); ++i)
    bind(names[i].str(), {block.addArgument(types[i], NameLoc::get(builder.getStringAttr(names[i]))), {}, false});
  builder.setInsertionPointToEnd(&block);
  for (const Fixed &input : fixed) {
    HostTensor tensor = *shapedLike(input.type);
    tensor.allocate();
    for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
      tensor.decode(i, input.bytes->data() + i * sizeOf(tensor.dtype));
    bind(input.name, {makeConstant(std::move(tensor), NameLoc::get(builder.getStringAttr(input.name))), {}, false});
  }
  return Status::success();
}

Status Importer::importNode(const onnxpb::Node &written, int index) {
  ZC_RETURN_IF_ERROR(countNode());
  const onnxpb::Node &proto = bindCall(written);
  if (const onnxpb::Function *function = functionOf(proto))
    return importCall(*function, proto, index);
  int64_t opset = opsetOf(proto.domain(), *scope->opsets);
  const HandlerRow &row = *allHandlers().find(proto.domain(), proto.op_type(), opset);
  std::string label = nodeLabel(proto, index);
  Node node(*this, proto, opset, label, NameLoc::get(builder.getStringAttr(scope->prefix + label)), &row);
  foldedBatchNorms += hasFoldedBatchNorm(proto) && !options.forwardOnly;
  int given = proto.input_size();
  if (row.maxInputs >= 0 && given > row.maxInputs)
    node.invalid("has " + std::to_string(given) + " inputs, at most " + std::to_string(row.maxInputs) + " are allowed");
  for (int i = 0; i < row.minInputs; ++i)
    if (!node.has(i))
      node.invalid("input " + std::to_string(i) + " is missing");
  // Reads every tensor operand once, so that handlers can rely on them.
  for (int i = 0; i < given && !row.takesSequences && !node.failed(); ++i)
    if (const Binding *bound = node.has(i) ? scope->find(proto.input(i)) : nullptr; bound && bound->isSequence)
      node.invalid("input '" + proto.input(i) + "' is a sequence, not a tensor");
  if (!node.failed() && !row.takesSequences)
    node.readInputs();
  if (!node.failed())
    node.checkKnown();
  if (!node.failed())
    row.handler(node);
  for (int i = 0; i < proto.output_size() && !node.failed(); ++i)
    if (node.wants(i) && !scope->bindings.count(proto.output(i)) && scope->body->used.count(proto.output(i)))
      node.unsupported("output " + std::to_string(i) + " ('" + proto.output(i) + "') is used, but not supported");
  if (!node.failed())
    return Status::success();
  Error error = node.status.error();
  error.where =
      nodeWhere(proto, index) +
      (error.where.empty() || error.where == file.path ? "" : ", " + error.where.substr(error.where.find(": ") + 2));
  return error;
}

Result<int> Importer::chooseLoss() {
  const onnxpb::Graph &graph = file.graph();
  std::vector<int> candidates;
  std::vector<std::string> names, all;
  for (int i = 0; i < graph.output_size(); ++i) {
    const std::string &name = graph.output(i).name();
    if ((!options.loss.empty() && name != options.loss) || (options.forwardOnly && !returns(name))) // not imported
      continue;
    auto bound = lookup(name, builder.getUnknownLoc());
    if (!bound.ok())
      return bound.error();
    all.push_back(name);
    if (bound->isSequence || !isFloatScalar(bound->value))
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

/// What a forward-only program returns: graph outputs and the loss of --loss-op. Which one is the loss is recorded
/// where that is clear; there need not be one.
Status Importer::collectOutputs(Value appendedLoss, llvm::SmallVector<Value> &results) {
  const onnxpb::Graph &graph = file.graph();
  llvm::SmallVector<Attribute> names;
  std::optional<size_t> lossIndex;
  Result<int> chosen = appendedLoss ? Result<int>(-1) : chooseLoss();
  if (!chosen.ok() && !options.loss.empty())
    return chosen.error();
  for (int i = 0; i < graph.output_size(); ++i) {
    const std::string &name = graph.output(i).name();
    if (!returns(name))
      continue;
    auto bound = lookup(name, builder.getUnknownLoc());
    if (!bound.ok())
      return bound.error();
    for (auto [k, element] : llvm::enumerate(bound->sequence)) { // a sequence is as many outputs
      results.push_back(element);
      names.push_back(builder.getStringAttr(name + "[" + Twine(k) + "]"));
    }
    if (bound->isSequence)
      continue;
    if (chosen.ok() && *chosen == i)
      lossIndex = results.size();
    results.push_back(bound->value);
    names.push_back(builder.getStringAttr(name));
  }
  if (appendedLoss) {
    lossIndex = results.size();
    bool isTaken = llvm::is_contained(names, builder.getStringAttr("loss"));
    names.push_back(builder.getStringAttr(isTaken ? "loss_op" : "loss"));
    results.push_back(appendedLoss);
  }
  program->setAttr("zc.output_names", builder.getArrayAttr(names));
  if (lossIndex)
    program->setAttr("zc.loss_output", builder.getI64IntegerAttr(static_cast<int64_t>(*lossIndex)));
  return Status::success();
}

Status Importer::finishProgram() {
  const onnxpb::Graph &graph = file.graph();
  llvm::SmallVector<Value> results;
  Value loss;
  if (appended.loss) {
    auto made = appendLoss();
    if (!made.ok())
      return made.error();
    loss = *made;
  }
  if (options.forwardOnly) {
    ZC_RETURN_IF_ERROR(collectOutputs(loss, results));
  } else {
    if (!loss) {
      auto chosen = chooseLoss();
      if (!chosen.ok())
        return chosen.error();
      loss = lookup(graph.output(*chosen).name(), builder.getUnknownLoc())->value;
    }
    results.push_back(loss);
    onnxpb::Node none;
    Node node(*this, none, 0, "", results[0].getLoc());
    results[0] = node.cast(node.reshape(results[0], {}), builder.getF32Type());
    ZC_RETURN_IF_ERROR(node.status);
  }
  builder.create<graph::ReturnOp>(builder.getUnknownLoc(), results);
  return Status::success();
}

Status Importer::verifyModule() {
  (*module)->setAttr("zc.model_path", builder.getStringAttr(file.folder + (file.folder == "/" ? "" : "/") + file.name));
  (*module)->setAttr("zc.model_bytes", builder.getI64IntegerAttr(static_cast<int64_t>(file.bytes)));
  (*module)->setAttr("zc.model_hash", builder.getI64IntegerAttr(static_cast<int64_t>(file.hash)));
  constants.clear();
  modelScope.bindings.clear();
  diagnostic.clear();
  PassManager passes(&context);
  if (options.raise)
    passes.addPass(createRaiseComposites());
  else
    passes.addPass(createCanonicalizerPass());
  if (failed(passes.run(*module)))
    return makeError(Code::internal, badNode, "the imported graph does not verify: " + diagnostic, file.path);
  Contents contents(file, parameters);
  return assignRoles(*module, options, origins, contents);
}

/// What exporters write that trains otherwise than the model in PyTorch (docs/onnx.md 1.3).
void Importer::warnOfHabits() {
  auto count = [](int64_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  if (frozenBatchNorms > 0 && options.batchNorm == BatchNormPolicy::asExported)
    emitWarning(module->getLoc()) << count(frozenBatchNorms, "batch norm")
                                  << " in evaluation mode, as the file says: statistics stay as they are; "
                                     "--batch-norm train uses each batch's own (torch's dynamo exporter writes "
                                     "evaluation mode always), --batch-norm eval says that this is meant";
  if (foldedBatchNorms > 0)
    emitWarning(module->getLoc()) << count(foldedBatchNorms, "batch norm")
                                  << " folded into the convolutions before by the exporter: the sums are trained, not "
                                     "the norms; export with optimize=False and give --batch-norm train";
  if (inactiveDropouts > 0 && options.dropout == DropoutPolicy::asExported)
    emitWarning(module->getLoc()) << count(inactiveDropouts, "dropout")
                                  << " without training_mode, an identity as the file says; --dropout force makes "
                                     "them active (exporters leave it out of attention), --dropout off says that "
                                     "this is meant";
}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  ZC_RETURN_IF_ERROR(parseLossOp());
  ZC_RETURN_IF_ERROR(findLiveNodes());
  ZC_RETURN_IF_ERROR(checkOperators());
  ZC_RETURN_IF_ERROR(bindInputs());
  ZC_RETURN_IF_ERROR(importNodes(file.graph().node()));
  ZC_RETURN_IF_ERROR(finishProgram());
  ZC_RETURN_IF_ERROR(verifyModule());
  warnOfHabits();
  return std::move(module);
}

/// Training that the file brings along: the graph becomes the forward one, the rule is returned.
static Result<std::optional<OwnOptimizer>> adopt(ModelFile &file, ImportOptions &options) {
  if (isOrtTrainingModel(file.graph())) {
    options.findPadding = false; // ONNX Runtime trains every row
    ZC_RETURN_IF_ERROR(adoptOrtTrainingModel(file, options.ortCheckpoint));
    return readOrtOptimizer(file, options.ortOptimizer, options.limits);
  }
  if (file.model.training_info_size() == 0 || options.forwardOnly || !options.lossOp.empty())
    return std::optional<OwnOptimizer>();
  std::string loss;
  auto own = adoptTrainingInfo(file, loss);
  if (!own.ok())
    return own.error();
  options.loss = options.loss.empty() ? loss : options.loss;
  return std::optional<OwnOptimizer>(std::move(*own));
}

static DictionaryAttr asAttribute(const OwnOptimizer &own, Builder builder) {
  NamedAttrList list;
  list.set("rule", builder.getStringAttr(own.rule));
  list.set("from", builder.getStringAttr(own.from));
  for (auto [name, value] : std::initializer_list<std::pair<const char *, double>>{{"beta1", own.beta1},
                                                                                   {"beta2", own.beta2},
                                                                                   {"eps", own.eps},
                                                                                   {"momentum", own.momentum},
                                                                                   {"weight_decay", own.weightDecay},
                                                                                   {"max_norm", own.maxNorm}})
    list.set(name, builder.getF64FloatAttr(value));
  if (own.lr)
    list.set("lr", builder.getF64FloatAttr(*own.lr));
  if (own.epsUncorrected)
    list.set("eps_uncorrected", builder.getUnitAttr());
  if (own.sumsGradients)
    list.set("sums_gradients", builder.getUnitAttr());
  return list.getDictionary(builder.getContext());
}

Result<OwningOpRef<ModuleOp>> zc::importer::importOnnx(MLIRContext &context, const std::string &path,
                                                       const ImportOptions &options) {
  auto file = openModel(path, options.limits);
  if (!file.ok())
    return file.error();
  ImportOptions adopted = options;
  auto own = adopt(**file, adopted);
  if (!own.ok())
    return own.error();
  ZC_RETURN_IF_ERROR(validateModel(**file, options.limits));
  auto module = Importer(context, **file, adopted).run();
  if (module.ok() && *own)
    (**module)->setAttr("zc.own_optimizer", asAttribute(**own, Builder(&context)));
  return module;
}

std::string zc::importer::listParameters(ModuleOp module) {
  std::vector<std::array<std::string, 6>> rows{{"name", "dtype", "shape", "role", "tied to", "evidence"}};
  int64_t trained = 0, all = 0;
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    std::string shape, tied;
    for (int64_t d : type.getShape())
      shape += (shape.empty() ? "" : "x") + std::to_string(d);
    if (auto names = parameter.getTied())
      for (Attribute name : *names)
        tied += (tied.empty() ? "" : ",") + escapeName(cast<StringAttr>(name).str());
    auto dtype = dtypeOf(type.getElementType());
    rows.push_back({escapeName(parameter.getSymName().str()), dtype ? std::string(nameOf(*dtype)) : "?",
                    shape.empty() ? "scalar" : shape, graph::stringifyRole(parameter.getRole()).str(),
                    tied.empty() ? "-" : tied, escapeName(parameter.getEvidence().value_or("-").str())});
    all += type.getNumElements();
    trained += parameter.getRole() == graph::Role::trainable ? type.getNumElements() : 0;
  }
  std::array<size_t, 6> widths{};
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto &row : rows) {
    for (size_t c = 0; c < row.size(); ++c)
      text += c + 1 < row.size() ? row[c] + std::string(widths[c] + 2 - row[c].size(), ' ') : row[c];
    text += '\n';
  }
  return text + std::to_string(trained) + " of " + std::to_string(all) + " elements are trained\n";
}
