// Fused programs: random ones have the bits of their operations one by one, on plain and fast kernels, for all types,
// broadcasts, odd lengths, threads and in place; malformed ones are refused.
#include "test/kernels/FusedCases.h"

namespace zc::test {
namespace {

TEST(FastFused, RandomProgramsHaveTheBitsOfTheirOperations) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    for (bool plain : {true, false}) {
      const std::vector<Value> expected = runApart(random, registry(plain));
      for (int threads : {1, 3}) {
        Call call = fusedCall(random);
        call.threads = threads;
        Result<std::vector<Value>> outputs = runOn(registry(plain), call);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(sameBits((*outputs)[i], expected[i])) << "result " << i << (plain ? " plain" : " fast");
        for (size_t input = 0; input < call.inputs.size(); ++input) {
          if (!(call.inputs[input].type == call.outputs.front().type))
            continue;
          Result<std::vector<Value>> over = runInPlace(registry(plain), call, input);
          ASSERT_TRUE(over.ok());
          for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_TRUE(sameBits((*over)[i], expected[i])) << "result " << i << " over input " << input;
        }
        Result<std::vector<Value>> all = runInPlace(registry(plain), call, overlaid(call));
        ASSERT_TRUE(all.ok());
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(sameBits((*all)[i], expected[i])) << "result " << i << ", as many over inputs as can be";
      }
    }
  }
}

TEST(FastFused, ProgramsThatSeeThroughViewsHaveTheBitsOfThoseThatDoNot) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    const SeenCase seen = seenCase(random, seed);
    for (bool plain : {true, false})
      for (int threads : {1, 3}) {
        const std::vector<Value> expected = must(runOn(registry(plain), fusedCall(random)));
        Call call = seen.call;
        call.threads = threads;
        Result<std::vector<Value>> outputs = runOn(registry(plain), call);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(sameBits(seen.result(random.shape, *outputs, i), expected[i]))
              << "result " << i << (plain ? " plain" : " fast");
      }
  }
}

/// A result over an input, where another input sees the same elements in another order.
TEST(FastFused, WhatIsSeenInAnotherOrderIsNotOverwritten) {
  KernelSpec spec;
  spec.name = "fused";
  spec.operands.assign(3, {DType::f32, {4, 8}});
  spec.numInputs = 2;
  spec.attributes["program"] = Ints{1, 4, 0, 0, 1, 0, 2}; // a sum
  const StridedView all = StridedView::whole(0, {4, 8}), backwards = all.sliced({3, 0}, {4, 8}, {-1, 1});
  auto views = [&](StridedView second) {
    second.tensor = 1;
    return encode({all, second, StridedView::whole(2, {4, 8})});
  };
  spec.attributes["views"] = views(all);
  EXPECT_TRUE(traitsOf("fused").mayOverwrite(spec, 0, 2));
  EXPECT_TRUE(traitsOf("fused").mayOverwrite(spec, 1, 2));
  spec.attributes["views"] = views(backwards);
  EXPECT_TRUE(traitsOf("fused").mayOverwrite(spec, 0, 2));
  EXPECT_FALSE(traitsOf("fused").mayOverwrite(spec, 1, 2));
  spec.inPlace = {{0, 2}, {1, 2}}; // one tensor
  Status status = registry(false).prepare(spec).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().number, 709);
}

