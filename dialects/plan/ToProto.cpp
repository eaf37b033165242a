//===- ToProto.cpp - plan dialect to plan message ------------------------------------===//

#include "dialects/graph/ModuleAttrs.h"
#include "dialects/graph/NodeNames.h"
#include "dialects/plan/Execution.h"
#include "dialects/plan/PlanProto.h"
#include "runtime/plan/PlanFile.h"

using namespace mlir;
using namespace zc;
using namespace zc::plan;

namespace {

std::optional<planpb::Type> protoType(Type type) {
  if (type.isF32())
    return planpb::F32;
  if (type.isBF16())
    return planpb::BF16;
  if (type.isF16())
    return planpb::F16;
  if (type.isF64())
    return planpb::F64;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return std::nullopt;
  switch (integer.getWidth()) {
  case 1:
    return planpb::BOOL;
  case 8:
    return integer.isUnsigned() ? planpb::U8 : planpb::I8;
  case 16:
    return integer.isUnsigned() ? planpb::U16 : planpb::I16;
  case 32:
    return integer.isUnsigned() ? planpb::U32 : planpb::I32;
  case 64:
    return integer.isUnsigned() ? planpb::U64 : planpb::I64;
  default:
    return std::nullopt;
  }
}

class Writer {
public:
  Writer(ModuleOp module, bool nodes) : module(module), nodes(nodes) {}

  FailureOr<planpb::Plan> write() {
    writeHeader();
    for (auto mesh : module.getOps<MeshOp>())
      writeMesh(mesh);
    for (Operation &op : *module.getBody())
      if (failed(writeDeclaration(&op)))
        return failure();
    for (auto parameter : module.getOps<ParameterOp>())
      if (failed(writeParameter(parameter)))
        return failure();
    for (auto section : module.getOps<SectionOp>())
      if (failed(writeSection(section)))
        return failure();
    return std::move(result);
  }

private:
  //===-- header ------------------------------------------------------------===//

  void writeHeader() {
    result.set_format(kPlanFormat);
    result.set_producer("zero-compile " ZC_VERSION);
    if (auto command = module->getAttrOfType<StringAttr>(kCommand))
      result.set_command(command.str());
    writeModel(graph::modelOf(module));
    result.set_target(graph::targetOf(module) == Target::cuda ? planpb::CUDA : planpb::CPU);
    const Execution execution = executionOf(module);
    result.set_zero_stage(static_cast<uint32_t>(execution.zeroStage));
    result.set_accumulation(static_cast<uint32_t>(execution.accumulation));
    result.set_vertical(execution.vertical);
    if (execution.delayAfter)
      result.mutable_delay()->set_after(static_cast<uint64_t>(*execution.delayAfter));
    result.mutable_report()->set_flops(execution.flops);
    writeTraining(graph::trainingOf(module));
    result.add_strings(""); // index 0: no name
    stringIndex[""] = 0;
  }

  void writeModel(const graph::Model &from) {
    auto *model = result.mutable_model();
    model->set_path(from.path);
    model->set_bytes(static_cast<uint64_t>(from.bytes));
    model->set_hash(from.hash);
    model->set_name(from.name);
    for (const graph::Model::File &external : from.external) {
      auto *file = model->add_external();
      file->set_file(external.name);
      file->set_bytes(static_cast<uint64_t>(external.bytes));
      file->set_hash(external.hash);
    }
  }

  void writeTraining(const graph::Training &training) {
    result.set_precision(::zc::nameOf(training.precision));
    result.set_tf32(training.matmulPrecision == MatmulPrecision::tf32);
    result.set_seed(static_cast<uint64_t>(training.seed));
    result.set_forward_only(training.forwardOnly);
    result.mutable_metrics()->set_weighted(training.weightedLoss);
    result.mutable_optimizer();
    if (training.optimizer)
      writeOptimizer(*training.optimizer);
    if (training.lossScale)
      writeLossScale(*training.lossScale);
  }

  void writeLossScale(const graph::LossScale &from) {
    auto *scale = result.mutable_loss_scale();
    scale->set_initial(from.initial);
    scale->set_minimum(from.minimum);
    scale->set_window(static_cast<uint64_t>(from.window));
    scale->set_hysteresis(static_cast<uint64_t>(from.hysteresis));
    scale->set_consecutive_hysteresis(from.consecutive);
  }

