// Block quantization (ZeRO++): bounds and corners of the plain kernels, the fast ones equal to them bit for bit.
#include "kernels/Quantized.h"
#include "test/kernels/KernelTest.h"
#include "test/support/Sanitized.h"

namespace zc::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Value bytes(int64_t count) { return Value({DType::u8, {count}}); }
Value around0(DType type, int64_t n, unsigned seed, double size = 1) { return uniform({type, {n}}, seed, -size, size); }

Value only(const Result<std::vector<Value>> &outputs) {
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
  return outputs.ok() ? (*outputs)[0] : Value({});
}

/// Pieces of the plain tensor.
struct Grid {
  int64_t rows = 1, columns = 1;
};

Attributes form(int64_t bits, int64_t block, Grid grid = {}) {
  Attributes attributes{{"bits", bits}, {"block", block}};
  if (grid.rows != 1 || grid.columns != 1) {
    attributes["rows"] = grid.rows;
    attributes["columns"] = grid.columns;
  }
  return attributes;
}

/// The quantized bytes of `pieces` equal pieces of x.
Value quantized(const Value &x, int64_t bits, int64_t block, Grid grid = {}) {
  int64_t pieces = grid.rows * grid.columns;
  QuantizedPiece piece{x.type.numElements() / pieces, bits, block};
  return only(run({"quantize", {x}, {bytes(pieces * piece.bytes())}, form(bits, block, grid)}));
}
Value dequantized(const Value &q, TensorType type, int64_t bits, int64_t block, Grid grid = {}) {
  return only(run({"dequantize", {q}, {Value(type)}, form(bits, block, grid)}));
}

