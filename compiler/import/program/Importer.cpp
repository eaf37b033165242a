//===- Importer.cpp - the program of a graph, node by node --------------===//
#include "compiler/import/program/Importer.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Listed.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/program/Inputs.h"
#include "compiler/import/program/Operators.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

#include <numeric>

using namespace zc;
using namespace zc::importer;
using namespace mlir;

static graph::NodeNames &loadedNames(MLIRContext &context) {
  context.loadDialect<graph::GraphDialect>();
  return graph::NodeNames::of(&context);
}

Importer::Importer(MLIRContext &context, ModelFile &file, const ImportOptions &options)
    : NodeContext(options), context(context), file(file), builder(&context), parameters(file, options, builder),
      constants(builder, options.limits), rows(builder, constants), names(loadedNames(context)), functions(file.model),
      lostDetaches(file.graph()), diagnostics(&context, [this](Diagnostic &d) {
        if (d.getSeverity() != DiagnosticSeverity::Error)
          return failure(); // warnings are for the caller's handler
        diagnostic = d.str();
        return success();
      }) {}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  auto loss = parseLossOp(file, options.lossOp);
  if (!loss.ok())
    return loss.error();
  appended = *loss;
  ZC_RETURN_IF_ERROR(findLiveNodes());
  ZC_RETURN_IF_ERROR(checkOperators(file, functions, *modelScope.body));
  ZC_RETURN_IF_ERROR(parameters.resolveOptions());
  ZC_RETURN_IF_ERROR(makeProgram());
  ZC_RETURN_IF_ERROR(importNodes(file.graph().node()));
  ZC_RETURN_IF_ERROR(finishProgram());
  program.setSymName(graph::freeProgramName(*module, graph::Phase::micro)); // parameters have the model's names
  ZC_RETURN_IF_ERROR(finishModule());
  return std::move(module);
}

/// Only what a used output needs is imported; exporters leave dangling nodes.
Status Importer::findLiveNodes() {
  const onnxpb::Graph &graph = file.graph();
  llvm::SmallVector<std::string> declared = outputsOf(graph);
  std::vector<std::string> outputs(declared.begin(), declared.end());
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
  modelScope.opsets = &file.model.opset_import();
  modelScope.body = &bodyOf(graph.node(), outputs);
  return Status::success();
}

/// An empty program, its inputs bound.
Status Importer::makeProgram() {
  auto inputs = readInputs(file, options, parameters);
  if (!inputs.ok())
    return inputs.error();
  auto typeOfInput = [&](const GraphInput &input) {
    return RankedTensorType::get(input.dims, typeOf(input.dtype, &context));
  };
  auto locOf = [&](const GraphInput &input) { return NameLoc::get(builder.getStringAttr(input.name)); };
  std::vector<StringRef> names;
  for (const GraphInput &input : *inputs)
    if (!input.fixed)
      names.push_back(input.name);
  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(file.name)));
  builder.setInsertionPointToEnd(module->getBody());
  OperationState state(module->getLoc(), graph::ProgramOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr("micro"));
  state.addAttribute("phase", graph::PhaseAttr::get(&context, graph::Phase::micro));
  state.addAttribute("input_names", builder.getStrArrayAttr(names));
  state.addRegion();
  program = cast<graph::ProgramOp>(builder.create(state));
  parameters.setProgram(program);
  Block &block = program.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&block);
  for (const GraphInput &input : *inputs) {
    if (!input.fixed) {
      bind(named(input.name).number, {block.addArgument(typeOfInput(input), locOf(input)), {}, false});
      continue;
    }
    HostTensor tensor = *shapedLike(typeOfInput(input));
    tensor.allocate();
    for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
      tensor.decode(i, input.fixed->data() + i * sizeOf(tensor.dtype));
    bind(named(input.name).number, {constants.make(std::move(tensor), locOf(input)), {}, false});
  }
  return Status::success();
}

//===-- values -----------------------------------------------------------------===//

Result<Binding> Importer::lookup(ValueName name, Location loc) {
  auto bindingOf = [](Result<Value> value) {
    return value.ok() ? Result<Binding>(Binding{*value, {}, false, false}) : value.error();
  };
  for (const Scope *at = scope; at; at = at->outer) {
    if (const Binding *bound = at->bindings.find(name.number))
      return *bound;
    if (auto inner = at->initializers.find(name.text); inner != at->initializers.end())
      return bindingOf(makeTensorIn(*at, *inner->second, name.text, loc));
  }
  const onnxpb::Tensor *tensor = scope->seesModel() ? parameters.find(name.text) : nullptr;
  if (!tensor)
    return badFile(badStructure, "value '" + name.text + "' is not defined");
  if (!parameters.isConstant(*tensor))
    return bindingOf(parameters.read(name.text, loc));
  auto value = makeTensorIn(modelScope, *tensor, name.text, loc);
  if (value.ok() && constants.of(*value)) // a stored one is read again at each use
    modelScope.bindings[name.number] = {*value, {}, false, false};
  return bindingOf(std::move(value));
}

