// What a corrupt plan can ask for, and what bad data can hold: an error that names it, on both versions of a kernel and
// of a GPU's.
#include "kernels/cpu/Copy.h"
#include "kernels/cuda/Implementations.h"
#include "test/kernels/KernelTest.h"

#include <hwy/targets.h>

namespace zc::test {
namespace {

void expectError(const Call &call, Code code, const std::string &part) {
  auto expectToldBy = [&](const KernelRegistry &kernels, const char *who) {
    SCOPED_TRACE(call.name + " " + who);
    auto outputs = runOn(kernels, call);
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.error().code, code);
    EXPECT_NE(outputs.error().message.find(part), std::string::npos) << outputs.error().message;
  };
  expectToldBy(registry(true), "plain");
  expectToldBy(registry(false), "fast");
  if (blockRegistry().contains(call.name) && (!isOnGpu() || isSampled(call.spec(Target::cuda))))
    expectToldBy(blockRegistry(), "over blocks");
}

TEST(Errors, specsThatKernelsDoNotTake) {
  Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6}), y({DType::f32, {2, 3}}), i = i64({2}, {0, 1});
  const Value head({DType::f64, {1, 1, 2, 4}}); // whose statistics are f64
  for (const Call &call : std::vector<Call>{
           {"add", {x}, {y}},
           {"add", {x, i}, {y}},
           {"add", {x, f32({2}, {1, 2})}, {y}},
           {"gelu", {x}, {Value({DType::bf16, {2, 3}})}},
           {"matmul", {x, x}, {y}},
           {"matmul", {x, f32({3, 2}, {1, 2, 3, 4, 5, 6}), x}, {Value({DType::f32, {2, 2}})}},
           {"transpose", {x}, {y}, {{"permutation", Ints{0, 0}}}},
           {"slice", {x}, {y}, {{"offsets", Ints{0, 1}}, {"strides", Ints{1, 1}}}},
           {"gather", {x, i}, {y}, {{"axis", int64_t{5}}}},
           {"softmax", {x}, {y}, {{"axis", int64_t{2}}}},
           {"layer_norm", {x, x}, {y, y, y}, {{"axis", int64_t{1}}}},
           {"cross_entropy", {x, x}, {y, y}},
           {"label_index", {i}, {i}, {{"classes", int64_t{0}}}},
           {"attention", {x, x, x}, {y, y}},
           {"reduce_sum", {x}, {y}, {{"axes", Ints{7}}}},
           {"reduce_sum", {f32({2, 1, 3}, {1, 2, 3, 4, 5, 6})}, {f32({3, 1}, {0, 0, 0})}, {{"axes", Ints{0}}}},
           {"reduce_mean", {f32({2}, {1, 2})}, {f32({1}, {0})}, {{"axes", Ints{0}}}},
           {"attention", {head, head, head}, {head, Value({DType::f32, {1, 1, 2}})}},
           {"adamw", {x, x}, {y}},
           {"norm_partial", {x}, {Value({DType::i64, {24}})}},
           {"constant", {}, {y}, {{"data", std::string("abc")}}},
           {"fill_gaps", {}, {y}, {{"gaps", Ints{5, 2}}}},
           {"copy", {x}, {Value({DType::f32, {7}})}},
           {"dropout", {x}, {y, Value({DType::boolean, {2, 3}})}, {{"ratio", 1.5}}}})
    expectError(call, Code::corrupt, "plan asks kernel '" + call.name + "'");
  expectError({"no_such", {x}, {y}}, Code::corrupt, "'no_such'");
  expectError({"sqrt", {}, {}}, Code::corrupt, "'sqrt'");
}