  void writeOptimizer(const UpdateSettings &from) {
    auto *optimizer = result.mutable_optimizer();
    optimizer->set_rule(::zc::nameOf(from.rule));
    optimizer->set_lr(from.lrOrDefault());
    optimizer->set_lr_schedule(from.lrSchedule);
    optimizer->set_beta1(from.beta1);
    optimizer->set_beta2(from.beta2);
    optimizer->set_eps(from.eps);
    optimizer->set_weight_decay(from.weightDecayOrDefault());
    optimizer->set_momentum(from.momentum);
    optimizer->set_max_norm(from.maxNorm);
  }

  //===-- tables ------------------------------------------------------------===//

  uint32_t stringOf(StringRef value) {
    auto [entry, isNew] = stringIndex.try_emplace(value, static_cast<uint32_t>(result.strings_size()));
    if (isNew)
      result.add_strings(value.str());
    return entry->second;
  }

  FailureOr<uint32_t> typeOf(Operation *op, RankedTensorType type) {
    auto [entry, isNew] = typeIndex.try_emplace(type, static_cast<uint32_t>(result.types_size()));
    if (!isNew)
      return entry->second;
    std::optional<planpb::Type> element = protoType(type.getElementType());
    if (!element)
      return op->emitOpError("has element type ") << type.getElementType() << ", which plans do not know";
    auto *message = result.add_types();
    message->set_type(*element);
    for (int64_t dim : type.getShape())
      message->add_dims(dim);
    return entry->second;
  }

  /// Index of a slice; -1 for none.
  FailureOr<int32_t> sliceOf(Operation *op, FlatSymbolRefAttr symbol) {
    if (!symbol)
      return -1;
    auto found = sliceIndex.find(symbol.getValue());
    if (found == sliceIndex.end())
      return op->emitOpError("refers to ") << symbol << ", which is no slice above it";
    return found->second;
  }

  /// The node, or the nodes that are computed as one.
  static std::string nameOf(Location loc) {
    if (StringRef node = graph::nodeOf(loc); !node.empty())
      return node.str();
    return llvm::join(graph::nodesOf(loc), ", ");
  }

  void writeMesh(MeshOp mesh) {
    for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>()) {
      planpb::MeshAxis *message = result.add_mesh();
      message->set_name(axis.getName().str());
      message->set_size(static_cast<uint32_t>(axis.getSize()));
      message->set_kind(static_cast<planpb::AxisKind>(axis.getKind()));
    }
  }

  /// Indices of axes of the mesh.
  LogicalResult writeAxes(Operation *op, ArrayAttr names, google::protobuf::RepeatedField<uint32_t> *axes) {
    if (!names)
      return success();
    for (auto name : names.getAsRange<StringAttr>()) {
      auto found =
          llvm::find_if(result.mesh(), [&](const planpb::MeshAxis &axis) { return axis.name() == name.strref(); });
      if (found == result.mesh().end())
        return op->emitOpError("names axis ") << name << ", which the mesh has not";
      axes->Add(static_cast<uint32_t>(std::distance(result.mesh().begin(), found)));
    }
    return success();
  }

