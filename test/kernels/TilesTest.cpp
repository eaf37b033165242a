// Engines of tiles (kernels/cpu/fast/TilesBf16.h), whichever the CPU has, beside sums in double.
#include "kernels/cpu/fast/TilesBf16.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace zc::cpu::bf16 {
namespace {

/// Of a product: numbers that bf16 has.
struct Factors {
  int64_t rows, columns, terms;
  std::vector<Bf16> left, right; ///< [rows, terms] and [terms, columns]
  Factors(int64_t rows, int64_t columns, int64_t terms) : rows(rows), columns(columns), terms(terms) {
    std::mt19937 random(7);
    for (auto *factor : {&left, &right}) {
      factor->resize(static_cast<size_t>((factor == &left ? rows : columns) * terms));
      for (Bf16 &x : *factor)
        x = bf16Of(static_cast<float>(static_cast<int>(random() % 255) - 127) / 64);
    }
  }
  static Bf16 bf16Of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return Bf16{static_cast<uint16_t>(bits >> 16)};
  }
  double sum(int64_t i, int64_t j) const {
    double total = 0;
    for (int64_t t = 0; t < terms; ++t)
      total += double(load(left[size_t(i * terms + t)])) * double(load(right[size_t(t * columns + j)]));
    return total;
  }
};

std::vector<Bf16> transposed(const std::vector<Bf16> &matrix, int64_t rows, int64_t columns) {
  std::vector<Bf16> result(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result[size_t(j * rows + i)] = matrix[size_t(i * columns + j)];
  return result;
}

/// The sums of one tile of rows, all columns; what packing does not write is NaN.
std::vector<float> multiply(const Engine &engine, const Factors &f, bool transLeft, bool transRight, bool adds) {
  const int64_t units = engine.units(f.terms), height = roundUp(f.rows, engine.rowStep);
  const Panels panels(f.columns, engine);
  const Panel last = panels[panels.count() - 1];
  const int64_t width = last.begin + last.width;
  std::vector<uint32_t> right(size_t(width * units), 0x7fc07fc0), left(size_t((units + 2) * engine.rows), 0x7fc07fc0);
  const std::vector<Bf16> source = transRight ? transposed(f.right, f.terms, f.columns) : f.right,
                          rows = transLeft ? transposed(f.left, f.rows, f.terms) : f.left;
  const RightFactor factor{{source.data(), transRight ? f.terms : f.columns}, transRight, f.terms};
  for (int64_t i = 0; i < panels.count(); i += engine.panels)
    packPanels(factor, panels, i, std::min(panels.count(), i + engine.panels), units, right.data());
  Rows by{reinterpret_cast<const char *>(left.data()), engine.packedRowStride, engine.packedStepStride};
  if (transLeft) {
    engine.packLeft({rows.data(), f.rows}, f.terms, f.rows, left.data(), 0);
  } else {
    engine.copyLeft({rows.data(), f.terms}, f.terms, units, f.rows, left.data(), 0);
    by = engine.copied(left.data(), units);
  }
  std::vector<float> sums(size_t(engine.rows * width), 1);
  engine.begin();
  for (int64_t i = 0; i < panels.count(); ++i)
    engine.multiply({by, right.data() + panels[i].begin * units, height, panels[i].width, units,
                     sums.data() + panels[i].begin, width, adds});
  engine.end();
  std::vector<float> result;
  for (int64_t i = 0; i < f.rows; ++i)
    result.insert(result.end(), sums.begin() + i * width, sums.begin() + i * width + f.columns);
  return result;
}

TEST(Tiles, haveTheSumsOfPlainLoops) {
  for (const Engine *engine : engines())
    for (int64_t rows : {int64_t(1), engine->rowStep, engine->rows - 1, engine->rows})
      for (int64_t columns : {1, 16, 17, 48, 100, 330})
        for (int64_t terms : {1, 2, 31, 32, 33, 200}) {
          const Factors f(rows, columns, terms);
          for (bool adds : {false, true}) {
            const std::vector<float> sums = multiply(*engine, f, false, false, adds);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j)
                ASSERT_NEAR(sums[size_t(i * columns + j)], f.sum(i, j) + (adds ? 1 : 0), 1e-3)
                    << engine->name << " " << rows << "x" << columns << "x" << terms << " at " << i << ", " << j;
            // However the factors lie, the sums are made in one order.
            for (bool transLeft : {false, true})
              for (bool transRight : {false, true})
                EXPECT_EQ(multiply(*engine, f, transLeft, transRight, adds), sums)
                    << engine->name << " " << rows << "x" << columns << "x" << terms << transLeft << transRight;
          }
        }
}

