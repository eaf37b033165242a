// Fused programs: random ones have the bits of their operations one by one, on plain and fast kernels, for all types,
// broadcasts, odd lengths, threads and in place; malformed ones are refused.
#include "kernels/FusedProgram.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {
namespace {

/// A kernel for each instruction, one after the other, on the registers' whole tensors: what a fused program stands
/// for.
struct Apart {
  const char *kernel;
  std::vector<size_t> from;
  DType type;
  Attributes attributes = {};
};

struct Case {
  Ints shape;
  std::vector<Value> inputs;
  std::vector<Apart> steps;
  FusedProgram program;
};

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  size_t below(size_t n) { return engine() % n; }
  template <typename T> const T &of(const std::vector<T> &values) { return values[below(values.size())]; }

private:
  std::mt19937_64 engine;
};

const std::vector<Ints> kFusedShapes{{},        {1},      {3},           {17},     {513},
                                     {2, 3, 5}, {7, 129}, {5, 1, 3, 11}, {4, 600}, {129, 2, 80}};
const std::vector<DType> kFloats{DType::f32, DType::bf16, DType::f16};

/// The shape with some dimensions 1, or leading ones left out.
Ints broadcastOf(const Ints &shape, Random &random) {
  Ints dims = shape;
  if (random.below(2))
    return dims;
  for (int64_t &dim : dims)
    if (random.below(3) == 0)
      dim = 1;
  dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(random.below(dims.size() + 1)));
  return dims;
}

Value inputOf(DType type, Ints dims, Random &random) {
  Value value = uniform({type, std::move(dims)}, static_cast<unsigned>(random.below(1000)), -3, 3);
  if (type == DType::boolean)
    for (size_t i = 0; i < value.size(); ++i)
      value.set(i, random.below(2) != 0);
  else if (value.size() > 2)
    value.set(random.below(value.size()), random.below(2) ? 0 : std::numeric_limits<double>::infinity());
  return value;
}

/// Registers of a type.
std::vector<size_t> registersOf(const FusedProgram &program, DType type) {
  std::vector<size_t> found;
  for (size_t i = 0; i < program.inputs.size() + program.instructions.size(); ++i)
    if (program.typeOf(i) == type)
      found.push_back(i);
  return found;
}

constexpr const char *kUnary[] = {"neg", "abs",  "sign",    "exp", "log",  "sqrt", "reciprocal", "sin",
                                  "cos", "tanh", "sigmoid", "erf", "relu", "silu", "gelu",       "softplus"};
constexpr const char *kBinary[] = {"add", "sub", "mul", "div", "min", "max", "gelu_grad", "silu_grad", "pow"};
constexpr const char *kCompare[] = {"equal", "less", "less_equal"};
constexpr const char *kLogic[] = {"and", "or", "xor"};

Apart anyStep(const FusedProgram &program, Random &random) {
  const DType type = program.typeOf(random.below(program.inputs.size() + program.instructions.size()));
  const auto alike = registersOf(program, type), flags = registersOf(program, DType::boolean);
  const size_t a = random.of(alike), b = random.of(alike);
  const size_t kind = random.below(8);
  if (kind == 0)
    return {"cast", {a}, random.below(5) ? random.of(kFloats) : DType::boolean};
  if (kind == 1 && !flags.empty())
    return {"select", {random.of(flags), a, b}, type};
  if (type == DType::boolean)
    return random.below(2) ? Apart{"not", {a}, type} : Apart{kLogic[random.below(3)], {a, b}, type};
  if (kind == 2)
    return {kCompare[random.below(3)], {a, b}, DType::boolean};
  if (kind == 3)
    return {"is_nan", {a}, DType::boolean};
  Attributes attributes;
  if (random.below(2))
    attributes["tanh"] = int64_t{1};
  if (kind < 6)
    return {kBinary[random.below(std::size(kBinary))], {a, b}, type, attributes};
  return {kUnary[random.below(std::size(kUnary))], {a}, type, attributes};
}

