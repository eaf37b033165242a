// What kernels work in, of shapes that a crafted plan may have: sizes that cannot be counted are refused before a
// formula sees them, and no formula wraps on those that can (UBSan looks on).
#include "kernels/Workspace.h"
#include "base/TensorSize.h"
#include "kernels/cpu/Registries.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace zc {
namespace {

using Ints = std::vector<int64_t>;
using Attributes = std::map<std::string, Attribute>;

struct Case {
  const char *name;
  size_t inputs;
  std::vector<TensorType> operands;
  Attributes attributes;
};

Attributes windows(std::initializer_list<const char *> zeros, Attributes others = {}) {
  others.insert({{"strides", Ints{1, 1}}, {"dilations", Ints{1, 1}}, {"kernel", Ints{1, 1}}});
  for (const char *name : zeros)
    others[name] = Ints{0, 0};
  return others;
}

std::vector<Case> rowCases(DType t, int64_t a, int64_t b) {
  const TensorType x{t, {a, b}}, y{t, {b, a}}, square{t, {a, a}}, row{t, {b}}, labels{DType::i64, {a}};
  const TensorType stat{DType::f32, {a}}, shares{DType::f32, {a}}, scalar{DType::f32, {}}, heads{t, {1, 1, a, b}},
      batch{t, {b, a, a}};
  const TensorType lse{DType::f32, {1, 1, a}}, all{DType::i64, {a, b}}, tuples{DType::i64, {a, 1}};
  const Attributes axis0{{"axis", int64_t{0}}}, axis1{{"axis", int64_t{1}}}, chunks{{"chunk", int64_t{64}}};
  std::vector<Case> cases = {
      {"matmul", 2, {x, y, square}, {}},
      {"matmul", 2, {batch, square, batch}, {}},
      {"matmul_part", 2, {x, y, square}, {{"whole", int64_t{1} << 40}}},
      {"linear_gelu_grad", 3, {x, y, square, square}, {}},
      {"attention", 3, {heads, heads, heads, heads, lse}, {}},
      {"attention_grad", 6, {heads, heads, heads, heads, heads, lse, heads, heads, heads}, {}},
      {"layer_norm_grad", 5, {x, x, row, stat, stat, x, row, row}, axis1},
      {"rms_norm_grad", 4, {x, x, row, stat, x, row}, axis1},
      {"linear_cross_entropy", 3, {x, labels, y, scalar}, chunks},
      {"linear_cross_entropy_grad", 4, {scalar, x, labels, y, scalar, x, y}, chunks},
      {"linear_log_softmax", 4, {x, labels, shares, y, stat, stat}, chunks},
      {"linear_log_softmax_grad", 6, {stat, stat, x, labels, shares, y, stat, stat, x, y}, chunks},
      {"cross_entropy", 2, {x, labels, scalar, stat}, {}},
      {"cross_entropy_grad", 4, {scalar, x, labels, stat, x}, {}},
      {"gather_grad", 2, {x, labels, x}, axis0},
      {"gather_elements_grad", 2, {x, all, x}, axis0},
      {"gather_nd_grad", 2, {x, tuples, x}, {}},
      {"scatter_elements", 3, {x, all, x, x}, {{"axis", int64_t{0}}, {"reduction", std::string("none")}}},
      {"scatter_nd", 3, {x, tuples, x, x}, {{"reduction", std::string("none")}}},
      {"top_k", 1, {x, x, all}, {{"axis", int64_t{1}}, {"k", b}}},
  };
  for (const char *name : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"})
    cases.push_back({name, 1, {x, row}, {{"axes", Ints{0}}}});
  return cases;
}

std::vector<Case> imageCases(DType t, int64_t a, int64_t b) {
  const TensorType plane{t, {1, 1, a, b}}, index{DType::i64, plane.dims}, image{t, {1, a, b, 1}};
  const TensorType filters{t, {a, a, 1, 1}}, each{t, {a, 1, 1, 1}}, norm{t, {a, b, b}}, channel{t, {b}};
  const TensorType stat{DType::f32, {b}}, groups{DType::f32, {a, 1}}, point{t, {1, a, 1, 1}}, points{t, {1, b, 1, 1}},
      beyond{t, {b, a, 3, 3}};
  const Attributes padded{
      {"strides", Ints{1, 1}}, {"dilations", Ints{1, 1}}, {"low", Ints{1, 1}}, {"high", Ints{1, 1}}};
  const Attributes conv = windows({"low", "high"}), depthwise = windows({"low", "high"}, {{"groups", a}});
  std::vector<Case> cases;
  for (bool isLast : {false, true}) {
    Attributes pool = windows({"low"}), epsilon{{"epsilon", 1e-5}};
    if (isLast)
      pool["channels_last"] = epsilon["channels_last"] = int64_t{1};
    Attributes grouped = epsilon;
    grouped["groups"] = int64_t{1};
    const TensorType ofEach{DType::f32, isLast ? Ints{a, 1, b} : Ints{a, b, 1}};
    cases.insert(
        cases.end(),
        {{"max_pool", 1, {plane, plane, index}, pool},
         {"sum_pool", 1, {plane, plane}, pool},
         {"max_pool_grad", 2, {plane, index, plane}, pool},
         {"sum_pool_grad", 1, {plane, plane}, pool},
         {"batch_norm", 3, {norm, channel, channel, norm, stat, stat}, epsilon},
         {"batch_norm_grad", 5, {norm, norm, channel, stat, stat, norm, channel, channel}, epsilon},
         {"batch_norm_statistics", 3, {norm, channel, channel, stat, stat, stat, stat}, epsilon},
         {"batch_norm_grad_sums", 5, {norm, norm, channel, stat, stat, channel, channel, stat, stat, stat}, epsilon},
         {"group_norm", 3, {norm, channel, channel, norm, groups, groups}, grouped},
         {"group_norm_grad", 5, {norm, norm, channel, groups, groups, norm, channel, channel}, grouped},
         {"group_norm_statistics", 3, {norm, channel, channel, groups, groups, ofEach, ofEach, ofEach}, grouped},
         {"group_norm_grad_sums",
          5,
          {norm, norm, channel, groups, groups, channel, channel, ofEach, ofEach, ofEach, ofEach},
          grouped},
         {"batch_norm_apply", 5, {norm, channel, channel, channel, channel, norm}, epsilon}});
  }
  cases.insert(cases.end(), {{"conv", 2, {image, filters, image}, conv},
                             {"conv", 2, {image, each, image}, depthwise},
                             {"conv_transpose", 2, {image, filters, image}, conv},
                             {"conv_weight_grad", 2, {image, image, filters}, conv},
                             {"conv_weight_grad", 2, {point, points, beyond}, padded}});
  return cases;
}

KernelSpec specOf(const Case &of) {
  KernelSpec spec;
  spec.name = of.name;
  spec.numInputs = of.inputs;
  spec.operands = of.operands;
  for (const auto &[name, value] : of.attributes)
    spec.attributes[name] = value;
  spec.threads = 1;
  return spec;
}

/// Largest workspace that any case of a kernel was said to have; -1: none is of that kernel.
using Largest = std::map<std::string, int64_t, std::less<>>;

void check(const Case &of, Target target, Largest &largest) {
  const KernelSpec spec = specOf(of);
  const int64_t bytes = workspaceBytes(spec, target);
  EXPECT_GE(bytes, 0) << of.name;
  int64_t &most = largest.emplace(of.name, 0).first->second;
  most = std::max(most, bytes);
  const bool canBeCounted = std::all_of(spec.operands.begin(), spec.operands.end(), isCountable);
  EXPECT_TRUE(canBeCounted || bytes == 0) << of.name;
  const Status status = checkSpec(spec, target, traitsOf(spec.name));
  ASSERT_EQ(status.ok(), canBeCounted && bytes == 0) << of.name;
  if (!status.ok()) {
    EXPECT_EQ(status.error().code, Code::corrupt) << of.name;
    EXPECT_EQ(status.error().number, canBeCounted ? 706 : 710) << status.error().message;
  }
}

constexpr int64_t kExtents[] = {0,
                                1,
                                64,
                                int64_t(1) << 20,
                                int64_t(1) << 23,
                                (int64_t(1) << 31) - 1,
                                int64_t(1) << 40,
                                int64_t(1) << 45,
                                (int64_t(1) << 46) - 1,
                                (int64_t(1) << 60) - 1,
                                int64_t(1) << 60,
                                INT64_MAX};

TEST(Workspace, noSizesOfACraftedPlanWrap) {
  for (Target target : {Target::cpu, Target::cuda}) {
    Largest largest;
    for (DType type : {DType::f32, DType::bf16, DType::f64})
      for (int64_t a : kExtents)
        for (int64_t b : kExtents)
          for (const auto &cases : {rowCases(type, a, b), imageCases(type, a, b)})
            for (const Case &of : cases) {
              SCOPED_TRACE(std::to_string(a) + " x " + std::to_string(b));
              check(of, target, largest);
            }
    // Every kernel that has a workspace was among them, with shapes that it takes.
    for (const std::string &name : cpu::plainKernels().names()) {
      if (!workspaceFormula(name, target))
        continue;
      auto found = largest.find(name);
      ASSERT_NE(found, largest.end()) << name;
      EXPECT_GT(found->second, 0) << name;
    }
  }
}

} // namespace
} // namespace zc
