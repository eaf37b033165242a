//===- Zero.cpp - the zero dialect ---------------------------------------------===//

#include "dialects/zero/Zero.h"
#include "base/Tensor.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <climits>

using namespace mlir;
using namespace zc;
using namespace zc::zero;

#include "dialects/zero/ZeroDialect.cpp.inc"
#include "dialects/zero/ZeroEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/zero/ZeroAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/zero/ZeroTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/zero/ZeroOps.cpp.inc"

void ZeroDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/zero/ZeroAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/zero/ZeroTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/zero/ZeroOps.cpp.inc"
      >();
  attachScheduleOfGraph(*getContext());
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t numElements, Type elementType,
                                 Tier) {
  // buffer_c1: sums of such numbers, and their bytes, fit int64_t
  if (numElements < 0 || numElements >= kMaxElements || !elementType.isIntOrFloat())
    return emitError() << "[buffer_c1] there is no buffer of " << numElements << " elements of " << elementType;
  return success();
}

static std::vector<MeshAxis> meshAxesOf(MeshOp mesh) {
  std::vector<MeshAxis> axes;
  for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    axes.push_back({axis.getName().str(), static_cast<int>(std::clamp<int64_t>(axis.getSize(), 0, INT_MAX)),
                    axis.getKind() == AxisKind::data});
  return axes;
}

Mesh MeshOp::getMesh() { return Mesh(meshAxesOf(*this)); }

LogicalResult MeshOp::verify() {
  // mesh_c1
  if (std::string problem = Mesh::problem(meshAxesOf(*this)); !problem.empty())
    return emitOpError("[mesh_c1] ") << problem;
  // mesh_c2
  if ((*this)->getPrevNode())
    return emitOpError("[mesh_c2] is not the first operation of its module");
  return success();
}

bool zc::zero::hasWiderSums(Type type) { return type.isBF16() || type.isF16(); }

/// Are sums of `from` kept in `to`, and not rounded?
static bool widens(Type from, Type to) { return zc::zero::hasWiderSums(from) && to.isF32(); }

/// Do `count` elements from `offset` on lie in `all`? None of the three may be trusted to add up.
static bool liesIn(int64_t offset, int64_t count, int64_t all) {
  return offset >= 0 && count >= 0 && count <= all && offset <= all - count;
}

LogicalResult BucketOp::verify() {
  const auto padded = static_cast<int64_t>(getPadded());
  int64_t end = 0;
  for (auto member : getMembers().getAsRange<MemberAttr>()) {
    // bucket_c2
    if (member.getOffset() % kAlignment != 0)
      return emitOpError("[bucket_c2] member ")
             << member.getParameter() << " starts at " << member.getOffset() << ", not a multiple of " << kAlignment;
    // bucket_c3
    if (member.getOffset() < end)
      return emitOpError("[bucket_c3] member ") << member.getParameter() << " starts at " << member.getOffset()
                                                << ", inside the one before, which ends at " << end;
    // bucket_c1
    if (!liesIn(member.getOffset(), member.getNumElements(), padded))
      return emitOpError("[bucket_c1] member ")
             << member.getParameter() << ", " << member.getNumElements() << " elements from " << member.getOffset()
             << " on, is not inside of " << padded;
    end = member.getOffset() + member.getNumElements();
  }
  if (padded <= 0 || padded % kAlignment != 0)
    return emitOpError("[bucket_c1] padded is ")
           << padded << " elements, no multiple of " << kAlignment << " that is more than 0";
  // bucket_c4
  if (!isa<FloatType>(getType()))
    return emitOpError("[bucket_c4] holds ") << getType() << ", which is no float";
  // bucket_c7
  if (auto sums = getGradientType(); sums && !widens(getType(), *sums))
    return emitOpError("[bucket_c7] sums gradients of ") << getType() << " in " << *sums;
  return success();
}

int64_t BucketOp::getUsed() {
  int64_t used = 0;
  for (auto member : getMembers().getAsRange<MemberAttr>())
    used += member.getNumElements();
  return used;
}

