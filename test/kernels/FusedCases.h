//===- FusedCases.h - random fused programs, and their operations one by one -----------===//
#pragma once

#include "kernels/FusedProgram.h"
#include "kernels/Views.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {

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

inline const std::vector<Ints> kFusedShapes{{},        {1},      {3},           {17},     {513},
                                            {2, 3, 5}, {7, 129}, {5, 1, 3, 11}, {4, 600}, {129, 2, 80}};
inline const std::vector<DType> kFloats{DType::f32, DType::bf16, DType::f16};

/// The shape with some dimensions 1, or leading ones left out.
inline Ints broadcastOf(const Ints &shape, Random &random) {
  Ints dims = shape;
  if (random.below(2))
    return dims;
  for (int64_t &dim : dims)
    if (random.below(3) == 0)
      dim = 1;
  dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(random.below(dims.size() + 1)));
  return dims;
}

inline Value inputOf(DType type, Ints dims, Random &random) {
  Value value = uniform({type, std::move(dims)}, static_cast<unsigned>(random.below(1000)), -3, 3);
  if (type == DType::boolean)
    for (size_t i = 0; i < value.size(); ++i)
      value.set(i, random.below(2) != 0);
  else if (value.size() > 2)
    value.set(random.below(value.size()), random.below(2) ? 0 : std::numeric_limits<double>::infinity());
  return value;
}

/// Registers of a type.
inline std::vector<size_t> registersOf(const FusedProgram &program, DType type) {
  std::vector<size_t> found;
  for (size_t i = 0; i < program.inputs.size() + program.instructions.size(); ++i)
    if (program.typeOf(i) == type)
      found.push_back(i);
  return found;
}

inline constexpr const char *kUnary[] = {"neg", "abs",  "sign",    "exp", "log",  "sqrt", "reciprocal", "sin",
                                         "cos", "tanh", "sigmoid", "erf", "relu", "silu", "gelu",       "softplus"};
inline constexpr const char *kBinary[] = {"add", "sub", "mul", "div", "min", "max", "gelu_grad", "silu_grad", "pow"};
inline constexpr const char *kCompare[] = {"equal", "less", "less_equal"};
inline constexpr const char *kLogic[] = {"and", "or", "xor"};

inline Apart anyStep(const FusedProgram &program, Random &random) {
  const DType type = program.typeOf(random.below(program.inputs.size() + program.instructions.size()));
  const auto alike = registersOf(program, type), flags = registersOf(program, DType::boolean);
  const size_t a = random.of(alike), b = random.of(alike);
  const size_t kind = random.below(9);
  if (kind == 0)
    return {"cast", {a}, random.below(5) ? random.of(kFloats) : DType::boolean};
  if (kind == 1 && !flags.empty())
    return {"select", {random.of(flags), a, b}, type};
  if (kind == 2 && !flags.empty() && type != DType::boolean)
    return {"dropout_grad", {a, random.of(flags)}, type, {{"ratio", 0.1}}};
  if (type == DType::boolean)
    return random.below(2) ? Apart{"not", {a}, type} : Apart{kLogic[random.below(3)], {a, b}, type};
  if (kind == 3)
    return {kCompare[random.below(3)], {a, b}, DType::boolean};
  if (kind == 4)
    return {"is_nan", {a}, DType::boolean};
  Attributes attributes;
  if (random.below(2))
    attributes["tanh"] = int64_t{1};
  if (kind < 7)
    return {kBinary[random.below(std::size(kBinary))], {a, b}, type, attributes};
  return {kUnary[random.below(std::size(kUnary))], {a}, type, attributes};
}

