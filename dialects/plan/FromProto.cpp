//===- FromProto.cpp - plan message to plan dialect ------------------------------------===//

#include "dialects/graph/ModuleAttrs.h"
#include "dialects/plan/Execution.h"
#include "dialects/plan/FreeNames.h"
#include "dialects/plan/PlanProto.h"

using namespace mlir;
using namespace zc;
using namespace zc::plan;

namespace {

/// Indices of the message are checked as they are used: a plan that fails verification can still be looked at, one
/// whose tables do not fit together cannot.
class Reader {
public:
  Reader(MLIRContext &context, const planpb::Plan &plan)
      : plan(plan), context(context), builder(&context), module(ModuleOp::create(UnknownLoc::get(&context))) {
    nameAll();
    context.loadDialect<PlanDialect, graph::GraphDialect>();
    builder.setInsertionPointToEnd(module->getBody());
  }

  OwningOpRef<ModuleOp> read() {
    readHeader();
    readMesh();
    for (const planpb::ThreadShare &share : plan.thread_shares())
      builder.create<ShareOp>(loc(), QueueAttr::get(&context, static_cast<Queue>(share.queue())),
                              builder.getI64IntegerAttr(share.thousandths()));
    for (int i = 0; i < plan.arenas_size(); ++i)
      builder.create<ArenaOp>(loc(), builder.getStringAttr(arenaName(i)),
                              TierAttr::get(&context, static_cast<Tier>(plan.arenas(i).tier())),
                              builder.getI64IntegerAttr(plan.arenas(i).bytes()));
    for (int i = 0; i < plan.slices_size(); ++i)
      readSlice(i);
    for (const planpb::Input &input : plan.inputs())
      builder.create<InputOp>(loc(), builder.getStringAttr(input.name()), TypeAttr::get(tensorType(input.type())),
                              rangeOf(input));
    for (const planpb::Output &output : plan.outputs())
      readOutput(output);
    for (int i = 0; i < plan.buckets_size(); ++i)
      readBucket(i);
    for (const planpb::Parameter &parameter : plan.parameters())
      readParameter(parameter);
    readSection(Section::micro, plan.micro());
    readSection(Section::update, plan.update());
    if (plan.has_eval())
      readSection(Section::eval, plan.eval());
    return sound ? std::move(module) : OwningOpRef<ModuleOp>();
  }

private:
  Location loc() { return builder.getUnknownLoc(); }
  UnitAttr flag(bool set) { return set ? builder.getUnitAttr() : UnitAttr(); }
  FlatSymbolRefAttr symbol(const std::string &name) { return FlatSymbolRefAttr::get(&context, name); }

  void nameAll() {
    FreeNames names;
    for (const planpb::Parameter &parameter : plan.parameters())
      names.take(parameter.name());
    for (const planpb::Arena &arena : plan.arenas())
      arenaNames.push_back(names.next(stringifyTier(static_cast<Tier>(arena.tier())).str()));
    for (const planpb::Slice &slice : plan.slices())
      sliceNames.push_back(names.next(slice.name()));
    for (int i = 0; i < plan.buckets_size(); ++i)
      bucketNames.push_back(names.next("bucket" + std::to_string(i)));
  }

  std::string arenaName(uint32_t index) {
    if (index >= arenaNames.size() || !symbolizeTier(static_cast<uint32_t>(plan.arenas(int(index)).tier())))
      return wrong("arena"), "";
    return arenaNames[index];
  }

  void readSlice(int index) {
    const planpb::Slice &slice = plan.slices(index);
    MetricAttr metric;
    if (!plan.forward_only() && plan.metrics().loss_slice() == static_cast<uint32_t>(index))
      metric = MetricAttr::get(&context, Metric::loss);
    else if (!plan.forward_only() && plan.metrics().grad_norm_slice() == index)
      metric = MetricAttr::get(&context, Metric::grad_norm);
    builder.create<SliceOp>(loc(), builder.getStringAttr(sliceNames[size_t(index)]), symbol(arenaName(slice.arena())),
                            builder.getI64IntegerAttr(slice.offset()), builder.getI64IntegerAttr(slice.bytes()),
                            ClassAttr::get(&context, static_cast<Class>(slice.klass())), flag(slice.persistent()),
                            metric);
  }

  graph::IndexRangeAttr rangeOf(const planpb::Input &input) {
    if (!input.has_range())
      return {};
    const planpb::IndexRange &range = input.range();
    return graph::IndexRangeAttr::get(&context, range.lowest(), range.limit(),
                                      range.has_ignored() ? std::optional(range.ignored()) : std::nullopt,
                                      range.label(), range.has_shift() ? std::optional(range.shift()) : std::nullopt);
  }

