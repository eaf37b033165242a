// Each fast kernel against its plain version; the same bits at every alignment and in every run.
#include "test/kernels/FastTest.h"
#include "kernels/formula/Elements.h"

namespace zc::test {
namespace {

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

/// Factors rounded to TF32 on GPUs, whose tensor cores are seen by numbers that differ; a CPU computes as ever.
TEST(Fast, matmulOfRoundedFactors) {
  const bool isGpu = isOnGpu();
  for (bool isPart : {false, true}) {
    const Ints square{256, 256};
    Call call{isPart ? "matmul_part" : "matmul",
              {random(DType::f32, square, 1), random(DType::f32, square, 2)},
              {Value({DType::f32, square})}};
    if (isPart)
      call.attributes["whole"] = int64_t(1) << 40;
    const Value exact = must(run(call))[0], fast = must(run(call, false))[0];
    call.tf32 = true;
    EXPECT_TRUE(must(run(call))[0] == exact); // and what a GPU rounds is within its bound
    EXPECT_TRUE(must(run(call, false))[0] == fast);
    if (isGpu) {
      const Value rounded = must(runOn(blockRegistry(), call))[0];
      call.tf32 = false;
      EXPECT_FALSE(rounded == must(runOn(blockRegistry(), call))[0]);
    }
  }
}

TEST(Fast, matmulPart) {
  struct Row {
    Ints lhs, rhs, result;
    bool addend;
    DType out;
    Attributes attributes;
  };
  const int64_t large = int64_t(1) << 40;
  for (int64_t whole : {int64_t(1), large}) // in order, and by a library
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (const Row &row :
           {Row{{65, 130}, {130, 129}, {65, 129}, true, DType::f32, {{"widens", kOne}}},
            Row{{130, 65}, {130, 129}, {65, 129}, false, type, {{"trans_lhs", kOne}}},
            Row{{9, 20}, {17, 20}, {9, 17}, true, DType::f32, {{"trans_rhs", kOne}, {"widens", kOne}}}}) {
        Call call{"matmul_part",
                  {random(type, row.lhs, 1), random(type, row.rhs, 2)},
                  {Value({row.out, row.result})},
                  row.attributes};
        call.attributes["whole"] = whole;
        if (row.addend)
          call.inputs.push_back(random(row.out, row.result, 3));
        expectFastMatches(call, 1e-5);
      }
}

/// Columns [begin, end) of a matrix, or rows.
Value piece(const Value &matrix, bool ofRows, int64_t begin, int64_t end) {
  int64_t rows = matrix.type.dims[0], columns = matrix.type.dims[1];
  Value result({matrix.type.dtype, ofRows ? Ints{end - begin, columns} : Ints{rows, end - begin}});
  for (int64_t i = 0; i < result.type.dims[0]; ++i)
    for (int64_t j = 0; j < result.type.dims[1]; ++j)
      result.set(size_t(i * result.type.dims[1] + j),
                 matrix.get(size_t((i + (ofRows ? begin : 0)) * columns + j + (ofRows ? 0 : begin))));
  return result;
}

TEST(Fast, smallProductsHaveTheBitsOfAnyCut) {
  constexpr int64_t m = 37, n = 29, k = 41;
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int64_t cut : {1, 8, 13, 28})
      for (int threads : {1, 2}) {
        Value lhs = random(type, {m, k}, 1), rhs = random(type, {k, n}, 2), transposed = random(type, {n, k}, 3);
        auto product = [&](std::vector<Value> inputs, Ints dims, DType out, Attributes attributes) {
          attributes["whole"] = m * n * k;
          if (out != type)
            attributes["widens"] = kOne;
          auto got =
              run({"matmul_part", std::move(inputs), {Value({out, std::move(dims)})}, attributes, threads}, false);
          EXPECT_TRUE(got.ok());
          return (*got)[0];
        };
        auto whole = run({"matmul", {lhs, rhs}, {Value({type, {m, n}})}}, false);
        auto wholeT = run({"matmul", {lhs, transposed}, {Value({type, {m, n}})}, {{"trans_rhs", kOne}}}, false);
        ASSERT_TRUE(whole.ok() && wholeT.ok());
        // Rows, columns, and terms: the second part goes on with the sum, in f32.
        EXPECT_EQ(piece((*whole)[0], true, cut, m), product({piece(lhs, true, cut, m), rhs}, {m - cut, n}, type, {}));
        EXPECT_EQ(piece((*wholeT)[0], false, cut, n),
                  product({lhs, piece(transposed, true, cut, n)}, {m, n - cut}, type, {{"trans_rhs", kOne}}));
        Value sum = product({piece(lhs, false, 0, cut), piece(rhs, true, 0, cut)}, {m, n}, DType::f32, {});
        sum = product({piece(lhs, false, cut, k), piece(rhs, true, cut, k), sum}, {m, n}, DType::f32, {});
        auto rounded = run({"cast", {sum}, {Value({type, {m, n}})}}, false);
        ASSERT_TRUE(rounded.ok());
        EXPECT_EQ((*whole)[0], (*rounded)[0]);
      }
}

TEST(Fast, softmaxAndGradients) {
  for (Ints shape : {Ints{1, 1}, Ints{7, 33}, Ints{3, 5000}, Ints{40, 300}, Ints{0, 4}})
    for (std::string name : {"softmax", "log_softmax"})
      forFastTypes([&](DType type) {
        Attributes attributes = {{"axis", kOne}};
        expectFastMatches({name, {random(type, shape, 1, -5, 5)}, {Value({type, shape})}, attributes}, 2e-6);
        expectFastMatches({name + "_grad",
                           {random(type, shape, 1), random(type, shape, 2, -3, 0)},
                           {Value({type, shape})},
                           attributes},
                          2e-4);
      });
  Value masked = random(DType::f32, {3, 40}, 1);
  for (size_t i = 40; i < 80; ++i)
    masked.set(i, -kInfinity);
  expectFastMatches({"softmax", {masked}, {Value(masked.type)}, {{"axis", kOne}, {"zero_masked", kOne}}}, 1e-6);
}

TEST(Fast, crossEntropy) {
  for (Ints shape :
       {Ints{1, 1}, Ints{5, 33}, Ints{40, 1001}, Ints{4, 50257}, Ints{5, 1024}, Ints{3, 50304}, Ints{2, 90000}})
    forFastTypes([&](DType type) {
      Value x = random(type, shape, 1, -6, 6);
      TensorType rows{DType::f32, {shape[0]}}, scalar{DType::f32, {}};
      Value labels = uniform({DType::i64, {shape[0]}}, 2, 0, static_cast<double>(shape[1]));
      if (shape[0] > 2)
        labels.set(1, -100);
      expectFastMatches({"cross_entropy", {x, labels}, {Value(scalar), Value(rows)}}, 2e-6);
      Value lse = must(run({"cross_entropy", {x, labels}, {Value(scalar), Value(rows)}}))[1];
      Call grad{"cross_entropy_grad", {f32({}, {3}), x, labels, lse}, {Value(x.type)}, {{"sum", kOne}}};
      expectFastMatches(grad, 2e-6);
    });
}

/// A loss near 0 has digits of its own, whatever the logits' rounding leaves of log sum e^x.
TEST(Fast, crossEntropyNearZero) {
  Value x = f32({2, 4}, {160, 150, 150, 150, 149, 161, 150, 150}), labels = i64({2}, {0, 1});
  TensorType rows{DType::f32, {2}}, scalar{DType::f32, {}};
  double loss = must(run({"cross_entropy", {x, labels}, {Value(scalar), Value(rows)}}))[0].get(0);
  double expected = (std::log1p(3 * std::exp(-10)) + std::log1p(2 * std::exp(-11) + std::exp(-12))) / 2;
  EXPECT_NEAR(loss / expected, 1, 1e-3);
}

TEST(Fast, crossEntropyGradientMayOverwriteLogits) {
  Value x = random(DType::f32, {3, 50}, 1), labels = i64({3}, {4, 49, 0}), lse = f32({3}, {4, 4, 4}),
        grad = f32({}, {1});
  for (bool plain : {true, false}) {
    Call call{"cross_entropy_grad", {grad, x, labels, lse}, {Value(x.type)}};
    auto apart = run(call, plain);
    auto kernel = registry(plain).prepare(call.spec());
    ASSERT_TRUE(apart.ok() && kernel.ok());
    Value both = x;
    void *operands[] = {grad.data(), both.data(), labels.data(), lse.data(), both.data()};
    ASSERT_TRUE((*kernel)->run(operands, {}).ok());
    EXPECT_TRUE(both == (*apart)[0]);
  }
}

/// Rows that a GPU's blocks hold in registers, of all numbers of threads, share, and keep nowhere; and so many that
/// sums over them are joined twice.
TEST(Fast, normsAndGradients) {
  for (Ints shape : {Ints{1, 1}, Ints{7, 33}, Ints{65, 768}, Ints{0, 4}, Ints{9, 1024}, Ints{40, 1600}, Ints{5, 4096},
                     Ints{3, 8192}, Ints{3, 16384}, Ints{2, 90000}, Ints{1100, 24}})
    for (bool layer : {true, false})
      forFastTypes([&](DType type) {
        TensorType x{type, shape}, row{type, {shape[1]}}, stat{DType::f32, {shape[0]}};
        Attributes attributes = {{"axis", kOne}, {"epsilon", 1e-3}};
        std::vector<Value> inputs = {uniform(x, 1, -1, 3), uniform(row, 2, 0, 2)};
        std::vector<Value> outputs = {Value(x), Value(stat)};
        if (layer) {
          inputs.push_back(uniform(row, 3, -1, 1));
          outputs.push_back(Value(stat));
        }
        Call forward{layer ? "layer_norm" : "rms_norm", inputs, outputs, attributes};
        expectFastMatches(forward, 5e-6);
        auto results = run(forward);
        Call backward{forward.name + "_grad",
                      {uniform(x, 4, -1, 1), inputs[0], inputs[1], (*results)[1]},
                      {Value(x), Value(row)},
                      attributes};
        if (layer) {
          backward.inputs.push_back((*results)[2]);
          backward.outputs.push_back(Value(row));
        }
        expectFastMatches(backward, 2e-5);
      });
}

TEST(Fast, reductions) {
  struct Row {
    Ints in, axes, out;
  };
  for (const Row &row :
       {Row{{300, 77}, {0}, {77}}, Row{{300, 77}, {1}, {300}}, Row{{4, 70, 600}, {0, 1}, {600}},
        Row{{4, 70, 60}, {1, 2}, {4}}, Row{{1, 1}, {0}, {1}}, Row{{9000}, {0}, {}}, Row{{0, 3}, {0}, {3}},
        Row{{9000, 36}, {0}, {36}}, Row{{9000, 33}, {0}, {33}}, Row{{4, 5, 6}, {1}, {4, 6}},
        Row{{3, 8, 130}, {0, 2}, {8}}, Row{{2, 9, 70, 20}, {0, 2}, {9, 20}}, Row{{2, 3, 4, 5, 6}, {0, 1, 3, 4}, {4}},
        Row{{5, 1, 7}, {0, 2}, {1}}})
    for (const char *name : {"reduce_sum", "reduce_mean"})
      forFastTypes([&](DType type) {
        if (std::string(name) == "reduce_sum" || row.in[0] != 0)
          expectFastMatches({name, {random(type, row.in, 1)}, {Value({type, row.out})}, {{"axes", row.axes}}}, 2e-5);
      });
}

/// Steps of 1 from -9 to 9, so that many elements are equal; some are not finite.
Value withTies(DType type, const Ints &dims, unsigned seed) {
  std::vector<double> values = elements(random(DType::f32, dims, seed, -9, 9));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 97 == 5 ? kNan : i % 41 == 3 ? -kInfinity : std::round(values[i]);
  return make(type, dims, values);
}

TEST(Fast, extrema) {
  struct Row {
    Ints in, axes, out;
  };
  for (const Row &row : {Row{{300, 77}, {0}, {77}}, Row{{300, 77}, {1}, {300}}, Row{{5, 9, 600}, {1}, {5, 600}},
                         Row{{4, 70, 9}, {1, 2}, {4}}, Row{{1, 1}, {0}, {1}}, Row{{9001}, {0}, {}},
                         Row{{3, 4, 30}, {2}, {3, 4}}, Row{{3, 8, 13}, {0, 2}, {8}}})
    for (int64_t smallest : {0, 1})
      forFastTypes([&](DType type) {
        for (const Value &x : {withTies(type, row.in, 1), random(type, row.in, 2)}) {
          expectFastMatches(
              {smallest ? "reduce_min" : "reduce_max", {x}, {Value({type, row.out})}, {{"axes", row.axes}}}, 0,
              Bits::always);
          for (int64_t last : {0, 1})
            if (row.axes.size() == 1)
              expectFastMatches({"arg_max",
                                 {x},
                                 {Value({DType::i64, row.out})},
                                 {{"axis", row.axes[0]}, {"smallest", smallest}, {"last", last}}},
                                0, Bits::always);
        }
      });
}

/// Has this CPU's vector code (Targets.cpp) products that are added in one instruction?
bool fuses() {
  const char *simd = std::getenv("ZC_TEST_SIMD");
  return __builtin_cpu_supports("fma") && !(simd && std::string(simd) == "baseline");
}

TEST(Fast, optimizers) {
  for (std::string name : {"adamw", "adam", "sgd", "momentum"})
    for (bool withOut : {false, true})
      forFastTypes([&](DType type) {
        for (int64_t n : {int64_t{1}, int64_t{64}, int64_t{9001}}) {
          TensorType state{DType::f32, {n}};
          Call call{name,
                    {random(type, {n}, 1), f32({}, {0.5})},
                    {uniform(state, 2, -1, 1)},
                    {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"momentum", 0.9}}};
          for (int i = 0; i < (name == "sgd" ? 0 : name == "momentum" ? 1 : 2); ++i)
            call.outputs.push_back(uniform(state, 3, 0.01, 1));
          if (withOut)
            call.outputs.push_back(Value({type == DType::f32 ? DType::bf16 : type, {n}}));
          call.context = {7, 0, 0.01};
          expectFastMatches(call, fuses() ? 0 : 3e-7); // the same bits as plain kernels and GPUs have
        }
      });
}

