// Kernels that no other test here calls, since ONNX's node tests (test/conformance) have them: so that a GPU runs them
// too. Each beside the plain one, by KernelTest's run().
#include "kernels/FusedProgram.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

void expectAgrees(const Call &call) {
  SCOPED_TRACE(call.name + " of " + std::string(nameOf(call.outputs.front().type.dtype)));
  Result<std::vector<Value>> outputs = run(call);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
}

TEST(Seldom, functionsOfFloats) {
  struct Function {
    const char *name;
    double low, high;
  };
  for (const Function &f : {Function{"acos", -1, 1},
                            {"acosh", 1, 40},
                            {"asin", -1, 1},
                            {"asinh", -40, 40},
                            {"atan", -40, 40},
                            {"atanh", -1, 1},
                            {"cosh", -5, 5},
                            {"expm1", -5, 5},
                            {"sinh", -5, 5},
                            {"softplus", -30, 30},
                            {"tan", -1, 1}})
    for (DType type : kFloats)
      for (int64_t n : {7, 5000}) {
        const TensorType x{type, {n}};
        expectAgrees({f.name, {uniform(x, 1, f.low, f.high)}, {Value(x)}});
      }
}

TEST(Seldom, functionsOfFloatsHaveTheirValues) {
  const double third = std::acos(0.5); // of pi
  expectOutputs({"acos", {f64({3}, {1, 0.5, -1})}, {f64({3}, {0, 0, 0})}}, {{0, third, 3 * third}});
  expectOutputs({"atanh", {f64({2}, {0, 0.5})}, {f64({2}, {9, 9})}}, {{0, 0.5 * std::log(3)}});
  expectOutputs({"softplus", {f64({2}, {0, 700})}, {f64({2}, {9, 9})}}, {{std::log(2), 700}});
}

TEST(Seldom, shifts) {
  for (const char *name : {"shift_left", "shift_right"})
    for (DType type : {DType::u8, DType::i32, DType::i64}) {
      const TensorType x{type, {300}};
      expectAgrees({name, {uniform(x, 1, 0, 200), uniform(x, 2, 0, 70)}, {Value(x)}});
    }
  expectOutputs({"shift_left",
                 {make(DType::u8, {3}, {1, 3, 255}), make(DType::u8, {3}, {7, 1, 8})},
                 {make(DType::u8, {3}, {9, 9, 9})}},
                {{128, 6, 0}});
}

TEST(Seldom, sumsAndProductsUpToEachElement) {
  for (const char *name : {"cumsum", "cumprod"})
    for (DType type : kFloats)
      for (int64_t axis : {0, 1})
        for (int64_t exclusive : {0, 1})
          for (int64_t reverse : {0, 1}) {
            Attributes attributes = {{"axis", axis}};
            if (exclusive)
              attributes["exclusive"] = int64_t{1};
            if (reverse)
              attributes["reverse"] = int64_t{1};
            const TensorType x{type, {5, 33}};
            expectAgrees({name, {uniform(x, 1, 0.9, 1.1)}, {Value(x)}, attributes});
          }
  expectOutputs(
      {"cumsum", {f32({4}, {1, 2, 3, 4})}, {f32({4}, {9, 9, 9, 9})}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}},
      {{0, 1, 3, 6}});
}

TEST(Seldom, smallestAndProduct) {
  for (const char *name : {"reduce_min", "reduce_prod"})
    for (DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64})
      for (const Ints &axes : {Ints{0}, Ints{1}, Ints{0, 1}}) {
        const bool isFloat = type != DType::i32 && type != DType::i64;
        Ints left;
        for (int64_t axis : {0, 1})
          if (std::find(axes.begin(), axes.end(), axis) == axes.end())
            left.push_back(axis ? 70 : 9);
        expectAgrees({name,
                      {uniform({type, {9, 70}}, 1, isFloat ? 0.97 : 1, isFloat ? 1.03 : 3)},
                      {Value({type, left})},
                      {{"axes", axes}}});
      }
}

TEST(Seldom, ordered) {
  for (DType type : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64})
    for (int64_t axis : {0, 1})
      for (int64_t smallest : {0, 1}) {
        const Value x = uniform({type, {40, 50}}, 1, -9, 9); // many are equal
        Attributes attributes = {{"axis", axis}};
        if (smallest)
          attributes["smallest"] = int64_t{1};
        expectAgrees({"arg_max", {x}, {Value({DType::i64, {axis ? 40 : 50}})}, attributes});
        attributes["k"] = int64_t{7};
        const Ints dims = axis ? Ints{40, 7} : Ints{7, 50};
        expectAgrees({"top_k", {x}, {Value({type, dims}), Value({DType::i64, dims})}, attributes});
      }
  expectOutputs({"arg_max", {f32({1, 4}, {2, 7, 7, 1})}, {i64({1}, {9})}, {{"axis", int64_t{1}}, {"last", int64_t{1}}}},
                {{2}});
  const double nan = std::numeric_limits<double>::quiet_NaN(); // wins, as torch's argmin has it too
  for (int64_t smallest : {0, 1})
    expectOutputs(
        {"arg_max", {f32({1, 4}, {2, -7, nan, nan})}, {i64({1}, {9})}, {{"axis", int64_t{1}}, {"smallest", smallest}}},
        {{2}});
}

/// Several updates of one element come in their order.
TEST(Seldom, scatters) {
  for (const char *reduction : {"none", "add", "mul", "min", "max"})
    for (DType type : {DType::f32, DType::f64, DType::bf16, DType::i64})
      for (DType index : {DType::i32, DType::i64}) {
        const Value data = uniform({type, {6, 20}}, 1, 0.5, 3);
        const Attributes named = {{"reduction", std::string(reduction)}};
        Attributes alongRows = named;
        alongRows["axis"] = int64_t{1};
        expectAgrees({"scatter_elements",
                      {data, uniform({index, {6, 45}}, 2, -20, 20), uniform({type, {6, 45}}, 3, 0.5, 2)},
                      {Value(data.type)},
                      alongRows});
        expectAgrees({"scatter_nd",
                      {data, uniform({index, {30, 1}}, 4, 0, 6), uniform({type, {30, 20}}, 5, 0.5, 2)},
                      {Value(data.type)},
                      named});
      }
}

TEST(Seldom, lossScale) {
  for (DType type : kFloats) {
    Call call{"loss_scale", {}, {Value({type, {}})}};
    call.context.lossScale = 1024;
    expectOutputs(call, {{1024}});
  }
}

/// What a relu's gradient is. Random ones are FusedSourceTest's.
TEST(Seldom, programs) {
  for (DType type : {DType::f32, DType::bf16}) {
    const FusedProgram program{{type, type},
                               {{FusedCode::constant, type, {}, 0},
                                {FusedCode::less, DType::boolean, {2, 1}},
                                {FusedCode::select, type, {3, 0, 2}}},
                               {4}};
    const TensorType x{type, {3, 171}};
    expectAgrees({"fused", {uniform(x, 1, -1, 1), uniform(x, 2, -1, 1)}, {Value(x)}, {{"program", encode(program)}}});
  }
}

} // namespace
} // namespace zc::test