SmallVector<int64_t> BucketOp::getGaps() {
  SmallVector<int64_t> gaps;
  int64_t end = 0;
  auto gapUpTo = [&](int64_t begin) {
    if (begin > end)
      gaps.append({end, begin - end});
  };
  for (auto member : getMembers().getAsRange<MemberAttr>()) {
    gapUpTo(member.getOffset());
    end = member.getOffset() + member.getNumElements();
  }
  gapUpTo(getPadded());
  return gaps;
}

void BucketOp::build(OpBuilder &builder, OperationState &state, StringRef name, Type type, int64_t padded,
                     ArrayAttr members, bool trainable, bool cut, ArrayAttr axes) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getPaddedAttrName(state.name), builder.getI64IntegerAttr(padded));
  state.addAttribute(getMembersAttrName(state.name), members);
  state.addAttribute(getAxesAttrName(state.name), axes);
  if (trainable)
    state.addAttribute(getTrainableAttrName(state.name), builder.getUnitAttr());
  if (cut)
    state.addAttribute(getCutAttrName(state.name), builder.getUnitAttr());
}

bool BucketOp::hasMaster() {
  return getTrainable() && (!getType().isF32() || getDelayed() || getOptimizerTier() != getParametersTier());
}

bool BucketOp::isSharded(Storage what) {
  if (what == Storage::parameters)
    return getParametersSharded();
  return what == Storage::gradients ? getGradientsSharded() : !isResidual(what) && getOptimizerSharded();
}

Tier BucketOp::getTier(Storage what) {
  if (what == Storage::parameters)
    return getParametersTier();
  if (isResidual(what))
    return Tier::device; // where gradients are quantized
  if (what == Storage::norm)
    return Tier::host; // where gradients land
  return what == Storage::gradients ? getGradientsTier() : getOptimizerTier();
}

Type BucketOp::getStoredType(Storage what) {
  if (what == Storage::gradients)
    return getGradientType().value_or(getType());
  if (what == Storage::parameters || isResidual(what))
    return getType();
  if (what == Storage::norm)
    return IntegerType::get(getContext(), 64);
  return Float32Type::get(getContext());
}

/// By its place: a search of the module for each operation would make verification quadratic.
static MeshOp declaredMesh(ModuleOp module) {
  return module && !module.getBody()->empty() ? dyn_cast<MeshOp>(module.getBody()->front()) : MeshOp();
}
static MeshOp declaredMesh(Operation *op) { return declaredMesh(op->getParentOfType<ModuleOp>()); }

Mesh zc::zero::meshOf(ModuleOp module) {
  MeshOp mesh = declaredMesh(module);
  return mesh ? mesh.getMesh() : Mesh();
}

AxisSet zc::zero::axesOf(ArrayAttr names, const Mesh &mesh) {
  if (!names)
    return mesh.dataAxes();
  AxisSet axes;
  for (auto name : names.getAsRange<StringAttr>())
    axes = axes | mesh.find(name.getValue());
  return axes;
}

ArrayAttr zc::zero::namesOf(MLIRContext *context, AxisSet axes, const Mesh &mesh) {
  SmallVector<StringRef> names;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    if (axes.has(axis))
      names.push_back(mesh.axes()[axis].name);
  return Builder(context).getStrArrayAttr(names);
}

SmallVector<int64_t, 2> zc::zero::stridesOf(const Mesh &mesh, AxisSet axes, int64_t bytes) {
  SmallVector<int64_t, 2> strides;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    strides.push_back(mesh.axes()[axis].size > 1 ? bytes * mesh.strideIn(axes, axis) : 0);
  while (!strides.empty() && strides.back() == 0)
    strides.pop_back();
  return strides;
}

void zc::zero::addStrides(SmallVectorImpl<int64_t> &strides, ArrayRef<int64_t> more) {
  strides.resize(std::max(strides.size(), more.size()), 0);
  for (auto [axis, bytes] : llvm::enumerate(more))
    strides[axis] += bytes;
}

Value zc::zero::normShare(OpBuilder &builder, Location location, BucketOp bucket, Value buffer, const Mesh &mesh) {
  const AxisSet axes = mesh.modelAxes();
  if (bucket.getCut() || mesh.size(axes) == 1)
    return buffer;
  auto type = cast<BufferType>(buffer.getType());
  auto share = BufferType::get(builder.getContext(), type.getNumElements() / mesh.size(axes), type.getElementType(),
                               type.getTier());
  return builder.create<PartOp>(location, share, buffer, builder.getI64IntegerAttr(0),
                                namesOf(builder.getContext(), axes, mesh));
}