/// Two instructions of which the second alone reads the first, at either operand; zeros, infinities and NaN among the
/// elements.
TEST(FastFused, PairsHaveTheBitsOfTheirOperations) {
  Random random(7);
  const char *names[] = {"add", "sub", "mul", "max", "min", "equal", "less", "less_equal", "relu", "select"};
  auto compares = [](const std::string &name) { return name == "equal" || name.rfind("less", 0) == 0; };
  auto stepOf = [&](const std::string &name, DType type, size_t a, size_t b) -> Apart {
    if (name == "relu")
      return {"relu", {a}, type};
    return {name.c_str(), {a, b}, compares(name) ? DType::boolean : type};
  };
  auto expectBits = [&](const std::string &first, const std::string &second, DType type, size_t place) {
    Case made;
    made.shape = {3, 171};
    for (int i = 0; i < 3; ++i) {
      made.inputs.push_back(inputOf(type, i == 2 ? Ints{171} : made.shape, random));
      made.inputs.back().set(3, i == 0 ? kNan : -0.0);
      made.program.inputs.push_back(type);
    }
    const double signs[][3] = {{-0.0, -1, 0.0}, {0.0, -1, -0.0}, {-0.0, 1, 0.0}, {0.0, 1, -0.0}};
    for (size_t at = 0; at < 4; ++at)
      for (size_t i = 0; i < 3; ++i)
        made.inputs[i].set(4 + at, signs[at][i]);
    const double small = std::ldexp(1.0, type == DType::f16 ? -20 : -70); // times its negative is -0 in 16 bits
    made.inputs[0].set(8, -small);
    made.inputs[1].set(8, small);
    for (size_t same = 10; same < 20; ++same)
      made.inputs[1].set(same, made.inputs[0].get(same));
    made.steps.push_back(stepOf(first, type, 0, 1));
    made.steps.push_back(second == "select" ? Apart{"select", {3, 1, 2}, type}
                                            : stepOf(second, type, place == 0 ? 3 : 2, place == 0 ? 2 : 3));
    for (const Apart &step : made.steps)
      made.program.instructions.push_back(instructionOf(step, made.program));
    made.program.results = {4};
    SCOPED_TRACE(first + " " + second + " " + std::to_string(place));
    Result<std::vector<Value>> outputs = runOn(registry(false), fusedCall(made));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_TRUE(sameBits((*outputs)[0], runApart(made, registry(false))[0]));
  };
  for (DType type : kFloats)
    for (std::string first : names)
      for (std::string second : names)
        for (size_t place : {0, 1}) {
          const bool chooses = second == "select";
          if (first != "select" && compares(first) == chooses && (place == 0 || (second != "relu" && !chooses)))
            expectBits(first, second, type, place);
        }
}

/// Denormal numbers and NaN of any bits among them, alone and between two instructions.
TEST(FastFused, AllNumbersOf16BitsHaveTheBitsOfTheirOperations) {
  constexpr int64_t kAll = 1 << 16;
  for (DType type : {DType::bf16, DType::f16}) {
    Case made;
    made.shape = {kAll};
    for (int64_t shift : {0, 12345}) {
      made.inputs.emplace_back(TensorType{type, made.shape});
      made.program.inputs.push_back(type);
      auto *bits = static_cast<uint16_t *>(made.inputs.back().data());
      for (int64_t i = 0; i < kAll; ++i)
        bits[i] = static_cast<uint16_t>(i + shift);
    }
    std::vector<Apart> firsts;
    for (const char *name : kUnary)
      firsts.push_back({name, {0}, type});
    for (const char *name : kBinary)
      firsts.push_back({name, {0, 1}, type});
    for (const Apart &first : firsts)
      for (const char *second : {"add", "mul", "sub", "relu"}) {
        Case both = made;
        both.steps = {first, std::string(second) == "relu" ? Apart{second, {2}, type} : Apart{second, {1, 2}, type}};
        for (const Apart &step : both.steps)
          both.program.instructions.push_back(instructionOf(step, both.program));
        for (const std::vector<size_t> &results : {std::vector<size_t>{3}, {2, 3}}) {
          both.program.results = results;
          const std::vector<Value> expected = runApart(both, registry(false)),
                                   got = must(runOn(registry(false), fusedCall(both)));
          for (size_t i = 0; i < expected.size(); ++i)
            EXPECT_TRUE(sameBits(got[i], expected[i])) << first.kernel << ", " << second << " result " << i;
        }
      }
  }
}

/// A row is read where it is, but in tiles that the row ends in.
TEST(FastFused, RowsLongerThanATile) {
  Random random(8);
  for (const Ints &shape : {Ints{5, 700}, Ints{3, 1024}, Ints{7, 513}}) {
    Case made;
    made.shape = shape;
    for (const Ints &dims : {shape, shape, Ints{shape[1]}}) {
      made.inputs.push_back(inputOf(DType::f32, dims, random));
      made.program.inputs.push_back(DType::f32);
    }
    made.steps = {{"silu", {0}, DType::f32}, {"mul", {3, 1}, DType::f32}, {"add", {4, 2}, DType::f32}};
    for (const Apart &step : made.steps)
      made.program.instructions.push_back(instructionOf(step, made.program));
    made.program.results = {5};
    Result<std::vector<Value>> outputs = runOn(registry(false), fusedCall(made));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_TRUE(sameBits((*outputs)[0], runApart(made, registry(false))[0]));
  }
}

