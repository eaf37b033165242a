// attention and its gradient against the plain ones: blocks, tiles, masks, grouped heads, and what they work in.
#include "kernels/cuda/CoreTiles.h"
#include "test/kernels/AttentionCases.h"
#include "test/support/Sanitized.h"

namespace zc::test {
namespace {

TEST(FastAttention, andGradient) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, false},
        AttentionCase{{2, 3, 33, 16}, {2, 3, 33, 16}, {2, 3, 33, 16}, {}, {}, true},
        AttentionCase{{1, 4, 150, 8}, {1, 2, 150, 8}, {1, 2, 150, 12}, {}, {}, true}, // grouped heads
        AttentionCase{{1, 3, 20, 35}, {1, 1, 20, 35}, {1, 1, 20, 33}, {}, {}, true},  // odd widths
        AttentionCase{{0, 2, 7, 8}, {0, 2, 7, 8}, {0, 2, 7, 8}, {}, {}, false},
        AttentionCase{{1, 2, 3, 0}, {1, 2, 5, 0}, {1, 2, 5, 4}, {}, {}, false},
        AttentionCase{{1, 1, 3, 4}, {1, 1, 0, 4}, {1, 1, 0, 4}, {}, {}, false}})
    forFastTypes([&](DType type) { expectAttentionMatches(row, type); });
}

/// Several blocks of queries and keys, the last ones partial; with more queries than keys some see none.
TEST(FastAttention, andGradientOfManyBlocks) {
  for (const AttentionCase &row : {AttentionCase{{1, 1, 300, 8}, {1, 1, 300, 8}, {1, 1, 300, 8}, {}, {}, true},
                                   AttentionCase{{1, 1, 130, 8}, {1, 1, 550, 8}, {1, 1, 550, 8}, {}, {}, true},
                                   AttentionCase{{1, 1, 400, 8}, {1, 1, 261, 8}, {1, 1, 261, 8}, {}, {}, true},
                                   AttentionCase{{1, 2, 131, 8}, {1, 1, 513, 8}, {1, 1, 513, 8}, {}, {}, false}})
    forFastTypes([&](DType type) { expectAttentionMatches(row, type); });
}

TEST(FastAttention, takesMasksOfAnyBroadcastShape) {
  for (const Ints &mask :
       {Ints{2, 2, 20, 41}, Ints{1, 2, 1, 41}, Ints{2, 1, 20, 1}, Ints{1, 1, 1, 1}, Ints{1, 1, 20, 41}})
    for (bool causal : {false, true})
      forFastTypes([&](DType type) {
        for (DType of : {DType::boolean, DType::f32, type})
          expectAttentionMatches({{2, 2, 20, 8}, {2, 1, 41, 8}, {2, 1, 41, 8}, mask, of, causal}, type);
      });
}

/// Of keys alone, as padding has them, they are read once for all queries: the bits of those of each query.
TEST(Attention, ofMasksOfKeysHasTheBitsOfThoseOfQueries) {
  const int64_t queries = 70, keys = 90;
  for (int64_t depth : {24, 64, 128})
    for (DType of : {DType::boolean, DType::f32, DType::bf16}) {
      const AttentionCase row{
          {1, 2, queries, depth}, {1, 1, keys, depth}, {1, 1, keys, depth}, {1, 2, 1, keys}, of, true};
      const Value mask = maskOf(row);
      Value whole({of, {1, 2, queries, keys}});
      for (int64_t i = 0; i < 2 * queries * keys; ++i)
        whole.set(size_t(i), mask.get(size_t(i / (queries * keys) * keys + i % keys)));
      const Value q = random(DType::bf16, row.query, 1), k = random(DType::bf16, row.key, 2),
                  v = random(DType::bf16, row.key, 3), grad = random(DType::bf16, row.query, 4),
                  lse({DType::f32, {1, 2, queries}});
      const Attributes attributes = {{"own", kOne}, {"causal", kOne}};
      auto resultsOf = [&](const Value &own) {
        const std::vector<Value> made =
            must(runOn(blockRegistry(), {"attention", {q, k, v, own}, {q, lse}, attributes}));
        std::vector<Value> all = must(
            runOn(blockRegistry(), {"attention_grad", {grad, q, k, v, made[0], made[1], own}, {q, k, v}, attributes}));
        all.insert(all.end(), made.begin(), made.end());
        return all;
      };
      EXPECT_TRUE(resultsOf(mask) == resultsOf(whole)) << nameOf(of) << ", heads of " << depth;
    }
}