Value zc::zero::sumOverRanks(OpBuilder &builder, Location location, Value partial, const Mesh &mesh) {
  if (mesh.worldSize() == 1)
    return partial;
  ArrayAttr axes = mesh.modelAxes().empty() ? ArrayAttr() : namesOf(builder.getContext(), mesh.all(), mesh);
  return builder.create<AllReduceOp>(location, partial.getType(), partial, axes);
}

StorageOp zc::zero::createStorage(OpBuilder &builder, Location location, BucketOp bucket, Storage what,
                                  const Mesh &mesh, bool own) {
  int64_t cuts = cutsOf(bucket, mesh), elements = storedElements(bucket, what, mesh);
  bool isPart = own && !bucket.isSharded(what);
  auto type = BufferType::get(builder.getContext(), isPart ? elements / cuts : elements, bucket.getStoredType(what),
                              bucket.getTier(what));
  return builder.create<StorageOp>(location, type, bucket.getSymName(), what, isPart && cuts > 1);
}

int64_t zc::zero::storedElements(BucketOp bucket, Storage what, const Mesh &mesh) {
  auto padded = static_cast<int64_t>(bucket.getPadded());
  if (what == Storage::norm)
    return kNormLimbs;
  if (what == Storage::residual2) // of what a node sums
    return padded / mesh.sizeOnNode(axesOf(bucket.getAxesAttr(), mesh));
  return bucket.isSharded(what) ? padded / cutsOf(bucket, mesh) : padded;
}

Tier zc::zero::tierOf(Type type) {
  auto buffer = dyn_cast<BufferType>(type);
  return buffer ? buffer.getTier() : Tier::device;
}

bool zc::zero::isView(Operation *op) { return isa<ViewOp, PartOp>(op) || graph::isView(op); }

Value zc::zero::viewedValue(Value value) {
  value = graph::viewedValue(value);
  if (auto view = value.getDefiningOp<ViewOp>())
    value = view.getBuffer();
  while (auto part = value.getDefiningOp<PartOp>())
    value = part.getBuffer();
  return value;
}

RankedTensorType zc::zero::storedType(Type type) {
  if (auto buffer = dyn_cast<BufferType>(type))
    return RankedTensorType::get({buffer.getNumElements()}, buffer.getElementType());
  return cast<RankedTensorType>(type);
}

//===-- verifiers -------------------------------------------------------------===//

/// The tensor of `op` at `offset` lies inside `buffer` and has its element type; `label` names the constraint.
static LogicalResult verifyPlace(Operation *op, BufferType buffer, RankedTensorType tensor, int64_t offset,
                                 StringRef label) {
  if (tensor.getElementType() != buffer.getElementType() || buffer.getTier() != Tier::device ||
      !liesIn(offset, tensor.getNumElements(), buffer.getNumElements()))
    return op->emitOpError("[") << label << "] " << tensor << " at element " << offset << " does not lie in " << buffer;
  return success();
}

static FailureOr<BucketOp> lookUpBucket(Operation *op, FlatSymbolRefAttr name, SymbolTableCollection &symbols) {
  // bucket_c5
  auto bucket = symbols.lookupNearestSymbolFrom<BucketOp>(op, name);
  if (!bucket)
    return op->emitOpError("[bucket_c5] names ") << name << ", which is no bucket";
  return bucket;
}

/// axes_c1
static LogicalResult verifyAxes(Operation *op, ArrayAttr names) {
  if (!names)
    return success();
  MeshOp declared = declaredMesh(op);
  if (!declared)
    return op->emitOpError("[axes_c1] names axes, but there is no zero.mesh");
  Mesh mesh = declared.getMesh();
  if (namesOf(op->getContext(), axesOf(names, mesh), mesh) != names || names.empty())
    return op->emitOpError("[axes_c1] names ") << names << ", which are not axes of the mesh in its order";
  return success();
}