/// Sizes whose products wrap; nothing so large is ever mapped.
TEST(Errors, sizesThatCannotBeCounted) {
  constexpr int64_t kLarge = int64_t(1) << 20, kHuge = int64_t(1) << 22;
  const Ints ones{1, 1}, none{0, 0};
  TensorType plane{DType::f32, {1, 1, kLarge, kLarge}}, square{DType::f32, {kHuge, kHuge}},
      small{DType::f32, {1, 1, 1, 1}};
  TensorType heads{DType::f32, {1, 1, kHuge, kHuge}}, lse{DType::f32, {1, 1, kHuge}};
  auto spec = [](const char *name, std::vector<TensorType> operands, size_t inputs, Attributes attributes) {
    KernelSpec result;
    result.name = name;
    result.operands = std::move(operands);
    result.numInputs = inputs;
    result.attributes = std::move(attributes);
    return result;
  };
  Attributes windows{{"strides", ones}, {"dilations", ones}, {"low", none}, {"high", Ints{INT64_MAX, INT64_MAX}}};
  Attributes pool{
      {"kernel", Ints{int64_t(1) << 30, int64_t(1) << 30}}, {"strides", ones}, {"dilations", ones}, {"low", none}};
  for (const KernelSpec &wrong :
       {spec("conv", {small, small, small}, 2, windows), spec("sum_pool", {plane, plane}, 1, pool),
        spec("matmul", {square, square, square}, 2, {}), spec("attention", {heads, heads, heads, heads, lse}, 3, {})})
    for (bool plain : {true, false}) {
      auto kernel = registry(plain).prepare(wrong);
      ASSERT_FALSE(kernel.ok()) << wrong.name;
      EXPECT_EQ(kernel.error().code, Code::corrupt) << kernel.error().message;
    }
}

/// Transposed over itself, a matrix would be read after it was written.
TEST(Errors, inPlaceWhereTheKernelDoesNotWorkSo) {
  Value x = f32({2, 2}, {1, 2, 3, 4}), y({DType::f32, {2, 2}});
  for (const Call &call : std::vector<Call>{{"transpose", {x}, {y}, {{"permutation", std::vector<int64_t>{1, 0}}}},
                                            {"matmul", {x, x}, {y}},
                                            {"matmul_part", {x, x, x}, {y}, {{"whole", int64_t{8}}}}})
    for (bool plain : {true, false}) {
      Result<std::vector<Value>> outputs = runInPlace(registry(plain), call, 0);
      ASSERT_FALSE(outputs.ok()) << call.name;
      EXPECT_EQ(outputs.error().number, 709) << outputs.error().message;
    }
  EXPECT_TRUE(runInPlace(registry(true), {"matmul_part", {x, x, x}, {y}, {{"whole", int64_t{8}}}}, 2).ok());
}

TEST(Errors, labelsAndIndicesOutOfRange) {
  TensorType scalar{DType::f32, {}}, rows{DType::f32, {2}};
  Value x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  for (double bad : {3.0, -1.0, 9e15}) {
    Value labels = i64({2}, {0, bad});
    std::string name = std::to_string(static_cast<int64_t>(bad));
    expectError({"cross_entropy", {x, labels}, {Value(scalar), Value(rows)}}, Code::badInput, "label " + name + " ");
    expectError({"label_index", {labels}, {Value(labels.type)}, {{"classes", int64_t{3}}}}, Code::badInput,
                "label " + name + " ");
    expectError({"cross_entropy_grad", {f32({}, {1}), x, labels, f32({2}, {0, 0})}, {Value(x.type)}}, Code::badInput,
                "[0, 3)");
  }
  const Value row = f32({1, 3}, {1, 2, 3});
  for (double bad : {2.0, -3.0}) {
    const std::string said = "index " + std::to_string(static_cast<int64_t>(bad)) + " ";
    const Value indices = i64({1}, {bad}), elements = i64({1, 3}, {0, bad, 0}), tuple = i64({1, 1}, {bad});
    const Attributes axis = {{"axis", int64_t{0}}}, none = {{"reduction", std::string("none")}};
    Attributes both = none;
    both.insert(axis.begin(), axis.end());
    for (const Call &call : std::vector<Call>{{"gather", {x, indices}, {Value(row.type)}, axis},
                                              {"gather_grad", {row, indices}, {Value(x.type)}, axis},
                                              {"gather_elements", {x, elements}, {Value(row.type)}, axis},
                                              {"gather_elements_grad", {row, elements}, {Value(x.type)}, axis},
                                              {"gather_nd", {x, tuple}, {Value(row.type)}},
                                              {"gather_nd_grad", {row, tuple}, {Value(x.type)}},
                                              {"scatter_elements", {x, elements, row}, {Value(x.type)}, both},
                                              {"scatter_nd", {x, tuple, row}, {Value(x.type)}, none}})
      for (const std::string &part : {said, std::string("[-2, 2)")})
        expectError(call, Code::badInput, part);
  }
}

