//===- StepBuilder.cpp - the steps of an operation of the zero level ------------------------===//

#include "compiler/schedule/StepBuilder.h"
#include "compiler/schedule/Assigned.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc;
using plan::Access;

StepBuilder::StepBuilder(ModuleOp module, int64_t worldSize, int64_t stage)
    : builder(module.getContext()), machine(machineOf(module)), worldSize(worldSize), stage(stage),
      microSteps(zero::microStepsOf(module)) {
  builder.setInsertionPointToEnd(module.getBody());
  for (auto bucket : module.getOps<zero::BucketOp>())
    buckets[bucket.getSymName()] = bucket;
}

plan::SectionOp StepBuilder::lowerProgram(graph::ProgramOp program, StringRef name) {
  auto section = builder.create<plan::SectionOp>(program.getLoc(), builder.getStringAttr(name));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&section.getBody());
  auto inputs = program->getAttrOfType<ArrayAttr>(placement::kInputs);
  auto perMicroStep = static_cast<int64_t>(inputs.size()) / microSteps;
  for (auto [index, place] : llvm::enumerate(inputs)) {
    if (program.getBlock().getArgument(static_cast<unsigned>(index)).use_empty())
      continue; // needs no data
    auto number = static_cast<int64_t>(index);
    SmallVector<NamedAttribute> attributes{
        builder.getNamedAttr("input", builder.getI64IntegerAttr(number % perMicroStep))};
    if (microSteps > 1)
      attributes.push_back(builder.getNamedAttr("micro", builder.getI64IntegerAttr(number / perMicroStep)));
    plan::StepOp load = step(program, "load_input", 0, {place}, attributes);
    double bytes = static_cast<double>(graph::bytesOf(cast<plan::OperandAttr>(place).getType()));
    load.setSeconds(APFloat(machine.stepOverhead + bytes / machine.h2dBandwidth));
  }
  publishing = publishingOperations(program);
  for (Operation &op : program.getBlock())
    lowerTimed(&op);
  return section;
}

void StepBuilder::lowerTimed(Operation *op) {
  Block &steps = *builder.getInsertionBlock();
  Operation *last = steps.empty() ? nullptr : &steps.back();
  lower(op);
  double seconds = assignedSeconds(op);
  Block::iterator first = last ? std::next(last->getIterator()) : steps.begin();
  auto count = static_cast<double>(std::distance(first, steps.end()));
  if (seconds > 0)
    for (Operation &step : llvm::make_range(first, steps.end()))
      cast<plan::StepOp>(step).setSeconds(APFloat(seconds / count));
}

void StepBuilder::lower(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case<zero::GatherOp, zero::GradBufferOp, zero::PutOp, zero::ReduceScatterOp, zero::AccumulateOp,
            zero::AllGatherOp, zero::AllToAllOp, zero::QuantizeOp, zero::DequantizeOp, zero::DequantizeSumQuantizeOp,
            zero::DequantizeSumOp, zero::OwnPartOp, zero::ReorderOp, zero::FetchOp, zero::EvictOp, zero::FillOp,
            zero::NormPartialOp, zero::AllReduceOp, zero::ClipFactorOp, zero::UpdateOp, zero::PublishOp,
            zero::RecordLossOp, zero::ReduceLossOp, graph::AssignOp, graph::OutputOp>([&](auto typed) { lower(typed); })
      .Case<graph::KernelOp>([&](graph::KernelOp kernel) { lowerKernel(kernel); });
}

//===-- parts -----------------------------------------------------------------===//

plan::StepOp StepBuilder::step(Operation *op, StringRef kernel, int64_t inputs, Operands operands,
                               ArrayRef<NamedAttribute> attributes) {
  auto queue = plan::QueueAttr::get(builder.getContext(), assignedQueue(op));
  SmallVector<NamedAttribute> all(attributes);
  if (Attribute micro = op->getAttr("zc.micro"))
    all.push_back(builder.getNamedAttr("micro", micro));
  return builder.create<plan::StepOp>(op->getLoc(), builder.getStringAttr(kernel), queue,
                                      builder.getI64IntegerAttr(inputs), builder.getArrayAttr(operands),
                                      builder.getDictionaryAttr(all), builder.getArrayAttr({}), FloatAttr(),
                                      publishing.contains(op) ? builder.getUnitAttr() : UnitAttr());
}

plan::OperandAttr StepBuilder::placeOf(Value value, Access access) {
  ArrayAttr places;
  unsigned index = 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    places = argument.getOwner()->getParentOp()->getAttrOfType<ArrayAttr>(placement::kInputs);
    index = argument.getArgNumber();
  } else {
    places = value.getDefiningOp()->getAttrOfType<ArrayAttr>(placement::kResults);
    index = cast<OpResult>(value).getResultNumber();
  }
  auto place = cast<plan::OperandAttr>(places[index]);
  return plan::OperandAttr::get(builder.getContext(), access, place.getSlice(), place.getOffset(),
                                place.getRankStride(), place.getType());
}

