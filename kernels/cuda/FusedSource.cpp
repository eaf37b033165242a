#include "kernels/cuda/FusedSource.h"
#include "kernels/FusedProgram.h"
#include "kernels/cuda/StridedIndex.h"

#include <algorithm>
#include <cstring>

namespace zc::cuda {

namespace {

static_assert(kMostInputs == kFusedInputs && kMostOperands == kFusedInputs + kFusedResults);
static_assert(kMostDims == cpu::kMaxRank);

struct Function {
  const char *formula; ///< $a, $b: what the operands hold, in their compute types
  bool isLong = false; ///< a pack would hold its code V times; memory does not limit it
};

/// In the order of FusedCode. What has no formula is written by itself.
constexpr Function kFunctions[] = {
    {nullptr}, // end
    {nullptr}, // constant
    {nullptr}, // cast
    {nullptr}, // select
    {"Add::apply($a, $b)"},
    {"Sub::apply($a, $b)"},
    {"Mul::apply($a, $b)"},
    {"Div::apply($a, $b)"},
    {"Min::apply($a, $b)"},
    {"Max::apply($a, $b)"},
    {"Equal::apply($a, $b)"},
    {"Less::apply($a, $b)"},
    {"LessEqual::apply($a, $b)"},
    {"And::apply($a, $b)"},
    {"Or::apply($a, $b)"},
    {"Xor::apply($a, $b)"},
    {"BoolNot::apply($a)"},
    {"Neg::apply($a)"},
    {"Abs::apply($a)"},
    {"Sign::apply($a)"},
    {"Exp::apply($a)"},
    {"Log::apply($a)"},
    {"Sqrt::apply($a)"},
    {"Reciprocal::apply($a)"},
    {"Sin::apply($a)", true},
    {"Cos::apply($a)", true},
    {"Tanh::apply($a)"},
    {"Sigmoid::apply($a)"},
    {"Erf::apply($a)"},
    {"Relu::apply($a)"},
    {"Silu::apply($a)"},
    {"gelu($a, false)"},
    {"gelu($a, true)"},
    {"$a * geluSlope($b, false)"},
    {"$a * geluSlope($b, true)"},
    {"$a * siluSlope($b)"},
    {"Pow::apply($a, $b)", true},
    {"Softplus::apply($a)", true},
    {"std::isnan($a)"},
    {"$b != 0 ? $a * $c : 0.0f"},
};
static_assert(std::size(kFunctions) == kFusedCodes);

const char *nameOfStorage(DType type) {
  switch (type) {
  case DType::bf16:
    return "Bf16";
  case DType::f16:
    return "F16";
  case DType::boolean:
    return "Bool";
  default:
    return "float";
  }
}

std::string reg(size_t number) { return "r" + std::to_string(number); }

/// What an instruction gives, stored as `type`.
std::string expressionOf(const FusedInstruction &instruction) {
  const std::string type = nameOfStorage(instruction.type);
  const std::array<size_t, 3> &from = instruction.from;
  if (instruction.code == FusedCode::constant) {
    uint32_t bits;
    std::memcpy(&bits, &instruction.value, sizeof bits);
    const std::string value = "detail::floatOf(" + std::to_string(bits) + "u)";
    return "store<" + type + ">(" + (instruction.type == DType::boolean ? value + " != 0" : value) + ")";
  }
  if (instruction.code == FusedCode::cast)
    return "convert<" + type + ">(" + reg(from[0]) + ")";
  if (instruction.code == FusedCode::select)
    return "load(" + reg(from[0]) + ") ? " + reg(from[1]) + " : " + reg(from[2]);
  std::string formula = kFunctions[static_cast<size_t>(instruction.code)].formula;
  for (size_t i = 0; i < fusedOperands(instruction.code); ++i) {
    const std::string name = {'$', static_cast<char>('a' + i)};
    formula.replace(formula.find(name), name.size(), "load(" + reg(from[i]) + ")");
  }
  return "store<" + type + ">(" + formula + ")";
}

/// How a pack of an input is loaded.
enum class Access { whole, one, along, across }; // as the results; one for all; V along the innermost dimension, or one

Access accessOf(const StridedIndex<kMostInputs + 1> &walk, size_t input) {
  if (walk.dense[input])
    return Access::whole;
  if (walk.scalar[input])
    return Access::one;
  return walk.stride[input][walk.rank - 1] == 0 ? Access::across : Access::along;
}

std::string loadOf(Access access, size_t input, DType type) {
  const std::string number = std::to_string(input);
  const std::string place = access == Access::whole ? "at"
                            : access == Access::one ? "0"
                                                    : "place.offset(a.stride[" + number + "])";
  return std::string(access == Access::whole || access == Access::along ? "loadPack" : "repeat") + "<V, " +
         nameOfStorage(type) + ">(a.operand[" + number + "], " + place + ")";
}

using Walk = StridedIndex<kMostInputs + 1>;

/// Inputs along the results; what there is no input for walks as these.
Walk walkOf(const KernelSpec &spec) {
  const cpu::Dims &result = spec.operands.back().dims;
  std::array<cpu::Dims, kMostInputs + 1> strides;
  for (size_t i = 0; i < strides.size(); ++i)
    strides[i] =
        i < spec.numInputs ? cpu::broadcastStrides(spec.operands[i].dims, result) : cpu::rowMajorStrides(result);
  return Walk(cpu::Walk<kMostInputs + 1>(result, strides));
}

FusedArguments sizesOf(const Walk &walk, const KernelSpec &spec) {
  FusedArguments sizes = {};
  sizes.elements = spec.operands.back().numElements();
  sizes.isSmall = walk.small;
  for (int d = 0; d < walk.rank; ++d) {
    sizes.size[d] = walk.size[d];
    sizes.divider[d] = walk.divider[d];
    for (size_t i = 0; i < spec.numInputs; ++i)
      sizes.stride[i][d] = walk.stride[i][d];
  }
  return sizes;
}

/// The body of `compute`: loads, the instructions for an element of a pack, stores.
class Body {
public:
  /// `isSummed`: the one result is given back instead of stored.
  Body(const FusedProgram &program, const Walk &walk, bool isSummed)
      : program(program), rank(walk.rank), isSummed(isSummed) {
    for (size_t i = 0; i < program.inputs.size(); ++i)
      addInput(i, accessOf(walk, i));
    for (size_t i = 0; i < program.instructions.size(); ++i)
      addInstruction(i);
    for (size_t i = 0; i < program.results.size(); ++i)
      addResult(i);
  }

