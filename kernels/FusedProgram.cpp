#include "kernels/FusedProgram.h"
#include "kernels/shapes/Support.h"

#include <cstring>

namespace zc {

namespace {

/// What types go in and come out.
enum class Signature { constant, cast, select, floats, comparison, bools, floatToBool, masked };

struct Function {
  const char *kernel;
  size_t operands;
  Signature signature;
  int tanh = -1; ///< what attribute `tanh` is, where it matters
};

/// In the order of FusedCode.
constexpr Function kFunctions[] = {
    {"", 0, Signature::constant},
    {"", 0, Signature::constant},
    {"cast", 1, Signature::cast},
    {"select", 3, Signature::select},
    {"add", 2, Signature::floats},
    {"sub", 2, Signature::floats},
    {"mul", 2, Signature::floats},
    {"div", 2, Signature::floats},
    {"min", 2, Signature::floats},
    {"max", 2, Signature::floats},
    {"equal", 2, Signature::comparison},
    {"less", 2, Signature::comparison},
    {"less_equal", 2, Signature::comparison},
    {"and", 2, Signature::bools},
    {"or", 2, Signature::bools},
    {"xor", 2, Signature::bools},
    {"not", 1, Signature::bools},
    {"neg", 1, Signature::floats},
    {"abs", 1, Signature::floats},
    {"sign", 1, Signature::floats},
    {"exp", 1, Signature::floats},
    {"log", 1, Signature::floats},
    {"sqrt", 1, Signature::floats},
    {"reciprocal", 1, Signature::floats},
    {"sin", 1, Signature::floats},
    {"cos", 1, Signature::floats},
    {"tanh", 1, Signature::floats},
    {"sigmoid", 1, Signature::floats},
    {"erf", 1, Signature::floats},
    {"relu", 1, Signature::floats},
    {"silu", 1, Signature::floats},
    {"gelu", 1, Signature::floats, 0},
    {"gelu", 1, Signature::floats, 1},
    {"gelu_grad", 2, Signature::floats, 0},
    {"gelu_grad", 2, Signature::floats, 1},
    {"silu_grad", 2, Signature::floats},
    {"pow", 2, Signature::floats},
    {"softplus", 1, Signature::floats},
    {"is_nan", 1, Signature::floatToBool},
    {"dropout_grad", 3, Signature::masked},
};
static_assert(std::size(kFunctions) == kFusedCodes);

/// By the numbers that stand in programs.
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::boolean};

const Function &functionOf(FusedCode code) { return kFunctions[static_cast<size_t>(code)]; }

/// Do registers of these types, operands first, go with the function?
bool fits(FusedCode code, const std::vector<DType> &types) {
  auto isBool = [](DType type) { return type == DType::boolean; };
  const DType result = types.back();
  switch (functionOf(code).signature) {
  case Signature::constant:
  case Signature::cast:
    return true;
  case Signature::select:
    return isBool(types[0]) && types[1] == result && types[2] == result;
  case Signature::floats:
    return !isBool(result) && types.front() == result && types[types.size() - 2] == result;
  case Signature::comparison:
    return isBool(result) && !isBool(types[0]) && types[0] == types[1];
  case Signature::bools:
    return std::all_of(types.begin(), types.end(), isBool);
  case Signature::floatToBool:
    return isBool(result) && !isBool(types[0]);
  case Signature::masked:
    return !isBool(result) && types[0] == result && isBool(types[1]) && types[2] == DType::f32;
  }
  return false;
}

/// Does a store of `value` to `type` leave it as it is?
bool holds(DType type, float value) {
  // By bits: cut off, those of a NaN could be infinity's.
  auto isSame = [&](float stored) { return std::memcmp(&stored, &value, sizeof value) == 0; };
  switch (type) {
  case DType::bf16:
    return isSame(fromBf16(toBf16(value)));
  case DType::f16:
    return isSame(fromF16(toF16(value)));
  case DType::boolean:
    return value == 0 || value == 1;
  default:
    return true;
  }
}

/// Reads the words of a program; the first problem stays.
class Reader {
public:
  /// Results have these types; nothing: any.
  Reader(std::vector<int64_t> given, std::vector<DType> inputs, const std::vector<std::optional<DType>> &results)
      : words(std::move(given)) {
    program.inputs = std::move(inputs);
    readInstructions();
    if (problem.empty())
      readResults(results);
  }

