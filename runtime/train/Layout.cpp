#include "runtime/train/Layout.h"

#include <algorithm>
#include <map>

namespace zc::train {

DType dtypeOf(planpb::Type type) {
  static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64,
                                     DType::i32, DType::i16,  DType::i8,  DType::u8,  DType::boolean,
                                     DType::u16, DType::u32,  DType::u64};
  return type >= 0 && static_cast<size_t>(type) < std::size(kTypes) ? kTypes[type] : DType::u8;
}

static TensorType typeAt(const planpb::Plan &plan, uint32_t index) {
  const planpb::TensorType &type = plan.types(int(index));
  return {dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}};
}

TensorType typeOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  return typeAt(plan, parameter.type());
}

/// Of which the parameter is a part, or itself, on a rank.
static TensorType untiledTypeOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  return typeAt(plan, parameter.has_part() ? parameter.part().type() : parameter.type());
}

/// The axes over which a bucket's slice is cut that is a shard or whole.
static AxisSet cutOf(const planpb::Bucket &bucket, bool sharded) { return sharded ? axesOf(bucket) : AxisSet(); }

std::vector<Store> storesOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  if (parameter.bucket() < 0)
    return {{uint32_t(parameter.slice()), typeOf(plan, parameter).dtype}};
  const planpb::Bucket &bucket = plan.buckets(parameter.bucket());
  std::vector<Store> stores;
  if (bucket.parameter_slice() >= 0)
    stores.push_back(
        {uint32_t(bucket.parameter_slice()), dtypeOf(bucket.type()), cutOf(bucket, bucket.parameters_sharded())});
  if (bucket.trainable() && bucket.master_slice() >= 0)
    stores.push_back({uint32_t(bucket.master_slice()), DType::f32, cutOf(bucket, bucket.optimizer_sharded())});
  return stores;
}

Store exactStore(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  return storesOf(plan, parameter).back();
}

Piece pieceOf(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, const Store &store,
              int rank) {
  int64_t elements = typeOf(plan, parameter).numElements();
  if (parameter.bucket() < 0)
    return {0, elements, 0};
  int64_t offset = int64_t(parameter.offset());
  int64_t shard = int64_t(plan.buckets(parameter.bucket()).padded()) / mesh.size(store.cut);
  int64_t first = mesh.indexOf(store.cut, rank) * shard;
  int64_t begin = std::max(offset, first), end = std::min(offset + elements, first + shard);
  if (begin >= end)
    return {};
  return {begin - offset, end - begin, begin - first};
}

const char *nameOf(State state) {
  static constexpr const char *kNames[] = {"weights", "moment1", "moment2", "published"};
  return kNames[size_t(state)];
}

std::optional<Store> storeOf(const planpb::Plan &plan, const planpb::Parameter &parameter, State state) {
  if (state == State::weights)
    return exactStore(plan, parameter);
  if (state == State::published && !plan.has_delay())
    return std::nullopt;
  if (parameter.bucket() < 0 || !plan.buckets(parameter.bucket()).trainable())
    return state == State::published ? std::optional<Store>(exactStore(plan, parameter)) : std::nullopt;
  const planpb::Bucket &bucket = plan.buckets(parameter.bucket());
  if (state == State::published)
    return Store{uint32_t(bucket.parameter_slice()), dtypeOf(bucket.type()),
                 cutOf(bucket, bucket.parameters_sharded())};
  int32_t slice = state == State::moment1 ? bucket.moment1_slice() : bucket.moment2_slice();
  if (slice < 0)
    return std::nullopt;
  return Store{uint32_t(slice), DType::f32, cutOf(bucket, bucket.optimizer_sharded())};
}

Piece writtenPieceOf(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, const Store &store,
                     int rank) {
  const bool isShared = parameter.bucket() >= 0;
  Store cut = store;
  cut.cut = isShared ? axesOf(plan.buckets(parameter.bucket())) : AxisSet();
  const AxisSet writers = parameter.has_cut() ? cut.cut | mesh.modelAxes() : cut.cut;
  if (mesh.groupOf(writers, rank) != 0)
    return {};
  Piece piece = pieceOf(plan, mesh, parameter, cut, rank);
  if (isShared && store.cut.empty())
    piece.at = int64_t(parameter.offset()) + piece.first;
  return piece;
}

const std::string &wholeNameOf(const planpb::Parameter &parameter) {
  return parameter.has_part() ? parameter.part().whole() : parameter.name();
}

TensorType wholeTypeOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  return parameter.has_cut() ? typeAt(plan, parameter.cut().type()) : untiledTypeOf(plan, parameter);
}

std::vector<Piece> inWhole(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, Piece piece,
                           int rank) {
  piece.first += firstOf(parameter);
  if (!parameter.has_cut())
    return {piece};
  // A run of what the rank has is inside one of the whole's, at the rank's place.
  const TensorType type = untiledTypeOf(plan, parameter), whole = wholeTypeOf(plan, parameter);
  const size_t dim = parameter.cut().dim();
  const int64_t groups = parameter.cut().groups();
  int64_t run = type.dims[dim] / groups, wholeRun = whole.dims[dim] / groups;
  for (size_t i = dim + 1; i < type.dims.size(); ++i) {
    run *= type.dims[i];
    wholeRun *= type.dims[i];
  }
  const int64_t begin = mesh.indexOf(mesh.modelAxes(), rank) * run;
  std::vector<Piece> pieces;
  while (piece.count > 0) {
    int64_t number = piece.first / run, within = piece.first % run, now = std::min(run - within, piece.count);
    if (int64_t there = std::min(now, wholeRun - begin - within); there > 0) // beyond the end are zeros
      pieces.push_back({number * wholeRun + begin + within, there, piece.at});
    piece.first += now;
    piece.at += now;
    piece.count -= now;
  }
  return pieces;
}

std::vector<Whole> wholesOf(const planpb::Plan &plan) {
  std::vector<Whole> wholes;
  std::map<std::string, size_t> known; // of what was cut
  for (const planpb::Parameter &parameter : plan.parameters()) {
    auto [entry, isNew] = parameter.has_part() ? known.try_emplace(parameter.part().whole(), wholes.size())
                                               : std::make_pair(known.end(), true);
    if (isNew)
      wholes.push_back({wholeNameOf(parameter), wholeTypeOf(plan, parameter), {}});
    (parameter.has_part() ? wholes[entry->second] : wholes.back()).parts.push_back(&parameter);
  }
  for (Whole &whole : wholes)
    std::sort(whole.parts.begin(), whole.parts.end(), [](auto *a, auto *b) { return firstOf(*a) < firstOf(*b); });
  return wholes;
}

} // namespace zc::train
