#include "runtime/train/Filled.h"

#include <algorithm>

namespace zc::train {

Status Filled::clearRest(RankExecutor &executor) {
  for (const planpb::Bucket &bucket : executor.plan().buckets()) {
    std::vector<int32_t> slices{bucket.parameter_slice(), bucket.master_slice(), bucket.moment1_slice(),
                                bucket.moment2_slice()};
    slices.insert(slices.end(), bucket.residual_slices().begin(), bucket.residual_slices().end());
    for (int32_t slice : slices) {
      if (slice < 0)
        continue;
      auto &filled = ranges[uint32_t(slice)];
      std::sort(filled.begin(), filled.end());
      int64_t next = 0;
      auto clearUntil = [&](int64_t end) {
        return end > next ? executor.clearSlice(uint32_t(slice), uint64_t(next), uint64_t(end - next)) : Status();
      };
      for (auto [first, end] : filled) {
        ZC_RETURN_IF_ERROR(clearUntil(first));
        next = std::max(next, end);
      }
      ZC_RETURN_IF_ERROR(clearUntil(int64_t(executor.plan().slices(slice).bytes())));
    }
  }
  return Status::success();
}

} // namespace zc::train