TEST(Fast, moves) {
  struct Row {
    Ints in, permutation, out;
  };
  for (const Row &row :
       {Row{{1}, {0}, {1}}, Row{{70, 33}, {1, 0}, {33, 70}}, Row{{2, 9, 3, 8}, {0, 2, 1, 3}, {2, 3, 9, 8}},
        Row{{2, 65, 3, 40}, {0, 2, 3, 1}, {2, 3, 40, 65}}, Row{{3, 4, 5}, {2, 1, 0}, {5, 4, 3}},
        Row{{0, 4}, {1, 0}, {4, 0}}, Row{{100, 1, 200}, {2, 1, 0}, {200, 1, 100}},
        Row{{6, 7, 40}, {1, 0, 2}, {7, 6, 40}}})
    for (DType type : {DType::f32, DType::bf16, DType::i64, DType::u8})
      expectFastMatches({"transpose",
                         {random(type, row.in, 1, 0, 200)},
                         {Value({type, row.out})},
                         {{"permutation", row.permutation}}},
                        0);
  for (DType type : {DType::f32, DType::bf16, DType::i64, DType::u8}) {
    Attributes rows = {{"offsets", Ints{1, 0, 64}}, {"strides", Ints{1, 1, 1}}},
               steps = {{"offsets", Ints{1, 2, 150}}, {"strides", Ints{2, 3, -2}}};
    Value x = random(type, {5, 40, 192}, 1, 0, 200);
    expectFastMatches({"slice", {x}, {Value({type, {3, 40, 64}})}, rows}, 0);
    expectFastMatches({"slice", {x}, {Value({type, {2, 12, 70}})}, steps}, 0);
    expectFastMatches({"slice", {x}, {Value({type, {0, 12, 70}})}, steps}, 0);
    for (const auto &[part, attributes] : {std::pair(Ints{3, 40, 64}, rows), std::pair(Ints{2, 12, 70}, steps),
                                           std::pair(Ints{0, 12, 70}, steps), std::pair(Ints{3, 1, 64}, rows)})
      expectFastMatches({"slice_grad", {random(type, part, 2, 0, 200)}, {Value(x.type)}, attributes}, 0);
    for (const auto &[low, high] :
         {std::pair(Ints{0, 3, 1}, Ints{2, 0, 5}), std::pair(Ints{0, -3, 2}, Ints{-1, 4, -9})}) {
      Ints dims = x.type.dims;
      for (size_t d = 0; d < dims.size(); ++d)
        dims[d] += low[d] + high[d];
      expectFastMatches({"pad", {x}, {Value({type, dims})}, {{"low", low}, {"high", high}, {"value", 7.0}}}, 0);
    }
  }
  expectFastMatches({"expand", {random(DType::f32, {3, 1, 50}, 1)}, {Value({DType::f32, {2, 3, 40, 50}})}}, 0);
  expectFastMatches({"expand", {random(DType::f32, {3, 1}, 1)}, {Value({DType::f32, {3, 70}})}}, 0);
  expectFastMatches({"copy", {random(DType::f32, {9999}, 1)}, {Value({DType::f32, {9999}})}}, 0);
}