/// A row that repeats for each sample, for longer than a tile and for less, with tiles that see two samples' rows.
TEST(FastFused, RowsThatRepeatForAWhile) {
  Random random(9);
  for (const Ints &shape : {Ints{3, 37, 70}, Ints{2, 1024, 64}, Ints{5, 2, 300}, Ints{4, 16, 32}, Ints{3, 400, 5}})
    for (DType type : {DType::f32, DType::bf16})
      for (int threads : {1, 3}) {
        Case made;
        made.shape = shape;
        for (const Ints &dims : {shape, Ints{shape[0], 1, shape[2]}, Ints{shape[0], 1, shape[2]}, Ints{shape[2]}}) {
          made.inputs.push_back(inputOf(type, dims, random));
          made.program.inputs.push_back(type);
        }
        made.steps = {{"sub", {0, 1}, type}, {"mul", {4, 2}, type}, {"add", {5, 3}, type}, {"silu", {6}, type}};
        for (const Apart &step : made.steps)
          made.program.instructions.push_back(instructionOf(step, made.program));
        made.program.results = {7};
        Call call = fusedCall(made);
        call.threads = threads;
        Result<std::vector<Value>> outputs = runOn(registry(false), call);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message;
        EXPECT_TRUE(sameBits((*outputs)[0], runApart(made, registry(false))[0]));
      }
}

/// A relu whose sign alone is asked for.
TEST(FastFused, TheSignOfARelu) {
  Value x = f32({8}, {-1, -0.0, 0, 1, kNan, kInfinity, -kInfinity, 1e-40}), g = f32({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  FusedProgram program{{DType::f32, DType::f32},
                       {{FusedCode::constant, DType::f32, {}, 0},
                        {FusedCode::relu, DType::f32, {0}},
                        {FusedCode::less, DType::boolean, {2, 3}},
                        {FusedCode::select, DType::f32, {4, 1, 2}}},
                       {5}};
  for (bool plain : {true, false}) {
    Call call{"fused", {x, g}, {x}, {{"program", encode(program)}}};
    EXPECT_EQ(elements(must(runOn(registry(plain), call))[0]), (std::vector<double>{0, 0, 0, 4, 0, 6, 0, 8}));
  }
}

TEST(FastFused, ProgramsAreWrittenAndReadAlike) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Case random = randomCase(seed);
    Result<FusedProgram> read = readFused(fusedCall(random).spec());
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(encode(*read), encode(random.program));
  }
}

/// y = exp(a * b), of f32.
const Ints kSound{2, 6, 0, 0, 1, 20, 0, 2, 0, 3};

Status statusOf(Ints words, DType result = DType::f32, Ints resultShape = {2, 3}) {
  KernelSpec spec;
  spec.name = "fused";
  spec.operands = {{DType::f32, {2, 3}}, {DType::f32, {3}}, {result, std::move(resultShape)}};
  spec.numInputs = 2;
  spec.attributes["program"] = std::move(words);
  Status plain = registry(true).prepare(spec).status(), fast = registry(false).prepare(spec).status();
  EXPECT_EQ(plain.ok(), fast.ok());
  return fast;
}