/// Of a table that is trained: one for all samples, for all heads, grouped ones, blocks that `causal` leaves out.
/// Where queries fill no tile, what is not there would have the last one's mask: infinite as a power.
TEST(FastAttention, takesMasksThatDecide) {
  const AttentionCase row{{1, 2, 20, 16}, {1, 2, 20, 16}, {1, 2, 20, 16}, {1, 1, 20, 20}, DType::f32, false};
  Value mask = maskOf(row);
  for (size_t query = 0; query < 20; ++query)
    mask.set(query * 20 + 5, 90);
  forFastTypes([&](DType type) { expectAttentionMatches(row, type, &mask); });
}

/// Rows that see nothing but large numbers, or the lowest there is: beside these their scores are rounded away, forward
/// and backward, however large they are. On tensor cores the weights of such a row are 1 each, and not their average.
TEST(FastAttention, ofRowsThatNumbersHideIsAnAverage) {
  const Value lse({DType::f32, {1, 2, 20}});
  for (double lowest : {-1e30, -2e38, -3.38e38})
    for (DType type : {DType::bf16, DType::f16, DType::f32})
      for (DType of : {DType::f32, type}) {
        if (of == DType::f16)
          continue; // it has no such numbers
        const Value q = random(type, {1, 2, 20, 32}, 1), k = random(type, {1, 1, 40, 32}, 2),
                    v = random(type, {1, 1, 40, 32}, 3), grad = random(type, {1, 2, 20, 32}, 4);
        Value mask({of, {1, 1, 1, 40}});
        for (size_t key = 0; key < 40; ++key)
          mask.set(key, lowest);
        const Attributes attributes = {{"own", kOne}, {"scale", 30.0}};
        auto resultsOn = [&](const KernelRegistry &kernels) {
          std::vector<Value> all = must(runOn(kernels, {"attention", {q, k, v, mask}, {q, lse}, attributes}));
          std::vector<Value> grads =
              must(runOn(kernels, {"attention_grad", {grad, q, k, v, all[0], all[1], mask}, {q, k, v}, attributes}));
          grads.push_back(all[0]);
          return grads;
        };
        const std::vector<Value> expected = resultsOn(registry(true));
        for (const KernelRegistry *kernels : {&registry(false), &blockRegistry()}) {
          const std::vector<Value> found = resultsOn(*kernels);
          for (size_t i = 0; i < found.size(); ++i)
            for (size_t e = 0; e < elements(found[i]).size(); ++e) {
              const bool areOnes = kernels == &blockRegistry() && type != DType::f32 && i < 3;
              const double there = expected[i].get(e) * (areOnes ? 40 : 1);
              const double rounding = i >= 2 ? 0.02 : areOnes ? 4 : 0.2; // results of 16 bits, times the scale
              ASSERT_NEAR(found[i].get(e), there, rounding * (1 + std::abs(there)))
                  << lowest << " of " << int(of) << ", " << int(type) << ", output " << i;
            }
        }
      }
}

TEST(FastAttention, givesTheGradientOfItsMask) {
  std::vector<Ints> masks = {{1, 4, 140, 266}, {2, 1, 140, 266}};
  if (!kIsSanitized)
    masks.insert(masks.end(), {{2, 4, 140, 266}, {1, 1, 140, 266}});
  for (const Ints &mask : masks)
    for (bool causal : {false, true})
      for (DType type : {DType::f32, DType::bf16})
        expectAttentionMatches({{2, 4, 140, 8}, {2, 2, 266, 8}, {2, 2, 266, 8}, mask, DType::f32, causal}, type);
  for (const AttentionCase &row : // without samples the gradient is zero; more queries than keys; a table of 16 bits
       {AttentionCase{{0, 2, 3, 8}, {0, 2, 5, 8}, {0, 2, 5, 8}, {1, 2, 3, 5}, DType::f32, false},
        AttentionCase{{2, 2, 9, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}, {1, 2, 9, 5}, DType::f32, true}})
    forFastTypes([&](DType type) { expectAttentionMatches(row, type); });
  expectAttentionMatches({{2, 2, 9, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}, {1, 2, 9, 5}, DType::bf16, false}, DType::bf16);
}