bool StepBuilder::samePlace(Value a, Value b) {
  plan::OperandAttr first = placeOf(a, Access::read), second = placeOf(b, Access::read);
  return first.getSlice() == second.getSlice() && first.getOffset() == second.getOffset() &&
         first.getRankStride() == second.getRankStride();
}

plan::OperandAttr StepBuilder::whole(FlatSymbolRefAttr slice, Access access, int64_t elements, Type type) {
  return plan::OperandAttr::get(builder.getContext(), access, slice, 0, 0, RankedTensorType::get({elements}, type));
}

/// Of two hops the one between nodes has the smaller buffer: the bucket is counted by the other.
SmallVector<NamedAttribute> StepBuilder::along(zero::Axis axis, StringRef counter) {
  SmallVector<NamedAttribute> attributes{traffic(axis == zero::Axis::node ? "hop" : counter)};
  if (axis != zero::Axis::all)
    attributes.push_back(builder.getNamedAttr("axis", builder.getStringAttr(zero::stringifyAxis(axis))));
  return attributes;
}

NamedAttribute StepBuilder::traffic(StringRef counter) {
  return builder.getNamedAttr("traffic", builder.getStringAttr(counter));
}

//===-- tensor operations -----------------------------------------------------===//

/// A constant as its kernel takes it: a splat as a number `value`, other elements as bytes `data`.
static NamedAttribute constantAttribute(OpBuilder &builder, ElementsAttr elements) {
  if (!elements.isSplat() || elements.getNumElements() == 0)
    return builder.getNamedAttr("data", elements);
  Attribute value = elements.getSplatValue<Attribute>();
  if (auto real = dyn_cast<FloatAttr>(value))
    return builder.getNamedAttr("value", builder.getF64FloatAttr(real.getValueAsDouble()));
  bool isBool = elements.getElementType().isInteger(1);
  auto integer = cast<IntegerAttr>(value).getValue();
  return builder.getNamedAttr("value",
                              builder.getI64IntegerAttr(isBool ? integer.getZExtValue() : integer.getSExtValue()));
}

void StepBuilder::lowerKernel(graph::KernelOp op) {
  if (op.getViewOperand() >= 0)
    return;
  Operands operands;
  for (Value operand : op->getOperands())
    operands.push_back(placeOf(operand, Access::read));
  for (Value result : op->getResults())
    operands.push_back(placeOf(result, Access::write));
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs()) {
    bool ours =
        attribute.getName().getValue().starts_with("plan.") || attribute.getName().getValue().starts_with("zc.");
    if (auto elements = dyn_cast<ElementsAttr>(attribute.getValue()))
      attributes.push_back(constantAttribute(builder, elements));
    else if (!ours && !isa<TypeAttr>(attribute.getValue()))
      attributes.push_back(attribute);
  }
  step(op, op.getKernelName(), op->getNumOperands(), operands, attributes);
}

void StepBuilder::lower(graph::AssignOp op) {
  auto parameter = SymbolTable::lookupNearestSymbolFrom(op, op.getParameterAttr());
  auto type = cast<RankedTensorType>(op.getValue().getType());
  auto target = plan::OperandAttr::get(builder.getContext(), Access::write,
                                       parameter->getAttrOfType<FlatSymbolRefAttr>("plan.slice"), 0, 0, type);
  step(op, "copy", 1, {placeOf(op.getValue(), Access::read), target});
}

void StepBuilder::lower(graph::OutputOp op) {
  step(op, "store_output", 1, {placeOf(op.getValue(), Access::read)},
       builder.getNamedAttr("output", builder.getI64IntegerAttr(numOutputs++)));
}

//===-- parameters and gradients ----------------------------------------------===//

void StepBuilder::lower(zero::GatherOp op) {
  step(op, "all_gather", 1, {placeOf(op.getShard(), Access::read), placeOf(op.getResult(), Access::write)},
       along(op.getAxis(), "gather"));
}

void StepBuilder::lower(zero::GradBufferOp op) {
  SmallVector<int64_t> gaps = buckets.lookup(op.getBucket()).getGaps();
  if (!gaps.empty())
    step(op, "fill_gaps", 0, {placeOf(op.getResult(), Access::write)},
         builder.getNamedAttr("gaps", builder.getDenseI64ArrayAttr(gaps)));
}