/// Fast kernels on several threads and alignments give the plain kernel's bits.
void expectSameBits(Call call, std::initializer_list<size_t> offsets = {0, 1, 7}) {
  SCOPED_TRACE(call.name);
  auto expected = run(call, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (int threads : {1, 3})
    for (size_t offset : offsets) {
      call.threads = threads;
      for (auto *list : {&call.inputs, &call.outputs})
        for (Value &value : *list)
          value = value.at(offset);
      auto actual = run(call, false);
      ASSERT_TRUE(actual.ok()) << actual.error().message;
      for (size_t i = 0; i < expected->size(); ++i)
        ASSERT_TRUE((*actual)[i] == (*expected)[i]) << "output " << i << " threads " << threads << " offset " << offset;
    }
}

TEST(Quantize, layoutOfAPiece) {
  EXPECT_EQ((QuantizedPiece{512, 8, 256}.bytes()), 512 + 2 * 4);
  EXPECT_EQ((QuantizedPiece{512, 4, 256}.bytes()), 256 + 2 * 4);
  EXPECT_EQ((QuantizedPiece{257, 8, 256}.bytes()), 260 + 2 * 4); // a short last block has a scale of its own
  EXPECT_EQ((QuantizedPiece{3, 4, 256}.bytes()), 4 + 4);
  EXPECT_EQ((QuantizedPiece{0, 4, 256}.bytes()), 0);
}

TEST(Quantize, knownBytes) {
  // Largest 127: the scale is 1, ties go to even.
  Value q = quantized(f32({5}, {127, -1, 0.5, 1.5, -2.5}), 8, 64);
  const auto *values = static_cast<const int8_t *>(q.data());
  EXPECT_EQ(std::vector<int>(values, values + 8), (std::vector<int>{127, -1, 0, 2, -2, 0, 0, 0}));
  // Largest 7 in int4: first element in the low half, and a zero beside the odd last one.
  q = quantized(f32({3}, {7, -7, -1}), 4, 64);
  EXPECT_EQ(static_cast<const uint8_t *>(q.data())[0], 0x97);
  EXPECT_EQ(static_cast<const uint8_t *>(q.data())[1], 0x0f);
}

TEST(Quantize, errorIsHalfAStepOfTheBlock) {
  for (int64_t bits : {8, 4}) {
    Value x = around0(DType::f32, 1000, 3);
    for (size_t i = 256; i < 512; ++i)
      x.set(i, x.get(i) * 1e-3); // one scale for all would lose these
    Value y = dequantized(quantized(x, bits, 256), x.type, bits, 256);
    for (size_t i = 0; i < x.size(); ++i) {
      double largest = i >= 256 && i < 512 ? 1e-3 : 1;
      ASSERT_NEAR(y.get(i), x.get(i), largest / (bits == 8 ? 127 : 7) * 0.5001) << "element " << i;
    }
    // One block over all of it: the small ones are lost.
    Value coarse = dequantized(quantized(x, bits, 1024), x.type, bits, 1024);
    EXPECT_EQ(coarse.get(300), 0);
  }
}

TEST(Quantize, zeroTinyAndNotFinite) {
  for (int64_t bits : {8, 4}) {
    Value x = f32({8}, {0, -0.0, 1e-44, 1e-40, 5, kInf, 3, std::nan("")});
    Value y = dequantized(quantized(x, bits, 2), x.type, bits, 2);
    for (size_t i : {0, 1, 2, 3})
      EXPECT_EQ(y.get(i), 0);
    for (size_t i : {4, 5, 6, 7})
      EXPECT_TRUE(std::isnan(y.get(i))) << "an overflow must not vanish: element " << i;
  }
}

/// How results of a GPU are compared (KernelTest.h): its NaN has no payload, in a tensor and as a block's scale.
TEST(Quantize, nansOfOtherBitsAreTheSameAndNothingElseIs) {
  const uint32_t ofCpu = 0x7fc00000, ofGpu = 0x7fffffff;
  auto holding = [](Value value, size_t byte, uint32_t bits) {
    std::memcpy(static_cast<char *>(value.data()) + byte, &bits, sizeof bits);
    return value;
  };
  const Value x = around0(DType::f32, 8, 1), q = quantized(x, 8, 4);
  for (const Value &value : {x, q}) {
    const size_t last = static_cast<size_t>(value.type.numBytes()) - 4; // of q: the second block's scale
    const Value nan = holding(value, last, ofCpu);
    EXPECT_TRUE(sameButForNans(nan, holding(value, last, ofGpu)));
    EXPECT_FALSE(sameButForNans(nan, value));
    EXPECT_FALSE(sameButForNans(nan, holding(nan, 0, ofGpu)));
    EXPECT_FALSE(sameButForNans(f32({1}, {0}), f32({1}, {-0.0})));
  }
}

TEST(Quantize, piecesOfThousandsOfRanks) {
  const Grid grid{512, 8};
  Value x = around0(DType::f32, 4096 * 3, 5), q = quantized(x, 8, 64, grid), back = dequantized(q, x.type, 8, 64, grid);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(back.get(i), x.get(i), 0.5001 / 127);
}

/// 0 4 1 5 2 6 3 7 for 2 nodes of 4: what leaves together lies together, and comes back to its place.
TEST(Quantize, piecesAreReordered) {
  const size_t order[] = {0, 4, 1, 5, 2, 6, 3, 7};
  const Grid grid{2, 4};
  Value x = around0(DType::f32, 8 * 70, 5);
  QuantizedPiece piece{70, 8, 64};
  Value q = quantized(x, 8, 64, grid);
  for (size_t k = 0; k < 8; ++k) {
    Value part({DType::f32, {70}});
    for (size_t i = 0; i < 70; ++i)
      part.set(i, x.get(order[k] * 70 + i));
    Value alone = quantized(part, 8, 64);
    EXPECT_EQ(std::memcmp(static_cast<char *>(q.data()) + static_cast<int64_t>(k) * piece.bytes(), alone.data(),
                          static_cast<size_t>(piece.bytes())),
              0);
  }
  Value back = dequantized(q, x.type, 8, 64, grid);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(back.get(i), x.get(i), 0.5001 / 127);
}

/// Two sources of two pieces: the fused kernels against quantize, dequantize and sums in fp32.
TEST(Quantize, fusedSumsEqualTheirParts) {
  for (int64_t bits : {8, 4}) {
    int64_t n = 150, block = 64;
    QuantizedPiece piece{n, bits, block};
    Value x[2] = {around0(DType::f32, 2 * n, 1), around0(DType::f32, 2 * n, 2)};
    Value sources = bytes(4 * piece.bytes()), sum({DType::f32, {2 * n}});
    for (size_t s = 0; s < 2; ++s) {
      Value q = quantized(x[s], bits, block, {1, 2});
      std::memcpy(static_cast<char *>(sources.data()) + static_cast<int64_t>(s) * 2 * piece.bytes(), q.data(),
                  q.size());
      Value y = dequantized(q, sum.type, bits, block, {1, 2});
      for (size_t i = 0; i < sum.size(); ++i)
        sum.set(i, s == 0 ? y.get(i) : static_cast<float>(sum.get(i)) + static_cast<float>(y.get(i)));
    }
    Attributes attributes = form(bits, block);
    attributes["sources"] = int64_t{2};
    attributes["pieces"] = int64_t{2};
    attributes["elements"] = n;
    Value fused = only(run({"dequantize_sum_quantize", {sources}, {bytes(2 * piece.bytes())}, attributes}));
    EXPECT_TRUE(fused == quantized(sum, bits, block, {1, 2}));

    Value own = bytes(2 * piece.bytes()); // the first piece of both sources
    for (int64_t s : {0, 1})
      std::memcpy(static_cast<char *>(own.data()) + s * piece.bytes(),
                  static_cast<char *>(sources.data()) + s * 2 * piece.bytes(), static_cast<size_t>(piece.bytes()));
    attributes = form(bits, block);
    attributes["sources"] = int64_t{2};
    attributes["scale"] = 0.25;
    attributes["accumulate"] = int64_t{1};
    Value before = around0(DType::f32, n, 9);
    for (int64_t micro : {0, 1}) {
      Value after = only(run({"dequantize_sum", {own}, {before}, attributes, 1, {1, micro, 0}}));
      for (size_t i = 0; i < after.size(); ++i)
        ASSERT_EQ(after.get(i), static_cast<float>((micro ? before.get(i) : 0) + sum.get(i) * 0.25));
    }
  }
}

/// What quantization lost is added the next time: the sum of many quantized gradients is that of the gradients.
TEST(Quantize, residualKeepsWhatWasLost) {
  for (double beta : {0.0, 0.8}) {
    Value x = around0(DType::f32, 256, 11), residual({DType::f32, {256}});
    for (size_t i = 0; i < residual.size(); ++i)
      residual.set(i, 0);
    std::vector<double> with(256), without(256);
    Attributes attributes = form(4, 256);
    attributes["beta"] = beta;
    const int steps = 200;
    for (int step = 0; step < steps; ++step) {
      auto outputs = run({"quantize", {x}, {bytes(QuantizedPiece{256, 4, 256}.bytes()), residual}, attributes});
      ASSERT_TRUE(outputs.ok());
      residual = (*outputs)[1];
      Value fed = dequantized((*outputs)[0], x.type, 4, 256), plain = dequantized(quantized(x, 4, 256), x.type, 4, 256);
      for (size_t i = 0; i < 256; ++i) {
        with[i] += fed.get(i) / steps;
        without[i] += plain.get(i) / steps;
      }
    }
    double errorWith = 0, errorWithout = 0;
    for (size_t i = 0; i < 256; ++i) {
      errorWith += std::fabs(with[i] - x.get(i));
      errorWithout += std::fabs(without[i] - x.get(i));
    }
    EXPECT_LT(errorWith, errorWithout / 20) << "beta " << beta;
  }
}

/// Nothing is lost for good: after any number of different gradients, what was sent and what the residual still owes
/// add up to their sum. The moving average (LoCo) sends an error in parts: it owes residual / (1 - beta).
TEST(Quantize, sentAndOwedAreTheWholeSum) {
  constexpr int64_t kElements = 512, kSteps = 60;
  for (double beta : {0.0, 0.8})
    for (int64_t bits : {8, 4})
      for (bool sums : {false, true}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, beta " + std::to_string(beta) + (sums ? ", sums" : ""));
        const QuantizedPiece piece{kElements, bits, 256};
        Value residual({DType::f32, {kElements}});
        for (size_t i = 0; i < residual.size(); ++i)
          residual.set(i, 0);
        std::vector<double> sent(kElements), given(kElements);
        double largest = 0;
        for (int64_t step = 0; step < kSteps; ++step) {
          // Elements of a block differ a thousandfold in size: most of int4's values are 0.
          Value x = around0(DType::f32, kElements, static_cast<unsigned>(step + 1));
          for (size_t i = 0; i < x.size(); i += 2)
            x.set(i, 0.001 + x.get(i) * 1e-3);
          Attributes attributes = form(bits, 256);
          attributes["beta"] = beta;
          Call call{"quantize", {x}, {bytes(piece.bytes()), residual}, attributes};
          if (sums) { // the same from two sources
            Value halves = bytes(2 * piece.bytes()), source = quantized(x, bits, 256);
            for (int64_t s : {0, 1})
              std::memcpy(static_cast<char *>(halves.data()) + s * piece.bytes(), source.data(),
                          static_cast<size_t>(piece.bytes()));
            Value y = dequantized(source, x.type, bits, 256);
            for (size_t i = 0; i < x.size(); ++i)
              x.set(i, 2 * y.get(i));
            attributes["sources"] = int64_t{2};
            attributes["elements"] = kElements;
            call = {"dequantize_sum_quantize", {halves}, {bytes(piece.bytes()), residual}, attributes};
          }
          auto outputs = run(call);
          ASSERT_TRUE(outputs.ok()) << outputs.error().message;
          residual = (*outputs)[1];
          Value y = dequantized((*outputs)[0], x.type, bits, 256);
          for (size_t i = 0; i < x.size(); ++i) {
            sent[i] += y.get(i);
            given[i] += x.get(i);
            largest = std::max(largest, std::fabs(given[i]));
          }
        }
        for (size_t i = 0; i < sent.size(); ++i)
          ASSERT_NEAR(sent[i] + residual.get(i) / (1 - beta), given[i], 1e-5 * largest) << "element " << i;
      }
}

TEST(Quantize, fastEqualsPlainBitForBit) {
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int64_t bits : {8, 4})
      for (int64_t block : {64, 256, 4096})
        for (int64_t n : {0, 1, 15, 64, 257, 300, 5000}) {
          SCOPED_TRACE(std::to_string(bits) + " bits, block " + std::to_string(block) + ", n " + std::to_string(n));
          const Grid grid{2, 2};
          QuantizedPiece piece{n, bits, block};
          Value x = around0(type, 4 * n, static_cast<unsigned>(n + bits), 3);
          for (size_t i = 0; i < x.size() && n == 300; i += 61)
            x.set(i, i % 2 ? 0 : 1e5);
          if (n == 5000)
            x.set(4999, kInf), x.set(5000, std::nan(""));
          expectSameBits({"quantize", {x}, {bytes(4 * piece.bytes())}, form(bits, block, grid)});
          Attributes fed = form(bits, block, grid);
          fed["beta"] = 0.8;
          expectSameBits({"quantize", {x}, {bytes(4 * piece.bytes()), around0(type, 4 * n, 4, 0.1)}, fed});
          Value q = quantized(x, bits, block, grid);
          expectSameBits({"dequantize", {q}, {Value({type, {4 * n}})}, form(bits, block, grid)});
          Attributes sum = form(bits, block);
          sum["sources"] = int64_t{4};
          sum["elements"] = n;
          expectSameBits({"dequantize_sum_quantize", {q}, {bytes(piece.bytes())}, sum});
          sum["beta"] = 0.8;
          expectSameBits({"dequantize_sum_quantize", {q}, {bytes(piece.bytes()), around0(type, n, 7, 0.1)}, sum});
          sum["scale"] = 0.125;
          sum["accumulate"] = int64_t{1};
          expectSameBits({"dequantize_sum", {q}, {around0(type, n, 8)}, sum, 1, {1, 1, 0}});
        }
}