/// Tiles of tensor cores: heads of each width that rows are padded to, warps and blocks of which only some rows are
/// there, or see only some of a tile's; more than one block and tile; rows that 16 bytes do not divide.
TEST(FastAttention, andGradientOfTiles) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 2, 130, 64}, {1, 2, 130, 64}, {1, 2, 130, 64}, {}, {}, true},
        AttentionCase{{1, 1, 17, 64}, {1, 1, 200, 64}, {1, 1, 200, 64}, {}, {}, false},
        AttentionCase{{1, 1, 200, 64}, {1, 1, 70, 64}, {1, 1, 70, 64}, {}, {}, true}, // some see no key
        AttentionCase{{1, 4, 66, 128}, {1, 2, 66, 128}, {1, 2, 66, 128}, {}, {}, true},
        AttentionCase{{1, 2, 40, 80}, {1, 2, 90, 80}, {1, 2, 90, 96}, {1, 1, 40, 90}, DType::f32, true},
        AttentionCase{{2, 2, 130, 64}, {2, 1, 70, 64}, {2, 1, 70, 64}, {1, 2, 130, 70}, DType::f32, false},
        AttentionCase{{1, 2, 40, 48}, {1, 2, 90, 48}, {1, 2, 90, 40}, {1, 1, 1, 90}, DType::boolean, false},
        AttentionCase{{1, 2, 70, 27}, {1, 2, 70, 27}, {1, 2, 70, 61}, {}, {}, true},
        AttentionCase{{1, 1, 20, 136}, {1, 1, 20, 136}, {1, 1, 20, 136}, {}, {}, true}}) // wider than tiles
    for (DType type : {DType::bf16, DType::f16})
      expectAttentionMatches(row, type, nullptr, {{"own", kOne}}); // not cuDNN's, on a GPU
}

/// What ldmatrix reads at once, and 8 threads copy: 16 bytes of 8 rows, or of one row; 32 banks have 4 bytes each.
template <int D> void expectOwnBanks() {
  std::set<int> taken;
  auto banksOf = [](int place) { return place / 16 % 8; };
  for (int row = 0; row < cuda::CoreCut<D>::kOfBlock; ++row)
    for (int sixteenth = 0; sixteenth < D / 8; ++sixteenth) {
      EXPECT_TRUE(taken.insert(cuda::placeInTile<D>(row, sixteenth)).second);
      std::set<int> ofColumn, ofRow;
      for (int i = 0; i < 8; ++i) {
        ofColumn.insert(banksOf(cuda::placeInTile<D>(row / 8 * 8 + i, sixteenth)));
        const int at = row * (D / 8) + sixteenth / 8 * 8 + i; // of 32 numbers, two rows
        ofRow.insert(banksOf(cuda::placeInTile<D>(at / (D / 8), at % (D / 8))));
      }
      EXPECT_EQ(ofColumn.size(), 8u) << "row " << row << ", " << sixteenth;
      EXPECT_TRUE(ofRow.size() == 8 || (D == 32 && row % 2)) << "row " << row << ", " << sixteenth;
    }
  EXPECT_EQ(*taken.rbegin(), cuda::CoreCut<D>::kHeldBytes - 16);
}
TEST(CoreTiles, haveNoBankConflicts) {
  expectOwnBanks<32>();
  expectOwnBanks<64>();
  expectOwnBanks<128>();
}