  FusedProgram program;
  std::string problem;

private:
  void fail(std::string what) {
    if (problem.empty())
      problem = std::move(what);
  }
  std::string here() const { return "instruction " + std::to_string(program.instructions.size()); }
  size_t numRegisters() const { return program.inputs.size() + program.instructions.size(); }

  /// The next word, of [0, limit); 0 where there is none or another. What it is is asked for only where it is wrong:
  /// programs are read each time that somebody verifies them.
  template <typename What> int64_t next(int64_t limit, const What &what) {
    if (at == words.size()) {
      fail("it ends in " + what());
      return 0;
    }
    const int64_t word = words[at++];
    if (word >= 0 && word < limit)
      return word;
    fail(what() + " is " + std::to_string(word) + ", not in [0, " + std::to_string(limit) + ")");
    return 0;
  }

  void readInstructions() {
    constexpr auto kMost = static_cast<int64_t>(kFusedRegisters);
    const int64_t count = next(kMost + 1, [] { return std::string("the number of instructions"); });
    if (count + static_cast<int64_t>(numRegisters()) > kMost)
      fail("it has " + std::to_string(count) + " instructions and " + std::to_string(numRegisters()) +
           " inputs, more than " + std::to_string(kMost) + " registers");
    for (int64_t i = 0; i < count && problem.empty(); ++i)
      readInstruction();
  }

  void readInstruction() {
    auto code = static_cast<FusedCode>(next(kFusedCodes, [&] { return "the code of " + here(); }));
    if (code == FusedCode::end)
      fail("it ends before " + here());
    const int64_t type = next(std::size(kTypes), [&] { return "the type of " + here(); });
    FusedInstruction instruction{code, kTypes[static_cast<size_t>(type)]};
    std::vector<DType> types;
    for (size_t i = 0; i < fusedOperands(code) && problem.empty(); ++i) {
      auto from = static_cast<size_t>(
          next(static_cast<int64_t>(numRegisters()), [&] { return "a register that " + here() + " reads"; }));
      instruction.from[i] = from;
      if (problem.empty())
        types.push_back(program.typeOf(from));
    }
    types.push_back(instruction.type);
    if (code == FusedCode::constant)
      readConstant(instruction);
    if (problem.empty() && !fits(code, types))
      fail(here() + " has operands or a result of types that do not go together");
    program.instructions.push_back(instruction);
  }

  void readConstant(FusedInstruction &instruction) {
    auto bits = static_cast<uint32_t>(next(int64_t(1) << 32, [&] { return "the constant of " + here(); }));
    std::memcpy(&instruction.value, &bits, sizeof bits);
    if (!holds(instruction.type, instruction.value))
      fail("the constant of " + here() + " is none of its type");
  }

  void readResults(const std::vector<std::optional<DType>> &types) {
    if (at == words.size() || words[at++] != static_cast<int64_t>(FusedCode::end))
      return fail("it has no end behind " + std::to_string(program.instructions.size()) + " instructions");
    for (size_t i = 0; i < types.size() && problem.empty(); ++i) {
      const std::string what = "result " + std::to_string(i);
      auto reg =
          static_cast<size_t>(next(static_cast<int64_t>(numRegisters()), [&] { return "the register of " + what; }));
      if (!problem.empty())
        return;
      if (reg < program.inputs.size() ||
          program.instructions[reg - program.inputs.size()].code == FusedCode::constant ||
          std::find(program.results.begin(), program.results.end(), reg) != program.results.end())
        return fail(what + " is an input, a constant or another result");
      if (types[i] && program.typeOf(reg) != *types[i])
        return fail(what + " has another type than its register");
      program.results.push_back(reg);
    }
    if (at != words.size())
      fail("it goes on behind its results");
  }

