//===- ConvertPrecision.cpp - 16 bits where f32 is not needed -----------------===//
#include "compiler/grad/Passes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_CONVERTPRECISION
#include "compiler/grad/Passes.h.inc"

namespace {

/// What became of a value that was f32 (see Passes.td): `given`, by constants, buffers and inputs alone, which stay f32
/// until they meet parameters; `narrow`; `wide`. Values of other types have no class.
enum class Kind { given, narrow, wide };

class Converter {
public:
  Converter(ProgramOp program, FloatType narrowType)
      : program(program), builder(program), wideType(builder.getF32Type()), narrowType(narrowType) {}

  LogicalResult run(const DenseSet<StringAttr> &narrowed);
  unsigned numCasts = 0;

private:
  LogicalResult convert(Operation &op);
  std::optional<Kind> target(Operation &op) const;
  LogicalResult inferAgain(Operation &op);
  Value castTo(Value value, FloatType type);
  Value saturated(Value value);
  void keepFinite(ConstantOp op);

  ProgramOp program;
  OpBuilder builder;
  FloatType wideType, narrowType;
  DenseMap<Value, Kind> kinds;
  DenseMap<std::pair<Value, Type>, Value> casts;
};

/// A number that stands for minus infinity, as masks of constants and inputs have it, is beyond the range of f16: rows
/// of nothing but infinities have no softmax. It becomes the largest number there is.
Value Converter::saturated(Value value) {
  APFloat most = APFloat::getLargest(narrowType.getFloatSemantics());
  bool lossy = false;
  most.convert(wideType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) &&
      llvm::all_of(elements.getValues<APFloat>(), [&](const APFloat &each) { return !(most < abs(each)); }))
    return value;
  auto limit = [&](const APFloat &number) {
    return builder.create<ConstantOp>(value.getLoc(),
                                      DenseElementsAttr::get(RankedTensorType::get({}, wideType), number));
  };
  Value low = builder.create<MaxOp>(value.getLoc(), value, limit(neg(most)));
  return builder.create<MinOp>(value.getLoc(), low, limit(most));
}

