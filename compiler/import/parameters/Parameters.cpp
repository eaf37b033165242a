//===- Parameters.cpp - initializers, as the program reads them ---------===//
#include "compiler/import/parameters/Parameters.h"
#include "compiler/import/base/Errors.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

/// A float of at least one dimension.
static bool mayTrain(const onnxpb::Tensor &tensor) { return tensor.dims_size() > 0 && isFloat(tensor); }

/// A Constant node whose tensor is a weight in all likelihood: scales and tables of a few numbers are vectors.
static bool hasMatrix(const onnxpb::Node &node) {
  return node.op_type() == "Constant" && llvm::any_of(node.attribute(), [](const onnxpb::Attribute &attribute) {
           return attribute.has_t() && attribute.t().dims_size() > 1 && mayTrain(attribute.t());
         });
}

Parameters::Parameters(ModelFile &file, const ImportOptions &options, OpBuilder &builder)
    : origins(file.model), padding(file, options, initializers, origins), file(file), options(options),
      builder(builder) {
  for (const onnxpb::Tensor &tensor : file.graph().initializer())
    initializers[tensor.name()] = &tensor;
  inNodes = llvm::none_of(file.graph().initializer(), mayTrain) && llvm::any_of(file.graph().node(), hasMatrix);
  for (const onnxpb::Node &node : file.graph().node())
    if (node.domain() == "zero" && node.op_type() == "Assign")
      for (int i = 1; i < node.input_size(); i += 2)
        assigned.insert(node.input(i));
}

Status Parameters::resolveOptions() {
  ZC_RETURN_IF_ERROR(ties.resolve(file, options, initializers, *builder.getContext()));
  return padding.resolve();
}

bool Parameters::isConstant(const onnxpb::Tensor &tensor) const {
  if (!dtypeOfOnnx(tensor.data_type()) || assigned.contains(tensor.name()))
    return false;
  if (!isFloat(tensor))
    return true;
  const Origin &origin = origins.of(tensor.name());
  if (origin.kind == OriginKind::buffer || origins.isFoldedOfConstants(tensor.name()))
    return true;
  if (origin.kind == OriginKind::parameter || (origin.kind == OriginKind::named && !isNamedLikeBuffer(tensor.name())))
    return false; // a scalar may be one: a learned temperature
  auto isNamed = [&](const Selection &each) {
    return each.kind != Selection::Kind::frozen && each.glob == tensor.name();
  };
  return tensor.dims_size() == 0 && llvm::none_of(options.selections, isNamed);
}

bool Parameters::isParameter(const onnxpb::Tensor &constant) const { return inNodes && mayTrain(constant); }

Result<Value> Parameters::readAs(const std::string &initializer, const std::string &parameter, Location loc) {
  auto info = inspectTensor(file, *initializers.lookup(initializer), options.limits,
                            file.path + ": initializer \"" + initializer + "\"");
  if (!info.ok())
    return info.error();
  return store(*info, parameter, loc);
}

Result<Value> Parameters::read(const std::string &name, Location loc) {
  const Ties::Tied *tie = ties.of(name);
  const std::string &own = tie ? tie->to : name;
  auto value = readAs(own, ties.nameOfNextUse(own), loc);
  if (!value.ok() || !tie || !tie->transposed)
    return value;
  return builder.create<graph::TransposeOp>(loc, *value, builder.getDenseI64ArrayAttr({1, 0})).getResult();
}

Result<Value> Parameters::readState(const std::string &name, Location loc) { return readAs(name, name, loc); }

void Parameters::assignState(StringRef name, Value value, Location loc) {
  declared.lookup(name).setRole(graph::Role::buffer);
  builder.create<graph::AssignOp>(loc, FlatSymbolRefAttr::get(builder.getContext(), name), value);
}

Result<Value> Parameters::store(const TensorInfo &info, const std::string &name, Location loc) {
  auto type = RankedTensorType::get(info.dims, typeOf(info.dtype, builder.getContext()));
  if (stored.try_emplace(name, info).second)
    ZC_RETURN_IF_ERROR(declare(info, name, type));
  return builder.create<graph::ReadOp>(loc, type, FlatSymbolRefAttr::get(builder.getContext(), name)).getResult();
}

Status Parameters::declare(const TensorInfo &info, const std::string &name, RankedTensorType type) {
  MLIRContext *context = builder.getContext();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OperationState state(NameLoc::get(builder.getStringAttr(name)), graph::ParameterOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr(name));
  state.addAttribute("type", TypeAttr::get(type));
  state.addAttribute("role", graph::RoleAttr::get(context, graph::Role::frozen));
  if (!info.sourceFile.empty()) {
    state.addAttribute("source", graph::SourceAttr::get(context, info.sourceFile, info.sourceOffset, info.bytes,
                                                        type.getElementType()));
  } else {
    auto values = readTensor(file, info, file.path + ": initializer \"" + name + "\"");
    if (!values.ok())
      return values.error();
    state.addAttribute("value", toAttribute(*values, context));
  }
  if (auto others = ties.tiedTo(name); !others.empty())
    state.addAttribute("tied", builder.getStrArrayAttr(others));
  declared[name] = cast<graph::ParameterOp>(builder.create(state));
  return {};
}