/// A GPU's blocks: twice the same bits, and those of rows that lie where 16 bytes cannot be copied at once.
TEST(Attention, hasTheSameBitsOfRowsAnywhere) {
  for (const Ints &dims : {Ints{1, 2, 130, 64}, Ints{2, 1, 70, 40}}) {
    Value q = random(DType::bf16, dims, 1), k = random(DType::bf16, dims, 2), v = random(DType::bf16, dims, 3);
    Value lse({DType::f32, {dims[0], dims[1], dims[2]}});
    const Attributes attributes = {{"causal", kOne}, {"own", kOne}};
    const Call forward{"attention", {q, k, v}, {q, lse}, attributes};
    const std::vector<Value> made = must(runOn(blockRegistry(), forward));
    const Call backward{
        "attention_grad", {random(DType::bf16, dims, 5), q, k, v, made[0], made[1]}, {q, k, v}, attributes};
    for (const Call &call : {forward, backward}) {
      const std::vector<Value> first = must(runOn(blockRegistry(), call));
      for (size_t offset : {0, 1, 7}) {
        const std::vector<Value> again = must(runOn(blockRegistry(), atOffset(call, offset)));
        for (size_t i = 0; i < first.size(); ++i)
          EXPECT_TRUE(again[i] == first[i]) << call.name << ", output " << i << " at offset " << offset;
      }
    }
  }
}

TEST(FastAttention, refusesAGradientOfAnotherMask) {
  Value q = random(DType::f32, {1, 1, 3, 4}, 1), lse({DType::f32, {1, 1, 3}});
  auto number = [&](const Value &mask, const Value &gradient) {
    Call call{"attention_grad", {q, q, q, q, q, lse, mask}, {q, q, q, gradient}, {{"mask_grad", kOne}}};
    KernelSpec spec = call.spec();
    spec.workspace = 1 << 20;
    Status status = registry(false).prepare(spec).status();
    return status.ok() ? 0 : status.error().number;
  };
  const Value mask({DType::f32, {1, 1, 3, 3}}), rows({DType::f32, {1, 1, 3, 1}}), half({DType::bf16, {1, 1, 3, 3}});
  EXPECT_EQ(number(mask, mask), 0);
  EXPECT_EQ(number(rows, rows), 703);
  EXPECT_EQ(number(mask, rows), 703);
  EXPECT_EQ(number(mask, half), 703);
  EXPECT_EQ(number(boolean({1, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1}), mask), 703);
}

/// A mask's gradient is zero where no head or sample adds to it.
TEST(FastAttention, maskGradientOfNothing) {
  for (const Ints &dims : {Ints{1, 0, 2, 8}, Ints{0, 1, 2, 8}})
    forFastTypes([&](DType type) {
      const Value q({type, dims}), k({type, {dims[0], 1, 2, 8}}), lse({DType::f32, {dims[0], dims[1], 2}});
      const Value mask = random(DType::f32, {1, 1, 2, 2}, 1), none = random(DType::f32, {0, 1, 2, 2}, 1);
      for (const Value &each : {mask, none})
        if (each.type.dims[0] == dims[0] || each.type.dims[0] == 1)
          expectFastMatches({"attention_grad", {q, q, k, k, q, lse, each}, {q, k, k, each}, {{"mask_grad", kOne}}}, 0);
    });
}

/// Probabilities are dropped as `dropout` drops them: identities as values show them. Rows begin within a block of
/// numbers.
TEST(FastAttention, dropsWhatDropoutWould) {
  const Ints dims = {2, 3, 37, 37};
  const Attributes drawn = {{"ratio", 0.3}, {"id", int64_t{7}}};
  Value ones({DType::f32, dims}), identity = ones;
  for (int64_t i = 0; i < 2 * 3 * 37 * 37; ++i) {
    ones.set(size_t(i), 1);
    identity.set(size_t(i), i % 37 == i / 37 % 37);
  }
  Value zeros({DType::f32, {2, 3, 37, 4}}), lse({DType::f32, {2, 3, 37}});
  auto factors = run({"dropout", {ones}, {Value(ones.type), Value({DType::boolean, dims})}, drawn});
  ASSERT_TRUE(factors.ok());
  for (bool referenceOnly : {true, false}) {
    Attributes attributes = {{"dropout", 0.3}, {"dropout_id", int64_t{7}}};
    auto results = run({"attention", {zeros, zeros, identity}, {Value(ones.type), lse}, attributes}, referenceOnly);
    ASSERT_TRUE(results.ok()) << results.error().message;
    int64_t dropped = 0;
    for (size_t i = 0; i < elements(ones).size(); ++i) {
      ASSERT_NEAR((*results)[0].get(i) * 37, (*factors)[0].get(i), 1e-5) << i;
      dropped += (*results)[0].get(i) == 0;
    }
    EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(elements(ones).size()), 0.3, 0.02);
  }
}