void StepBuilder::lower(zero::PutOp op) {
  plan::OperandAttr from = placeOf(op.getTensor(), Access::read), buffer = placeOf(op.getBuffer(), Access::write);
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  int64_t offset =
      buffer.getOffset() + static_cast<int64_t>(op.getOffset()) * graph::bytesOfElement(type.getElementType());
  if (from.getSlice() == buffer.getSlice() && from.getOffset() == offset)
    return; // computed in place
  auto to = plan::OperandAttr::get(builder.getContext(), Access::write, buffer.getSlice(), offset, 0, type);
  step(op, "copy", 1, {from, to});
}

void StepBuilder::lower(zero::ReduceScatterOp op) {
  if (samePlace(op.getBuffer(), op.getShard()) && worldSize == 1)
    return; // one rank, one micro-step: the gradient is where it belongs
  SmallVector<NamedAttribute> attributes = along(op.getAxis(), gradientCounter());
  attributes.push_back(builder.getNamedAttr("scale", op.getScaleAttr()));
  if (op.getAccumulate())
    attributes.push_back(builder.getNamedAttr("accumulate", builder.getI64IntegerAttr(1)));
  Access access = op.getAccumulate() ? Access::read_write : Access::write;
  step(op, "reduce_scatter", 1, {placeOf(op.getBuffer(), Access::read), placeOf(op.getShard(), access)}, attributes);
}

void StepBuilder::lower(zero::AccumulateOp op) {
  step(op, "accumulate_gradient", 1,
       {placeOf(op.getSource(), Access::read), placeOf(op.getTarget(), Access::read_write)},
       builder.getNamedAttr("restart", builder.getI64IntegerAttr(1)));
}

void StepBuilder::lower(zero::AllGatherOp op) {
  auto storage = op.getWhole().getDefiningOp<zero::StorageOp>();
  bool ofGradients = storage && storage.getWhat() == zero::Storage::gradients;
  step(op, "all_gather", 1, {placeOf(op.getOwn(), Access::read), placeOf(op.getWhole(), Access::write)},
       traffic(ofGradients ? "all_reduce" : "gather"));
}

//===-- ZeRO++ and the mesh -----------------------------------------------------===//

void StepBuilder::lower(zero::AllToAllOp op) {
  step(op, "all_to_all", 1, {placeOf(op.getInput(), Access::read), placeOf(op.getResult(), Access::write)},
       along(op.getAxis(), gradientCounter()));
}

/// A kernel of the operation's name and attributes; `residual` may be null.
void StepBuilder::lowerPieces(Operation *op, Value input, Value output, Access access, Value residual) {
  Operands operands{placeOf(input, Access::read), placeOf(output, access)};
  if (residual)
    operands.push_back(placeOf(residual, Access::read_write));
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (!attribute.getName().getValue().starts_with("plan."))
      attributes.push_back(attribute);
  step(op, op->getName().stripDialect(), 1, operands, attributes);
}

void StepBuilder::lower(zero::QuantizeOp op) {
  lowerPieces(op, op.getInput(), op.getResult(), Access::write, op.getResidual());
}
void StepBuilder::lower(zero::DequantizeOp op) { lowerPieces(op, op.getInput(), op.getResult(), Access::write); }
void StepBuilder::lower(zero::DequantizeSumQuantizeOp op) {
  lowerPieces(op, op.getInput(), op.getResult(), Access::write, op.getResidual());
}
void StepBuilder::lower(zero::DequantizeSumOp op) {
  lowerPieces(op, op.getInput(), op.getShard(), op.getAccumulate() ? Access::read_write : Access::write);
}

void StepBuilder::lower(zero::OwnPartOp op) {
  int64_t parts = op.getInput().getType().getNumElements() / op.getType().getNumElements();
  // Ranks count through a node first.
  int64_t divisor = op.getAxis() == zero::Axis::node ? worldSize / parts : 1;
  step(op, "own_part", 1, {placeOf(op.getInput(), Access::read), placeOf(op.getResult(), Access::write)},
       {builder.getNamedAttr("parts", builder.getI64IntegerAttr(parts)),
        builder.getNamedAttr("divisor", builder.getI64IntegerAttr(divisor))});
}

void StepBuilder::lower(zero::ReorderOp op) {
  auto rows = static_cast<int64_t>(op.getRows()), columns = static_cast<int64_t>(op.getColumns());
  zero::BufferType type = op.getInput().getType();
  auto seenAs = [&](Value value, Access access, int64_t first, int64_t second) {
    plan::OperandAttr flat = placeOf(value, access);
    int64_t piece = type.getNumElements() / (rows * columns);
    return plan::OperandAttr::get(builder.getContext(), access, flat.getSlice(), flat.getOffset(), flat.getRankStride(),
                                  RankedTensorType::get({first, second, piece}, type.getElementType()));
  };
  step(op, "transpose", 1,
       {seenAs(op.getInput(), Access::read, rows, columns), seenAs(op.getTarget(), Access::write, columns, rows)},
       builder.getNamedAttr("permutation", builder.getDenseI64ArrayAttr({1, 0, 2})));
}

