// What threads of a block read of each other's is there, in whatever order they run: the bits of a host's blocks.
#include "test/kernels/Fibers.h"

#include "kernels/Quantized.h"
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
    for (int64_t n : {768, 1001, 4000, 9000}) { // by warps, unaligned, in registers, shared
      const Value x = uniform({type, {3, n}}, 1, -3, 3);
      const Call softmax{"softmax", {x}, {ofType(type, {3, n})}, {{"axis", int64_t{1}}}};
      expectBitsOfBlocks(softmax, 2);
      const Value y = must(runOn(blockRegistry(), softmax))[0];
      expectBitsOfBlocks({"softmax_grad", {x, y}, {ofType(type, {3, n})}, softmax.attributes}, 2);
    }
}

TEST(Fibers, lossesHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t n : {768, 1001, 9000}) {
      const Value x = uniform({type, {5, n}}, 1, -3, 3), labels = i64({5}, {0, 3, -100, 767, 5}),
                  none({DType::f32, {}});
      const Attributes attributes = {{"ignore_index", int64_t{-100}}};
      const Call forward{"cross_entropy", {x, labels}, {none, ofType(DType::f32, {5})}, attributes};
      expectBitsOfBlocks(forward, 1);
      const Value lse = must(runOn(blockRegistry(), forward))[1];
      expectBitsOfBlocks({"cross_entropy_grad", {f32({}, {3}), x, labels, lse}, {Value(x.type)}, attributes}, 1);
    }
}

/// A label's logit is read before the gradient is written over it.
TEST(Fibers, headsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t classes : {240, 1200}) { // by warps, by blocks
      const Attributes plain{{"ignore_index", int64_t{-100}}, {"chunk", int64_t{4}}};
      Attributes capped = plain;
      capped["cap"] = 5.0;
      const TensorType x{type, {6, 8}}, weight{type, {8, classes}};
      const Value labels = i64({6}, {239, 3, -100, 167, 100, 200});
      for (const Attributes &attributes : {plain, capped})
        expectBitsOfBlocks({"linear_cross_entropy_grad",
                            {f32({}, {3}), uniform(x, 1, -1, 1), labels, uniform(weight, 2, -1, 1)},
                            {Value({DType::f32, {}}), Value(x), Value(weight)},
                            attributes},
                           2);
      const Value each({DType::f32, {6}});
      expectBitsOfBlocks({"linear_log_softmax_grad",
                          {uniform(each.type, 3, -1, 1), uniform(each.type, 4, -1, 1), uniform(x, 1, -1, 1),
                           i64({6}, {239, 3, -100, 167, 100, 200}), uniform({DType::f32, {classes}}, 5, 0, 0.01),
                           uniform(weight, 2, -1, 1)},
                          {each, each, Value(x), Value(weight)},
                          {{"chunk", int64_t{4}}}},
                         2);
    }
}

TEST(Fibers, normsOfRowsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t n : {768, 1001, 4000, 9000}) {
      const TensorType row{type, {n}}, rows{type, {5, n}}, statistics{DType::f32, {5}};
      const Value x = uniform(rows, 1, -3, 3), scale = uniform(row, 2, -1, 1), bias = uniform(row, 3, -1, 1);
      const Attributes attributes = {{"epsilon", 1e-5}, {"axis", int64_t{1}}};
      const Call layer{"layer_norm", {x, scale, bias}, {Value(rows), Value(statistics), Value(statistics)}, attributes};
      const Call rms{"rms_norm", {x, scale}, {Value(rows), Value(statistics)}, attributes};
      expectBitsOfBlocks(layer, 1);
      expectBitsOfBlocks(rms, 1);
      const auto made = must(runOn(blockRegistry(), layer));
      expectBitsOfBlocks({"layer_norm_grad",
                          {uniform(rows, 4, -1, 1), x, scale, made[1], made[2]},
                          {Value(rows), Value(row), Value(row)},
                          attributes},
                         1);
    }
}

TEST(Fibers, reductionsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (int64_t n : {100, 3000, 9000}) { // of a warp, of a block, in parts
      const Value x = uniform({type, {3, n}}, 1, -3, 3);
      expectBitsOfBlocks({"reduce_sum", {x}, {ofType(type, {3})}, {{"axes", Ints{1}}}}, 1);
    }
}

TEST(Fibers, normsOfChannelsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (bool isLast : {false, true}) {
      const TensorType of{type, {3}}, statistics{DType::f32, {3}};
      const Value x = uniform({type, isLast ? Ints{2, 700, 3} : Ints{2, 3, 700}}, 1, -3, 3),
                  g = uniform(x.type, 2, -1, 1), scale = uniform(of, 3, -1, 1), bias = uniform(of, 4, -1, 1);
      Attributes attributes = {{"epsilon", 1e-5}};
      if (isLast)
        attributes["channels_last"] = int64_t{1};
      const Call forward{
          "batch_norm", {x, scale, bias}, {Value(x.type), Value(statistics), Value(statistics)}, attributes};
      expectBitsOfBlocks(forward, 1);
      const auto made = must(runOn(blockRegistry(), forward));
      expectBitsOfBlocks(
          {"batch_norm_grad", {g, x, scale, made[1], made[2]}, {Value(x.type), Value(of), Value(of)}, attributes}, 1);
    }
}