/// Of a [B, H, ...] value so many samples and heads from the first ones on.
static Value partOf(const Value &whole, int64_t sample, int64_t samples, int64_t head, int64_t heads) {
  const Ints &dims = whole.type.dims;
  Ints own = dims;
  own[0] = samples;
  own[1] = heads;
  Value part({whole.type.dtype, own});
  const int64_t ofHead = std::accumulate(dims.begin() + 2, dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < samples * heads * ofHead; ++i) {
    const int64_t b = sample + i / (heads * ofHead), within = i % (heads * ofHead);
    part.set(size_t(i), whole.get(size_t((b * dims[1] + head) * ofHead + within)));
  }
  return part;
}

/// A rank of the model axis has some of the heads, or of the samples: of these it drops what the attention on all does.
TEST(FastAttention, ofAPartDropsWhatTheWholeDoesThere) {
  constexpr int64_t kRanks = 2, kSamples = 4, kHeads = 4, kQueries = 21;
  for (bool ofHeads : {true, false})
    for (int64_t keys : {36, 37})
      for (DType type : {DType::f32, DType::bf16})
        for (const KernelRegistry *kernels : {&registry(true), &registry(false), &blockRegistry()}) {
          const Ints queries = {kSamples, kHeads, kQueries, 16}, of = {kSamples, kHeads, keys, 16};
          const Value q = random(type, queries, 1), k = random(type, of, 2), v = random(type, of, 3),
                      grad = random(type, queries, 4), lse({DType::f32, {kSamples, kHeads, kQueries}});
          Attributes drawn = {{"causal", kOne}, {"dropout", 0.4}, {"dropout_id", int64_t{7}}, {"own", kOne}};
          const std::vector<Value> all = must(runOn(*kernels, {"attention", {q, k, v}, {q, lse}, drawn}));
          const std::vector<Value> grads =
              must(runOn(*kernels, {"attention_grad", {grad, q, k, v, all[0], all[1]}, {q, k, v}, drawn}));
          const int64_t samples = ofHeads ? kSamples : kSamples / kRanks, heads = ofHeads ? kHeads / kRanks : kHeads,
                        run = (ofHeads ? heads : samples * heads) * kQueries * keys;
          drawn["run"] = run;
          drawn["stride"] = kRanks * run;
          for (int rank = 0; rank < kRanks; ++rank) {
            auto own = [&](const Value &whole) {
              return partOf(whole, ofHeads ? 0 : rank * samples, samples, ofHeads ? rank * heads : 0, heads);
            };
            Call forward{"attention", {own(q), own(k), own(v)}, {own(q), own(lse)}, drawn};
            Call backward{"attention_grad",
                          {own(grad), own(q), own(k), own(v), own(all[0]), own(all[1])},
                          {own(q), own(k), own(v)},
                          drawn};
            forward.modelRank = backward.modelRank = rank;
            const std::vector<Value> part = must(runOn(*kernels, forward)), slopes = must(runOn(*kernels, backward));
            EXPECT_TRUE(part[0] == own(all[0])) << rank;
            for (size_t i = 0; i < 3; ++i)
              EXPECT_TRUE(slopes[i] == own(grads[i])) << rank << ", gradient " << i;
          }
        }
  const Value x = random(DType::f32, {2, 2, 3, 4}, 1), lse({DType::f32, {2, 2, 3}});
  const int64_t most = std::numeric_limits<int64_t>::max() / 9 * 9;
  auto numberOf = [&](int64_t run, int64_t stride) {
    Call call{"attention", {x, x, x}, {x, lse}, {{"dropout", 0.4}, {"run", run}, {"stride", stride}}};
    call.modelRank = 3;
    Result<std::vector<Value>> done = zc::test::run(call);
    return done.ok() ? 0 : done.error().number;
  };
  for (auto [run, stride] : {std::pair<int64_t, int64_t>{10, 20}, {9, 18}, {27, 54}, {18, 40}, {most, most}})
    EXPECT_EQ(numberOf(run, stride), 703) << run << ", " << stride;
  EXPECT_EQ(numberOf(18, 36), 0);
  EXPECT_EQ(numberOf(18, most), 0); // of a plan that lies: some numbers
  EXPECT_EQ(numberOf(36, 72), 0);
}