  std::vector<size_t> inPacks; ///< operands that are loaded or stored in packs
  bool isStrided = false;      ///< some are not from first to last, nor one element
  bool isLong = false;

  std::string text() const {
    std::string place;
    if (isStrided)
      place = "    const Place<" + std::to_string(rank) + "> place(a, at);\n";
    return place + loads + "    for (int k = 0; k < V; ++k) {\n" + elements + "    }\n" + stores;
  }

private:
  std::string typed(const std::string &name, DType type) { return nameOfStorage(type) + (" " + name); }
  void addInput(size_t i, Access access) {
    const std::string x = "x" + std::to_string(i);
    loads += "    const auto " + x + " = " + loadOf(access, i, program.inputs[i]) + ";\n";
    elements += "      const " + typed(reg(i), program.inputs[i]) + " = " + x + ".element[k];\n";
    isStrided |= access == Access::along || access == Access::across;
    if (access == Access::whole || access == Access::along)
      inPacks.push_back(i);
  }
  void addInstruction(size_t i) {
    const FusedInstruction &instruction = program.instructions[i];
    elements += "      const " + typed(reg(program.inputs.size() + i), instruction.type) + " = " +
                expressionOf(instruction) + ";\n";
    isLong |= kFunctions[static_cast<size_t>(instruction.code)].isLong;
  }
  void addResult(size_t i) {
    const std::string y = "y" + std::to_string(i), operand = std::to_string(program.inputs.size() + i);
    const size_t from = program.results[i];
    loads += std::string("    Pack<") + nameOfStorage(program.typeOf(from)) + ", V> " + y + ";\n";
    elements += "      " + y + ".element[k] = " + reg(from) + ";\n";
    if (isSummed) {
      stores += "    return " + y + ";\n";
      return;
    }
    stores += "    storePack(a.operand[" + operand + "], at, " + y + ");\n";
    inPacks.push_back(program.inputs.size() + i);
  }

