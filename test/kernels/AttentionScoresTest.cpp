// attention of windows, and of scores with a softcap: every way that computes it, beside masks and beside differences.
#include "test/kernels/AttentionCases.h"

namespace zc::test {
namespace {

Attributes windowOf(int64_t window) { return {{"window", window}}; }

/// Of many blocks and tiles, of which a window leaves out whole ones on either side; of one key; of all; of more keys
/// than queries, and of more queries than keys, of which some see none.
TEST(FastAttention, seesAWindow) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 2, 300, 8}, {1, 1, 300, 8}, {1, 1, 300, 8}, {}, {}, true},
        AttentionCase{{1, 1, 300, 8}, {1, 1, 300, 8}, {1, 1, 300, 8}, {}, {}, false},
        AttentionCase{{1, 1, 70, 16}, {1, 1, 600, 16}, {1, 1, 600, 12}, {}, {}, true},
        AttentionCase{{1, 1, 300, 8}, {1, 1, 130, 8}, {1, 1, 130, 8}, {}, {}, true},
        AttentionCase{{1, 1, 300, 8}, {1, 1, 130, 8}, {1, 1, 130, 8}, {}, {}, false},
        AttentionCase{{2, 2, 70, 8}, {2, 1, 70, 8}, {2, 1, 70, 8}, {1, 2, 70, 70}, DType::f32, true},
        AttentionCase{{2, 2, 70, 8}, {2, 1, 70, 8}, {2, 1, 70, 8}, {2, 1, 1, 70}, DType::boolean, false}})
    for (int64_t window : {1, 33, 100, 5000})
      forFastTypes([&](DType type) { expectAttentionMatches(row, type, nullptr, windowOf(window)); });
  for (double scale : {-0.3, 0.0}) // of which -inf is not the lowest any more
    forFastTypes([&](DType type) {
      expectAttentionMatches({{1, 2, 70, 8}, {1, 1, 90, 8}, {1, 1, 90, 8}, {}, {}, true}, type, nullptr,
                             {{"window", int64_t{20}}, {"scale", scale}});
    });
}

/// Tensor cores' tiles of heads of each width.
TEST(FastAttention, seesAWindowOfTiles) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 2, 260, 64}, {1, 1, 260, 64}, {1, 1, 260, 64}, {}, {}, true},
        AttentionCase{{1, 1, 260, 64}, {1, 1, 260, 64}, {1, 1, 260, 64}, {}, {}, false},
        AttentionCase{{1, 1, 40, 32}, {1, 1, 300, 32}, {1, 1, 300, 32}, {}, {}, true},
        AttentionCase{{1, 1, 200, 80}, {1, 1, 70, 80}, {1, 1, 70, 80}, {}, {}, true},
        AttentionCase{{1, 2, 130, 128}, {1, 2, 130, 128}, {1, 2, 130, 128}, {1, 1, 130, 130}, DType::f32, true}})
    for (int64_t window : {1, 40, 129})
      for (const Attributes &more : {Attributes{}, Attributes{{"softcap", 0.7}}}) {
        Attributes attributes = more;
        attributes["window"] = window;
        attributes["own"] = kOne; // not cuDNN's, on a GPU
        expectAttentionMatches(row, DType::bf16, nullptr, attributes);
      }
}

TEST(FastAttention, capsScores) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, false},
        AttentionCase{{2, 4, 150, 8}, {2, 2, 301, 8}, {2, 2, 301, 12}, {}, {}, true},
        AttentionCase{{1, 2, 40, 48}, {1, 2, 90, 48}, {1, 2, 90, 40}, {1, 1, 1, 90}, DType::boolean, false},
        AttentionCase{{2, 2, 40, 8}, {2, 2, 90, 8}, {2, 2, 90, 8}, {1, 2, 40, 90}, DType::f32, true}})
    for (double cap : {0.5, 1e6}) // bent, and hardly
      forFastTypes([&](DType type) {
        expectAttentionMatches(row, type, nullptr, {{"softcap", cap}});
        expectAttentionMatches(row, type, nullptr, {{"softcap", cap}, {"window", int64_t{20}}});
        expectAttentionMatches(row, type, nullptr, {{"softcap", cap}, {"dropout", 0.3}, {"dropout_id", int64_t{7}}});
      });
}