/// A GPU's threads take units of eight elements where operands lie for it (quantized ones at 8 bytes, or at 4), and
/// blocks are of any number of units up to 4096 elements; else an element.
TEST(Quantize, blocksOfThreadsEqualPlainWhereverOperandsLie) {
  struct Offsets {
    size_t plain, quantized;
  };
  auto expectAgreement = [](Call call) {
    const auto expected = runOn(registry(true), call);
    for (const Offsets at : {Offsets{0, 0}, {8, 4}, {1, 0}, {0, 1}}) {
      SCOPED_TRACE("offsets " + std::to_string(at.plain) + ", " + std::to_string(at.quantized));
      for (auto *list : {&call.inputs, &call.outputs})
        for (Value &value : *list)
          value = value.at(value.type.dtype == DType::u8 ? at.quantized : at.plain);
      expectBlocksAgree(call, expected);
    }
  };
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int64_t bits : {8, 4})
      for (int64_t block : kIsSanitized ? Ints{8, 24, 4104} : Ints{8, 24, 64, 128, 512, 1000, 4096, 4104})
        for (int64_t n : {8, 104, 131, 8264}) {
          SCOPED_TRACE(std::to_string(bits) + " bits, block " + std::to_string(block) + ", n " + std::to_string(n));
          const Grid grid{2, 3};
          const QuantizedPiece piece{n, bits, block};
          Value x = around0(type, 6 * n, static_cast<unsigned>(n + bits), 3);
          x.set(static_cast<size_t>(n / 2), kInf), x.set(static_cast<size_t>(n), std::nan(""));
          for (size_t i = static_cast<size_t>(2 * n); i < static_cast<size_t>(3 * n); ++i)
            x.set(i, 0);
          Attributes fed = form(bits, block, grid);
          expectAgreement({"quantize", {x}, {bytes(6 * piece.bytes())}, fed});
          fed["beta"] = 0.8;
          expectAgreement({"quantize", {x}, {bytes(6 * piece.bytes()), around0(type, 6 * n, 4, 0.1)}, fed});
          Value q = quantized(around0(type, 6 * n, 5), bits, block, grid);
          expectAgreement({"dequantize", {q}, {Value({type, {6 * n}})}, form(bits, block, grid)});
          Attributes sum = form(bits, block);
          sum["sources"] = int64_t{6};
          sum["scale"] = 0.125;
          sum["accumulate"] = int64_t{1};
          for (int64_t micro : {0, 1})
            expectAgreement({"dequantize_sum", {q}, {around0(type, n, 8)}, sum, 1, {1, micro, 0}});
          sum["sources"] = int64_t{3};
          sum["pieces"] = int64_t{2};
          sum["elements"] = n;
          sum["beta"] = 0.8;
          expectAgreement({"dequantize_sum_quantize", {q}, {bytes(2 * piece.bytes())}, sum});
          expectAgreement(
              {"dequantize_sum_quantize", {q}, {bytes(2 * piece.bytes()), around0(type, 2 * n, 7, 0.1)}, sum});
        }
}

