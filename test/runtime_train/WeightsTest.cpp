#include "runtime/train/Weights.h"

#include "runtime/exec/Job.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Layout.h"
#include "test/runtime_train/TrainPlan.h"

#include <cstring>
#include <limits>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

namespace {

struct NoInput : InputLoader {
  Status load(uint32_t, const StepContext &, void *, uint64_t) override { return {}; }
};

std::string sliceBytes(RankExecutor &executor, uint32_t slice) {
  std::string bytes(size_t(executor.plan().slices(int(slice)).bytes()), '\0');
  EXPECT_TRUE(executor.readSlice(slice, 0, bytes.data(), bytes.size()).ok());
  return bytes;
}

/// All that buckets keep, full of 0xff, then loaded.
Status loadOverOld(const planpb::Plan &plan, const InitialValues &values, DeviceKind device, const TempFolder &folder,
                   const std::function<void(RankExecutor &)> &look) {
  return runJob(meshOf(plan), [&](Communicator &communicator) -> Status {
    KernelRegistry registry;
    registerCpuKernels(registry);
    NoInput loader;
    ExecutorOptions options;
    options.device = device;
    options.nvme.folder = folder.path;
    auto executor = prepareRank(plan, options, communicator, registry, loader);
    ZC_RETURN_IF_ERROR(executor.status());
    for (const planpb::Bucket &bucket : plan.buckets())
      for (int32_t slice :
           {bucket.parameter_slice(), bucket.master_slice(), bucket.moment1_slice(), bucket.moment2_slice()})
        if (slice >= 0) {
          const std::string old(size_t(plan.slices(slice).bytes()), '\xff');
          ZC_RETURN_IF_ERROR((*executor)->writeSlice(uint32_t(slice), 0, old.data(), old.size()));
        }
    ZC_RETURN_IF_ERROR(loadWeights(**executor, values));
    if (communicator.rank() == communicator.worldSize() - 1) // whose shard has the padding
      look(**executor);
    return {};
  });
}

} // namespace

/// Whatever stood there before, on every tier.
TEST(Weights, AreThereAndAllElseOfABucketIsZero) {
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered})
    for (DeviceKind device : {DeviceKind::sync, DeviceKind::fake}) {
      TempFolder folder;
      const planpb::Plan plan = trainPlan(folder.write("model.onnx", modelBytes()), 3, 1, placement);
      auto values = InitialValues::fromModel(plan, true);
      ASSERT_TRUE(values.ok()) << render(values.error());
      Status status = loadOverOld(plan, *values, device, folder, [&](RankExecutor &executor) {
        const planpb::Bucket &bucket = plan.buckets(0);
        for (int32_t slice : {bucket.moment1_slice(), bucket.moment2_slice()}) {
          const std::string moments = sliceBytes(executor, uint32_t(slice));
          EXPECT_EQ(moments, std::string(moments.size(), '\0'));
        }
        const Store store = exactStore(plan, plan.parameters(0));
        const Piece piece = pieceOf(plan, meshOf(plan), plan.parameters(0), store, executor.rank());
        const std::string bytes = sliceBytes(executor, store.slice);
        std::vector<float> expected(bytes.size() / sizeof(float), 0), got(expected.size());
        const std::vector<float> all = initialWeights();
        std::copy_n(all.begin() + piece.first, piece.count, expected.begin() + piece.at);
        std::memcpy(got.data(), bytes.data(), bytes.size());
        EXPECT_EQ(got, expected);
      });
      EXPECT_TRUE(status.ok()) << render(status.error());
    }
}

/// At any address; each element as by itself.
TEST(Weights, AreConvertedLikeSingleNumbers) {
  const std::vector<float> numbers = {
      0, -0.0f, 1, 1.00390625f, 65504, 1e-7f, 3e38f, -2.5f, std::numeric_limits<float>::infinity()};
  const DType types[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (DType from : types)
    for (DType to : types) {
      const auto count = int64_t(numbers.size());
      std::vector<char> source(size_t(count * sizeOf(from)) + 1), target(size_t(count * sizeOf(to)) + 1);
      convert(numbers.data(), DType::f32, source.data() + 1, from, count);
      convert(source.data() + 1, from, target.data() + 1, to, count);
      for (int64_t i = 0; i < count; ++i) {
        std::vector<char> one(size_t(sizeOf(to)));
        convert(source.data() + 1 + i * sizeOf(from), from, one.data(), to, 1);
        EXPECT_EQ(std::memcmp(one.data(), target.data() + 1 + i * sizeOf(to), one.size()), 0)
            << nameOf(from) << " " << nameOf(to) << " " << i;
      }
      float back = 0;
      convert(target.data() + 1 + 3 * sizeOf(to), to, &back, DType::f32, 1);
      const bool isBf16 = from == DType::bf16 || to == DType::bf16; // has 8 bits: to even
      EXPECT_EQ(back, isBf16 ? 1.0f : numbers[3]);
    }
}