TEST(FastAttention, dropsInBlocks) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, false},
        AttentionCase{{2, 4, 150, 8}, {2, 2, 301, 8}, {2, 2, 301, 12}, {}, {}, true},
        AttentionCase{{2, 4, 13, 8}, {2, 2, 301, 8}, {2, 2, 301, 8}, {1, 4, 13, 301}, DType::f32, false},
        AttentionCase{{2, 2, 20, 8}, {2, 1, 21, 8}, {2, 1, 21, 8}, {2, 1, 1, 21}, DType::boolean, false}})
    forFastTypes([&](DType type) {
      for (double dropout : {0.1, 0.9})
        expectAttentionMatches(row, type, nullptr, {{"dropout", dropout}, {"dropout_id", int64_t{7}}});
    });
}

/// What earlier blocks have is nothing, or is scaled down by a larger score, at the borders of blocks.
TEST(FastAttention, carriesMaximaOverBlocksOfKeys) {
  const AttentionCase row{{1, 1, 5, 8}, {1, 1, 600, 8}, {1, 1, 600, 8}, {1, 1, 5, 600}, DType::f32, false};
  Value mask({DType::f32, row.mask});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 600; ++j) {
      const bool isSeen = i == 0 ? j >= 256 : i == 1 ? j == 599 : i == 2 ? j < 3 : i == 3; // the last row: nothing
      mask.set(size_t(i * 600 + j), !isSeen ? -kInfinity : i == 3 ? static_cast<double>(j) * 0.1 : 0);
    }
  forFastTypes([&](DType type) { expectAttentionMatches(row, type, &mask); });
}

/// Padding on the left beside the causal flag hides the first rows as a whole; of a shape that cuDNN takes on a GPU.
TEST(FastAttention, hidesRowsByAMaskBesidePositions) {
  const AttentionCase row{{1, 2, 64, 64}, {1, 2, 64, 64}, {1, 2, 64, 64}, {1, 1, 1, 64}, DType::f32, true};
  Value mask({DType::f32, row.mask});
  for (size_t j = 0; j < 64; ++j)
    mask.set(j, j < 3 ? -kInfinity : 0);
  forFastTypes([&](DType type) { expectAttentionMatches(row, type, &mask); });
}

/// Of blocks that a window or padding hides nothing is computed: the bits of the same mask, added.
TEST(FastAttention, leavesOutBlocksThatAMaskHides) {
  AttentionCase window{{2, 2, 300, 8}, {2, 1, 600, 8}, {2, 1, 600, 8}, {1, 1, 300, 600}, DType::boolean, false};
  AttentionCase padding = window;
  padding.mask = {2, 1, 1, 600};
  auto sees = [&](const AttentionCase &row, int64_t at) {
    const int64_t i = at / 600, j = at % 600;
    return &row == &window ? i % 50 != 7 && j >= 2 * i && j < 2 * i + 9 // some rows see nothing
                           : i == 0 && j >= 510;                        // one of the samples, too
  };
  for (const AttentionCase *row : {&window, &padding}) {
    Value kept({DType::boolean, row->mask}), added({DType::f32, row->mask});
    for (size_t at = 0; at < kept.size(); ++at) {
      kept.set(at, sees(*row, static_cast<int64_t>(at)));
      added.set(at, sees(*row, static_cast<int64_t>(at)) ? 0 : -kInfinity);
    }
    forFastTypes([&](DType type) {
      expectAttentionMatches(*row, type, &kept);
      const Value q = random(type, row->query, 1), k = random(type, row->key, 2), v = random(type, row->value, 3);
      Call forward{"attention", {q, k, v, kept}, {Value(q.type), Value({DType::f32, {2, 2, 300}})}, {{"scale", 0.3}}};
      Call other = forward;
      other.inputs[3] = added;
      const std::vector<Value> results = must(run(forward));
      EXPECT_TRUE(results == must(run(other)));
      Call backward{"attention_grad",
                    {random(type, q.type.dims, 5), q, k, v, results[0], results[1], kept},
                    {Value(q.type), Value(k.type), Value(v.type)},
                    {{"scale", 0.3}}};
      other = backward;
      other.inputs[6] = added;
      EXPECT_TRUE(must(run(backward)) == must(run(other)));
    });
  }
}