/// At lines; elsewhere they are written as small ones are.
TEST(Quantize, largeTensorsWrittenPastTheCachesAreTheSame) {
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int64_t bits : {8, 4}) {
      SCOPED_TRACE(std::to_string(bits) + " bits");
      const int64_t n = (8 << 20) / sizeOf(type) / 2 + 320, block = 256; // the last block is short
      const Grid grid{2, 1};
      Value q = quantized(around0(type, 2 * n, 5), bits, block, grid);
      expectSameBits({"dequantize", {q}, {Value({type, {2 * n}})}, form(bits, block, grid)}, {0, 1});
      Attributes sum = form(bits, block);
      sum["sources"] = int64_t{2};
      sum["elements"] = 2 * n;
      Value whole = quantized(around0(type, 2 * n, 6), bits, block), both = bytes(2 * whole.type.numBytes());
      for (size_t i = 0; i < both.size(); ++i)
        both.set(i, whole.get(i % whole.size()));
      expectSameBits({"dequantize_sum", {both}, {Value({type, {2 * n}})}, sum}, {0, 1});
    }
}

TEST(Quantize, wrongSpecsAreRefused) {
  Value x = around0(DType::f32, 512, 1);
  Value right = bytes(QuantizedPiece{512, 8, 256}.bytes());
  auto refused = [](const Call &call) { return !run(call, true).ok() && !run(call, false).ok(); };
  EXPECT_FALSE(refused({"quantize", {x}, {right}, form(8, 256)}));
  EXPECT_TRUE(refused({"quantize", {x}, {bytes(512)}, form(8, 256)}));
  EXPECT_TRUE(refused({"quantize", {x}, {right}, form(5, 256)}));
  EXPECT_TRUE(refused({"quantize", {x}, {right}, form(8, 0)}));
  EXPECT_TRUE(refused({"quantize", {x}, {right}, form(8, 3)}));
  EXPECT_TRUE(refused({"quantize", {x}, {right}, form(8, 256, {0, 0})}));
  EXPECT_TRUE(refused({"quantize", {x}, {right}, form(8, 256, {int64_t{1} << 40, int64_t{1} << 40})}));
  EXPECT_TRUE(refused({"quantize", {x}, {right, Value({DType::bf16, {512}})}, form(8, 256)}));
  EXPECT_TRUE(refused({"dequantize", {right}, {Value({DType::i32, {512}})}, form(8, 256)}));
  Attributes sum = form(8, 256);
  sum["elements"] = int64_t{1} << 62;
  EXPECT_TRUE(refused({"dequantize_sum_quantize", {right}, {right}, sum}));
}

} // namespace
} // namespace zc::test