inline FusedInstruction instructionOf(const Apart &step, const FusedProgram &program) {
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

inline Case randomCase(unsigned seed) {
  Random random(seed);
  Case made;
  made.shape = random.of(kFusedShapes);
  const DType type = random.of(kFloats);
  for (size_t i = 0, n = 1 + random.below(4); i < n; ++i) {
    made.inputs.push_back(
        inputOf(random.below(5) == 0 ? DType::boolean : type, broadcastOf(made.shape, random), random));
    made.program.inputs.push_back(made.inputs.back().type.dtype);
  }
  auto constant = [&](DType of, float value) {
    made.program.instructions.push_back({FusedCode::constant, of, {}, value});
    made.steps.push_back({"constant", {}, of, {{"value", double(value)}}});
    return made.program.inputs.size() + made.program.instructions.size() - 1;
  };
  if (random.below(2))
    constant(type, 0.5f);
  for (size_t i = 0, n = 1 + random.below(12); i < n; ++i) {
    const Apart step = anyStep(made.program, random);
    FusedInstruction instruction = instructionOf(step, made.program);
    if (instruction.code == FusedCode::masked)
      instruction.from[2] = constant(DType::f32, std::exchange(instruction.value, 0.0f));
    made.steps.push_back(step);
    made.program.instructions.push_back(instruction);
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

inline Call fusedCall(const Case &from) {
  Call call{"fused", from.inputs, {}, {{"program", encode(from.program)}}};
  for (size_t reg : from.program.results)
    call.outputs.push_back(Value({from.program.typeOf(reg), from.shape}));
  return call;
}

/// A program that sees its operands in larger tensors, in another order, backwards, with elements between them; two
/// results of one type may be in one tensor.
struct SeenCase {
  Call call;
  std::vector<StridedView> views; ///< inputs, then results

  /// A result as it would be by itself.
  Value result(const Ints &shape, const std::vector<Value> &outputs, size_t index) const {
    const StridedView &view = views[call.inputs.size() + index];
    const Value &whole = outputs[view.tensor - call.inputs.size()];
    Value seen({whole.type.dtype, shape});
    for (size_t i = 0; i < seen.size(); ++i)
      seen.set(i, whole.get(placeOf(view, i)));
    return seen;
  }
  static size_t placeOf(const StridedView &view, size_t index) {
    return static_cast<size_t>(view.at(static_cast<int64_t>(index)));
  }
};

inline Ints anyOrder(size_t rank, Random &random) {
  Ints order;
  for (size_t i = 0; i < rank; ++i)
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(order.size() + 1)), static_cast<int64_t>(i));
  return order;
}

/// A view of shape `dims` in a tensor whose shape is `whole` then; the last dimension is side by side, mostly.
inline StridedView anyView(size_t tensor, const Ints &dims, Random &random, Ints &whole) {
  const size_t rank = dims.size();
  Ints order = anyOrder(rank, random), back(rank), sizes(rank), offsets(rank), steps(rank);
  if (rank > 0 && random.below(4) > 0) {
    order.erase(std::find(order.begin(), order.end(), static_cast<int64_t>(rank - 1)));
    order.push_back(static_cast<int64_t>(rank - 1));
  }
  whole.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto d = static_cast<size_t>(order[i]);
    back[d] = static_cast<int64_t>(i);
    sizes[i] = dims[d];
    steps[i] = d + 1 == rank && random.below(4) > 0 ? 1 : std::vector<int64_t>{1, 2, -1, -2}[random.below(4)];
    const int64_t extent = (sizes[i] - 1) * std::abs(steps[i]) + 1, before = static_cast<int64_t>(4 * random.below(3));
    whole[i] = extent + before + static_cast<int64_t>(random.below(2) * 8);
    offsets[i] = before + (steps[i] < 0 ? extent - 1 : 0);
  }
  return StridedView::whole(tensor, whole).sliced(offsets, sizes, steps).transposed(back);
}

inline SeenCase seenCase(const Case &from, unsigned seed) {
  Random random(seed);
  SeenCase made{{"fused", {}, {}, {{"program", encode(from.program)}}}, {}};
  for (const Value &input : from.inputs) {
    Ints whole;
    made.views.push_back(anyView(made.call.inputs.size(), input.type.dims, random, whole));
    Value value({input.type.dtype, whole});
    for (size_t i = 0; i < input.size(); ++i)
      value.set(SeenCase::placeOf(made.views.back(), i), input.get(i));
    made.call.inputs.push_back(std::move(value));
  }
  for (size_t i = 0; i < from.program.results.size(); ++i) {
    const DType type = from.program.typeOf(from.program.results[i]);
    const size_t tensor = made.call.inputs.size() + made.call.outputs.size();
    const Ints order = anyOrder(from.shape.size(), random);
    Ints whole(order.size()), back(order.size());
    for (size_t d = 0; d < order.size(); ++d) {
      whole[d] = from.shape[static_cast<size_t>(order[d])];
      back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    }
    const bool isJoined = !whole.empty() && i + 1 < from.program.results.size() &&
                          from.program.typeOf(from.program.results[i + 1]) == type && random.below(2) == 0;
    Ints both = whole;
    const size_t axis = isJoined ? random.below(whole.size()) : 0;
    if (isJoined)
      both[axis] *= 2;
    for (int64_t half = 0; half <= isJoined; ++half) {
      Ints offsets(whole.size(), 0);
      if (isJoined)
        offsets[axis] = half * whole[axis];
      made.views.push_back(
          StridedView::whole(tensor, both).sliced(offsets, whole, Ints(whole.size(), 1)).transposed(back));
    }
    made.call.outputs.push_back(Value({type, both}));
    i += isJoined;
  }
  made.call.attributes["views"] = encode(made.views);
  return made;
}

/// As many outputs as can be, each over an input of its own.
inline std::vector<std::pair<size_t, size_t>> overlaid(const Call &call) {
  std::vector<std::pair<size_t, size_t>> over;
  std::vector<bool> isTaken(call.inputs.size());
  for (size_t output = 0; output < call.outputs.size(); ++output)
    for (size_t input = 0; input < call.inputs.size(); ++input)
      if (!isTaken[input] && call.inputs[input].type == call.outputs[output].type) {
        over.emplace_back(input, output);
        isTaken[input] = true;
        break;
      }
  return over;
}

/// The registers that are results, by kernels of one operation.
inline std::vector<Value> runApart(const Case &from, const KernelRegistry &kernels) {
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
    call.outputs.push_back(Value({step.type, shape}));
    Result<std::vector<Value>> result = runOn(kernels, call);
    EXPECT_TRUE(result.ok()) << result.error().message;
    registers.push_back(result->front());
  }
  std::vector<Value> results;
  for (size_t reg : from.program.results)
    results.push_back(registers[reg]);
  return results;
}

/// NaN of any payload: which of two a sum keeps, a compiler decides.
inline bool sameBits(const Value &a, const Value &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a.get(i)) ? !std::isnan(b.get(i))
                             : a.get(i) != b.get(i) || std::signbit(a.get(i)) != std::signbit(b.get(i)))
      return false;
  return a.type == b.type;
}

} // namespace zc::test