void expectRefused(const Status &status, const std::string &part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_EQ(status.error().code, Code::corrupt);
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

TEST(FastFused, MalformedProgramsAreRefused) {
  EXPECT_TRUE(statusOf(kSound).ok());
  expectRefused(statusOf({}), "the number of instructions");
  expectRefused(statusOf({1000}), "not in [0, 41)");
  expectRefused(statusOf({40, 6, 0, 0, 1}), "more than 40 registers");
  expectRefused(statusOf({3, 1, 1, 0x7f800001, 6, 0, 0, 1, 20, 0, 3, 0, 4}), "none of its type"); // NaN, cut off
  expectRefused(statusOf({2, 99, 0, 0, 1, 20, 0, 2, 0, 3}), "the code of instruction 0 is 99");
  expectRefused(statusOf({2, 6, 4, 0, 1, 20, 0, 2, 0, 3}), "the type of instruction 0 is 4");
  expectRefused(statusOf({2, 6, 0, 0, 9, 20, 0, 2, 0, 3}), "instruction 0 reads is 9");
  expectRefused(statusOf({2, 6, 0, 0, -1, 20, 0, 2, 0, 3}), "instruction 0 reads is -1");
  expectRefused(statusOf({2, 6, 0, 0, 2, 20, 0, 2, 0, 3}), "instruction 0 reads is 2, not in [0, 2)"); // itself
  expectRefused(statusOf({2, 6, 0, 0, 3, 20, 0, 2, 0, 3}), "instruction 0 reads is 3");                // a later one
  expectRefused(statusOf({2, 6, 1, 0, 1, 20, 0, 2, 0, 3}), "types that do not go together");
  expectRefused(statusOf({2, 10, 0, 0, 1, 20, 0, 2, 0, 3}), "types that do not go together");
  expectRefused(statusOf({2, 3, 0, 0, 1, 1, 20, 0, 2, 0, 3}), "types that do not go together");
  expectRefused(statusOf({3, 6, 0, 0, 1, 20, 0, 2, 0, 3}), "ends before instruction 2");    // fewer than stated
  expectRefused(statusOf({1, 6, 0, 0, 1, 20, 0, 2, 0, 3}), "no end behind 1 instructions"); // more than stated
  expectRefused(statusOf({2, 6, 0, 0, 1, 20, 0, 2}), "no end behind 2 instructions");
  expectRefused(statusOf({2, 6, 0, 0, 1, 20, 0, 2, 0}), "ends in the register of result 0");
  expectRefused(statusOf({2, 6, 0, 0, 1, 20, 0, 2, 0, 4}), "the register of result 0 is 4");
  expectRefused(statusOf({2, 6, 0, 0, 1, 20, 0, 2, 0, 1}), "result 0 is an input");
  expectRefused(statusOf({2, 6, 0, 0, 1, 20, 0, 2, 0, 3, 2}), "goes on behind its results");
  expectRefused(statusOf(kSound, DType::bf16), "another type than its register");
  expectRefused(statusOf(kSound, DType::i64), "f32, bf16, f16 or bool");
  expectRefused(statusOf(kSound, DType::f32, {2, 4}), "results of one shape");
  expectRefused(statusOf({1, 1, 1, 0x3f800001, 0, 2}), "the constant of instruction 0 is none of its type");
  expectRefused(statusOf({1, 1, 0, int64_t(1) << 32, 0, 2}), "the constant of instruction 0");
  expectRefused(statusOf({1, 1, 0, 0, 0, 2}), "a constant");
}

TEST(FastFused, OperandsThatAreTooMany) {
  KernelSpec spec;
  spec.name = "fused";
  spec.operands.assign(18, {DType::f32, {4}});
  spec.numInputs = 17;
  spec.attributes["program"] = kSound;
  expectRefused(registry(false).prepare(spec).status(), "0 to 16 inputs");
  spec.operands.assign(7, {DType::f32, {4}});
  spec.numInputs = 2;
  expectRefused(registry(false).prepare(spec).status(), "1 to 4 outputs");
}

/// Any change of any word: refused, or a program that runs within its operands.
TEST(FastFused, ChangedWordsDoNoHarm) {
  Random random(1);
  size_t sound = 0, refused = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const Case from = randomCase(seed % 100);
    Call call = fusedCall(from);
    Ints &words = std::get<Ints>(call.attributes["program"]);
    for (size_t changes = 1 + random.below(3); changes > 0; --changes)
      switch (random.below(4)) {
      case 0:
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(random.below(words.size())));
        break;
      case 1:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(random.below(words.size())),
                     static_cast<int64_t>(random.below(45)));
        break;
      default:
        words[random.below(words.size())] = static_cast<int64_t>(random.below(50)) - 2;
      }
    if (words.empty())
      continue;
    const bool runs = runOn(registry(false), call).ok();
    EXPECT_EQ(runs, runOn(registry(true), call).ok());
    ++(runs ? sound : refused);
  }
  EXPECT_GT(sound, 20u);
  EXPECT_GT(refused, 1000u);
}

} // namespace
} // namespace zc::test