/// Axes of no elements have no place for an index, nor for what it would have brought.
TEST(Errors, indicesOfNothing) {
  const Value indices = i64({1}, {0}), rows = f32({2, 1, 3}, {1, 2, 3, 4, 5, 6}), tuple = i64({1, 1}, {7});
  expectError({"gather_grad", {rows, indices}, {Value({DType::f32, {2, 0, 3}})}, {{"axis", int64_t{1}}}},
              Code::badInput, "index 0 ");
  const Value none({DType::f32, {2, 0}}), row({DType::f32, {1, 0}});
  expectError({"gather_nd_grad", {row, tuple}, {none}}, Code::badInput, "index 7 ");
  expectError({"scatter_nd", {none, tuple, row}, {none}, {{"reduction", std::string("none")}}}, Code::badInput,
              "index 7 ");
}

/// Every kernel of the registry is a graph operation or documented, and both versions have the same names.
TEST(Registry, bothVersionsHaveTheSameKernels) {
  EXPECT_EQ(registry(true).names(), registry(false).names());
  EXPECT_GE(registry(true).names().size(), 85u);
}

/// What is said to be ours on a GPU is there, and nothing else is.
TEST(Registry, tableOfTheGpuNamesWhatIsThere) {
  const std::set<std::string> &own = cuda::ownKernels();
  KernelRegistry there(Target::cuda);
  cuda::registerHostBlockKernels(there); // also where other tests run on a GPU, which has more
  EXPECT_EQ(there.names(), std::vector<std::string>(own.begin(), own.end()));
}

/// A CPU whose vectors the fast kernels are not compiled for.
TEST(Registry, withoutVectorsPlainLoopsCompute) {
  const int64_t before = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(HWY_SSE4);
  KernelRegistry kernels;
  registerCpuKernels(kernels);
  std::vector<char> from(size_t(2) << 20, 7), to(from.size());
  cpu::copy(to.data(), from.data(), from.size(), 2);
  hwy::SetSupportedTargetsForTest(before);
  EXPECT_TRUE(to == from);
  for (const Call &call : {Call{"relu", {f32({2}, {1, 2})}, {f32({2}, {0, 0})}},
                           Call{"matmul", {f32({1, 1}, {2}), f32({1, 1}, {3})}, {f32({1, 1}, {0})}}}) {
    Result<Implementation> by = kernels.implementationOf(call.spec());
    ASSERT_TRUE(by.ok());
    EXPECT_EQ(by->kind, Implementation::Kind::reference) << call.name;
  }
}

/// Who computes a step, asked before it runs.
TEST(Registry, tellsWhoComputes) {
  auto product = [](DType type, int64_t side = 128) {
    const Value matrix({type, {side, side}});
    return Call{"matmul", {matrix, matrix}, {matrix}};
  };
  auto kindOf = [](const Call &call, const KernelRegistry &kernels) {
    Result<Implementation> by = kernels.implementationOf(call.spec());
    EXPECT_TRUE(by.ok());
    return by->kind;
  };
  using Kind = Implementation::Kind;
  EXPECT_EQ(kindOf(product(DType::f32), registry(false)), Kind::library);
  EXPECT_EQ(kindOf(product(DType::f32, 4), registry(false)), Kind::own);    // summed in order
  EXPECT_EQ(kindOf(product(DType::f64), registry(false)), Kind::reference); // the fast one declines
  EXPECT_EQ(kindOf(product(DType::f32), registry(true)), Kind::reference);
  EXPECT_EQ(kindOf({"relu", {f32({2}, {1, 2})}, {f32({2}, {0, 0})}}, blockRegistry()), Kind::own);
  EXPECT_EQ(cuda::implementationOf(product(DType::bf16).spec())->library, "cuBLASLt");
  EXPECT_FALSE(cuda::implementationOf({"no_such_kernel", {}, 0, {}}).has_value());
}

} // namespace
} // namespace zc::test