  LogicalResult writeDeclaration(Operation *op) {
    if (auto arena = dyn_cast<ArenaOp>(op)) {
      arenaIndex.try_emplace(arena.getSymName(), static_cast<uint32_t>(result.arenas_size()));
      auto *message = result.add_arenas();
      message->set_tier(static_cast<planpb::Tier>(arena.getTier()));
      message->set_bytes(arena.getBytes());
    } else if (auto share = dyn_cast<ShareOp>(op)) {
      auto *message = result.add_thread_shares();
      message->set_queue(static_cast<planpb::Queue>(share.getQueue()));
      message->set_thousandths(static_cast<uint32_t>(share.getThousandths()));
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      return writeSlice(slice);
    } else if (auto input = dyn_cast<InputOp>(op)) {
      FailureOr<uint32_t> type = typeOf(op, cast<RankedTensorType>(input.getType()));
      if (failed(type))
        return failure();
      auto *message = result.add_inputs();
      message->set_name(input.getName().str());
      message->set_type(*type);
      if (graph::IndexRangeAttr range = input.getRangeAttr())
        writeRange(range, *message->mutable_range());
    } else if (auto output = dyn_cast<OutputOp>(op)) {
      FailureOr<uint32_t> type = typeOf(op, cast<RankedTensorType>(output.getType()));
      if (failed(type))
        return failure();
      auto *message = result.add_outputs();
      message->set_name(output.getName().str());
      message->set_type(*type);
      message->set_kind(static_cast<planpb::OutputKind>(output.getKind()));
      message->set_likelihood(output.getLikelihood());
      message->set_by_labels(output.getByLabels());
    } else if (auto bucket = dyn_cast<BucketOp>(op)) {
      return writeBucket(bucket);
    }
    return success();
  }

  static void writeRange(graph::IndexRangeAttr from, planpb::IndexRange &range) {
    range.set_lowest(from.getLowest());
    range.set_limit(from.getLimit());
    if (from.getIgnored())
      range.set_ignored(*from.getIgnored());
    range.set_label(from.getLabel());
    if (from.getShift())
      range.set_shift(*from.getShift());
  }

  LogicalResult writeSlice(SliceOp slice) {
    auto arena = arenaIndex.find(slice.getArena());
    if (arena == arenaIndex.end())
      return slice.emitOpError("refers to @") << slice.getArena() << ", which is no arena above it";
    if (slice.getMetric() == Metric::loss)
      result.mutable_metrics()->set_loss_slice(static_cast<uint32_t>(result.slices_size()));
    if (slice.getMetric() == Metric::grad_norm)
      result.mutable_metrics()->set_grad_norm_slice(result.slices_size());
    sliceIndex[slice.getSymName()] = result.slices_size();
    auto *message = result.add_slices();
    message->set_arena(arena->second);
    message->set_offset(slice.getOffset());
    message->set_bytes(slice.getBytes());
    message->set_klass(static_cast<planpb::Class>(slice.getKlass()));
    message->set_persistent(slice.getPersistent());
    message->set_name(slice.getSymName().str());
    return success();
  }

  LogicalResult writeBucket(BucketOp bucket) {
    std::optional<planpb::Type> type = protoType(bucket.getType()),
                                sums = protoType(bucket.getGradientType().value_or(bucket.getType()));
    FailureOr<int32_t> parameters = sliceOf(bucket, bucket.getParametersAttr()),
                       gradients = sliceOf(bucket, bucket.getGradientsAttr()),
                       master = sliceOf(bucket, bucket.getMasterAttr()),
                       moment1 = sliceOf(bucket, bucket.getMoment1Attr()),
                       moment2 = sliceOf(bucket, bucket.getMoment2Attr()),
                       residual1 = sliceOf(bucket, bucket.getResidual1Attr()),
                       residual2 = sliceOf(bucket, bucket.getResidual2Attr());
    if (!type || !sums || failed(parameters) || failed(gradients) || failed(master) || failed(moment1) ||
        failed(moment2) || failed(residual1) || failed(residual2))
      return failure();
    bucketIndex[bucket.getSymName()] = result.buckets_size();
    auto *message = result.add_buckets();
    message->set_type(*type);
    message->set_padded(bucket.getPadded());
    message->set_used(bucket.getUsed());
    message->set_trainable(bucket.getTrainable());
    message->set_parameter_slice(*parameters);
    message->set_gradient_slice(*gradients);
    message->set_master_slice(*master);
    message->set_moment1_slice(*moment1);
    message->set_moment2_slice(*moment2);
    for (int32_t residual : {*residual1, *residual2})
      if (residual >= 0)
        message->add_residual_slices(residual);
    message->set_parameters_sharded(bucket.getParametersSharded());
    message->set_gradients_sharded(bucket.getGradientsSharded());
    message->set_optimizer_sharded(bucket.getOptimizerSharded());
    if (bucket.getGradientType())
      message->set_gradient_type(*sums);
    return writeAxes(bucket, bucket.getAxesAttr(), message->mutable_axes());
  }

