// Optimizers against torch 2.13 (torch.optim, lr 0.01, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1, momentum 0.9)
// after 100 steps from p[i] = (i - 3) / 4 with gradients g[i] = ((7 i + 5 step) mod 33 - 16) / 64.
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

struct Expected {
  std::string name;
  std::vector<double> p;
};
const Expected kTorch[] = {
    {"adamw",
     {-0.656230271, -0.463190556, -0.24943772, -0.019651942, 0.27037397, 0.466557026, 0.677224815, 0.872145891}},
    {"adam",
     {-0.382228136, -0.255280077, -0.139243349, -0.0113185551, 0.151796252, 0.261931181, 0.380635858, 0.531393528}},
    {"sgd",
     {-0.676908851, -0.45159927, -0.226627842, -0.001508652, 0.228428662, 0.453841746, 0.678916216, 0.904138923}},
    {"momentum",
     {-0.279188156, -0.186473951, -0.0920904502, -0.00267387647, 0.0978591219, 0.185758337, 0.278078765, 0.363760442}},
};
constexpr size_t kMoments[] = {2, 2, 0, 1};
const Attributes kAttributes = {
    {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"momentum", 0.9}};

TEST(Optimizer, hundredStepsAsTorch) {
  for (bool plain : {true, false})
    for (size_t rule = 0; rule < 4; ++rule) {
      SCOPED_TRACE(kTorch[rule].name + (plain ? " plain" : " fast"));
      TensorType state{DType::f32, {8}};
      // The factor halves a gradient that comes doubled.
      Call call{kTorch[rule].name, {Value(state), f32({}, {0.5})}, {Value(state)}, kAttributes};
      for (size_t i = 0; i < 8; ++i)
        call.outputs[0].set(i, (static_cast<double>(i) - 3) / 4);
      for (size_t i = 0; i < kMoments[rule]; ++i)
        call.outputs.push_back(f32({8}, std::vector<double>(8, 0)));
      for (int step = 1; step <= 100; ++step) {
        for (int i = 0; i < 8; ++i)
          call.inputs[0].set(static_cast<size_t>(i), ((7 * i + 5 * step) % 33 - 16) / 32.0);
        call.context = {step, 0, 0.01};
        auto outputs = run(call, plain);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        call.outputs = *outputs;
      }
      expectNear(call.outputs[0], kTorch[rule].p, 1e-6);
    }
}

/// Without weight decay an infinite parameter whose gradient is 0 stays what it is: a mask that is trained.
TEST(Optimizer, leavesInfiniteParameters) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (bool plain : {true, false})
    for (size_t rule = 0; rule < 4; ++rule) {
      Call call{kTorch[rule].name, {f32({2}, {0, 1}), f32({}, {1})}, {f32({2}, {-infinity, 1})}, kAttributes};
      call.attributes["weight_decay"] = 0.0;
      call.context = {1, 0, 0.01};
      for (size_t i = 0; i < kMoments[rule]; ++i)
        call.outputs.push_back(f32({2}, {0, 0}));
      auto outputs = run(call, plain);
      ASSERT_TRUE(outputs.ok()) << outputs.error().message;
      EXPECT_EQ((*outputs)[0].get(0), -infinity) << kTorch[rule].name;
      EXPECT_LT((*outputs)[0].get(1), 1) << kTorch[rule].name;
    }
}

/// The same elements updated whole, and in shards cut anywhere (multiples of 64 and one odd end): the same bits.
TEST(Optimizer, shardsDoNotMatter) {
  for (size_t rule = 0; rule < 4; ++rule)
    for (DType grad : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(kTorch[rule].name);
      auto part = [&](const Value &whole, int64_t begin, int64_t end) {
        Value result({whole.type.dtype, {end - begin}}, 3);
        for (int64_t i = begin; i < end; ++i)
          result.set(static_cast<size_t>(i - begin), whole.get(static_cast<size_t>(i)));
        return result;
      };
      int64_t n = 64 * 300 + 5;
      TensorType state{DType::f32, {n}};
      Call whole{kTorch[rule].name,
                 {uniform({grad, {n}}, 1, -1, 1), f32({}, {0.7})},
                 {uniform(state, 2, -1, 1)},
                 kAttributes,
                 2,
                 {3, 0, 0.01}};
      for (size_t i = 0; i < kMoments[rule]; ++i)
        whole.outputs.push_back(uniform(state, 3, 0, 1));
      whole.outputs.push_back(Value({grad == DType::f16 ? DType::f16 : DType::bf16, {n}}));
      auto expected = run(whole, false);
      ASSERT_TRUE(expected.ok());
      std::vector<int64_t> cuts = {0, 64, 192, 64 * 151, n};
      for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        Call shard = whole;
        shard.threads = static_cast<int>(c) % 3 + 1;
        shard.inputs[0] = part(whole.inputs[0], cuts[c], cuts[c + 1]);
        for (Value &value : shard.outputs)
          value = part(value, cuts[c], cuts[c + 1]);
        auto actual = run(shard, false);
        ASSERT_TRUE(actual.ok());
        for (size_t i = 0; i < actual->size(); ++i)
          ASSERT_TRUE((*actual)[i] == part((*expected)[i], cuts[c], cuts[c + 1])) << "output " << i << " shard " << c;
      }
    }
}

