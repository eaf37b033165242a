// Every way of computing a product that this machine has, chosen by a table: against plain loops, the same bits each
// time, and those without a table where the table says what is done anyway.
#include "kernels/cpu/Products.h"
#include "base/Failpoint.h"
#include "kernels/cpu/fast/Gemm.h"
#include "test/kernels/FastTest.h"

extern "C" int openblas_get_parallel();

namespace zc::test {
namespace {

Call callOf(const ProductShape &shape, bool hasBias = false) {
  const KernelSpec spec = specOf(shape);
  Call call{spec.name,
            {uniform(spec.operands[0], 1, -1, 1), uniform(spec.operands[1], 2, -1, 1)},
            {Value(spec.operands[2])},
            spec.attributes,
            shape.threads};
  if (hasBias)
    call.inputs.push_back(uniform({shape.type, {shape.n}}, 3, -1, 1));
  return call;
}

/// One of a side not divisible by anything, whole vectors, a batch, a small result with long sums, and one of more
/// blocks than one along each side; all too large to be summed in order.
std::vector<ProductShape> shapes() {
  std::vector<ProductShape> all;
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (int threads : {1, 2, 3}) {
      for (bool transLhs : {false, true})
        for (bool transRhs : {false, true})
          all.push_back({type, transLhs, transRhs, 1, 131, 97, 129, threads});
      all.push_back({type, false, false, 1, 128, 256, 64, threads});
      all.push_back({type, false, true, 5, 67, 65, 33, threads});
      all.push_back({type, true, false, 1, 16, 24, 5003, threads});
    }
  for (bool transLhs : {false, true}) {
    all.push_back({DType::bf16, transLhs, true, 1, 1031, 33, 3101, 2});
    all.push_back({DType::bf16, transLhs, false, 1, 33, 785, 700, 2});
  }
  return all;
}

/// Is a choice refused because what oneDNN works in has no room, its packed factor or, with AMX, its blocks?
bool isWithoutRoom(const ProductChoice &choice, const Result<std::vector<Value>> &got) {
  const bool isOnednn = choice.method == ProductMethod::packed || choice.method == ProductMethod::onednn;
  return isOnednn && !got.ok() && got.error().number == 714;
}

TEST(Products, everyChoiceHasTheSumsOfPlainLoops) {
  int offered = 0, packed = 0;
  for (const ProductShape &shape : shapes())
    for (bool hasBias : {false, true}) {
      Call call = callOf(shape, hasBias);
      Result<std::vector<Value>> expected = run(call, true), without = run(call, false);
      ASSERT_TRUE(expected.ok() && without.ok());
      const std::vector<ProductChoice> choices = choicesFor(shape);
      ASSERT_FALSE(choices.empty());
      for (const ProductChoice &choice : choices) {
        SCOPED_TRACE(nameOf(shape) + " " + namesOf(choice.method)[size_t(choice.method)] + " " +
                     namesOf(choice.cut)[size_t(choice.cut)]);
        const ProductTable table = {{shape, {choice, 0, 0}}};
        call.products = &table;
        Result<std::vector<Value>> got = run(call, false), again = run(call, false);
        offered += choice.method == ProductMethod::packed;
        if (isWithoutRoom(choice, got)) {
          call.products = nullptr;
          continue;
        }
        packed += choice.method == ProductMethod::packed;
        ASSERT_TRUE(got.ok()) << got.error().message;
        expectNear((*got)[0], elements((*expected)[0]),
                   2e-5 * std::max(1.0, double(shape.k) / 1000) + roundingOf(shape.type));
        EXPECT_TRUE((*got)[0] == (*again)[0]);
        if (choice == choices.front()) {
          EXPECT_TRUE((*got)[0] == (*without)[0]);
        }
        call.products = nullptr;
      }
    }
  EXPECT_EQ(packed > 0, offered > 0);
}

/// What is done without a table where oneDNN refuses, has the bits of a table that says it, and the note says why.
TEST(Products, withoutOnednnTheNextChoiceComputes) {
  for (const ProductShape &shape : shapes()) {
    const std::vector<ProductChoice> choices = choicesFor(shape);
    if (shape.type != DType::bf16 || choices.front().method != ProductMethod::onednn)
      continue;
    SCOPED_TRACE(nameOf(shape));
    const auto next = std::find_if(choices.begin(), choices.end(), [](const ProductChoice &choice) {
      return choice.method == ProductMethod::tiles || choice.method == ProductMethod::widened;
    });
    const ProductTable table = {{shape, {*next, 0, 0}}};
    Call call = callOf(shape);
    call.products = &table;
    const Value expected = must(run(call, false))[0];
    call.products = nullptr;
    ASSERT_TRUE(setFailpoints("product.onednn:EIO").ok());
    const Result<std::vector<Value>> got = run(call, false);
    const std::string note = must(registry(false).prepare(call.spec()))->note();
    ASSERT_TRUE(setFailpoints("").ok());
    EXPECT_TRUE(must(got)[0] == expected);
    EXPECT_EQ(note, std::string(next->method == ProductMethod::tiles ? "multiplies by tiles of registers"
                                                                     : "multiplies blocks widened to fp32") +
                        ": oneDNN has no bf16 kernel for it here");
  }
}

/// 1: threads of its own, which take cores from our teams; Debian's default where both are installed.
TEST(Products, openblasHasOpenmpsThreads) { EXPECT_EQ(openblas_get_parallel(), 2); }

/// OpenBLAS takes a CPU that is newer than itself for a much older one.
TEST(Products, ofFp32AreOpenblasWhereItsKernelsFitTheCpu) {
  using cpu::VectorCpu, cpu::openblasFits;
  const VectorCpu old{false, false, false}, avx2{true, false, false}, avx512{true, true, false}, zen4{true, true, true};
  for (const char *core : {"Prescott", "Nehalem", "Sandybridge"}) {
    EXPECT_TRUE(openblasFits(core, old)) << core;
    EXPECT_FALSE(openblasFits(core, avx2)) << core;
    EXPECT_FALSE(openblasFits(core, avx512)) << core;
  }
  EXPECT_TRUE(openblasFits("Haswell", avx2));
  EXPECT_TRUE(openblasFits("Zen", {true, false, true}));
  EXPECT_FALSE(openblasFits("Haswell", avx512));
  EXPECT_TRUE(openblasFits("SapphireRapids", avx512));
  EXPECT_FALSE(openblasFits("SkylakeX", zen4));
}

TEST(Products, noCutOfTilesChangesBits) {
  const ProductShape shape{DType::bf16, false, false, 1, 67, 131, 3203, 1};
  const std::vector<ProductChoice> choices = choicesFor(shape);
  if (choices.front().method != ProductMethod::tiles)
    GTEST_SKIP() << "this CPU has no faster tiles of bf16 than a library";
  const Call call = callOf(shape, true);
  const Value whole = run(call, false)->at(0);
  for (int threads : {2, 3, 7}) {
    Call cutUp = call;
    cutUp.threads = threads;
    EXPECT_TRUE(run(cutUp, false)->at(0) == whole) << threads;
  }
  // The last 19 rows alone, whose tiles begin elsewhere.
  Call last = call;
  const int64_t skipped = (shape.m - 19) * shape.k * 2;
  last.inputs[0] = Value({DType::bf16, {19, shape.k}});
  std::memcpy(last.inputs[0].data(), static_cast<const char *>(call.inputs[0].data()) + skipped,
              size_t(19 * shape.k * 2));
  last.outputs = {Value({DType::bf16, {19, shape.n}})};
  const Value rows = run(last, false)->at(0);
  EXPECT_EQ(std::memcmp(rows.data(), static_cast<const char *>(whole.data()) + (shape.m - 19) * shape.n * 2,
                        size_t(19 * shape.n * 2)),
            0);
}

/// Several blocks of columns, the last of which is cut otherwise, by rows that threads keep; results that go past the
/// caches.
TEST(Products, tilesOfManyBlocksAreThoseOfPlainLoops) {
  for (bool isTransposed : {false, true}) {
    const ProductShape shape{DType::bf16, isTransposed, !isTransposed, 1, 707, 1632, 520, 1};
    if (choicesFor(shape).front().method != ProductMethod::tiles)
      GTEST_SKIP() << "this CPU has no faster tiles of bf16 than a library";
    Call call = callOf(shape, true);
    const Value expected = run(call, true)->at(0), whole = run(call, false)->at(0);
    expectNear(whole, elements(expected), 0.02);
    for (int threads : {2, 3, 5}) {
      call.threads = threads;
      EXPECT_TRUE(run(call, false)->at(0) == whole) << threads;
    }
  }
}

/// Of blocks of columns, and of terms, in both orders of the factor.
TEST(Products, aKeptFactorIsRearrangedInTheFirstMicroStep) {
  for (const ProductShape &shape : {ProductShape{DType::bf16, false, true, 1, 67, 785, 3203, 2},
                                    ProductShape{DType::bf16, false, false, 1, 1100, 131, 3203, 1},
                                    ProductShape{DType::bf16, false, false, 1, 33, 1632, 520, 2},
                                    ProductShape{DType::bf16, false, true, 1, 131, 16, 5003, 1}}) {
    SCOPED_TRACE(nameOf(shape));
    const bool isByTiles = choicesFor(shape).front().method == ProductMethod::tiles;
    EXPECT_EQ(keepsItsWeight(callOf(shape)), isByTiles);
    EXPECT_EQ(keepsItsWeight(callOf(shape, true)), isByTiles);
  }
  KernelSpec spec = specOf({DType::bf16, false, true, 1, 67, 785, 3203, 1});
  spec.workspace = workspaceBytes(spec, Target::cpu);
  const KeptInput kept = keptInput(spec, Target::cpu);
  spec.kept = kept.bytes;
  EXPECT_EQ(registry(false).prepare(spec).error().number, 716) << "of the left factor";
  spec.keptInput = kept.input;
  EXPECT_TRUE(registry(false).prepare(spec).ok());
  --spec.kept;
  EXPECT_EQ(registry(false).prepare(spec).error().number, 716);
}

TEST(Products, partsFollowTheTableOnTopOfTheirAddend) {
  for (DType type : {DType::f32, DType::bf16})
    for (int threads : {1, 2, 3}) {
      const ProductShape shape{type, true, false, 1, 16, 24, 5003, threads};
      for (const ProductChoice &choice : choicesFor(shape)) {
        const ProductTable table = {{shape, {choice, 0, 0}}};
        Call call = callOf(shape);
        call.name = "matmul_part";
        call.attributes["whole"] = int64_t(1) << 40;
        call.attributes["widens"] = kOne;
        call.outputs = {Value({DType::f32, {16, 24}})};
        call.inputs.push_back(uniform({DType::f32, {16, 24}}, 5, -1, 1));
        Result<std::vector<Value>> expected = run(call, true);
        call.products = &table;
        Result<std::vector<Value>> got = run(call, false);
        if (isWithoutRoom(choice, got))
          continue;
        ASSERT_TRUE(expected.ok() && got.ok());
        expectNear((*got)[0], elements((*expected)[0]), 1e-4);
      }
    }
}

TEST(Products, sumsOfTermsOnThreadsAreOfferedWhereTheyCanPay) {
  auto has = [](const ProductShape &shape) {
    for (const ProductChoice &choice : choicesFor(shape))
      if (choice.cut == ProductCut::depth)
        return true;
    return false;
  };
  EXPECT_TRUE(has({DType::f32, true, false, 1, 16, 24, 5003, 2}));
  EXPECT_FALSE(has({DType::f32, true, false, 1, 16, 24, 5003, 1}));
  EXPECT_FALSE(has({DType::f32, true, false, 1, 16, 24, 4095, 2}));
  EXPECT_FALSE(has({DType::f32, true, false, 1, 768, 768, 50257, 2}));
}

TEST(Products, aChoiceThatCannotBeIsRefused) {
  const ProductShape shape{DType::f32, false, false, 1, 128, 256, 64, 2};
  for (ProductChoice choice :
       {ProductChoice{ProductMethod::packed, ProductCut::own}, ProductChoice{ProductMethod::widened, ProductCut::rows},
        ProductChoice{ProductMethod::onednn, ProductCut::batch},
        ProductChoice{ProductMethod::onednn, ProductCut::depth}}) {
    const ProductTable table = {{shape, {choice, 0, 0}}};
    Call call = callOf(shape);
    call.products = &table;
    Result<std::vector<Value>> got = run(call, false);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Code::mismatch);
    EXPECT_EQ(got.error().number, 714);
  }
}

TEST(Products, tablesDecideByShapeAndThreadsAlone) {
  const ProductShape shape{DType::f32, false, false, 1, 128, 256, 64, 2};
  ProductTable table = {{shape, {choicesFor(shape).back(), 0, 0}}};
  auto method = [&](ProductShape of) {
    KernelSpec spec = specOf(of);
    spec.products = &table;
    spec.workspace = workspaceBytes(spec, Target::cpu);
    Result<Implementation> by = registry(false).implementationOf(spec);
    EXPECT_TRUE(by.ok());
    return by ? by->method : "";
  };
  EXPECT_NE(method(shape).find(", tuned"), std::string::npos);
  for (auto change : std::vector<void (*)(ProductShape &)>{
           [](ProductShape &s) { s.threads = 1; }, [](ProductShape &s) { ++s.m; },
           [](ProductShape &s) { s.transRhs = true; }, [](ProductShape &s) { s.type = DType::bf16; }}) {
    ProductShape other = shape;
    change(other);
    EXPECT_EQ(method(other).find(", tuned"), std::string::npos) << nameOf(other);
  }
}

TEST(Products, ofKernels) {
  const ProductShape shape{DType::bf16, false, true, 3, 128, 256, 64, 2};
  EXPECT_EQ(productsOf(specOf(shape)), std::vector<ProductShape>{shape});
  KernelSpec shared =
      specOf(ProductShape{DType::f32, false, false, 4, 64, 128, 256, 2}); // a batch times one matrix is folded
  shared.operands[1].dims = {256, 128};
  EXPECT_EQ(productsOf(shared), (std::vector<ProductShape>{{DType::f32, false, false, 1, 256, 128, 256, 2}}));
  EXPECT_TRUE(productsOf(specOf(ProductShape{DType::f32, false, false, 1, 64, 64, 64, 2})).empty()); // in order
  EXPECT_TRUE(productsOf(specOf(ProductShape{DType::f32, false, false, 1, 64, 0, 64, 2})).empty());
  KernelSpec head;
  head.name = "linear_cross_entropy_grad";
  head.operands = {{DType::f32, {}}, {DType::f32, {96, 64}}, {DType::i64, {96}},      {DType::f32, {1000, 64}},
                   {DType::f32, {}}, {DType::f32, {96, 64}}, {DType::f32, {1000, 64}}};
  head.numInputs = 4;
  head.threads = 2;
  head.attributes = {{"trans_weight", kOne}, {"chunk", int64_t(64)}};
  const std::vector<ProductShape> expected = {
      {DType::f32, false, true, 1, 64, 1000, 64, 2},  {DType::f32, false, false, 1, 64, 64, 1000, 2},
      {DType::f32, true, false, 1, 1000, 64, 64, 2},  {DType::f32, false, true, 1, 32, 1000, 64, 2},
      {DType::f32, false, false, 1, 32, 64, 1000, 2}, {DType::f32, true, false, 1, 1000, 64, 32, 2}};
  EXPECT_EQ(productsOf(head), expected);
}

TEST(Products, asText) {
  EXPECT_EQ(nameOf(ProductShape{DType::bf16, false, true, 1, 1024, 3072, 768, 2}), "bf16 nt 1024x3072x768");
  EXPECT_EQ(nameOf(ProductShape{DType::f32, true, false, 48, 256, 256, 64, 1}), "f32 tn 256x256x64 x48");
  Result<ProductShape> read = productFromText("f32:tn:256x128x64:48");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(*read == (ProductShape{DType::f32, true, false, 48, 256, 128, 64, 1}));
  for (const char *text : {"",
                           ":",
                           "f32",
                           "f32:nn",
                           "f32:nn:",
                           "f32:nn:1x2",
                           "f32:nn:1x2x",
                           "f32:nn:1x2x3:",
                           "f64:nn:1x2x3",
                           "f32:n:1x2x3",
                           "f32:nx:1x2x3",
                           "f32:nn:0x2x3",
                           "f32:nn:-1x2x3",
                           "f32:nn:1x2x3x4",
                           "f32:nn:1x2x3:4:5",
                           "f32:nn: 1x2x3",
                           "f32:nn:1x2x99999999999999999999",
                           "f32:nn:4294967296x2x3",
                           "f32:nn:2147483647x2147483647x1",
                           "f32:nn:16777216x16777216x16777216",
                           "f32:nn:1x2x3:0"})
    EXPECT_EQ(productFromText(text).status().ok() ? 0 : productFromText(text).error().number, 713) << text;
}

} // namespace
} // namespace zc::test
