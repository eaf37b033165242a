// What threads of a block read of each other's is there, in whatever order they run: the bits of a host's blocks.
#include "test/kernels/Fibers.h"

#include "test/kernels/KernelTest.h"
#include "test/kernels/OnFibers.h"

namespace zc::test {
namespace {

/// Each thread leaves its number where the next one reads it.
int readTooEarly(bool waits) {
  int wrong = 0;
  for (unsigned order = 0; order < 4; ++order) {
    fibers::seed(order);
    int shared[128] = {};
    fibers::runBlock(128, shared, [&] {
      const int t = fibers::thread(), next = (t + 1) % 128;
      shared[t] = t;
      if (waits)
        fibers::meetBlock();
      wrong += shared[next] != next;
    });
  }
  return wrong;
}

TEST(Fibers, aBarrierThatIsMissingIsSeen) {
  EXPECT_EQ(readTooEarly(true), 0);
  EXPECT_GT(readTooEarly(false), 0);
}

TEST(Fibers, aBarrierThatSomeDoNotReachEndsTheProgram) {
  auto half = [] {
    fibers::runBlock(64, nullptr, [] {
      if (fibers::thread() < 32)
        fibers::meetBlock();
    });
  };
  EXPECT_DEATH(half(), "wait for each other");
}

void expectBitsOfBlocks(const Call &call, unsigned orders = 3) {
  SCOPED_TRACE(call.name);
  const auto expected = must(runOn(blockRegistry(), call));
  for (unsigned order = 0; order < orders; ++order) {
    fibers::seed(order);
    const auto actual = must(runOn(fiberRegistry(), call));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(actual[i] == expected[i]) << "output " << i << ", order " << order;
  }
}

Value ofType(DType type, Ints dims) { return Value({type, std::move(dims)}); }

TEST(Fibers, rowsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t n : {768, 1001, 5000, 30000}) { // by warps, unaligned, in registers, shared
      const Value x = uniform({type, {3, n}}, 1, -3, 3);
      expectBitsOfBlocks({"softmax", {x}, {ofType(type, {3, n})}, {{"axis", int64_t{1}}}});
    }
}

TEST(Fibers, normsOfGradientsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (size_t offset : {0, 1}) {
      Value x = uniform({type, {64 * 1300}}, 1, -1, 1);
      for (size_t i = 0; i < x.size(); i += 997)
        x.set(i, 1e-15); // beside the window
      expectBitsOfBlocks({"norm_partial", {x.at(offset)}, {Value({DType::i64, {24}})}, {{"first", int64_t{1}}}});
    }
}

TEST(Fibers, attentionOnTensorCoresHasTheBitsOfBlocks) {
  for (int64_t depth : {40, 35, 96}) { // packed, number by number, two tiles of passing keys for one of queries
    const Ints dims = {1, 2, 150, depth};
    const Value q = uniform({DType::bf16, dims}, 1, -1, 1), k = uniform({DType::bf16, dims}, 2, -1, 1),
                v = uniform({DType::bf16, dims}, 3, -1, 1), mask = uniform({DType::f32, {1, 2, 150, 150}}, 4, -1, 1);
    const Attributes attributes = {{"scale", 0.3}, {"causal", int64_t{1}}};
    const Call forward{"attention", {q, k, v, mask}, {Value(q.type), Value({DType::f32, {1, 2, 150}})}, attributes};
    expectBitsOfBlocks(forward, 1);
    const auto made = must(runOn(blockRegistry(), forward));
    Call backward{"attention_grad",
                  {uniform({DType::bf16, dims}, 5, -1, 1), q, k, v, made[0], made[1], mask},
                  {Value(q.type), Value(k.type), Value(v.type), Value(mask.type)},
                  attributes};
    backward.attributes["mask_grad"] = int64_t{1};
    expectBitsOfBlocks(backward, 1);
  }
}

} // namespace
} // namespace zc::test
