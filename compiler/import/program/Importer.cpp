//===- Importer.cpp - values, constants, building ops --------------------------===//
#include "compiler/import/program/Importer.h"
#include "compiler/import/fold/Fold.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

constexpr int64_t shapeElements = 64; ///< as many as a shape may have dimensions

Importer::Importer(MLIRContext &context, ModelFile &file, const ImportOptions &options)
    : options(options), file(file), builder(&context), context(context), origins(file.model),
      diagnostics(&context, [this](Diagnostic &d) {
        if (d.getSeverity() != DiagnosticSeverity::Error)
          return failure(); // warnings are for the caller's handler
        diagnostic = d.str();
        return success();
      }) {
  context.loadDialect<graph::GraphDialect>();
}
Importer::~Importer() = default;

//===-- values -----------------------------------------------------------------===//

Result<Binding> Importer::lookup(const std::string &name, Location loc) {
  for (const Scope *at = scope; at; at = at->outer) {
    if (auto bound = at->bindings.find(name); bound != at->bindings.end())
      return bound->second;
    if (auto inner = at->initializers.find(name); inner != at->initializers.end()) {
      auto value = makeTensor(*inner->second, at->prefix + name, loc);
      return value.ok() ? Result<Binding>(Binding{*value, {}, false, false}) : value.error();
    }
  }
  auto initializer = scope->seesModel() ? initializers.find(name) : initializers.end();
  if (initializer == initializers.end())
    return badFile(badStructure, "value '" + name + "' is not defined");
  const onnxpb::Tensor &tensor = *initializer->second;
  if (isConstantInitializer(tensor)) {
    auto value = makeTensor(tensor, name, loc);
    if (!value.ok())
      return value.error();
    Binding binding{*value, {}, false, false};
    if (constantOf(*value)) // a stored one is read again at each use
      modelScope.bindings[name] = binding;
    return binding;
  }
  auto alias = tied.find(name);
  auto value = alias == tied.end() ? readStored(name, loc) : readTied(alias->second, loc);
  if (!value.ok())
    return value.error();
  return Binding{*value, {}, false, false};
}

Result<Value> Importer::readStored(const std::string &name, Location loc) {
  auto info = inspectTensor(file, *initializers[name], options.limits, file.path + ": initializer \"" + name + "\"");
  if (!info.ok())
    return info.error();
  auto apart = untied.find(name);
  return makeStored(*info, apart == untied.end() ? name : name + "#" + std::to_string(++apart->second), loc);
}

Result<Value> Importer::readTied(const Tied &tie, Location loc) {
  auto value = readStored(tie.to, loc);
  if (!value.ok() || !tie.transposed)
    return value;
  NamedAttrList attributes;
  attributes.set("permutation", builder.getDenseI64ArrayAttr({1, 0}));
  auto results = makeOp(graph::TransposeOp::getOperationName(), *value, attributes, loc);
  if (!results.ok())
    return results.error();
  return results->front();
}

/// Integers and bools, float scalars, and small buffers that the exporter marked are known when compiling; all other
/// floats may turn out to be trained.
bool Importer::isConstantInitializer(const onnxpb::Tensor &tensor) const {
  auto dtype = dtypeOfOnnx(tensor.data_type());
  if (!dtype)
    return false;
  HostTensor probe;
  probe.dtype = *dtype;
  if (!probe.isFloat())
    return true;
  const Origin &origin = origins.of(tensor.name());
  if (origin.kind == OriginKind::buffer)
    return true;
  if (origin.kind == OriginKind::parameter || (origin.kind == OriginKind::named && !isNamedLikeBuffer(tensor.name())))
    return false; // a scalar may be one: a learned temperature
  return tensor.dims_size() == 0;
}

Result<Value> Importer::makeTensor(const onnxpb::Tensor &tensor, const std::string &name, Location loc) {
  std::string where = file.path + ": tensor \"" + name + "\"";
  auto info = inspectTensor(file, tensor, options.limits, where);
  if (!info.ok())
    return info.error();
  if (info->elements > options.limits.foldedElements)
    return makeStored(*info, name, loc);
  auto values = readTensor(file, *info, where);
  if (!values.ok())
    return values.error();
  return makeConstant(std::move(*values), loc);
}

Result<Value> Importer::makeStored(const TensorInfo &info, const std::string &name, Location loc) {
  if (name == "micro" || name == "update")
    return unsupportedError(unsupportedForm, "an initializer cannot be called '" + name + "'", file.path);
  auto type = RankedTensorType::get(info.dims, typeOf(info.dtype, &context));
  if (parameters.try_emplace(name, info).second) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(program);
    OperationState state(NameLoc::get(builder.getStringAttr(name)), graph::ParameterOp::getOperationName());
    state.addAttribute("sym_name", builder.getStringAttr(name));
    state.addAttribute("type", TypeAttr::get(type));
    state.addAttribute("role", graph::RoleAttr::get(&context, graph::Role::frozen));
    if (!info.sourceFile.empty()) {
      state.addAttribute("source", graph::SourceAttr::get(&context, info.sourceFile, info.sourceOffset, info.bytes,
                                                          type.getElementType()));
    } else {
      auto values = readTensor(file, info, file.path + ": initializer \"" + name + "\"");
      if (!values.ok())
        return values.error();
      state.addAttribute("value", toAttribute(*values, &context));
    }
    if (auto others = tiesTo(name); !others.empty())
      state.addAttribute("tied", builder.getStrArrayAttr(others));
    builder.create(state);
  }
  return builder.create<graph::ReadOp>(loc, type, FlatSymbolRefAttr::get(&context, name)).getResult();
}

