// Micro-kernels of attention's products (kernels/cpu/fast/MicroKernel.h) and what rearranges their factors, beside sums
// in double: of fp32, and of each engine of bf16 that the CPU has, so that these agree.
#include "kernels/cpu/fast/MicroKernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace zc::cpu {
namespace {

/// A matrix of small numbers that bf16 has, in `type`: what lies between its rows is NaN.
struct Source {
  int64_t rows, width, stride;
  DType type;
  std::vector<float> values;
  std::vector<char> bytes;
  Source(DType type, int64_t rows, int64_t width, unsigned seed)
      : rows(rows), width(width), stride(width + 7), type(type) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < rows * stride; ++i)
      values.push_back(i % stride < width ? static_cast<float>(static_cast<int>(random() % 255) - 127) / 64
                                          : std::numeric_limits<float>::quiet_NaN());
    const auto size = static_cast<size_t>(sizeOf(type));
    for (float x : values) {
      char of[4];
      std::memcpy(of, &x, 4);
      bytes.insert(bytes.end(), of + 4 - size, of + 4); // bf16: the upper half
    }
  }
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * stride + j)]; }
  SourceRows whole() const { return {bytes.data(), stride}; }
};

/// A product of a tile's rows and `columns`, plus one: left and right are read as the names say.
std::vector<float> product(const MicroKernel &by, const Source &left, bool isLeftOfTerms, const Source &right,
                           bool isRightTransposed) {
  const int64_t terms = isLeftOfTerms ? left.rows : left.width, height = isLeftOfTerms ? left.width : left.rows,
                columns = isRightTransposed ? right.rows : right.width;
  const int64_t width = roundUp(columns, kTileColumns), units = roundUp(terms, kTileColumns) / by.terms;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> rows(static_cast<size_t>(kTileRows * units), nan), panels(static_cast<size_t>(width * units), nan),
      staging(static_cast<size_t>(kTileColumns * std::max(width, 2 * units))),
      sums(static_cast<size_t>(kTileRows * width), 1);
  LeftUnits first{rows.data(), units, by.step};
  if (isLeftOfTerms) {
    by.engine->packLeft({reinterpret_cast<const Bf16 *>(left.bytes.data()), left.stride}, terms, height,
                        reinterpret_cast<uint32_t *>(rows.data()), units * by.rows);
    first = {rows.data(), by.engine->packedRowStride / 4, by.engine->packedStepStride / 4};
  } else {
    packRows(by, left.type, left.whole(), height, terms, rows.data(), units);
  }
  const int64_t panel = isRightTransposed ? by.units(terms) : units;
  if (isRightTransposed)
    packTransposed(by, right.type, right.whole(), columns, terms, panels.data(), staging.data());
  else
    packPanels(by, right.type, right.whole(), terms, columns, panels.data(), staging.data());
  const bf16::Multiplying here(by.engine);
  for (int64_t j = 0; j < columns; j += by.columns)
    for (int64_t i = 0; i < height; i += by.rows)
      by.run({first.at + i * units, first.rowStride, first.stepStride}, panels.data() + j * panel, by.units(terms),
             sums.data() + i * width + j, width, true);
  std::vector<float> result;
  for (int64_t i = 0; i < height; ++i)
    result.insert(result.end(), sums.begin() + i * width, sums.begin() + i * width + columns);
  return result;
}

void expectProducts(const MicroKernel &by, DType type, const char *name) {
  for (int64_t height : {1, 8, 19, 32})
    for (int64_t columns : {1, 31, 64, 80})
      for (int64_t terms : {1, 2, 31, 64, 101}) {
        const Source rows(type, height, terms, 1), ofTerms(type, terms, columns, 2);
        const std::vector<float> sums = product(by, rows, false, ofTerms, false);
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 1;
            for (int64_t t = 0; t < terms; ++t)
              sum += rows.at(i, t) * ofTerms.at(t, j);
            ASSERT_NEAR(sums[static_cast<size_t>(i * columns + j)], sum, 1e-3)
                << name << " " << height << "x" << columns << "x" << terms << " at " << i << ", " << j;
          }
        // However the factors lie, the sums are made in one order.
        Source turned(type, columns, terms, 3), turnedLeft(type, terms, height, 4);
        auto copy = [](Source &to, const Source &from) {
          const auto size = static_cast<size_t>(sizeOf(from.type));
          for (int64_t i = 0; i < to.rows; ++i)
            for (int64_t j = 0; j < to.width; ++j)
              std::memcpy(&to.bytes[static_cast<size_t>(i * to.stride + j) * size],
                          &from.bytes[static_cast<size_t>(j * from.stride + i) * size], size);
        };
        copy(turned, ofTerms);
        copy(turnedLeft, rows);
        EXPECT_EQ(product(by, rows, false, turned, true), sums) << name;
        if (by.engine) {
          EXPECT_EQ(product(by, turnedLeft, true, turned, true), sums) << name;
        }
      }
}

TEST(MicroKernel, hasTheSumsOfPlainLoops) {
  expectProducts(microKernelOf(DType::f32), DType::f32, "fp32");
  for (const bf16::Engine *engine : bf16::engines())
    expectProducts(microKernelOf(*engine->ofHeads), DType::bf16, engine->name);
}

} // namespace
} // namespace zc::cpu
