//===- ZeroBucket.cpp - lay parameters out flat in buckets -------------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/zero/Zero.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

namespace zc {
#define GEN_PASS_DEF_ZEROBUCKET
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// What parameters of one bucket have in common.
struct Group {
  Type type;
  bool trainable;
  FloatAttr weightDecay, lrScale; ///< null where there is no update, or no scale
  bool cut;                       ///< over the model axis
  bool operator==(const Group &other) const {
    return type == other.type && trainable == other.trainable && weightDecay == other.weightDecay &&
           lrScale == other.lrScale && cut == other.cut;
  }
};

/// A bucket being filled.
struct OpenBucket {
  Group group;
  SmallVector<Attribute> members;
  int64_t end = 0; ///< elements, aligned
};

struct ZeroBucketPass : StagePass<impl::ZeroBucketBase<ZeroBucketPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    OpBuilder builder(getOperation().getBodyRegion());
    builder.setInsertionPointToEnd(getOperation().getBody());
    for (auto symbol : getOperation().getOps<SymbolOpInterface>())
      names.insert(symbol.getName());
    declareMesh(builder);
    for (graph::ParameterOp parameter : parametersInOrderOfUse())
      add(builder, parameter);
    for (OpenBucket &bucket : open)
      close(builder, bucket);
  }

  /// The model axis where it is asked for, always inside of the nodes; of size 1 it is left out.
  void declareMesh(OpBuilder &builder) {
    int64_t perNode = options.perNode();
    auto axis = [&](std::string_view name, int64_t size, zero::AxisKind kind = zero::AxisKind::data) -> Attribute {
      return zero::MeshAxisAttr::get(&getContext(), StringRef(name.data(), name.size()), size, kind);
    };
    SmallVector<Attribute> axes{axis(kNodeAxis, options.worldSize / perNode),
                                axis(kLocalAxis, perNode / options.model)};
    if (options.model > 1)
      axes.insert(options.modelPlace == ModelPlace::outermost     ? axes.begin()
                  : options.modelPlace == ModelPlace::beforeLocal ? axes.begin() + 1
                                                                  : axes.end(),
                  axis(kModelAxis, options.model, zero::AxisKind::model));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(getOperation().getBody());
    mesh = builder.create<zero::MeshOp>(getOperation().getLoc(), builder.getArrayAttr(axes)).getMesh();
    dataAxes = zero::namesOf(&getContext(), mesh.dataAxes(), mesh);
  }

  /// Bucketed parameters; what no program reads needs no place.
  SmallVector<graph::ParameterOp> parametersInOrderOfUse() {
    SymbolTable symbols(getOperation());
    llvm::SetVector<Operation *> ordered;
    getOperation().walk([&](Operation *op) {
      if (auto read = dyn_cast<graph::ReadOp>(op))
        ordered.insert(symbols.lookup(read.getParameter()));
      else if (auto update = dyn_cast<graph::UpdateOp>(op))
        updates[update.getParameter()] = update;
    });
    SmallVector<graph::ParameterOp> parameters;
    for (Operation *op : ordered) {
      auto parameter = cast<graph::ParameterOp>(op);
      if (parameter.getRole() != graph::Role::buffer)
        parameters.push_back(parameter);
    }
    return parameters;
  }

  void add(OpBuilder &builder, graph::ParameterOp parameter) {
    auto type = cast<RankedTensorType>(parameter.getType());
    graph::UpdateOp update = updates.lookup(parameter.getSymName());
    Group group{type.getElementType(), parameter.getRole() == graph::Role::trainable,
                update ? update.getWeightDecayAttr() : FloatAttr(), update ? update.getLrScaleAttr() : FloatAttr(),
                bool(parameter.getCutAttr())};
    int64_t bytesPerElement = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    if (parameter.getPart()) { // a tile is gathered and released by itself
      OpenBucket own{group, {memberAt(parameter, 0)}, type.getNumElements()};
      return close(builder, own);
    }
    auto found = llvm::find_if(open, [&](OpenBucket &bucket) { return bucket.group == group; });
    if (found != open.end() && found->end > 0 &&
        (found->end + type.getNumElements()) * bytesPerElement > options.bucketSize) {
      close(builder, *found);
      found->members.clear();
      found->end = 0;
    }
    if (found == open.end()) {
      open.push_back(OpenBucket{group, {}, 0});
      found = std::prev(open.end());
    }
    found->members.push_back(memberAt(parameter, found->end));
    found->end = llvm::alignTo(found->end + type.getNumElements(), zero::kAlignment);
  }

  static zero::MemberAttr memberAt(graph::ParameterOp parameter, int64_t offset) {
    return zero::MemberAttr::get(parameter.getContext(), FlatSymbolRefAttr::get(parameter.getSymNameAttr()), offset,
                                 cast<RankedTensorType>(parameter.getType()).getNumElements());
  }

  /// Of a gradient that all ranks of the model axis have whole each adds its share to the norm: a multiple of blocks.
  /// Parameters without an element have a bucket too.
  void close(OpBuilder &builder, OpenBucket &bucket) {
    const bool isShared = bucket.group.trainable && !bucket.group.cut;
    const int64_t shares = mesh.dataDegree() * (isShared ? mesh.size(mesh.modelAxes()) : 1);
    std::string name; // parameters have the model's names, whatever those are
    do
      name = "bucket" + std::to_string(index++);
    while (names.contains(name));
    builder.create<zero::BucketOp>(
        getOperation().getLoc(), name, bucket.group.type,
        static_cast<int64_t>(llvm::alignTo(std::max<int64_t>(1, bucket.end), zero::kAlignment * shares)),
        builder.getArrayAttr(bucket.members), bucket.group.trainable, bucket.group.cut, dataAxes);
    ++numBuckets;
  }

  Mesh mesh;
  ArrayAttr dataAxes;
  llvm::StringSet<> names; ///< of the module's symbols
  int64_t index = 0;       ///< of the next bucket; statistics may be compiled out
  SmallVector<OpenBucket> open;
  llvm::StringMap<graph::UpdateOp> updates; ///< by parameter
};

} // namespace

std::unique_ptr<Pass> createZeroBucket(const ShardOptions &options) {
  return std::make_unique<ZeroBucketPass>(options);
}

} // namespace zc