/// Of tensor cores' tiles: with a mask, its gradient, heads that share keys, a window; rows whose numbers do not begin
/// with a block of them.
TEST(FastAttention, dropsOfTiles) {
  for (const AttentionCase &row :
       {AttentionCase{{2, 2, 130, 64}, {2, 1, 130, 64}, {2, 1, 130, 64}, {}, {}, true},
        AttentionCase{{1, 2, 40, 32}, {1, 2, 89, 32}, {1, 2, 89, 32}, {1, 2, 40, 89}, DType::f32, false},
        AttentionCase{{1, 1, 70, 128}, {1, 1, 70, 128}, {1, 1, 70, 96}, {1, 1, 1, 70}, DType::boolean, false}})
    for (DType type : {DType::bf16, DType::f16})
      for (int64_t window : {0, 33})
        expectAttentionMatches(row, type, nullptr, {{"dropout", 0.3}, {"dropout_id", int64_t{7}}, {"window", window}});
}

/// A window is what the same mask does, also on a GPU.
TEST(Attention, ofAWindowIsThatOfItsMask) {
  const int64_t queries = 60, keys = 150;
  for (bool causal : {false, true})
    for (int64_t window : {1, 7, 64, 149}) {
      Value mask({DType::boolean, {1, 1, queries, keys}});
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t far = j - (i + keys - queries);
          mask.set(static_cast<size_t>(i * keys + j), far > -window && far < (causal ? 1 : window));
        }
      Value q = random(DType::f32, {1, 2, queries, 16}, 1), k = random(DType::f32, {1, 2, keys, 16}, 2), g = q;
      Call masked{
          "attention", {q, k, k, mask}, {Value(q.type), Value({DType::f32, {1, 2, queries}})}, {{"scale", 0.3}}};
      Call windowed = masked;
      windowed.inputs.pop_back();
      windowed.attributes["window"] = window;
      if (causal)
        windowed.attributes["causal"] = kOne;
      for (const KernelRegistry *kernels : {&registry(true), &registry(false), &blockRegistry()}) {
        const std::vector<Value> expected = must(runOn(*kernels, masked)), got = must(runOn(*kernels, windowed));
        for (size_t i = 0; i < got.size(); ++i)
          for (size_t at = 0; at < got[i].size(); ++at)
            ASSERT_NEAR(got[i].get(at), expected[i].get(at), 1e-5) << i << " " << at;
      }
    }
}

TEST(Attention, refusesWindowsAndSoftcapsThatAreNone) {
  Value x = random(DType::f32, {1, 1, 3, 4}, 1), lse({DType::f32, {1, 1, 3}});
  auto number = [&](const Attributes &attributes) {
    KernelSpec spec = Call{"attention", {x, x, x}, {Value(x.type), lse}, attributes}.spec();
    spec.workspace = 1 << 20;
    Status status = registry(false).prepare(spec).status();
    return status.ok() ? 0 : status.error().number;
  };
  EXPECT_EQ(number({{"window", int64_t{3}}, {"softcap", 2.0}}), 0);
  EXPECT_EQ(number({{"window", std::numeric_limits<int64_t>::max()}}), 0);
  EXPECT_EQ(number({{"window", int64_t{-1}}}), 703);
  EXPECT_EQ(number({{"softcap", -1.0}}), 703);
  EXPECT_EQ(number({{"softcap", std::nan("")}}), 703);
  EXPECT_EQ(number({{"softcap", kInfinity}}), 703);
}

} // namespace
} // namespace zc::test