std::string Importer::initializerOf(const std::string &name) const {
  for (const Scope *at = scope; at; at = at->outer) {
    if (auto given = at->stored.find(name); given != at->stored.end())
      return given->second;
    if (at->initializers.contains(name))
      return {};
  }
  return scope->seesModel() && parameters.find(name) ? name : std::string();
}

Result<Value> Importer::makeTensorIn(const Scope &scope, const onnxpb::Tensor &tensor, const std::string &name,
                                     Location loc) {
  std::string stored = scope.prefix + name, what = "tensor \"" + stored + "\"";
  auto info = inspect(tensor, what);
  if (!info.ok())
    return info.error();
  if (&scope == &modelScope && parameters.isParameter(tensor))
    return parameters.store(*info, stored, loc);
  if (info->elements > options.limits.foldedElements) {
    auto band = parameters.bytes().band(*info);
    return band ? makeBand(std::move(*band), info->dims, loc) : parameters.store(*info, stored, loc);
  }
  auto values = read(*info, what);
  if (!values.ok())
    return values.error();
  return constants.make(std::move(*values), loc);
}

/// A causal mask or a window as arithmetic of ranges, one that hides nothing as its number: exporters write one for
/// each layer, and a batch of each.
Result<Value> Importer::makeBand(ParameterBytes::Band band, llvm::ArrayRef<int64_t> dims, Location loc) {
  if (!band.dropped) {
    band.kept.dims.assign(dims.begin(), dims.end());
    band.kept.splat = true;
    return constants.make(std::move(band.kept), loc);
  }
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  auto range = [&](int64_t first, llvm::SmallVector<int64_t, 6> shape) {
    HostTensor numbers;
    numbers.dims = std::move(shape);
    numbers.allocate();
    std::iota(numbers.ints.begin(), numbers.ints.end(), first);
    return constants.make(std::move(numbers), loc);
  };
  auto apply = [&](StringRef name, ValueRange operands, NamedAttrList attributes = {}) -> Result<Value> {
    auto results = makeOp(name, operands, attributes, loc);
    return results.ok() ? Result<Value>((*results)[0]) : results.error();
  };
  const Value column = range(0, {columns});
  Result<Value> value{Value()};
  auto require = [&](Value lhs, Value rhs) {
    if (!value.ok())
      return;
    Result<Value> holds = apply(graph::LessEqualOp::getOperationName(), {lhs, rhs});
    value = holds.ok() && *value ? apply(graph::AndOp::getOperationName(), {*value, *holds}) : std::move(holds);
  };
  if (band.last < columns - 1)
    require(column, range(band.last, {rows, 1}));
  if (band.first > 1 - rows)
    require(range(band.first, {rows, 1}), column);
  if (value.ok() && band.kept.dtype != DType::boolean)
    value = apply(graph::SelectOp::getOperationName(),
                  {*value, constants.make(std::move(band.kept), loc), constants.make(std::move(*band.dropped), loc)});
  else if (value.ok() && band.kept.intAt(0) == 0)
    value = apply(graph::NotOp::getOperationName(), *value);
  if (value.ok() && dims.size() > 2)
    value = apply(graph::ExpandOp::getOperationName(), *value,
                  NamedAttrList(builder.getNamedAttr("shape", builder.getDenseI64ArrayAttr(dims))));
  return value;
}

//===-- operations -------------------------------------------------------------===//

/// Result types by the op's own inference; an error is its message.
static LogicalResult inferTypes(OperationName name, ValueRange operands, DictionaryAttr attributes, Location loc,
                                SmallVectorImpl<Type> &types) {
  auto *inference = name.getInterface<InferTypeOpInterface>();
  if (!inference)
    return failure();
  std::vector<uint64_t> storage((name.getOpPropertyByteSize() + 7) / 8 + 1);
  OpaqueProperties properties(storage.data());
  name.initOpProperties(properties, OpaqueProperties(nullptr));
  LogicalResult result =
      name.getOpPropertyByteSize() == 0
          ? success()
          : name.setOpPropertiesFromAttribute(name, properties, attributes, [&] { return emitError(loc); });
  if (succeeded(result))
    result = inference->inferReturnTypes(loc.getContext(), loc, operands, attributes, properties, RegionRange(), types);
  name.destroyOpProperties(properties);
  return result;
}