//===-- copies between tiers ----------------------------------------------------===//

/// Named as the queue that executes it.
void StepBuilder::lowerCopy(Operation *op, Value source, Value target) {
  StringRef kernel = plan::stringifyQueue(assignedQueue(op));
  step(op, kernel, 1, {placeOf(source, Access::read), placeOf(target, Access::write)});
}

void StepBuilder::lower(zero::FetchOp op) { lowerCopy(op, op.getSource(), op.getTarget()); }
void StepBuilder::lower(zero::EvictOp op) { lowerCopy(op, op.getSource(), op.getTarget()); }

void StepBuilder::lower(zero::FillOp op) {
  step(op, "constant", 0, {placeOf(op.getResult(), Access::write)}, builder.getNamedAttr("value", op.getValueAttr()));
}

//===-- the update ------------------------------------------------------------===//

void StepBuilder::lower(zero::NormPartialOp op) {
  bool first = !op.getPrevious() || op.getReset();
  SmallVector<NamedAttribute> attributes;
  if (first)
    attributes.push_back(builder.getNamedAttr("first", builder.getI64IntegerAttr(1)));
  step(op, "norm_partial", 1,
       {placeOf(op.getGradient(), Access::read), placeOf(op.getResult(), first ? Access::write : Access::read_write)},
       attributes);
}

void StepBuilder::lower(zero::AllReduceOp op) {
  step(op, "all_reduce", 0, {placeOf(op.getResult(), Access::read_write)}, traffic("none"));
}

void StepBuilder::lower(zero::ClipFactorOp op) {
  SmallVector<NamedAttribute> attributes;
  if (op.getMaxNormAttr())
    attributes.push_back(builder.getNamedAttr("max_norm", op.getMaxNormAttr()));
  Operands operands{placeOf(op.getSum(), Access::read)};
  if (op.getWeight()) {
    operands.push_back(placeOf(op.getWeight(), Access::read));
    attributes.push_back(builder.getNamedAttr("terms", op.getTermsAttr()));
  }
  if (op.getScaled())
    attributes.push_back(builder.getNamedAttr("scaled", builder.getI64IntegerAttr(1)));
  auto inputs = static_cast<int64_t>(operands.size());
  operands.append({placeOf(op.getNorm(), Access::write), placeOf(op.getFactor(), Access::write)});
  step(op, "norm_finish", inputs, operands, attributes);
}

void StepBuilder::lower(zero::UpdateOp op) {
  Operands operands{placeOf(op.getGradient(), Access::read), placeOf(op.getFactor(), Access::read),
                    placeOf(op.getWeights(), Access::read_write)};
  for (Value moment : op.getMoments())
    operands.push_back(placeOf(moment, Access::read_write));
  if (op.getCopy())
    operands.push_back(placeOf(op.getCopy(), Access::write));
  SmallVector<NamedAttribute> attributes;
  for (StringRef name : {"beta1", "beta2", "eps", "momentum", "weight_decay"})
    attributes.push_back(builder.getNamedAttr(name, op->getAttr(name)));
  if (op->getParentOfType<ModuleOp>()->hasAttr("zc.eps_uncorrected"))
    attributes.push_back(builder.getNamedAttr("eps_uncorrected", builder.getI64IntegerAttr(1)));
  step(op, graph::stringifyOptimizer(op.getRule()), 2, operands, attributes);
}

void StepBuilder::lower(zero::PublishOp op) {
  bool isCopy = op.getTarget().getType().getElementType().isF32();
  step(op, isCopy ? "copy" : "cast", 1,
       {placeOf(op.getSource(), Access::read), placeOf(op.getTarget(), Access::write)});
}

/// One f64, or two where losses have weights: the sum of losses, the sum of weights.
plan::OperandAttr StepBuilder::lossSums(bool weighted) {
  return whole(FlatSymbolRefAttr::get(builder.getContext(), placement::kLossSlice), Access::read_write,
               weighted ? 2 : 1, builder.getF64Type());
}

void StepBuilder::lower(zero::RecordLossOp op) {
  Operands operands{placeOf(op.getLoss(), Access::read)};
  if (op.getWeight())
    operands.push_back(placeOf(op.getWeight(), Access::read));
  operands.push_back(lossSums(bool(op.getWeight())));
  step(op, "accumulate_loss", static_cast<int64_t>(operands.size()) - 1, operands);
}

void StepBuilder::lower(zero::ReduceLossOp op) {
  if (worldSize > 1)
    step(op, "all_reduce", 0, {lossSums(bool(op.getWeight()))}, traffic("none"));
}