/// A large copy goes another way to memory than a small one; the same bits as the plain kernel's conversion.
TEST(Optimizer, aLargeCopyIsTheParameter) {
  const int64_t n = (1 << 18) + 64 * 3 + 5;
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int threads : {1, 3})
      for (size_t offset : {0, 3}) { // aligned and not
        TensorType state{DType::f32, {n}};
        Call call{
            "adamw",     {uniform(state, 1, -1, 1), f32({}, {1})}, {uniform(state, 2, -1, 1)}, kAttributes, threads,
            {1, 0, 0.01}};
        for (int moment = 0; moment < 2; ++moment)
          call.outputs.push_back(uniform(state, 3, 0, 1));
        call.outputs.push_back(Value({type, {n}}, offset));
        auto outputs = run(call, false);
        ASSERT_TRUE(outputs.ok());
        const Value &parameter = (*outputs)[0], &copy = (*outputs)[3];
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          auto exact = static_cast<float>(parameter.get(i));
          double expected = type == DType::bf16  ? fromBf16(toBf16(exact))
                            : type == DType::f16 ? fromF16(toF16(exact))
                                                 : exact;
          ASSERT_EQ(copy.get(i), expected) << i;
        }
      }
}

/// A factor that is not a number leaves everything as it is, but for the copy, which may be a buffer on its way.
TEST(Optimizer, aSkippedStepChangesNothing) {
  for (bool plain : {true, false})
    for (size_t rule = 0; rule < 4; ++rule)
      for (DType type : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(kTorch[rule].name + (plain ? " plain" : " fast"));
        const int64_t n = 9001;
        TensorType state{DType::f32, {n}};
        Call call{kTorch[rule].name,
                  {uniform({type, {n}}, 1, -1, 1), f32({}, {std::nan("")})},
                  {uniform(state, 2, -1, 1)},
                  kAttributes,
                  2,
                  {3, 0, 0.01}};
        call.inputs[0].set(77, std::numeric_limits<double>::infinity());
        for (size_t i = 0; i < kMoments[rule]; ++i)
          call.outputs.push_back(uniform(state, 3, 0, 1));
        call.outputs.push_back(Value({type, {n}}));
        auto outputs = run(call, plain);
        ASSERT_TRUE(outputs.ok());
        for (size_t i = 0; i <= kMoments[rule]; ++i)
          EXPECT_TRUE((*outputs)[i] == call.outputs[i]) << i;
        auto copy = run({"cast", {call.outputs[0]}, {Value({type, {n}})}}, true);
        ASSERT_TRUE(copy.ok());
        EXPECT_TRUE(outputs->back() == (*copy)[0]);
      }
}

/// Bias correction counts the steps that were not skipped.
TEST(Optimizer, skippedStepsAreNotCounted) {
  for (bool plain : {true, false}) {
    TensorType state{DType::f32, {64}};
    Call call{"adamw",     {uniform(state, 1, -1, 1), f32({}, {1})}, {uniform(state, 2, -1, 1)}, kAttributes, 1,
              {3, 0, 0.01}};
    for (int moment = 0; moment < 2; ++moment)
      call.outputs.push_back(uniform(state, 3, 0, 1));
    auto third = run(call, plain);
    call.context.step = 8;
    call.context.skipped = 5;
    auto eighth = run(call, plain);
    ASSERT_TRUE(third.ok() && eighth.ok());
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE((*third)[i] == (*eighth)[i]) << i;
  }
}

} // namespace
} // namespace zc::test