  std::vector<int64_t> words;
  size_t at = 0;
};

Status checkOperands(const KernelSpec &spec) {
  auto alike = [&] {
    for (size_t i = 0; i < spec.operands.size(); ++i)
      if (i < spec.numInputs ? !shapes::broadcastsTo(spec.operands[i].dims, spec.operands.back().dims)
                             : spec.operands[i].dims != spec.operands.back().dims)
        return false;
    return true;
  };
  auto types = [&] {
    return std::all_of(spec.operands.begin(), spec.operands.end(),
                       [](const TensorType &type) { return isFusedType(type.dtype); });
  };
  return shapes::Check(spec)
      .counts(0, kFusedInputs, 1, kFusedResults)
      .that(alike, "results of one shape, to which its inputs broadcast")
      .that(types, "f32, bf16, f16 or bool")
      .done();
}

} // namespace

size_t fusedOperands(FusedCode code) { return functionOf(code).operands; }

bool isFusedType(DType type) { return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes); }

std::optional<FusedInstruction> fusedInstructionOf(const KernelSpec &spec) {
  const int tanh = spec.getInt("tanh", 0) != 0;
  std::vector<DType> types;
  for (const TensorType &type : spec.operands) {
    if (!isFusedType(type.dtype))
      return std::nullopt;
    types.push_back(type.dtype);
  }
  const bool isMasked = spec.name == functionOf(FusedCode::masked).kernel;
  const float scale = isMasked ? static_cast<float>(1 / (1 - spec.getReal("ratio", 0.5))) : 0;
  if (isMasked && !types.empty()) // its scale is an attribute
    types.insert(types.end() - 1, DType::f32);
  for (size_t i = 0; i < kFusedCodes; ++i) {
    const Function &function = kFunctions[i];
    auto code = static_cast<FusedCode>(i);
    if (spec.name == function.kernel && (function.tanh < 0 || function.tanh == tanh) &&
        types.size() == function.operands + 1 && fits(code, types))
      return FusedInstruction{code, types.back(), {}, scale};
  }
  return std::nullopt;
}

std::vector<int64_t> encode(const FusedProgram &program) {
  std::vector<int64_t> words{static_cast<int64_t>(program.instructions.size())};
  for (const FusedInstruction &instruction : program.instructions) {
    words.push_back(static_cast<int64_t>(instruction.code));
    words.push_back(std::find(std::begin(kTypes), std::end(kTypes), instruction.type) - std::begin(kTypes));
    for (size_t i = 0; i < fusedOperands(instruction.code); ++i)
      words.push_back(static_cast<int64_t>(instruction.from[i]));
    if (instruction.code != FusedCode::constant)
      continue;
    uint32_t bits;
    std::memcpy(&bits, &instruction.value, sizeof bits);
    words.push_back(bits);
  }
  words.push_back(static_cast<int64_t>(FusedCode::end));
  words.insert(words.end(), program.results.begin(), program.results.end());
  return words;
}

Result<FusedProgram> readFused(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkOperands(spec));
  std::vector<DType> inputs;
  std::vector<std::optional<DType>> results;
  for (size_t i = 0; i < spec.operands.size(); ++i)
    if (i < spec.numInputs)
      inputs.push_back(spec.operands[i].dtype);
    else
      results.push_back(spec.operands[i].dtype);
  Reader reader(spec.getInts("program"), std::move(inputs), results);
  if (!reader.problem.empty())
    return shapes::wrongSpec(spec, "a sound program, of which " + reader.problem);
  return std::move(reader.program);
}

std::optional<FusedProgram> readFused(const std::vector<int64_t> &words, std::vector<DType> inputs,
                                      std::string &problem) {
  Reader reader(words, std::move(inputs), {std::nullopt});
  problem = reader.problem;
  return problem.empty() ? std::optional(std::move(reader.program)) : std::nullopt;
}

} // namespace zc
