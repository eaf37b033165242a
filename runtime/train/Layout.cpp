#include "runtime/train/Layout.h"

#include <algorithm>

namespace zc::train {

DType dtypeOf(planpb::Type type) {
  static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64,
                                     DType::i32, DType::i16,  DType::i8,  DType::u8,  DType::boolean,
                                     DType::u16, DType::u32,  DType::u64};
  return type >= 0 && static_cast<size_t>(type) < std::size(kTypes) ? kTypes[type] : DType::u8;
}

TensorType typeOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  const planpb::TensorType &type = plan.types(int(parameter.type()));
  return {dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}};
}

std::vector<Store> storesOf(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  if (parameter.bucket() < 0)
    return {{uint32_t(parameter.slice()), typeOf(plan, parameter).dtype, false}};
  const planpb::Bucket &bucket = plan.buckets(parameter.bucket());
  std::vector<Store> stores;
  if (bucket.parameter_slice() >= 0)
    stores.push_back({uint32_t(bucket.parameter_slice()), dtypeOf(bucket.type()), bucket.parameters_sharded()});
  if (bucket.trainable() && bucket.master_slice() >= 0)
    stores.push_back({uint32_t(bucket.master_slice()), DType::f32, bucket.optimizer_sharded()});
  return stores;
}

Store exactStore(const planpb::Plan &plan, const planpb::Parameter &parameter) {
  return storesOf(plan, parameter).back();
}

Piece pieceOf(const planpb::Plan &plan, const planpb::Parameter &parameter, const Store &store, int rank) {
  int64_t elements = typeOf(plan, parameter).numElements();
  if (parameter.bucket() < 0)
    return {0, elements, 0};
  int64_t offset = int64_t(parameter.offset());
  if (!store.sharded)
    return {0, elements, offset};
  int64_t shard = int64_t(plan.buckets(parameter.bucket()).padded()) / plan.world_size();
  int64_t begin = std::max(offset, rank * shard), end = std::min(offset + elements, (rank + 1) * shard);
  if (begin >= end)
    return {};
  return {begin - offset, end - begin, begin - rank * shard};
}

} // namespace zc::train
