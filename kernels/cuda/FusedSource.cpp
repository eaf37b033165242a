#include "kernels/cuda/FusedSource.h"
#include "kernels/Views.h"
#include "kernels/cuda/StridedIndex.h"

#include <algorithm>
#include <cstring>

namespace zc::cuda {

namespace {

static_assert(kMostOperands == kFusedInputs + kFusedResults);
static_assert(kMostDims == shapes::kMaxRank);

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

/// The elements' numbers, then operands.
using Walk = StridedIndex<kMostOperands + 1>;

/// How a pack of an operand is loaded or stored.
enum class Access { whole, one, along, across }; // in order; one for all; V along the innermost dimension, or one

Access accessOf(const Walk &walk, size_t operand) {
  if (walk.dense[operand + 1])
    return Access::whole;
  if (walk.scalar[operand + 1])
    return Access::one;
  return walk.stride[operand + 1][walk.rank - 1] == 0 ? Access::across : Access::along;
}

std::string placeOf(Access access, size_t operand) {
  return access == Access::whole ? "at"
         : access == Access::one ? "0"
                                 : "place.offset(a.stride[" + std::to_string(operand) + "])";
}

std::string loadOf(Access access, size_t input, DType type) {
  return std::string(access == Access::whole || access == Access::along ? "loadPack" : "repeat") + "<V, " +
         nameOfStorage(type) + ">(a.operand[" + std::to_string(input) + "], " + placeOf(access, input) + ")";
}

/// Operands along the results; what there is none for walks as the elements' numbers.
Walk walkOf(const SeenSpec &seen) {
  const shapes::Dims &result = seen.spec.operands.back().dims;
  std::array<shapes::Dims, kMostOperands + 1> strides;
  strides.fill(shapes::rowMajorStrides(result));
  for (size_t i = 0; i < seen.views.size(); ++i)
    strides[i + 1] = stridesAlong(seen.views[i], result);
  return Walk(shapes::Walk<kMostOperands + 1>(result, strides));
}

FusedArguments sizesOf(const Walk &walk, const SeenSpec &seen) {
  FusedArguments sizes = {};
  sizes.elements = seen.spec.operands.back().numElements();
  sizes.isSmall = walk.small;
  for (int d = 0; d < walk.rank; ++d) {
    sizes.size[d] = walk.size[d];
    sizes.divider[d] = walk.divider[d];
    for (size_t i = 0; i < seen.views.size(); ++i)
      sizes.stride[i][d] = walk.stride[i + 1][d];
  }
  return sizes;
}

/// Does each run of an operand begin where a pack does?
bool beginsInPacks(const Walk &walk, size_t operand, int64_t pack) {
  const int64_t *strides = walk.stride[operand + 1];
  return std::all_of(strides, strides + walk.rank - 1, [&](int64_t stride) { return stride % pack == 0; });
}

/// Are elements that follow each other in the results neither one nor side by side in some operand?
bool isScattered(const Walk &walk) {
  return std::any_of(std::begin(walk.stride), std::end(walk.stride), [&](const auto &strides) {
    return walk.size[walk.rank - 1] > 1 && strides[walk.rank - 1] != 0 && strides[walk.rank - 1] != 1;
  });
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
      addResult(i, accessOf(walk, program.inputs.size() + i));
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
    addAccess(i, access);
  }
  void addAccess(size_t operand, Access access) {
    isStrided |= access == Access::along || access == Access::across;
    if (access == Access::whole || access == Access::along)
      inPacks.push_back(operand);
  }
  void addInstruction(size_t i) {
    const FusedInstruction &instruction = program.instructions[i];
    elements += "      const " + typed(reg(program.inputs.size() + i), instruction.type) + " = " +
                expressionOf(instruction) + ";\n";
    isLong |= kFunctions[static_cast<size_t>(instruction.code)].isLong;
  }
  /// A result of one element is stored as the others are.
  void addResult(size_t i, Access access) {
    const std::string y = "y" + std::to_string(i);
    const size_t from = program.results[i], operand = program.inputs.size() + i;
    loads += std::string("    Pack<") + nameOfStorage(program.typeOf(from)) + ", V> " + y + ";\n";
    elements += "      " + y + ".element[k] = " + reg(from) + ";\n";
    if (isSummed) {
      stores += "    return " + y + ";\n";
      return;
    }
    stores +=
        "    storePack(a.operand[" + std::to_string(operand) + "], " + placeOf(access, operand) + ", " + y + ");\n";
    addAccess(operand, access);
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
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<FusedProgram> program = readFused(seen->spec);
  ZC_RETURN_IF_ERROR(program.status());
  const Walk walk = walkOf(*seen);
  const Body body(*program, walk, isSummed);
  auto bytesOf = [&](size_t operand) { return sizeOf(seen->spec.operands[operand].dtype); };
  int64_t largest = 1;
  for (size_t operand : body.inPacks)
    largest = std::max(largest, bytesOf(operand));

  FusedSource made;
  made.pack = body.isLong || isScattered(walk) ? 1 : 16 / largest;
  made.sizes = sizesOf(walk, *seen);
  for (size_t i = 0; i < (isSummed ? spec.numInputs : seen->views.size()); ++i)
    made.begins.push_back({seen->views[i].tensor, seen->views[i].offset * bytesOf(i)});
  made.runsArePacks = !body.isStrided || walk.size[walk.rank - 1] % made.pack == 0;
  for (size_t operand : body.inPacks) {
    made.runsArePacks &= !body.isStrided || beginsInPacks(walk, operand, made.pack);
    made.inPacks.emplace_back(operand, static_cast<uintptr_t>(made.pack * bytesOf(operand)));
  }
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

FusedArguments FusedSource::arguments(void *const *operands) const {
  FusedArguments result = sizes;
  for (size_t i = 0; i < begins.size(); ++i)
    result.operand[i] = static_cast<char *>(operands[begins[i].operand]) + begins[i].bytes;
  result.isPacked = runsArePacks;
  for (auto [operand, bytes] : inPacks)
    result.isPacked &= reinterpret_cast<uintptr_t>(result.operand[operand]) % bytes == 0;
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