  LogicalResult writeParameter(ParameterOp parameter) {
    auto type = cast<RankedTensorType>(parameter.getType());
    FailureOr<uint32_t> index = typeOf(parameter, type);
    FailureOr<int32_t> slice = sliceOf(parameter, parameter.getSliceAttr());
    if (failed(index) || failed(slice))
      return failure();
    auto *message = result.add_parameters();
    message->set_name(parameter.getSymName().str());
    message->set_type(*index);
    message->set_role(static_cast<planpb::Role>(parameter.getRole()));
    message->set_slice(*slice);
    message->set_bucket(-1);
    if (auto bucket = parameter.getBucketAttr()) {
      auto found = bucketIndex.find(bucket.getValue());
      if (found == bucketIndex.end())
        return parameter.emitOpError("refers to ") << bucket << ", which is no bucket";
      message->set_bucket(found->second);
      message->set_offset(static_cast<uint64_t>(parameter.getOffset().value_or(0)));
    }
    writeContents(parameter, *message);
    if (auto tied = parameter.getTiedAttr())
      for (auto name : tied.getAsRange<StringAttr>())
        message->add_tied(name.str());
    if (auto scale = parameter.getLrScaleAttr())
      message->set_lr_scale(scale.getValueAsDouble());
    if (auto decay = parameter.getWeightDecayAttr())
      message->set_weight_decay(decay.getValueAsDouble());
    if (failed(writeWhole(parameter, *message)))
      return failure();
    count(parameter.getCutAttr() ? parameter.getCutAttr().getWhole() : type, *message);
    return success();
  }

  /// Where its bytes are at first.
  static void writeContents(ParameterOp parameter, planpb::Parameter &message) {
    if (auto source = parameter.getSourceAttr()) {
      auto *where = message.mutable_source();
      where->set_file(source.getFile().str());
      where->set_offset(source.getOffset());
      where->set_bytes(source.getBytes());
      where->set_type(protoType(source.getDtype()).value_or(planpb::F32));
    } else if (auto value = parameter.getValueAttr()) {
      message.set_inline_(rawBytesOf(value));
    }
  }

  /// The tensor that it is a tile of, and the one that it is a rank's share of.
  LogicalResult writeWhole(ParameterOp parameter, planpb::Parameter &message) {
    if (auto part = parameter.getPartAttr()) {
      FailureOr<uint32_t> whole = typeOf(parameter, part.getType());
      if (failed(whole))
        return failure();
      message.mutable_part()->set_whole(part.getWhole().str());
      message.mutable_part()->set_type(*whole);
      message.mutable_part()->set_first(static_cast<uint64_t>(part.getFirst()));
    }
    if (auto cut = parameter.getCutAttr()) {
      FailureOr<uint32_t> whole = typeOf(parameter, cut.getWhole());
      if (failed(whole))
        return failure();
      message.mutable_cut()->set_type(*whole);
      message.mutable_cut()->set_dim(static_cast<uint32_t>(cut.getDim()));
      message.mutable_cut()->set_groups(static_cast<uint32_t>(cut.getGroups()));
    }
    return success();
  }

  /// Adds its elements to the report's, unless the first tile of its whole has brought them.
  void count(RankedTensorType whole, const planpb::Parameter &message) {
    const bool isCounted = message.has_cut() && message.part().first() > 0;
    if (!isCounted && (message.role() == planpb::TRAINABLE || (result.forward_only() && message.bucket() >= 0)))
      result.mutable_report()->set_parameters(result.report().parameters() +
                                              static_cast<uint64_t>(whole.getNumElements()));
  }

  //===-- steps -------------------------------------------------------------===//

  LogicalResult writeSection(SectionOp section) {
    const Section which = section.getSection();
    planpb::Section *message = which == Section::micro    ? result.mutable_micro()
                               : which == Section::update ? result.mutable_update()
                                                          : result.mutable_eval();
    for (auto step : section.getBody().front().getOps<StepOp>())
      if (failed(writeStep(step, *message->add_steps())))
        return failure();
    return success();
  }

