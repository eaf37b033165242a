//===- GraphStructure.cpp - parameters, programs and their users -------------===//
#include "dialects/graph/ConstantLimit.h"
#include "dialects/graph/Infer.h"
#include "dialects/graph/ModuleAttrs.h"

using namespace mlir;
using namespace zc::graph;

//===-- parameter ----------------------------------------------------------===//

/// [parameter_c8], [parameter_c9]: a part of what the model axis has.
static LogicalResult checkCut(ParameterOp op, CutAttr cut) {
  auto module = op->getParentOfType<ModuleOp>();
  int64_t ranks = module ? modelRanksOf(module) : 1;
  if (ranks < 2)
    return op.emitOpError("[parameter_c9] is cut, but the module says of no model axis");
  auto own = op.getPartAttr() ? op.getPartAttr().getType() : cast<RankedTensorType>(op.getType());
  if (own == partType(cut.getWhole(), {cut.getDim(), cut.getGroups()}, ranks))
    return success();
  return op.emitOpError("[parameter_c8] ") << own << " is no part of one of " << ranks << " ranks of " << cut.getWhole()
                                           << ", dimension " << cut.getDim() << " in " << cut.getGroups() << " groups";
}

LogicalResult ParameterOp::verify() {
  RankedTensorType type = getWholeType();
  if (getSource() && getValue())
    return emitOpError("[parameter_c1] has both a source and a value");
  if (SourceAttr source = getSourceAttr()) {
    if (source.getOffset() < 0 || source.getBytes() < 0)
      return emitOpError("[parameter_c2] source offset ")
             << source.getOffset() << " or size " << source.getBytes() << " is negative";
    if (!source.getDtype().isIntOrFloat())
      return emitOpError("[parameter_c3] source elements are ") << source.getDtype() << ", neither integers nor floats";
    // A bool takes a byte in a file.
    int64_t bytes = type.getNumElements() * ((source.getDtype().getIntOrFloatBitWidth() + 7) / 8);
    if (bytes != source.getBytes())
      return emitOpError("[parameter_c4] source has ") << source.getBytes() << " bytes, " << type << " needs " << bytes;
  }
  if (getValue() && getValue()->getShapedType().getShape() != type.getShape())
    return emitOpError("[parameter_c5] value ") << getValue()->getShapedType() << " has another shape than " << type;
  if (getRole() == Role::trainable && !isa<FloatType>(type.getElementType()))
    return emitOpError("[parameter_c6] is trainable but has elements of ") << type.getElementType();
  for (FloatAttr own : {getLrScaleAttr(), getWeightDecayAttr()})
    if (own && !(own.getValueAsDouble() >= 0 && own.getValue().isFinite()))
      return emitOpError("[parameter_c10] has a number of its own for the update that is negative or infinite: ")
             << own;
  if (CutAttr cut = getCutAttr(); cut && failed(checkCut(*this, cut)))
    return failure();
  if (PartAttr part = getPartAttr()) {
    auto tile = cast<RankedTensorType>(getType());
    ArrayRef<int64_t> whole = part.getType().getShape(), own = tile.getShape();
    int64_t row = whole.empty() || whole[0] == 0 ? 0 : part.getType().getNumElements() / whole[0];
    bool inside = own.size() == whole.size() && row > 0 && own.drop_front() == whole.drop_front() &&
                  part.getFirst() >= 0 && part.getFirst() % row == 0 && part.getFirst() / row + own[0] <= whole[0] &&
                  part.getType().getElementType() == tile.getElementType();
    if (!inside)
      return emitOpError("[parameter_c7] is no rows of ")
             << part.getType() << " from element " << part.getFirst() << " on: " << tile;
  }
  return success();
}

//===-- program ------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  Block &block = getBlock();
  if (block.getNumArguments() != getInputNames().size())
    return emitOpError("[program_c1] has ")
           << block.getNumArguments() << " arguments but " << getInputNames().size() << " input names";
  if (getPhase() == Phase::update && block.getNumArguments() != 0)
    return emitOpError("[program_c2] the update takes no inputs but has ") << block.getNumArguments();
  for (auto [i, type] : llvm::enumerate(block.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return emitOpError("[program_c3] input ") << i << " has type " << type << ", no tensor of static shape";
  }
  if (getInputRanges() && getInputRanges()->size() != block.getNumArguments())
    return emitOpError("[program_c4] has ")
           << block.getNumArguments() << " arguments but " << getInputRanges()->size() << " ranges";
  return success();
}

ProgramOp zc::graph::programOf(ModuleOp module, Phase phase) {
  for (auto program : module.getOps<ProgramOp>())
    if (program.getPhase() == phase)
      return program;
  return {};
}