TEST(Fast, joins) {
  struct Row {
    int64_t outer;
    Ints along; ///< of each operand
    int64_t inner;
  };
  for (const Row &row :
       {Row{3, {2, 0, 7}, 50}, Row{1, {400, 1, 90}, 64}, Row{700, {1, 1, 1, 1, 1}, 1}, // of an element each
        Row{301, {1, 2}, 1}, Row{40, {64}, 30}, Row{0, {2, 3}, 4}, Row{5, {0, 0}, 4}})
    for (DType type : {DType::f32, DType::bf16, DType::i64, DType::u8}) {
      Call call{"concat", {}, {}, {{"axis", int64_t{1}}}};
      int64_t all = 0;
      for (int64_t n : row.along) {
        call.inputs.push_back(random(type, {row.outer, n, row.inner}, static_cast<unsigned>(all), 0, 200));
        all += n;
      }
      call.outputs = {Value({type, {row.outer, all, row.inner}})};
      expectFastMatches(call, 0, Bits::always);
    }
}

/// Indices into a dimension of n elements, from both ends.
Value indicesOf(DType type, Ints dims, int64_t n, unsigned seed) {
  return uniform({type, std::move(dims)}, seed, -static_cast<double>(n), static_cast<double>(n));
}

TEST(Fast, gathers) {
  struct Table {
    Ints data;
    int64_t axis;
  };
  for (const Table &table : {Table{{30, 50}, 0}, Table{{30, 50}, 1}, Table{{3, 40, 5}, 1}, Table{{900}, 0}})
    forFastTypes([&](DType type) {
      const auto at = static_cast<size_t>(table.axis);
      Ints out(table.data.begin(), table.data.begin() + table.axis);
      for (int64_t n : {90, 7})
        out.push_back(n);
      out.insert(out.end(), table.data.begin() + table.axis + 1, table.data.end());
      Value indices = indicesOf(at == 0 ? DType::i64 : DType::i32, {90, 7}, table.data[at], 1);
      Attributes attributes = {{"axis", table.axis}};
      expectFastMatches({"gather", {random(type, table.data, 2), indices}, {Value({type, out})}, attributes}, 0);
      Value grad = random(type, out, 3), onto = random(type, table.data, 4), result({type, table.data});
      expectFastMatches({"gather_grad", {grad, indices}, {result}, attributes}, 1e-6);
      expectFastMatches({"gather_grad", {grad, indices, onto}, {result}, attributes}, 1e-6);
    });
}