Result<llvm::SmallVector<Value>> Importer::makeOp(llvm::StringRef opName, ValueRange operands,
                                                  const NamedAttrList &attributes, Location loc) {
  OperationName name(opName, &context);
  SmallVector<Type> types;
  diagnostic.clear();
  if (llvm::is_contained(operands, Value())) // of a node that may have any number of inputs
    return badFile(badNode, "an input is missing");
  auto problem = [&]() -> Error {
    return badFile(badNode, diagnostic.empty() ? "the operands do not fit '" + opName.str() + "'" : diagnostic);
  };
  if (failed(inferTypes(name, operands, attributes.getDictionary(&context), loc, types)))
    return problem();
  OperationState state(loc, name, operands, types, attributes.getAttrs());
  Operation *op = builder.create(state);
  // Of itself alone; mlir::verify looks at a block as a whole, which takes as long as all else here.
  if (!alike.isLikeLast(*op) && failed(name.verifyInvariants(op))) {
    alike.forget(name);
    return problem();
  }
  if (rows.isAny(operands)) // known elements of as many rows as a mask picks are no whole tensor
    return followRows(op);
  auto folded = constants.fold(op);
  if (!folded.ok() || !folded->empty()) {
    alike.forget(name);
    return folded;
  }
  return llvm::SmallVector<Value>(op->getResults());
}

/// `op` computes with rows that a mask picked: itself, or what stands for it.
Result<llvm::SmallVector<Value>> Importer::followRows(Operation *op) {
  alike.forget(op->getName());
  auto results = rows.follow(op);
  if (results.ok() && op->use_empty() && (*results)[0] != op->getResult(0))
    op->erase();
  return results;
}

//===-- nodes ------------------------------------------------------------------===//

std::string Importer::nodeWhere(const onnxpb::Node &node, int index) const {
  return file.path + ": node \"" + scope->prefix + nodeLabel(node, index) + "\"";
}

/// onnxscript's optimizer writes which of its rules made a node; torch's TorchScript exporter names what it computes of
/// a convolution's weight and bias after the operation, "onnx::Conv_12".
static bool hasFoldedBatchNorm(const onnxpb::Node &node) {
  const std::string made = "onnx::" + node.op_type() + "_";
  if (StringRef(node.op_type()).starts_with("Conv") && node.input_size() == 3 &&
      StringRef(node.input(1)).starts_with(made) && StringRef(node.input(2)).starts_with(made))
    return true;
  return llvm::any_of(node.metadata_props(), [](const onnxpb::StringStringEntry &entry) {
    return entry.key() == "pkg.onnxscript.rewriter.rule_name" && StringRef(entry.value()).contains("FuseBatchNorm");
  });
}

/// As many inputs as the row says; reads every tensor operand once, so that handlers can rely on them.
static void readOperands(Node &node, const HandlerRow &row) {
  int given = node.proto.input_size();
  if (row.maxInputs >= 0 && given > row.maxInputs)
    node.invalid("has " + std::to_string(given) + " inputs, at most " + std::to_string(row.maxInputs) + " are allowed");
  for (int i = 0; i < row.minInputs; ++i)
    if (!node.has(i))
      node.invalid("input " + std::to_string(i) + " is missing");
  if (!node.failed() && !row.takesSequences)
    node.readInputs();
  if (!node.failed())
    node.checkKnown();
}

Status Importer::importNode(const onnxpb::Node &written, int index) {
  ZC_RETURN_IF_ERROR(countNode());
  const onnxpb::Node &proto = bindCall(written);
  if (const onnxpb::Function *function = functions.of(proto))
    return importCall(*function, proto, index);
  int64_t opset = opsetOf(proto.domain(), *scope->opsets, file.model);
  const HandlerRow &row = *allHandlers().find(proto.domain(), proto.op_type(), opset);
  std::string label = nodeLabel(proto, index);
  Location loc = names.makeLocation(scope->prefix + Twine(label));
  Node node(*this, proto, opset, std::move(label), loc, &row);
  habits.foldedBatchNorms += hasFoldedBatchNorm(proto) && !options.forwardOnly;
  readOperands(node, row);
  if (!node.failed())
    row.handler(node);
  for (int i = 0; i < proto.output_size() && !node.failed(); ++i)
    if (node.wants(i) && !scope->bindings.find(outputOf(proto, i).number) && scope->body->uses(proto, i))
      node.unsupported("output " + std::to_string(i) + " ('" + proto.output(i) + "') is used, but not supported");
  if (!node.failed() && !row.takesSequences && lostDetaches.isTakenBy(proto) &&
      llvm::any_of(node.inputs(), [](Value value) { return isFloat(value) && dependsOnParameters(value); }))
    habits.undetached.push_back(node.label);
  if (!node.failed())
    return Status::success();
  Error error = node.status.error();
  error.where =
      nodeWhere(proto, index) +
      (error.where.empty() || error.where == file.path ? "" : ", " + error.where.substr(error.where.find(": ") + 2));
  return error;
}