std::string zc::graph::freeProgramName(ModuleOp module, Phase phase) {
  std::string name = stringifyPhase(phase).str();
  while (isa_and_nonnull<ParameterOp>(SymbolTable::lookupSymbolIn(module, name)))
    name += '_';
  return name;
}

static bool isIn(Operation *op, Phase phase) {
  auto program = op->getParentOfType<ProgramOp>();
  return program && program.getPhase() == phase;
}

/// [phase_c1]: the op stands in a program of `phase`.
static LogicalResult checkPhase(Operation *op, Phase phase) {
  if (isIn(op, phase))
    return success();
  return op->emitOpError("[phase_c1] stands outside a program of phase '") << stringifyPhase(phase) << "'";
}

LogicalResult ClipFactorOp::verify() { return checkPhase(*this, Phase::update); }

LogicalResult BackwardOp::verify() {
  if (failed(checkPhase(*this, Phase::micro)))
    return failure();
  if (Operation *first = (*this)->getParentOfType<ProgramOp>().getBackward(); first != *this) {
    InFlightDiagnostic error = emitOpError("[backward_c1] stands behind another");
    error.attachNote(first->getLoc()) << "which is here";
    return error;
  }
  return success();
}

Operation *ProgramOp::getBackward() {
  auto marks = getBlock().getOps<BackwardOp>();
  return marks.empty() ? nullptr : (*marks.begin()).getOperation();
}

LogicalResult OutputOp::verify() {
  if (getLikelihood() && getKind() != OutputKind::loss)
    return emitOpError("[output_c1] is a likelihood, but of kind '") << stringifyOutputKind(getKind()) << "'";
  if (getByLabels() && !getLikelihood())
    return emitOpError("[output_c1] is by labels, but no likelihood");
  return isIn(*this, Phase::eval) ? success() : checkPhase(*this, Phase::micro);
}

LogicalResult ReturnOp::verify() {
  auto isScalar = [](Value value) { return cast<RankedTensorType>(value.getType()).getRank() == 0; };
  if (getWeighted() && (getNumOperands() < 2 || !isScalar(getResults()[0]) || !isScalar(getResults()[1])))
    return emitOpError("[return_c1] is weighted, but does not begin with a scalar loss and its weight");
  return success();
}

//===-- users of parameters ------------------------------------------------===//

/// [symbol_c1]: the parameter exists; [symbol_c2]: it has `type` (null: any); [symbol_c3]: it has `role` (none: any).
static LogicalResult checkParameter(Operation *op, SymbolTableCollection &symbols, FlatSymbolRefAttr name, Type type,
                                    std::optional<Role> role = std::nullopt) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(op, name);
  if (!parameter)
    return op->emitOpError("[symbol_c1] there is no graph.parameter '") << name.getValue() << "'";
  auto located = [&](InFlightDiagnostic error) {
    error.attachNote(parameter.getLoc()) << "the parameter is declared here";
    return LogicalResult(error);
  };
  if (type && parameter.getType() != type)
    return located(op->emitOpError("[symbol_c2] type ")
                   << type << " is not that of parameter '" << name.getValue() << "', " << parameter.getType());
  if (role && parameter.getRole() != *role)
    return located(op->emitOpError("[symbol_c3] parameter '")
                   << name.getValue() << "' is " << stringifyRole(parameter.getRole()) << ", not "
                   << stringifyRole(*role));
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return checkParameter(*this, symbols, getParameterAttr(), getResult().getType());
}

LogicalResult AssignOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return checkParameter(*this, symbols, getParameterAttr(), getValue().getType(), Role::buffer);
}

LogicalResult AccumulateGradOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return failure(failed(checkPhase(*this, Phase::micro)) ||
                 failed(checkParameter(*this, symbols, getParameterAttr(), getGrad().getType(), Role::trainable)));
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return failure(failed(checkPhase(*this, Phase::update)) ||
                 failed(checkParameter(*this, symbols, getParameterAttr(), Type(), Role::trainable)));
}

//===-- constant -----------------------------------------------------------===//

ZC_INFER(ConstantOp) {
  Infer infer(location, types);
  auto type = dyn_cast<RankedTensorType>(adaptor.getValue().getShapedType());
  if (!type)
    return infer.error("[constant_c1] value is no ranked tensor");
  return infer.result(type);
}

LogicalResult ConstantOp::verify() {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense)
    return emitOpError("[constant_c2] value is not dense");
  if (!dense.isSplat() && dense.getNumElements() > kMostConstantElements)
    return emitOpError("[constant_c3] has ")
           << dense.getNumElements() << " elements that differ, more than " << kMostConstantElements;
  return success();
}