/// bf16 ends a little before f32, whose lowest number masks have for minus infinity: a constant's finite elements stay
/// finite.
void Converter::keepFinite(ConstantOp op) {
  DenseElementsAttr elements;
  if (getElementTypeOrSelf(op.getType()) != wideType || !matchPattern(op.getResult(), m_Constant(&elements)))
    return;
  APFloat most = APFloat::getLargest(narrowType.getFloatSemantics());
  bool lossy = false;
  most.convert(wideType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  auto beyond = [&](const APFloat &each) { return each.isFinite() && most < abs(each); };
  if (llvm::any_of(elements.getValues<APFloat>(), beyond))
    op.setValueAttr(elements.mapValues(wideType, [&](const APFloat &each) {
      return (!beyond(each) ? each : each.isNegative() ? neg(most) : most).bitcastToAPInt();
    }));
}

/// `value` with elements of `type`; one cast serves all users, as it stands before the first.
Value Converter::castTo(Value value, FloatType type) {
  if (getElementTypeOrSelf(value.getType()) == type)
    return value;
  Value &cast = casts[{value, type}];
  if (!cast) {
    if (type.isF16() && kinds.lookup(value) == Kind::given && !isa<BlockArgument>(value))
      value = saturated(value);
    cast = builder.create<CastOp>(value.getLoc(), value, TypeAttr::get(type));
    ++numCasts;
  }
  return cast;
}

/// A reduction of everything to one number is a loss or a norm: too many summands for eight or eleven bits of mantissa.
/// Its dimensions may be kept, as torch.export writes a mean.
bool reducesToScalar(Operation &op) {
  return isa<ReduceSumOp, ReduceMeanOp>(op) && cast<RankedTensorType>(op.getResult(0).getType()).getNumElements() == 1;
}

/// The bits of an f32 as another type's; as f32 it is a value whose gradient stops, which is as narrow as any.
bool readsBits(Operation &op) {
  auto bitcast = dyn_cast<BitcastOp>(op);
  return bitcast && !bitcast.getTo().isF32();
}

/// The class the op is computed in, or nothing where all f32 operands are given.
std::optional<Kind> Converter::target(Operation &op) const {
  bool narrow = false, wide = false;
  for (Value operand : op.getOperands()) {
    auto found = kinds.find(operand);
    if (found == kinds.end())
      continue;
    narrow |= found->second == Kind::narrow;
    wide |= found->second == Kind::wide;
  }
  if (wide || (narrow && (reducesToScalar(op) || readsBits(op))))
    return Kind::wide;
  return narrow ? std::optional(Kind::narrow) : std::nullopt;
}

LogicalResult Converter::inferAgain(Operation &op) {
  SmallVector<Type> types;
  auto inference = cast<InferTypeOpInterface>(op);
  if (failed(inference.inferReturnTypes(op.getContext(), op.getLoc(), op.getOperands(),
                                        op.getDiscardableAttrDictionary(), op.getPropertiesStorage(), op.getRegions(),
                                        types)))
    return failure();
  for (auto [result, type] : llvm::zip(op.getResults(), types))
    result.setType(type);
  return success();
}

LogicalResult Converter::convert(Operation &op) {
  builder.setInsertionPoint(&op);
  if (!isa<InferTypeOpInterface>(
          op)) { // return, assign: the border of the program; and what takes only what it was given
    for (OpOperand &operand : op.getOpOperands())
      if (kinds.contains(operand.get()))
        operand.set(castTo(operand.get(), wideType));
    for (Value result : op.getResults())
      if (getElementTypeOrSelf(result.getType()) == wideType)
        kinds[result] = Kind::wide;
    return success();
  }
  SmallVector<bool> wasF32;
  for (Value result : op.getResults())
    wasF32.push_back(getElementTypeOrSelf(result.getType()) == wideType);
  std::optional<Kind> kind = target(op);
  if (kind) {
    FloatType type = *kind == Kind::narrow ? narrowType : wideType;
    for (OpOperand &operand : op.getOpOperands())
      if (kinds.contains(operand.get()))
        operand.set(castTo(operand.get(), type));
    if (type == narrowType && isa<CastOp, BitcastOp>(op) && op.getAttr("to") == TypeAttr::get(wideType))
      op.setAttr("to", TypeAttr::get(narrowType));
    if (failed(inferAgain(op)))
      return failure();
  }
  for (auto [result, was] : llvm::zip(op.getResults(), wasF32)) {
    if (!was)
      continue;
    bool isNarrow = getElementTypeOrSelf(result.getType()) == narrowType;
    kinds[result] = !kind ? Kind::given : isNarrow ? Kind::narrow : Kind::wide;
  }
  return success();
}

LogicalResult Converter::run(const DenseSet<StringAttr> &narrowed) {
  Block &block = program.getBlock();
  SmallVector<Operation *> ops = llvm::to_vector(llvm::make_pointer_range(block));
  for (BlockArgument argument : block.getArguments())
    if (getElementTypeOrSelf(argument.getType()) == wideType)
      kinds[argument] = Kind::given;
  for (Operation *op : ops) {
    if (auto constant = dyn_cast<ConstantOp>(op); constant && narrowType.isBF16())
      keepFinite(constant);
    auto read = dyn_cast<ReadOp>(op);
    if (!read) {
      if (failed(convert(*op)))
        return failure();
      continue;
    }
    auto type = cast<RankedTensorType>(read.getResult().getType());
    if (narrowed.contains(read.getParameterAttr().getAttr())) {
      read.getResult().setType(type.clone(narrowType));
      kinds[read.getResult()] = Kind::narrow;
    } else if (type.getElementType() == wideType) {
      kinds[read.getResult()] = Kind::given;
    }
  }
  return success();
}

struct ConvertPrecision : StagePass<impl::ConvertPrecisionBase<ConvertPrecision>, GradStage> {
  using StagePass::StagePass;

  void runOnOperation() override {
    if (options.precision == Precision::fp32)
      return markAllAnalysesPreserved();
    FloatType narrowType = options.precision == Precision::fp16 ? FloatType(Float16Type::get(&getContext()))
                                                                : FloatType(BFloat16Type::get(&getContext()));
    DenseSet<StringAttr> narrowed;
    for (auto parameter : getOperation().getOps<ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      if (parameter.getRole() == Role::buffer || !type.getElementType().isF32())
        continue;
      parameter.setType(type.clone(narrowType));
      narrowed.insert(parameter.getSymNameAttr());
      ++parameters;
    }
    for (auto program : getOperation().getOps<ProgramOp>()) {
      if (program.getPhase() != Phase::micro)
        continue;
      Converter converter(program, narrowType);
      if (failed(converter.run(narrowed)))
        return signalPassFailure();
      casts += converter.numCasts;
    }
  }
};

} // namespace

std::unique_ptr<Pass> createConvertPrecision(const GradStage &options) {
  return std::make_unique<ConvertPrecision>(options);
}

} // namespace zc