  const FusedProgram &program;
  int rank;
  bool isSummed;
  std::string loads, elements, stores;
};

} // namespace

Result<FusedSource> FusedSource::of(const KernelSpec &spec) { return of(spec, /*isSummed=*/false); }

Result<FusedSource> FusedSource::ofSums(const Prologue &prologue) {
  KernelSpec spec;
  spec.name = "fused";
  spec.operands = prologue.inputs;
  spec.operands.push_back(prologue.result);
  spec.numInputs = prologue.inputs.size();
  spec.attributes["program"] = encode(prologue.program);
  return of(spec, /*isSummed=*/true);
}

Result<FusedSource> FusedSource::of(const KernelSpec &spec, bool isSummed) {
  Result<FusedProgram> program = readFused(spec);
  ZC_RETURN_IF_ERROR(program.status());
  const Walk walk = walkOf(spec);
  const Body body(*program, walk, isSummed);
  auto bytesOf = [&](size_t operand) { return sizeOf(spec.operands[operand].dtype); };
  int64_t largest = 1;
  for (size_t operand : body.inPacks)
    largest = std::max(largest, bytesOf(operand));

  FusedSource made;
  made.pack = body.isLong ? 1 : 16 / largest;
  made.sizes = sizesOf(walk, spec);
  made.operands = isSummed ? spec.numInputs : spec.operands.size();
  made.runsArePacks = !body.isStrided || walk.size[walk.rank - 1] % made.pack == 0;
  for (size_t operand : body.inPacks)
    made.inPacks.emplace_back(operand, static_cast<uintptr_t>(made.pack * bytesOf(operand)));
  const std::string result = nameOfStorage(program->typeOf(program->results[0]));
  made.isSummed = isSummed;
  made.members = "  static constexpr int kPack = " + std::to_string(made.pack) + ";\n" +
                 (isSummed ? "  using Result = " + result + ";\n" : "") + "  template <int V> static ZC_HD " +
                 (isSummed ? "Pack<" + result + ", V> value" : "void compute") +
                 "(const FusedArguments &a, int64_t at) {\n" + body.text() + "  }\n";
  return made;
}

std::string FusedSource::text(const std::string &name) const {
  return "namespace zc::cuda {\nstruct " + name + "_program {\n" + members + "};\n} // namespace zc::cuda\n" +
         (isSummed ? "ZC_GRAD_SUMS_KERNEL(" : "ZC_FUSED_KERNEL(") + name + ", zc::cuda::" + name + "_program)\n";
}

FusedArguments FusedSource::arguments(void *const *places) const {
  FusedArguments result = sizes;
  std::copy_n(places, operands, result.operand);
  result.isPacked = runsArePacks;
  for (auto [operand, bytes] : inPacks)
    result.isPacked &= reinterpret_cast<uintptr_t>(places[operand]) % bytes == 0;
  return result;
}

int64_t FusedSource::channelsAtOnce(const FusedArguments &arguments, DType dtype, const void *x,
                                    int64_t channels) const {
  const int64_t most = std::min<int64_t>(pack, kColumnPack<float>);
  const auto bytes = static_cast<uintptr_t>(most * sizeOf(dtype));
  const bool isAligned = reinterpret_cast<uintptr_t>(x) % bytes == 0;
  return arguments.isPacked && channels % most == 0 && isAligned ? most : 1;
}

} // namespace zc::cuda