  LogicalResult writeStep(StepOp step, planpb::Step &message) {
    message.set_queue(static_cast<planpb::Queue>(step.getQueue()));
    message.set_kernel(stringOf(step.getKernel()));
    message.set_inputs(static_cast<uint32_t>(step.getInputs()));
    // What is of no node, as the update, has the module's location.
    if (nodes && step.getLoc() != module.getLoc())
      message.set_node(stringOf(nameOf(step.getLoc())));
    if (step.getSeconds())
      message.set_seconds(step.getSeconds()->convertToDouble());
    if (step.getFlops())
      message.set_flops(step.getFlops()->convertToDouble());
    message.set_bytes(step.getBytes().value_or(0));
    message.set_publishes(step.getPublishes());
    if (failed(writeAxes(step, step.getAxesAttr(), message.mutable_axes())))
      return failure();
    for (auto operand : step.getOperandsAttr().getAsRange<OperandAttr>())
      if (failed(writeOperand(step, operand, *message.add_operands())))
        return failure();
    if (OperandAttr workspace = step.getWorkspaceAttr())
      if (failed(writeOperand(step, workspace, *message.mutable_workspace())))
        return failure();
    if (OperandAttr kept = step.getKeptAttr()) {
      message.mutable_kept()->set_input(static_cast<uint32_t>(step.getKeptInput().value_or(0)));
      if (failed(writeOperand(step, kept, *message.mutable_kept()->mutable_place())))
        return failure();
    }
    for (NamedAttribute attribute : step.getAttrs())
      if (failed(writeAttribute(step, attribute, *message.add_attributes())))
        return failure();
    for (auto wait : step.getWaits().getAsRange<WaitAttr>()) {
      auto *out = message.add_waits();
      out->set_section(static_cast<uint32_t>(wait.getSection()));
      out->set_queue(static_cast<planpb::Queue>(wait.getQueue()));
      out->set_ordinal(static_cast<uint32_t>(wait.getOrdinal()));
      out->set_distance(static_cast<uint32_t>(wait.getDistance()));
    }
    return success();
  }

  LogicalResult writeOperand(StepOp step, OperandAttr operand, planpb::Operand &message) {
    FailureOr<int32_t> slice = sliceOf(step, operand.getSlice());
    FailureOr<uint32_t> type = typeOf(step, operand.getType());
    if (failed(slice) || failed(type))
      return failure();
    message.set_slice(static_cast<uint32_t>(*slice));
    message.set_type(*type);
    message.set_offset(operand.getOffset());
    message.mutable_strides()->Add(operand.getStrides().begin(), operand.getStrides().end());
    message.set_access(static_cast<planpb::Access>(operand.getAccess()));
    return success();
  }

  LogicalResult writeAttribute(StepOp step, NamedAttribute attribute, planpb::Attribute &message) {
    message.set_name(stringOf(attribute.getName().strref()));
    Attribute value = attribute.getValue();
    if (isa<UnitAttr>(value))
      message.set_integer(1);
    else if (auto boolean = dyn_cast<BoolAttr>(value))
      message.set_integer(boolean.getValue() ? 1 : 0);
    else if (auto integer = dyn_cast<IntegerAttr>(value))
      message.set_integer(integer.getInt());
    else if (auto real = dyn_cast<FloatAttr>(value))
      message.set_real(real.getValueAsDouble());
    else if (auto text = dyn_cast<StringAttr>(value))
      message.set_text(text.str());
    else if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
      message.mutable_integers()->Add(integers.asArrayRef().begin(), integers.asArrayRef().end());
    else if (auto elements = dyn_cast<ElementsAttr>(value))
      message.set_data(rawBytesOf(elements));
    else
      return step.emitOpError("has an attribute plans do not know: ") << attribute.getName() << " = " << value;
    return success();
  }

  ModuleOp module;
  bool nodes;
  planpb::Plan result;
  llvm::StringMap<uint32_t> stringIndex, arenaIndex;
  llvm::StringMap<int32_t> sliceIndex, bucketIndex;
  DenseMap<Type, uint32_t> typeIndex;
};

} // namespace

FailureOr<planpb::Plan> zc::plan::toProto(ModuleOp module, bool nodes) { return Writer(module, nodes).write(); }