/// bucket_c1 of its shards.
LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyAxes(*this, getAxesAttr())))
    return failure();
  MeshOp declared = declaredMesh(*this);
  const int64_t cuts = declared ? cutsOf(*this, declared.getMesh()) : 1;
  if (static_cast<int64_t>(getPadded()) % (cuts * kAlignment) != 0)
    return emitOpError("[bucket_c1] ") << getPadded() << " elements are not " << cuts << " shards of a multiple of "
                                       << kAlignment;
  return success();
}
LogicalResult GatherOp::verifySymbolUses(SymbolTableCollection &) { return verifyAxes(*this, getAxesAttr()); }
LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &) { return verifyAxes(*this, getAxesAttr()); }
LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &) { return verifyAxes(*this, getAxesAttr()); }
LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &) { return verifyAxes(*this, getAxesAttr()); }
/// part_c1 of a part for each rank along axes.
LogicalResult PartOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyAxes(*this, getAxesAttr())))
    return failure();
  int64_t ranks = 1;
  if (ArrayAttr axes = getAxesAttr()) {
    const Mesh mesh = declaredMesh(*this).getMesh();
    ranks = mesh.size(axesOf(axes, mesh));
  }
  if (!liesIn(static_cast<int64_t>(getOffset()), getType().getNumElements() * ranks,
              getBuffer().getType().getNumElements()))
    return emitOpError("[part_c1] ") << ranks << " parts of " << getType() << " from element " << getOffset()
                                     << " on do not lie in " << getBuffer().getType();
  return success();
}
LogicalResult OwnPartOp::verifySymbolUses(SymbolTableCollection &symbols) { return verifyAxes(*this, getAxesAttr()); }

LogicalResult StorageOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<BucketOp> bucket = lookUpBucket(*this, getBucketAttr(), symbols);
  if (failed(bucket))
    return failure();
  // storage_c1
  BufferType type = getType();
  auto offset = static_cast<int64_t>(getOffset());
  int64_t mostElements = getWhat() == Storage::norm ? kNormLimbs : static_cast<int64_t>(bucket->getPadded());
  if (type.getElementType() != bucket->getStoredType(getWhat()) || type.getTier() != bucket->getTier(getWhat()) ||
      !liesIn(offset, type.getNumElements(), mostElements))
    return emitOpError("[storage_c1] ") << type << " at element " << offset << " is no part of the "
                                        << stringifyStorage(getWhat()) << " of a bucket of " << bucket->getPadded()
                                        << " " << bucket->getStoredType(getWhat()) << " on "
                                        << stringifyTier(bucket->getTier(getWhat()));
  return success();
}

LogicalResult GradBufferOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<BucketOp> bucket = lookUpBucket(*this, getBucketAttr(), symbols);
  if (failed(bucket))
    return failure();
  // bucket_c6
  auto expected =
      BufferType::get(getContext(), static_cast<int64_t>(bucket->getPadded()), bucket->getType(), Tier::device);
  if (getType() != expected)
    return emitOpError("[bucket_c6] has ") << getType() << " but the bucket needs " << expected;
  return success();
}

/// `parts` times the elements of `shard` are those of `whole`, same tier; same type, or a sum that is not rounded.
static LogicalResult verifyShard(Operation *op, BufferType shard, BufferType whole, StringRef label,
                                 bool isSum = false) {
  const bool isOfType = shard.getElementType() == whole.getElementType() ||
                        (isSum && widens(whole.getElementType(), shard.getElementType()));
  if (!isOfType || shard.getTier() != whole.getTier() || shard.getNumElements() <= 0 ||
      whole.getNumElements() % shard.getNumElements() != 0)
    return op->emitOpError("[") << label << "] " << shard << " is no shard of " << whole;
  return success();
}

/// A copy from `source` to `target`, `down` tiers down (negative: up).
static LogicalResult verifyCopy(Operation *op, Type source, Type target, int down, StringRef label) {
  RankedTensorType from = storedType(source), to = storedType(target);
  bool tiersFit = static_cast<int>(tierOf(target)) - static_cast<int>(tierOf(source)) == down;
  if (!tiersFit || from.getElementType() != to.getElementType() || from.getNumElements() != to.getNumElements())
    return op->emitOpError("[") << label << "] cannot copy " << source << " to " << target;
  return success();
}

LogicalResult FetchOp::verify() {
  return verifyCopy(*this, getSource().getType(), getTarget().getType(), -1, "fetch_c1");
}