TEST(Tiles, thatRoundTheirOwnSumsHaveTheBitsOfSumsRoundedLater) {
  const Engine *engine = nullptr;
  for (const Engine *each : engines())
    if (each->roundsOwn)
      engine = each;
  if (!engine)
    GTEST_SKIP() << "no engine of this CPU does";
  constexpr int64_t kTerms = 70, kStride = 61;
  for (int64_t width : {32, 48})
    for (int64_t rows : {int64_t(1), engine->rows})
      for (int64_t columns : {int64_t(5), int64_t(16), width})
        for (int variant = 0; variant < 4; ++variant) {
          const bool adds = variant % 2, hasBias = variant / 2;
          const int64_t units = engine->units(kTerms);
          std::vector<uint32_t> left(size_t(units * engine->rows)), panel(size_t(units * width));
          for (size_t i = 0; i < left.size(); ++i)
            left[i] = 0x3f803fa0 + static_cast<uint32_t>(i * 37 % 61);
          for (size_t i = 0; i < panel.size(); ++i)
            panel[i] = (i % 3 ? 0x3f80bfa1 : 0xbf803f90) + static_cast<uint32_t>(i * 53 % 67);
          std::vector<Bf16> bias(size_t(width), Factors::bf16Of(0.75f));
          std::vector<float> sums(size_t(engine->rows * width), 0.5f), before = sums;
          const auto *at = reinterpret_cast<const char *>(left.data());
          TileProduct product{{at, 4 * units, 4}, panel.data(), engine->rows, width, units, sums.data(), width, adds};
          engine->multiply(product);
          std::vector<Bf16> expected(size_t(engine->rows * kStride), Factors::bf16Of(-3)), out = expected;
          const Bf16 *added = hasBias ? bias.data() : nullptr;
          roundTile(sums.data(), width, added, rows, columns, expected.data(), kStride);
          Rounding own{before.data(), width, added, rows, columns, out.data(), kStride};
          LinesAhead leftAhead(left.data(), 3, 100, 128, 2), rightAhead(panel.data(), 1, 64, 64, 9);
          product.sums = before.data();
          product.leftAhead = &leftAhead;
          product.rightAhead = &rightAhead;
          product.rounding = &own;
          engine->multiply(product);
          EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(Bf16)), 0)
              << width << " " << rows << "x" << columns << " " << variant;
          EXPECT_EQ(before, std::vector<float>(before.size(), 0.5f)) << "sums are written that none asked for";
        }
}

TEST(Tiles, areRoundedPastTheCachesAlike) {
  if (engines().empty())
    GTEST_SKIP() << "the CPU multiplies no bf16";
  constexpr int64_t kRows = 5;
  for (int64_t columns : {31, 32, 48, 64, 96})
    for (int64_t stride : {columns, roundUp(columns, 32), roundUp(columns, 32) + 1}) {
      std::vector<float> sums(size_t(kRows * columns));
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] = static_cast<float>(i) * 1.0078125f;
      alignas(64) std::array<Bf16, 5 * 97> out, streamed;
      out.fill(Factors::bf16Of(-3)), streamed.fill(Factors::bf16Of(-3));
      roundTile(sums.data(), columns, nullptr, kRows, columns, out.data(), stride);
      roundTile(sums.data(), columns, nullptr, kRows, columns, streamed.data(), stride, /*streams=*/true);
      EXPECT_EQ(std::memcmp(out.data(), streamed.data(), sizeof out), 0) << columns << " of " << stride;
    }
}

TEST(Tiles, areRoundedWithTheirBias) {
  if (engines().empty())
    GTEST_SKIP() << "the CPU multiplies no bf16";
  constexpr int64_t kRows = 3, kColumns = 37, kStride = 41;
  std::vector<float> sums(kRows * kStride);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = static_cast<float>(i) * 1.0078125f;
  std::vector<Bf16> bias(kColumns);
  for (size_t j = 0; j < bias.size(); ++j)
    bias[j] = Factors::bf16Of(static_cast<float>(j));
  for (const Bf16 *added : {static_cast<const Bf16 *>(nullptr), static_cast<const Bf16 *>(bias.data())}) {
    std::vector<Bf16> out(kRows * kStride, Factors::bf16Of(-3));
    roundTile(sums.data(), kStride, added, kRows, kColumns, out.data(), kStride);
    for (size_t i = 0; i < kRows; ++i)
      for (size_t j = 0; j < kStride; ++j) {
        const float exact = sums[i * kStride + j] + (added && j < kColumns ? load(bias[j]) : 0);
        const float got = load(out[i * kStride + j]);
        EXPECT_NEAR(got, j < kColumns ? exact : -3, j < kColumns ? std::abs(exact) / 256 : 0) << i << ", " << j;
      }
  }
}

} // namespace
} // namespace zc::cpu::bf16