TEST(FastAttention, masksWholeRows) {
  Value q = random(DType::f32, {1, 1, 3, 4}, 1), mask = boolean({1, 1, 3, 3}, {1, 0, 1, 0, 0, 0, 1, 1, 1});
  Call forward{"attention", {q, q, q, mask}, {Value(q.type), Value({DType::f32, {1, 1, 3}})}, {{"scale", 1.0}}};
  expectFastMatches(forward, 1e-6, Bits::always);
  auto results = run(forward, false);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[1].get(1), -kInfinity);
  Call backward{"attention_grad",
                {q, q, q, q, (*results)[0], (*results)[1], mask},
                {Value(q.type), Value(q.type), Value(q.type)},
                {{"scale", 1.0}}};
  expectFastMatches(backward, 1e-6, Bits::always);
}

TEST(FastAttention, passesNanOn) {
  for (DType type : {DType::f32, DType::bf16}) {
    Value q = random(type, {1, 1, 3, 4}, 1), k = random(type, {1, 1, 300, 4}, 2);
    q.set(5, std::nan("")); // of the second query
    auto results = run({"attention", {q, k, k}, {Value(q.type), Value({DType::f32, {1, 1, 3}})}}, false);
    ASSERT_TRUE(results.ok());
    for (size_t i = 0; i < 12; ++i)
      EXPECT_EQ(std::isnan((*results)[0].get(i)), i / 4 == 1) << i;
  }
}

/// Bytes of all operands and of the workspace.
int64_t bytesOf(const char *name, int64_t heads, int64_t length, DType type) {
  const TensorType head{type, {1, heads, length, 64}}, lse{DType::f32, {1, heads, length}};
  KernelSpec spec;
  spec.name = name;
  if (spec.name == "attention") {
    spec.operands = {head, head, head, head, lse};
    spec.numInputs = 3;
  } else {
    spec.operands = {head, head, head, head, head, lse, head, head, head};
    spec.numInputs = 6;
  }
  int64_t bytes = workspaceBytes(spec, Target::cpu);
  for (const TensorType &operand : spec.operands)
    bytes += operand.numBytes();
  return bytes;
}

TEST(FastAttention, hasMemoryLinearInTheLength) {
  for (const char *name : {"attention", "attention_grad"})
    for (DType type : {DType::f32, DType::bf16}) {
      EXPECT_LT(bytesOf(name, 4, 32768, type), int64_t(1) << 30) << name;
      EXPECT_LE(bytesOf(name, 1, 1 << 20, type), 2 * bytesOf(name, 1, 1 << 19, type)) << name;
    }
}

/// Equal keys average the values that a query sees: here those before it count up.
TEST(FastAttention, runsOnLongSequences) {
  const int64_t length = 8192;
  for (DType type : {DType::f32, DType::bf16}) {
    Value q = random(type, {1, 1, length, 8}, 1), k({type, {1, 1, length, 8}}), v = k;
    for (int64_t i = 0; i < length * 8; ++i) {
      k.set(size_t(i), 0.5);
      v.set(size_t(i), static_cast<double>(i / 8 % 2));
    }
    Call call{"attention", {q, k, v}, {Value(q.type), Value({DType::f32, {1, 1, length}})}, {{"causal", kOne}}};
    call.threads = 2;
    auto results = run(call, false);
    ASSERT_TRUE(results.ok());
    for (int64_t i = 0; i < length; i += 97)
      ASSERT_NEAR((*results)[0].get(size_t(i * 8 + 3)), static_cast<double>((i + 1) / 2) / static_cast<double>(i + 1),
                  1e-5 + roundingOf(type))
          << i;
  }
}

} // namespace
} // namespace zc::test