FusedInstruction instructionOf(const Apart &step, const FusedProgram &program) {
  KernelSpec spec;
  spec.name = step.kernel;
  spec.attributes = step.attributes;
  for (size_t reg : step.from)
    spec.operands.push_back({program.typeOf(reg), {}});
  spec.operands.push_back({step.type, {}});
  std::optional<FusedInstruction> instruction = fusedInstructionOf(spec);
  EXPECT_TRUE(instruction) << step.kernel;
  for (size_t i = 0; instruction && i < step.from.size(); ++i)
    instruction->from[i] = step.from[i];
  return instruction.value_or(FusedInstruction{});
}

Case randomCase(unsigned seed) {
  Random random(seed);
  Case made;
  made.shape = random.of(kFusedShapes);
  const DType type = random.of(kFloats);
  for (size_t i = 0, n = 1 + random.below(4); i < n; ++i) {
    made.inputs.push_back(
        inputOf(random.below(5) == 0 ? DType::boolean : type, broadcastOf(made.shape, random), random));
    made.program.inputs.push_back(made.inputs.back().type.dtype);
  }
  if (random.below(2)) {
    made.program.instructions.push_back({FusedCode::constant, type, {}, 0.5f});
    made.steps.push_back({"constant", {}, type});
  }
  for (size_t i = 0, n = 1 + random.below(12); i < n; ++i) {
    made.steps.push_back(anyStep(made.program, random));
    made.program.instructions.push_back(instructionOf(made.steps.back(), made.program));
  }
  const size_t last = made.program.inputs.size() + made.program.instructions.size() - 1;
  for (size_t reg = last; reg >= made.program.inputs.size() && made.program.results.size() < 3; --reg)
    if (made.program.instructions[reg - made.program.inputs.size()].code != FusedCode::constant &&
        (reg == last || random.below(4) == 0))
      made.program.results.push_back(reg);
  if (made.program.results.size() > 1 && random.below(2))
    std::swap(made.program.results[0], made.program.results[1]);
  return made;
}

Call fusedCall(const Case &from) {
  Call call{"fused", from.inputs, {}, {{"program", encode(from.program)}}};
  for (size_t reg : from.program.results)
    call.outputs.push_back(Value({from.program.typeOf(reg), from.shape}));
  return call;
}

/// The registers that are results, by kernels of one operation.
std::vector<Value> runApart(const Case &from, bool plain) {
  std::vector<Value> registers = from.inputs;
  for (const Apart &step : from.steps) {
    Call call{step.kernel, {}, {}, step.attributes};
    Ints shape = from.shape; // operands are written out: kernels of one operand do not broadcast
    for (size_t reg : step.from) {
      Value &value = registers[reg];
      Result<std::vector<Value>> whole = runOn(registry(true), {"expand", {value}, {Value({value.type.dtype, shape})}});
      EXPECT_TRUE(whole.ok()) << whole.error().message;
      call.inputs.push_back(whole->front());
    }
    if (std::string(step.kernel) == "constant")
      call.attributes["value"] = 0.5;
    call.outputs.push_back(Value({step.type, shape}));
    Result<std::vector<Value>> result = runOn(registry(plain), call);
    EXPECT_TRUE(result.ok()) << result.error().message;
    registers.push_back(result->front());
  }
  std::vector<Value> results;
  for (size_t reg : from.program.results)
    results.push_back(registers[reg]);
  return results;
}

/// NaN of any payload: which of two a sum keeps, a compiler decides.
bool sameBits(const Value &a, const Value &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a.get(i)) ? !std::isnan(b.get(i))
                             : a.get(i) != b.get(i) || std::signbit(a.get(i)) != std::signbit(b.get(i)))
      return false;
  return a.type == b.type;
}

TEST(FastFused, RandomProgramsHaveTheBitsOfTheirOperations) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    for (bool plain : {true, false}) {
      const std::vector<Value> expected = runApart(random, plain);
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
      }
    }
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