  void wrong(const char *what) {
    if (sound)
      emitError(loc()) << "the plan refers to " << (*what == 'a' ? "an " : "a ") << what << " that it does not have";
    sound = false;
  }

  FlatSymbolRefAttr slice(int64_t index) {
    if (index < 0)
      return {};
    if (index >= plan.slices_size())
      return wrong("slice"), symbol("");
    return symbol(sliceNames[size_t(index)]);
  }

  std::string text(uint32_t index) {
    if (index >= static_cast<uint32_t>(plan.strings_size()))
      return wrong("string"), "";
    return plan.strings(static_cast<int>(index));
  }

  Type elementType(planpb::Type type) {
    switch (type) {
    case planpb::F32:
      return builder.getF32Type();
    case planpb::BF16:
      return builder.getBF16Type();
    case planpb::F16:
      return builder.getF16Type();
    case planpb::F64:
      return builder.getF64Type();
    case planpb::I64:
      return builder.getI64Type();
    case planpb::I32:
      return builder.getI32Type();
    case planpb::I16:
      return builder.getIntegerType(16);
    case planpb::I8:
      return builder.getIntegerType(8);
    case planpb::U8:
      return builder.getIntegerType(8, /*isSigned=*/false);
    case planpb::U16:
      return builder.getIntegerType(16, /*isSigned=*/false);
    case planpb::U32:
      return builder.getIntegerType(32, /*isSigned=*/false);
    case planpb::U64:
      return builder.getIntegerType(64, /*isSigned=*/false);
    case planpb::BOOL:
      return builder.getI1Type();
    default:
      return wrong("type"), builder.getF32Type();
    }
  }

  RankedTensorType tensorType(uint32_t index) {
    if (index >= static_cast<uint32_t>(plan.types_size()))
      return wrong("type"), RankedTensorType::get({}, builder.getF32Type());
    const planpb::TensorType &type = plan.types(static_cast<int>(index));
    for (int64_t dim : type.dims())
      if (dim < 0)
        return wrong("type"), RankedTensorType::get({}, builder.getF32Type());
    return RankedTensorType::get(ArrayRef<int64_t>(type.dims().data(), type.dims_size()), elementType(type.type()));
  }

  void readHeader() {
    readModel();
    if (!plan.command().empty())
      (*module)->setAttr(kCommand, builder.getStringAttr(plan.command()));
    graph::setTarget(*module, plan.target() == planpb::CUDA ? Target::cuda : Target::cpu);
    Execution execution;
    execution.zeroStage = plan.zero_stage();
    execution.accumulation = plan.accumulation();
    execution.vertical = plan.vertical();
    if (plan.has_delay())
      execution.delayAfter = static_cast<int64_t>(plan.delay().after());
    execution.flops = plan.report().flops();
    execution.deviceBudget = static_cast<int64_t>(plan.report().device().budget());
    execution.hostBudget = static_cast<int64_t>(plan.report().host().budget());
    execution.nvmeBudget = static_cast<int64_t>(plan.report().nvme().budget());
    setExecution(*module, execution);
    readTraining();
  }

  void readModel() {
    graph::Model model;
    model.path = plan.model().path();
    model.name = plan.model().name();
    model.bytes = static_cast<int64_t>(plan.model().bytes());
    model.hash = plan.model().hash();
    for (const planpb::ModelFile &file : plan.model().external())
      model.external.push_back({file.file(), static_cast<int64_t>(file.bytes()), file.hash()});
    graph::setModel(*module, model);
  }

  void readTraining() {
    graph::Training training;
    if (std::optional<Precision> precision = valueNamed<Precision>(plan.precision()))
      training.precision = *precision;
    else
      wrong("precision");
    training.matmulPrecision = plan.tf32() ? MatmulPrecision::tf32 : MatmulPrecision::ieee;
    training.seed = static_cast<int64_t>(plan.seed());
    training.forwardOnly = plan.forward_only();
    training.weightedLoss = plan.metrics().weighted();
    if (!plan.optimizer().rule().empty())
      training.optimizer = updateSettings();
    if (plan.has_loss_scale())
      training.lossScale = lossScale();
    graph::setTraining(*module, training);
  }

  UpdateSettings updateSettings() {
    const planpb::Optimizer &optimizer = plan.optimizer();
    std::optional<UpdateRule> rule = valueNamed<UpdateRule>(optimizer.rule());
    if (!rule)
      wrong("rule");
    UpdateSettings settings;
    settings.rule = rule.value_or(UpdateRule::adamw);
    settings.lr = optimizer.lr();
    settings.lrSchedule = optimizer.lr_schedule();
    settings.beta1 = optimizer.beta1();
    settings.beta2 = optimizer.beta2();
    settings.eps = optimizer.eps();
    settings.weightDecay = optimizer.weight_decay();
    settings.momentum = optimizer.momentum();
    settings.maxNorm = optimizer.max_norm();
    return settings;
  }

