// Group norm: corners of the plain kernels (the rest is compared with ONNX's own examples and by finite differences),
// each fast kernel against its plain version in both orders, and whole norms against those that are apart.
#include "test/kernels/ChannelsLast.h"

namespace zc::test {
namespace {

Attributes groupsOf(int64_t groups, bool areLast = false) {
  Attributes attributes{{"groups", groups}, {"epsilon", 1e-5}};
  if (areLast)
    attributes["channels_last"] = kOne;
  return attributes;
}

TEST(Plain, groupNormOfTwoChannels) {
  const Value of({DType::f32, {2}}), stat({DType::f32, {1, 1}}), each({DType::f32, {1, 2}});
  const Value x = f32({1, 2, 1}, {1, 3}), scale = f32({2}, {2, 4}), bias = f32({2}, {0, 1});
  Attributes attributes{{"groups", int64_t{1}}, {"epsilon", 0.0}};
  expectOutputs({"group_norm", {x, scale, bias}, {x, stat, stat}, attributes}, {{-2, 5}, {2}, {1}});
  attributes["groups"] = int64_t{2}; // each is its own mean
  attributes["epsilon"] = 1e-5;
  expectOutputs({"group_norm", {x, scale, bias}, {x, each, each}, attributes}, {{0, 1}, {1, 3}, {0, 0}});
}

TEST(Plain, groupNormsThatDoNotFitAreRefused) {
  const Value x({DType::f32, {2, 4, 3}}), c({DType::f32, {4}}), stat({DType::f32, {2, 2}}), other({DType::f32, {4}});
  const Call good{"group_norm", {x, c, c}, {x, stat, stat}, groupsOf(2)};
  EXPECT_TRUE(run(good).ok());
  for (int64_t groups : {0, -1, 3, 4}) {
    Call broken = good;
    broken.attributes["groups"] = groups;
    EXPECT_FALSE(run(broken, true).ok()) << groups;
    EXPECT_FALSE(run(broken, false).ok()) << groups;
  }
  EXPECT_FALSE(run({"group_norm", {x, c, c}, {x, other, stat}, groupsOf(2)}).ok());
  const Value wide({DType::f32, {2, 4, 1}}), last({DType::f32, {2, 1, 4}});
  EXPECT_TRUE(run({"group_norm_statistics", {x, c, c}, {stat, stat, wide, wide, wide}, groupsOf(2)}).ok());
  EXPECT_FALSE(run({"group_norm_statistics", {x, c, c}, {stat, stat, last, last, last}, groupsOf(2)}).ok());
}

struct GroupShape {
  Ints dims; ///< in the model's order
  int64_t groups;
};
const std::vector<GroupShape> kGroupShapes = {
    {{2, 4, 17}, 2},     {{4, 6, 8, 9}, 3},    {{1, 2, 300}, 1}, {{6, 4}, 2},     {{3, 70}, 7},
    {{2, 64, 9, 9}, 32}, {{2, 5, 3, 4, 2}, 5}, {{3, 0, 16}, 1},  {{0, 4, 16}, 2}, {{40, 8, 2}, 4}};

TEST(Fast, groupNorm) {
  for (const GroupShape &s : kGroupShapes)
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      const int64_t channels = s.dims[1];
      const Value stat({DType::f32, {s.dims[0], s.groups}});
      Value x = random(type, s.dims, 1), g = random(type, s.dims, 2), scale = random(type, {channels}, 3),
            bias = random(type, {channels}, 4);
      Call norm{"group_norm", {x, scale, bias}, {x, stat, stat}, groupsOf(s.groups)};
      expectFastMatches(norm, 1e-5, Bits::always);
      const std::vector<Value> made = must(run(norm, true));
      Call grad{"group_norm_grad", {g, x, scale, made[1], made[2]}, {x, scale, scale}, groupsOf(s.groups)};
      expectFastMatches(grad, 1e-4, Bits::always);
      if (s.dims.size() < 3)
        continue;
      expectSameChannelsLast(norm, {0, 3}, 1e-5);
      expectSameChannelsLast(grad, {0, 1, 5}, 1e-4);
    }
}

/// A mean far from zero costs no digits of the variance, in neither order.
TEST(Fast, groupNormFarFromZero) {
  for (bool areLast : {false, true}) {
    const Value x = uniform({DType::f32, areLast ? Ints{3, 40, 41, 64} : Ints{3, 64, 40, 41}}, 1, 999, 1001),
                scale = random(DType::f32, {64}, 3), bias = random(DType::f32, {64}, 4), stat({DType::f32, {3, 8}});
    const Call norm{"group_norm", {x, scale, bias}, {x, stat, stat}, groupsOf(8, areLast)};
    expectNear(must(run(norm, false))[2], elements(must(run(norm, true))[2]), 1e-5);
  }
}

/// factor g - ((x - centre) slope + offset), by kernels of one operation.
Value gradientApart(const Value &g, const Value &x, const std::vector<Value> &of, const KernelRegistry &kernels) {
  auto apply = [&](const char *name, const Value &a, const Value &b, DType type = DType::f32) {
    Call call{name, {a}, {Value({type, a.type.dims})}};
    if (std::string(name) != "cast")
      call.inputs.push_back(b);
    return must(runOn(kernels, call))[0];
  };
  const DType type = x.type.dtype;
  const Value centred = apply("sub", apply("cast", x, x), of[2]);
  const Value mean = apply("add", apply("mul", centred, of[4]), of[5]);
  return apply("cast", apply("sub", apply("mul", apply("cast", g, g), of[3]), mean), x, type);
}

/// Sums and element-wise work have the bits of the whole, in either order and on any number of threads.
TEST(Fast, groupNormApart) {
  for (const GroupShape &s : kGroupShapes)
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (bool areLast : {false, true}) {
        const int64_t channels = s.dims[1];
        Ints dims = s.dims, numbers(s.dims.size(), 1);
        numbers[0] = s.dims[0];
        numbers[1] = channels;
        if (areLast && s.dims.size() > 2) {
          std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
          std::rotate(numbers.begin() + 1, numbers.begin() + 2, numbers.end());
        }
        const Attributes attributes = groupsOf(s.groups, areLast);
        const Value stat({DType::f32, {s.dims[0], s.groups}}), of({DType::f32, numbers});
        const Value x = random(type, dims, 1), g = random(type, dims, 2), scale = random(type, {channels}, 3),
                    bias = random(type, {channels}, 4);
        const Call norm{"group_norm", {x, scale, bias}, {x, stat, stat}, attributes};
        const Call sums{"group_norm_statistics", {x, scale, bias}, {stat, stat, of, of, of}, attributes};
        const std::vector<Value> whole = must(run(norm, true));
        const Call grad{"group_norm_grad", {g, x, scale, whole[1], whole[2]}, {x, scale, scale}, attributes};
        const Call gradSums{"group_norm_grad_sums", grad.inputs, {scale, scale, of, of, of, of}, attributes};
        expectFastMatches(sums, 1e-4, Bits::always);
        expectFastMatches(gradSums, 1e-4, Bits::always);
        for (const KernelRegistry *kernels : {&registry(false), &blockRegistry()}) {
          const std::vector<Value> y = must(runOn(*kernels, norm)), apart = must(runOn(*kernels, sums));
          EXPECT_TRUE(apart[0] == y[1] && apart[1] == y[2]);
          EXPECT_TRUE(affine(x, apart[2], apart[3], apart[4], *kernels) == y[0]);
          const std::vector<Value> d = must(runOn(*kernels, grad)), gradApart = must(runOn(*kernels, gradSums));
          EXPECT_TRUE(gradApart[0] == d[1] && gradApart[1] == d[2]);
          EXPECT_TRUE(gradientApart(g, x, gradApart, *kernels) == d[0]);
        }
      }
}

} // namespace
} // namespace zc::test
