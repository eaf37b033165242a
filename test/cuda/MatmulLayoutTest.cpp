// Products laid out for cuBLASLt, done by what cuBLASLt's documentation says of its arguments, are the CPU's.
#include "runtime/cuda/MatmulLayout.h"
#include "kernels/Workspace.h"

#include <gtest/gtest.h>

#include <numeric>

namespace zc::cuda {
namespace {

/// A description's product on matrices of columns: D = op(A) op(B).
void multiply(const LtProduct &product, const float *rhs, const float *lhs, float *out) {
  auto element = [](const LtMatrix &matrix, const float *first, bool isTransposed, int64_t row, int64_t column) {
    return isTransposed ? first[row * matrix.rows + column] : first[column * matrix.rows + row];
  };
  int64_t k = product.transA ? product.a.rows : product.a.columns;
  for (const LtProduct::Offsets &at : product.calls)
    for (int64_t batch = 0; batch < product.batches; ++batch) {
      const float *a = rhs + at.rhs + batch * product.a.batchStride, *b = lhs + at.lhs + batch * product.b.batchStride;
      float *d = out + at.out + batch * product.d.batchStride;
      for (int64_t row = 0; row < product.d.rows; ++row)
        for (int64_t column = 0; column < product.d.columns; ++column) {
          double sum = 0;
          for (int64_t i = 0; i < k; ++i)
            sum += static_cast<double>(element(product.a, a, product.transA, row, i)) *
                   static_cast<double>(element(product.b, b, product.transB, i, column));
          d[column * product.d.rows + row] = static_cast<float>(sum);
        }
    }
}

struct Case {
  std::vector<int64_t> lhs, rhs, out;
  bool transLhs = false, transRhs = false;
  size_t calls = 1;
};

class Layout : public testing::TestWithParam<Case> {};

TEST_P(Layout, GivesTheProductOfTheCpu) {
  const Case &test = GetParam();
  KernelSpec spec;
  spec.name = "matmul";
  spec.operands = {{DType::f32, test.lhs}, {DType::f32, test.rhs}, {DType::f32, test.out}};
  spec.numInputs = 2;
  spec.attributes = {{"trans_lhs", int64_t(test.transLhs)}, {"trans_rhs", int64_t(test.transRhs)}};
  auto values = [](const TensorType &type, int step) {
    std::vector<float> made(static_cast<size_t>(type.numElements()));
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<float>(static_cast<int>(i * static_cast<size_t>(step) % 23) - 11);
    return made;
  };
  std::vector<float> lhs = values(spec.operands[0], 7), rhs = values(spec.operands[1], 5);
  std::vector<float> expected(static_cast<size_t>(spec.operands[2].numElements()), -1), got = expected;

  KernelRegistry registry;
  registerReferenceKernels(registry);
  spec.workspace = workspaceBytes(spec, Target::cpu);
  std::vector<char> workspace(static_cast<size_t>(spec.workspace) + 1);
  auto kernel = registry.prepare(spec);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  void *operands[] = {lhs.data(), rhs.data(), expected.data(), workspace.data()};
  ASSERT_TRUE((*kernel)->run(operands, {}).ok());

  auto shape = shapes::readMatmul(spec);
  ASSERT_TRUE(shape.ok());
  LtProduct product = layoutOf(*shape);
  EXPECT_EQ(product.calls.size(), test.calls);
  multiply(product, rhs.data(), lhs.data(), got.data());
  EXPECT_EQ(got, expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, Layout,
    testing::Values(Case{{3, 4}, {4, 5}, {3, 5}}, Case{{4, 3}, {4, 5}, {3, 5}, true},
                    Case{{3, 4}, {5, 4}, {3, 5}, false, true}, Case{{4, 3}, {5, 4}, {3, 5}, true, true},
                    Case{{2, 3, 4}, {4, 5}, {2, 3, 5}},                              // folded into rows
                    Case{{2, 4, 3}, {4, 5}, {2, 3, 5}, true},                        // one rhs for all
                    Case{{2, 3, 3, 4}, {2, 3, 4, 5}, {2, 3, 3, 5}},                  // one run of batches
                    Case{{3, 3, 4}, {2, 3, 4, 5}, {2, 3, 3, 5}, false, false, 2},    // lhs again and again
                    Case{{2, 1, 3, 4}, {2, 3, 4, 5}, {2, 3, 3, 5}, false, false, 2}, // along the inner one
                    Case{{2, 1, 3, 4}, {1, 3, 5, 4}, {2, 3, 3, 5}, false, true, 2},  // each along another
                    Case{{2, 1, 3, 4}, {2, 1, 4, 5}, {2, 1, 3, 5}}, Case{{0, 4}, {4, 5}, {0, 5}, false, false, 0},
                    Case{{0, 3, 4}, {0, 4, 5}, {0, 3, 5}, false, false, 0}));

} // namespace
} // namespace zc::cuda
