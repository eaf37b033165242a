// Each fast kernel against its plain version; the same bits at every alignment and in every run.
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

using Ints = std::vector<int64_t>;
const Attribute kOne = int64_t{1};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Call atOffset(Call call, size_t offset) {
  for (Value &value : call.inputs)
    value = value.at(offset);
  for (Value &value : call.outputs)
    value = value.at(offset);
  return call;
}

double roundingOf(DType type) { return type == DType::bf16 ? 0x1p-8 : 1; }

/// `tolerance` is of f32 outputs, relative to 1 + |expected|; bf16 outputs may be one rounding further off.
void expectFastMatches(Call call, double tolerance) {
  std::string shapes = call.name;
  for (const Value &value : call.inputs) {
    shapes += " " + std::string(nameOf(value.type.dtype)) + "[";
    for (int64_t d : value.type.dims)
      shapes += std::to_string(d) + ",";
    shapes += "]";
  }
  SCOPED_TRACE(shapes);
  Result<std::vector<Value>> expected = run(call, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (int threads : {1, 2, 3}) {
    call.threads = threads;
    Result<std::vector<Value>> first = run(call, false);
    ASSERT_TRUE(first.ok()) << first.error().message;
    ASSERT_EQ(first->size(), expected->size());
    for (size_t i = 0; i < first->size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i) + " threads " + std::to_string(threads));
      double bound = (*first)[i].type.dtype == DType::bf16 ? tolerance + roundingOf(DType::bf16) : tolerance;
      expectNear((*first)[i], elements((*expected)[i]), bound);
      if (testing::Test::HasFatalFailure())
        return;
    }
    for (size_t offset : {0, 1, 7}) {
      Result<std::vector<Value>> again = run(atOffset(call, offset), false);
      ASSERT_TRUE(again.ok());
      for (size_t i = 0; i < first->size(); ++i)
        ASSERT_TRUE((*again)[i] == (*first)[i]) << "output " << i << " at offset " << offset;
    }
  }
}

/// fn(dtype, tolerance factor) for the types fast kernels are written for.
template <typename Fn> void forFastTypes(Fn fn) {
  for (DType type : {DType::f32, DType::bf16})
    fn(type);
}

Value random(DType type, Ints dims, unsigned seed, double low = -1, double high = 1) {
  return uniform({type, std::move(dims)}, seed, low, high);
}

TEST(Fast, matmul) {
  struct Row {
    Ints lhs, rhs, result;
    bool bias;
    Attributes attributes;
  };
  for (const Row &row :
       {Row{{65, 130}, {130, 129}, {65, 129}, true, {}},
        Row{{130, 65}, {129, 130}, {65, 129}, false, {{"trans_lhs", kOne}, {"trans_rhs", kOne}}},
        Row{{1, 7}, {7, 1}, {1, 1}, true, {}}, Row{{300, 20}, {17, 20}, {300, 17}, true, {{"trans_rhs", kOne}}},
        Row{{4, 33, 20}, {20, 70}, {4, 33, 70}, true, {}},
        Row{{4, 20, 33}, {20, 70}, {4, 33, 70}, false, {{"trans_lhs", kOne}}},
        Row{{2, 3, 33, 20}, {2, 3, 21, 20}, {2, 3, 33, 21}, true, {{"trans_rhs", kOne}}},
        Row{{2, 1, 33, 40}, {3, 40, 21}, {2, 3, 33, 21}, false, {}}, Row{{0, 5}, {5, 3}, {0, 3}, true, {}},
        Row{{2, 0}, {0, 3}, {2, 3}, true, {}}})
    forFastTypes([&](DType type) {
      Call call{
          "matmul", {random(type, row.lhs, 1), random(type, row.rhs, 2)}, {Value({type, row.result})}, row.attributes};
      if (row.bias)
        call.inputs.push_back(random(type, {row.result.back()}, 3));
      expectFastMatches(call, 1e-5);
    });
}

} // namespace
} // namespace zc::test