LogicalResult EvictOp::verify() {
  return verifyCopy(*this, getSource().getType(), getTarget().getType(), 1, "evict_c1");
}

LogicalResult PublishOp::verify() {
  // publish_c1
  BufferType source = getSource().getType(), target = getTarget().getType();
  if (source.getNumElements() != target.getNumElements() || source.getTier() != target.getTier() ||
      !source.getElementType().isF32() || !isa<FloatType>(target.getElementType()))
    return emitOpError("[publish_c1] ") << source << " does not become " << target;
  return success();
}

LogicalResult PartOp::verify() {
  // part_c1
  BufferType whole = getBuffer().getType(), part = getType();
  auto offset = static_cast<int64_t>(getOffset());
  if (whole.getElementType() != part.getElementType() || whole.getTier() != part.getTier() ||
      !liesIn(offset, part.getNumElements(), whole.getNumElements()))
    return emitOpError("[part_c1] ") << part << " at element " << offset << " does not lie in " << whole;
  return success();
}

LogicalResult GatherOp::verify() { return verifyShard(*this, getShard().getType(), getType(), "gather_c1"); }

LogicalResult AllGatherOp::verify() {
  return verifyShard(*this, getOwn().getType(), getWhole().getType(), "all_gather_c1");
}

LogicalResult ReduceScatterOp::verify() {
  return verifyShard(*this, getShard().getType(), getBuffer().getType(), "reduce_scatter_c1", /*isSum=*/true);
}

LogicalResult ViewOp::verify() {
  return verifyPlace(*this, getBuffer().getType(), cast<RankedTensorType>(getResult().getType()), getOffset(),
                     "view_c1");
}

LogicalResult PutOp::verify() {
  return verifyPlace(*this, getBuffer().getType(), cast<RankedTensorType>(getTensor().getType()), getOffset(),
                     "put_c1");
}

LogicalResult NormPartialOp::verify() {
  // norm_partial_c1
  auto expected =
      BufferType::get(getContext(), kNormLimbs, IntegerType::get(getContext(), 64), getGradient().getType().getTier());
  if (getType() != expected || (getPrevious() && getPrevious().getType() != expected))
    return emitOpError("[norm_partial_c1] needs accumulators of type ") << expected;
  return success();
}

LogicalResult ClipFactorOp::verify() {
  // clip_factor_c1
  auto expected = BufferType::get(getContext(), 1, Float32Type::get(getContext()), getSum().getType().getTier());
  if (getNorm().getType() != expected || getFactor().getType() != expected)
    return emitOpError("[clip_factor_c1] needs results of type ") << expected;
  // clip_factor_c2
  auto weight = BufferType::get(getContext(), 1, Float64Type::get(getContext()), getSum().getType().getTier());
  if (bool(getWeight()) != getTerms().has_value() ||
      (getWeight() && (getWeight().getType() != weight || *getTerms() < 1)))
    return emitOpError("[clip_factor_c2] needs a weight of type ")
           << weight << " and the number of its terms, or neither";
  return success();
}

LogicalResult ReduceLossOp::verify() {
  // reduce_loss_c1
  auto expected = BufferType::get(getContext(), 1, Float64Type::get(getContext()), Tier::device);
  if (getWeight() && getWeight().getType() != expected)
    return emitOpError("[reduce_loss_c1] needs a result of type ") << expected;
  return success();
}

LogicalResult UpdateOp::verify() {
  // update_c1
  BufferType weights = getWeights().getType();
  auto fits = [&](Value value, bool isF32) {
    auto type = cast<BufferType>(value.getType());
    return type.getNumElements() == weights.getNumElements() && type.getTier() == weights.getTier() &&
           (!isF32 || type.getElementType().isF32());
  };
  bool sound = fits(getGradient(), false) && fits(getWeights(), true) && (!getCopy() || fits(getCopy(), false)) &&
               getFactor().getType().getTier() == weights.getTier() && getFactor().getType().getNumElements() == 1 &&
               llvm::all_of(getMoments(), [&](Value moment) { return fits(moment, true); });
  if (!sound || getMoments().size() != momentsOf(getRule()))
    return emitOpError("[update_c1] ") << nameOf(getRule()) << " takes " << momentsOf(getRule())
                                       << " moments; all but the factor as many elements, all on one tier";
  return success();
}
