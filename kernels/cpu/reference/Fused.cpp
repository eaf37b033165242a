// A program of element-wise operations (FusedProgram.h), index by index and instruction by instruction.
#include "kernels/cpu/FusedPlain.h"
#include "kernels/cpu/Support.h"
#include "kernels/formula/Activation.h"
#include "kernels/formula/Elementwise.h"

namespace zc::cpu {
namespace {

template <typename Op> float one(float a, float, float) { return Op::apply(a); }
template <typename Op> float two(float a, float b, float) { return static_cast<float>(Op::apply(a, b)); }
template <typename Op> float bools(float a, float b, float) {
  return static_cast<float>(Op::apply(static_cast<int>(a), static_cast<int>(b)));
}

/// In the order of FusedCode.
constexpr FusedPlain kPlain[] = {
    nullptr,
    nullptr,
    [](float a, float, float) { return a; },
    [](float a, float b, float c) { return a != 0 ? b : c; },
    two<Add>,
    two<Sub>,
    two<Mul>,
    two<Div>,
    two<Min>,
    two<Max>,
    two<Equal>,
    two<Less>,
    two<LessEqual>,
    bools<And>,
    bools<Or>,
    bools<Xor>,
    [](float a, float, float) { return a == 0 ? 1.0f : 0.0f; },
    one<Neg>,
    one<Abs>,
    one<Sign>,
    one<Exp>,
    one<Log>,
    one<Sqrt>,
    one<Reciprocal>,
    one<Sin>,
    one<Cos>,
    one<Tanh>,
    one<Sigmoid>,
    one<Erf>,
    one<Relu>,
    one<Silu>,
    [](float a, float, float) { return gelu(a, false); },
    [](float a, float, float) { return gelu(a, true); },
    [](float a, float b, float) { return a * geluSlope(b, false); },
    [](float a, float b, float) { return a * geluSlope(b, true); },
    [](float a, float b, float) { return a * siluSlope(b); },
    two<Pow>,
    one<Softplus>,
    [](float a, float, float) { return std::isnan(a) ? 1.0f : 0.0f; },
    [](float a, float b, float c) { return b != 0 ? a * c : 0.0f; },
};
static_assert(std::size(kPlain) == kFusedCodes);

float roundedTo(DType type, float x) {
  switch (type) {
  case DType::bf16:
    return load(store<Bf16>(x));
  case DType::f16:
    return load(store<F16>(x));
  case DType::boolean:
    return x != 0;
  default:
    return x;
  }
}

float loadAs(DType type, const void *x, int64_t i) {
  if (type == DType::boolean)
    return static_cast<float>(load(static_cast<const Bool *>(x)[i]));
  return withFast(type, [&](auto tag) { return load(static_cast<const TypeOf<decltype(tag)> *>(x)[i]); });
}

void storeAs(DType type, float value, void *y, int64_t i) {
  if (type == DType::boolean) {
    static_cast<Bool *>(y)[i] = store<Bool>(value != 0);
    return;
  }
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    static_cast<T *>(y)[i] = store<T>(value);
  });
}

Prepared prepareFused(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<FusedProgram> read = readFused(seen->spec);
  ZC_RETURN_IF_ERROR(read.status());
  const TensorType &result = seen->spec.operands.back();
  return makeKernel([n = result.numElements(), plain = PlainProgram(*read, seen->views, result.dims),
                     results = std::vector<StridedView>(
                         seen->views.begin() + static_cast<std::ptrdiff_t>(spec.numInputs), seen->views.end()),
                     program = std::move(*read)](void *const *operands, const StepContext &) {
    for (int64_t at = 0; at < n; ++at) {
      const PlainProgram::Registers registers = plain.run(operands, at);
      for (size_t i = 0; i < results.size(); ++i)
        storeAs(program.typeOf(program.results[i]), registers[program.results[i]], operands[results[i].tensor],
                results[i].at(at));
    }
  });
}

} // namespace

FusedPlain fusedPlain(FusedCode code) { return kPlain[static_cast<size_t>(code)]; }

PlainProgram::PlainProgram(FusedProgram given, const std::vector<StridedView> &views, const Dims &shape)
    : program(std::move(given)) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    inputs.push_back({views[i].tensor, views[i].offset, shape, stridesAlong(views[i], shape)});
}

PlainProgram::Registers PlainProgram::run(void *const *operands, int64_t at) const {
  Registers registers{};
  for (size_t i = 0; i < inputs.size(); ++i)
    registers[i] = loadAs(program.inputs[i], operands[i], inputs[i].at(at));
  size_t to = inputs.size();
  for (const FusedInstruction &instruction : program.instructions) {
    auto from = [&](size_t i) { return registers[instruction.from[i]]; };
    registers[to++] = instruction.code == FusedCode::constant
                          ? instruction.value
                          : roundedTo(instruction.type, fusedPlain(instruction.code)(from(0), from(1), from(2)));
  }
  return registers;
}

void addFused(KernelRegistry &registry) {
  registry.add("fused", prepareFused, elementwise().withAnyOutput().throughViews());
}

} // namespace zc::cpu