TEST(Fibers, normsOfGroupsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (bool isLast : {false, true}) {
      const TensorType of{type, {6}}, statistics{DType::f32, {2, 3}};
      const Value x = uniform({type, isLast ? Ints{2, 700, 6} : Ints{2, 6, 700}}, 1, -3, 3),
                  g = uniform(x.type, 2, -1, 1), scale = uniform(of, 3, -1, 1), bias = uniform(of, 4, -1, 1);
      Attributes attributes = {{"epsilon", 1e-5}, {"groups", int64_t{3}}};
      if (isLast)
        attributes["channels_last"] = int64_t{1};
      const Call forward{
          "group_norm", {x, scale, bias}, {Value(x.type), Value(statistics), Value(statistics)}, attributes};
      expectBitsOfBlocks(forward, 1);
      const auto made = must(runOn(blockRegistry(), forward));
      expectBitsOfBlocks(
          {"group_norm_grad", {g, x, scale, made[1], made[2]}, {Value(x.type), Value(of), Value(of)}, attributes}, 1);
    }
}

TEST(Fibers, quantizedBlocksHaveTheBitsOfBlocks) {
  for (int64_t bits : {4, 8})
    for (int64_t block : {64, 100, 2048}) { // in a warp, element by element, over warps
      const int64_t n = 5000;
      const Value x = uniform({DType::bf16, {n}}, 1, -1, 1), left = uniform({DType::bf16, {n}}, 2, -0.01, 0.01);
      const QuantizedPiece piece{n, bits, block};
      const Value q({DType::u8, {piece.bytes()}});
      const Attributes attributes = {{"bits", bits}, {"block", block}};
      Call quantize{"quantize", {x}, {q, left}, attributes};
      quantize.attributes["beta"] = 0.5;
      expectBitsOfBlocks(quantize, 1);
      const Value one = must(runOn(blockRegistry(), quantize))[0];
      Value sources({DType::u8, {2 * piece.bytes()}});
      for (int64_t source : {0, 1})
        std::memcpy(static_cast<char *>(sources.data()) + source * piece.bytes(), one.data(),
                    static_cast<size_t>(piece.bytes()));
      Call again{"dequantize_sum_quantize", {sources}, {q}, attributes};
      again.attributes["sources"] = int64_t{2};
      again.attributes["elements"] = n;
      expectBitsOfBlocks(again, 1);
    }
}

TEST(Fibers, normsOfGradientsHaveTheBitsOfBlocks) {
  for (DType type : {DType::f32, DType::bf16})
    for (size_t offset : {0, 1}) {
      Value x = uniform({type, {64 * 1300}}, 1, -1, 1);
      for (size_t i = 0; i < x.size(); i += i % 64 == 63 ? 6 * 64 + 1 : 1)
        x.set(i, 1e-25); // whole blocks, beside the window
      expectBitsOfBlocks({"norm_partial", {x.at(offset)}, {Value({DType::i64, {24}})}, {{"first", int64_t{1}}}});
    }
}

/// Forward, and all gradients; without a mask where it is null.
void expectAttentionOfBlocks(const Value &q, const Value *mask, const Attributes &more = {}) {
  const Value k = uniform(q.type, 2, -1, 1), v = uniform(q.type, 3, -1, 1), grad = uniform(q.type, 5, -1, 1);
  const Value lse({DType::f32, {1, q.type.dims[1], q.type.dims[2]}});
  Attributes attributes = {{"scale", 0.3}, {"causal", int64_t{1}}};
  attributes.insert(more.begin(), more.end());
  Call forward{"attention", {q, k, v}, {Value(q.type), lse}, attributes};
  if (mask)
    forward.inputs.push_back(*mask);
  expectBitsOfBlocks(forward, 1);
  const auto made = must(runOn(blockRegistry(), forward));
  Call backward{
      "attention_grad", {grad, q, k, v, made[0], made[1]}, {Value(q.type), Value(k.type), Value(v.type)}, attributes};
  if (mask) {
    backward.inputs.push_back(*mask);
    backward.outputs.emplace_back(mask->type);
    backward.attributes["mask_grad"] = int64_t{1};
  }
  expectBitsOfBlocks(backward, 1);
}

TEST(Fibers, attentionOnTensorCoresHasTheBitsOfBlocks) {
  for (int64_t depth : {40, 35, 96}) { // packed, number by number, two tiles of passing keys for one of queries
    const Value q = uniform({DType::bf16, {1, 1, 150, depth}}, 1, -1, 1),
                mask = uniform({DType::f32, {1, 1, 150, 150}}, 4, -1, 1);
    expectAttentionOfBlocks(q, &mask);
    expectAttentionOfBlocks(q, nullptr);
  }
  const Value heads = uniform({DType::bf16, {1, 2, 70, 40}}, 1, -1, 1),
              mask = uniform({DType::f32, {1, 1, 70, 70}}, 4, -1, 1);
  expectAttentionOfBlocks(heads, &mask); // shared
  expectAttentionOfBlocks(heads, &mask, {{"window", int64_t{20}}, {"softcap", 0.8}});
  expectAttentionOfBlocks(heads, &mask, {{"dropout", 0.3}, {"dropout_id", int64_t{3}}});
}

TEST(Fibers, attentionOnCudaCoresHasTheBitsOfBlocks) {
  const Value mask = uniform({DType::f32, {1, 1, 70, 70}}, 4, -1, 1);
  expectAttentionOfBlocks(uniform({DType::f32, {1, 1, 70, 16}}, 1, -1, 1), &mask);
}

} // namespace
} // namespace zc::test