  graph::LossScale lossScale() const {
    graph::LossScale scale;
    scale.initial = plan.loss_scale().initial();
    scale.minimum = plan.loss_scale().minimum();
    scale.window = static_cast<int64_t>(plan.loss_scale().window());
    scale.hysteresis = static_cast<int64_t>(plan.loss_scale().hysteresis());
    scale.consecutive = plan.loss_scale().consecutive_hysteresis();
    return scale;
  }

  void readMesh() {
    SmallVector<Attribute> axes;
    for (const planpb::MeshAxis &axis : plan.mesh()) {
      std::optional<AxisKind> kind = symbolizeAxisKind(static_cast<uint32_t>(axis.kind()));
      if (!kind)
        return wrong("axis");
      axes.push_back(MeshAxisAttr::get(&context, axis.name(), axis.size(), *kind));
    }
    builder.create<MeshOp>(loc(), builder.getArrayAttr(axes));
  }

  template <typename Indices> ArrayAttr axesOf(const Indices &indices) {
    SmallVector<StringRef> names;
    for (uint32_t axis : indices)
      if (axis < static_cast<uint32_t>(plan.mesh_size()))
        names.push_back(plan.mesh(static_cast<int>(axis)).name());
      else
        wrong("axis");
    return names.empty() ? ArrayAttr() : builder.getStrArrayAttr(names);
  }

  void readOutput(const planpb::Output &output) {
    std::optional<graph::OutputKind> kind = graph::symbolizeOutputKind(static_cast<uint32_t>(output.kind()));
    if (!kind)
      return wrong("kind of output");
    builder.create<OutputOp>(loc(), builder.getStringAttr(output.name()), TypeAttr::get(tensorType(output.type())),
                             graph::OutputKindAttr::get(&context, *kind), flag(output.likelihood()),
                             flag(output.by_labels()));
  }

  void readBucket(int index) {
    const planpb::Bucket &bucket = plan.buckets(index);
    auto residual = [&](int i) {
      return i < bucket.residual_slices_size() ? slice(bucket.residual_slices(i)) : FlatSymbolRefAttr();
    };
    if (bucket.residual_slices_size() > 2)
      return wrong("residual");
    builder.create<BucketOp>(
        loc(), builder.getStringAttr(bucketNames[size_t(index)]), TypeAttr::get(elementType(bucket.type())),
        builder.getI64IntegerAttr(bucket.padded()), builder.getI64IntegerAttr(bucket.used()),
        slice(bucket.parameter_slice()), slice(bucket.gradient_slice()), slice(bucket.master_slice()),
        slice(bucket.moment1_slice()), slice(bucket.moment2_slice()), residual(0), residual(1),
        flag(bucket.trainable()), flag(bucket.parameters_sharded()), flag(bucket.gradients_sharded()),
        flag(bucket.optimizer_sharded()),
        bucket.has_gradient_type() ? TypeAttr::get(elementType(bucket.gradient_type())) : TypeAttr(),
        axesOf(bucket.axes()));
  }

  void readParameter(const planpb::Parameter &parameter) {
    RankedTensorType type = tensorType(parameter.type());
    FlatSymbolRefAttr bucket;
    IntegerAttr offset;
    if (parameter.bucket() >= plan.buckets_size())
      return wrong("bucket");
    if (parameter.bucket() >= 0) {
      bucket = symbol(bucketNames[size_t(parameter.bucket())]);
      offset = builder.getI64IntegerAttr(static_cast<int64_t>(parameter.offset()));
    }
    graph::CutAttr cut;
    if (parameter.has_cut())
      cut = graph::CutAttr::get(&context, parameter.cut().dim(), parameter.cut().groups(),
                                tensorType(parameter.cut().type()));
    graph::SourceAttr source;
    ElementsAttr value;
    if (parameter.has_source())
      source = graph::SourceAttr::get(&context, parameter.source().file(), parameter.source().offset(),
                                      parameter.source().bytes(), elementType(parameter.source().type()));
    else if (!parameter.inline_().empty() &&
             !(value = elementsFromRawBytes(cut ? cut.getWhole() : type, parameter.inline_())))
      return wrong("initial value");
    ArrayAttr tied;
    if (parameter.tied_size() > 0) {
      SmallVector<Attribute> names;
      for (const std::string &name : parameter.tied())
        names.push_back(builder.getStringAttr(name));
      tied = builder.getArrayAttr(names);
    }
    graph::PartAttr part;
    if (parameter.has_part())
      part = graph::PartAttr::get(&context, parameter.part().whole(), static_cast<int64_t>(parameter.part().first()),
                                  tensorType(parameter.part().type()));
    builder.create<ParameterOp>(loc(), builder.getStringAttr(parameter.name()), TypeAttr::get(type),
                                graph::RoleAttr::get(&context, static_cast<graph::Role>(parameter.role())), bucket,
                                offset, slice(parameter.slice()), source, value, tied, part, cut,
                                parameter.has_lr_scale() ? builder.getF64FloatAttr(parameter.lr_scale()) : FloatAttr(),
                                parameter.has_weight_decay() ? builder.getF64FloatAttr(parameter.weight_decay())
                                                             : FloatAttr());
  }