/// Rows that repeat: each of 70 another number of times, and one as often as padding does.
TEST(Fast, gradientsOfRowsThatRepeat) {
  std::vector<double> rows;
  for (int row = 1; row <= 70; ++row)
    rows.insert(rows.end(), size_t(row == 70 ? 3001 : row), row);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(1));
  const auto count = static_cast<int64_t>(rows.size());
  Value indices({DType::i64, {count}});
  for (size_t i = 0; i < rows.size(); ++i)
    indices.set(i, rows[i]);
  for (int64_t width : {5, 200, 2100}) // a block is a warp, 8 and 32
    forFastTypes([&](DType type) {
      const Call call{"gather_grad",
                      {random(type, {count, width}, 1), indices},
                      {Value({type, {72, width}})},
                      {{"axis", int64_t{0}}}};
      EXPECT_TRUE(must(runOn(blockRegistry(), call))[0] == must(run(call))[0]) << nameOf(type) << " " << width;
    });
}

/// Elements and slices, taken and updated: what falls on one element falls in index order, on however many threads.
TEST(Fast, elementsAndSlicesAtIndices) {
  const Ints data = {12, 40, 70};
  for (DType type : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::u8}) {
    const bool isReal = formula::isFloat(type);
    // Sums of slices are plain ones of doubles; GPUs round 16 bits of elements that meet in another order.
    const double sums = 1e-6, meeting = type == DType::bf16 ? 0.05 : 1e-6;
    for (int64_t axis : {0, 1, 2}) {
      const Ints dims = axis == 1 ? Ints{12, 30, 66} : Ints{axis == 0 ? 15 : 12, 40, 70};
      Value indices = indicesOf(axis ? DType::i64 : DType::i32, dims, data[static_cast<size_t>(axis)], 1);
      const Attributes along = {{"axis", axis}};
      expectFastMatches({"gather_elements", {random(type, data, 2), indices}, {Value({type, dims})}, along}, 0,
                        Bits::always);
      if (isReal)
        expectFastMatches({"gather_elements_grad", {random(type, dims, 3), indices}, {Value({type, data})}, along},
                          meeting, Bits::always);
      for (const char *reduction : {"none", "add", "max"}) {
        Attributes attributes = {{"axis", axis}, {"reduction", std::string(reduction)}};
        expectFastMatches({"scatter_elements",
                           {random(type, data, 4), indices, random(type, dims, 5)},
                           {Value({type, data})},
                           attributes},
                          0, Bits::always);
      }
    }
    for (int64_t depth : {1, 2, 3}) {
      const Ints inner(data.begin() + depth, data.end());
      Ints dims = {60};
      dims.insert(dims.end(), inner.begin(), inner.end());
      Value tuples = indicesOf(depth == 2 ? DType::i32 : DType::i64, {60, depth}, 12, 6);
      expectFastMatches({"gather_nd", {random(type, data, 7), tuples}, {Value({type, dims})}}, 0, Bits::always);
      if (isReal)
        expectFastMatches({"gather_nd_grad", {random(type, dims, 8), tuples}, {Value({type, data})}}, sums,
                          Bits::always);
      for (const char *reduction : {"none", "add", "max"})
        expectFastMatches({"scatter_nd",
                           {random(type, data, 9), tuples, random(type, dims, 10)},
                           {Value({type, data})},
                           {{"reduction", std::string(reduction)}}},
                          0, Bits::always);
    }
    const Value batched = indicesOf(DType::i64, {12, 30, 1}, 40, 11);
    expectFastMatches(
        {"gather_nd", {random(type, data, 12), batched}, {Value({type, {12, 30, 70}})}, {{"batch_dims", int64_t{1}}}},
        0, Bits::always);
  }
}

} // namespace
} // namespace zc::test