llvm::SmallVector<StringRef> Importer::tiesTo(StringRef name) const {
  llvm::SmallVector<StringRef> others;
  for (const auto &tie : options.ties)
    if (tie.first == name)
      others.push_back(tie.second);
  return others;
}

Result<Value> Importer::readState(const std::string &name, Location loc) {
  auto info =
      inspectTensor(file, *initializers.lookup(name), options.limits, file.path + ": initializer \"" + name + "\"");
  if (!info.ok())
    return info.error();
  return makeStored(*info, name, loc);
}

void Importer::assignState(const std::string &name, Value value, Location loc) {
  module->lookupSymbol<graph::ParameterOp>(name).setRole(graph::Role::buffer);
  builder.create<graph::AssignOp>(loc, FlatSymbolRefAttr::get(&context, name), value);
}

//===-- constants --------------------------------------------------------------===//

const HostTensor *Importer::constantOf(Value value) const {
  auto found = constants.find(value);
  return found == constants.end() ? nullptr : found->second.get();
}

Value Importer::makeConstant(HostTensor tensor, Location loc) {
  auto value = builder.create<graph::ConstantOp>(
      loc, RankedTensorType::get(tensor.dims, typeOf(tensor.dtype, &context)), toAttribute(tensor, &context));
  constants[value] = std::make_unique<HostTensor>(std::move(tensor));
  return value;
}

/// The constant that replaces an op of known operands, none if it stays.
/// Shape arithmetic is always done: the number of nodes bounds it.
bool Importer::spend(int64_t &work, int64_t elements) const {
  if (elements <= shapeElements)
    return true;
  if (elements > options.limits.foldingWork - work)
    return false;
  work += elements;
  return true;
}

llvm::SmallVector<Value> Importer::tryFold(Operation *op, Status &status) {
  llvm::SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(constantOf(operand));
    if (!operands.back())
      return {};
  }
  const Fold *fold = op->getNumResults() == 1 ? findFold(op->getName().getStringRef()) : nullptr;
  auto out = fold ? shapedLike(op->getResult(0).getType()) : std::nullopt;
  if (!out)
    return foldByKernel(op, status);
  bool allSplats = op->getNumOperands() > 0;
  int64_t largest = out->numElements();
  for (const HostTensor *operand : operands) {
    allSplats &= operand->stored() == 1;
    largest = std::max(largest, operand->numElements());
  }
  out->splat = allSplats && fold->keepsSplats && out->numElements() > 1;
  if (!out->splat && largest > options.limits.foldedElements)
    return {};
  if (!spend(foldingWork, out->splat ? 1 : largest))
    return {};
  out->allocate();
  std::string error;
  if (!fold->evaluate(op, operands, *out, error)) {
    if (error.empty())
      return foldByKernel(op, status);
    status = badFile(badNode, error);
    return {};
  }
  Location loc = op->getLoc();
  op->erase();
  return {makeConstant(std::move(*out), loc)};
}

/// Ops without an evaluator of their own run on their reference kernel.
llvm::SmallVector<Value> Importer::foldByKernel(Operation *op, Status &status) {
  auto kernel = dyn_cast<graph::KernelOp>(op);
  if (!kernel || op->getNumOperands() == 0 || isa<graph::DropoutOp>(op)) // dropout differs from step to step
    return {};
  double work = kernel.getFlops();
  std::vector<HostTensor> results;
  for (Value operand : op->getOperands())
    if (constantOf(operand)->numElements() > options.limits.foldedElements)
      return {};
  for (Type type : op->getResultTypes()) {
    auto result = shapedLike(type);
    if (!result || result->numElements() > options.limits.foldedElements)
      return {};
    work += static_cast<double>(result->numElements());
    results.push_back(std::move(*result));
  }
  if (!(work <= static_cast<double>(options.limits.foldingWork)) || !spend(foldingWork, static_cast<int64_t>(work)))
    return {};
  llvm::SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(constantOf(operand));
  bool done = false;
  if (Status failure = evaluateByKernel(kernel, operands, results, done); !failure.ok()) {
    status = badFile(badNode, failure.error().message);
    return {};
  }
  if (!done)
    return {};
  Location loc = op->getLoc();
  op->erase();
  llvm::SmallVector<Value> values;
  for (HostTensor &result : results)
    values.push_back(makeConstant(std::move(result), loc));
  return values;
}

//===-- building ---------------------------------------------------------------===//

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
  auto problem = [&]() -> Error {
    return badFile(badNode, diagnostic.empty() ? "the operands do not fit '" + opName.str() + "'" : diagnostic);
  };
  if (failed(inferTypes(name, operands, attributes.getDictionary(&context), loc, types)))
    return problem();
  OperationState state(loc, name, operands, types, attributes.getAttrs());
  Operation *op = builder.create(state);
  if (failed(verify(op)))
    return problem();
  Status folding;
  if (auto constants = tryFold(op, folding); !constants.empty())
    return constants;
  ZC_RETURN_IF_ERROR(std::move(folding));
  return llvm::SmallVector<Value>(op->getResults());
}