  void readSection(Section which, const planpb::Section &section) {
    auto op = builder.create<SectionOp>(loc(), which);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getBody());
    for (const planpb::Step &step : section.steps())
      readStep(step);
  }

  static SmallVector<int64_t> stridesOf(const planpb::Operand &operand) {
    return SmallVector<int64_t>(operand.strides().begin(), operand.strides().end());
  }

  void readStep(const planpb::Step &step) {
    SmallVector<Attribute> operands;
    for (const planpb::Operand &operand : step.operands())
      operands.push_back(operandOf(operand));
    NamedAttrList attributes;
    for (const planpb::Attribute &attribute : step.attributes())
      attributes.set(text(attribute.name()), attributeOf(attribute));
    std::string node = text(step.node());
    Location where = node.empty() ? loc() : Location(NameLoc::get(builder.getStringAttr(node)));
    builder.create<StepOp>(
        where, builder.getStringAttr(text(step.kernel())), QueueAttr::get(&context, static_cast<Queue>(step.queue())),
        builder.getI64IntegerAttr(step.inputs()), builder.getArrayAttr(operands), attributes.getDictionary(&context),
        waitsOf(context, step), unlessZero(step.seconds()), unlessZero(step.flops()),
        step.bytes() == 0 ? IntegerAttr() : builder.getI64IntegerAttr(static_cast<int64_t>(step.bytes())),
        flag(step.publishes()), step.has_workspace() ? operandOf(step.workspace()) : OperandAttr(),
        step.has_kept() ? operandOf(step.kept().place()) : OperandAttr(),
        step.has_kept() ? builder.getI64IntegerAttr(step.kept().input()) : IntegerAttr(), axesOf(step.axes()));
  }

  FloatAttr unlessZero(double number) { return number == 0 ? FloatAttr() : builder.getF64FloatAttr(number); }

  OperandAttr operandOf(const planpb::Operand &operand) {
    return OperandAttr::get(&context, static_cast<Access>(operand.access()), slice(operand.slice()), operand.offset(),
                            stridesOf(operand), tensorType(operand.type()));
  }

  Attribute attributeOf(const planpb::Attribute &attribute) {
    switch (attribute.value_case()) {
    case planpb::Attribute::kInteger:
      return builder.getI64IntegerAttr(attribute.integer());
    case planpb::Attribute::kReal:
      return builder.getF64FloatAttr(attribute.real());
    case planpb::Attribute::kText:
      return builder.getStringAttr(attribute.text());
    case planpb::Attribute::kData:
      return elementsFromRawBytes(
          RankedTensorType::get({static_cast<int64_t>(attribute.data().size())}, builder.getI8Type()),
          attribute.data());
    case planpb::Attribute::VALUE_NOT_SET:
      break;
    }
    return builder.getDenseI64ArrayAttr(ArrayRef<int64_t>(attribute.integers().data(), attribute.integers().size()));
  }

  const planpb::Plan &plan;
  MLIRContext &context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> arenaNames, sliceNames, bucketNames;
  bool sound = true;
};

} // namespace

ArrayAttr zc::plan::waitsOf(MLIRContext &context, const planpb::Step &step) {
  SmallVector<Attribute> waits;
  for (const planpb::Wait &wait : step.waits()) {
    const Section section = symbolizeSection(wait.section()).value_or(Section::update);
    waits.push_back(
        WaitAttr::get(&context, section, static_cast<Queue>(wait.queue()), wait.ordinal(), wait.distance()));
  }
  return ArrayAttr::get(&context, waits);
}

OwningOpRef<ModuleOp> zc::plan::fromProto(MLIRContext &context, const planpb::Plan &plan) {
  return Reader(context, plan).read();
}
