// A program of element-wise operations (FusedProgram.h) on tiles that stay in the first cache: each instruction is a
// loop of vectors over a tile of fp32, with the functions that the kernels of single operations have. What is fp32 and
// of the results' shape is read, and written, where it is. Inputs that are broadcast are written out tile by tile,
// scalars and constants once for each thread.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Fused.cpp"
#include <hwy/foreach_target.h>

#include "kernels/FusedProgram.h"
#include "kernels/cpu/fast/Functions-inl.h"

#ifndef ZC_FUSED_STEPS
#define ZC_FUSED_STEPS
namespace zc::cpu {
/// y = f(a, b, c) of n elements; of what the function does not have, nothing is read.
using FusedStep = void (*)(const float *a, const float *b, const float *c, float *y, int64_t n);
/// A run of n elements of a tensor, that are one after the other (stride 1) or one again and again (0).
using FusedLoad = void (*)(const void *x, int64_t stride, float *y, int64_t n);
using FusedStore = void (*)(const float *x, void *y, int64_t n);
} // namespace zc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE V asNumbers(M flags) { return hn::IfThenElseZero(flags, constant(1)); }

// Bools are 0 and 1 in registers.
struct BoolAnd {
  static HWY_INLINE V apply(V a, V b) { return hn::And(a, b); }
};
struct BoolOr {
  static HWY_INLINE V apply(V a, V b) { return hn::Or(a, b); }
};
struct BoolXor {
  static HWY_INLINE V apply(V a, V b) { return hn::Xor(a, b); }
};
struct BoolNot {
  static HWY_INLINE V apply(V a) { return hn::Xor(a, constant(1)); }
};
template <typename Op> struct Flags {
  static HWY_INLINE V apply(V a, V b) { return asNumbers(Op::apply(a, b)); }
};
struct IsNan {
  static HWY_INLINE V apply(V a) { return asNumbers(hn::IsNaN(a)); }
};
/// NaN is true, which Ne would not say.
struct IsTrue {
  static HWY_INLINE V apply(V a) { return hn::IfThenZeroElse(hn::Eq(a, hn::Zero(kF)), constant(1)); }
};
struct Same {
  static HWY_INLINE V apply(V a) { return a; }
};
struct Select {
  static HWY_INLINE V apply(V condition, V a, V b) { return hn::IfThenElse(hn::Ne(condition, hn::Zero(kF)), a, b); }
};

/// T: to what results are rounded.
template <typename Op, typename T> void one(const float *a, const float *, const float *, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(rounded<T>(Op::apply(loadPart(a + i, count))), y + i, count);
  });
}
template <typename Op, typename T> void two(const float *a, const float *b, const float *, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(rounded<T>(Op::apply(loadPart(a + i, count), loadPart(b + i, count))), y + i, count);
  });
}
template <typename Op> void three(const float *a, const float *b, const float *c, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(Op::apply(loadPart(a + i, count), loadPart(b + i, count), loadPart(c + i, count)), y + i, count);
  });
}

/// Of numbers, rounded to T.
template <typename T> FusedStep numbersStep(FusedCode code) {
  switch (code) {
  case FusedCode::cast:
    return one<Same, T>;
  case FusedCode::add:
    return two<Add, T>;
  case FusedCode::sub:
    return two<Sub, T>;
  case FusedCode::mul:
    return two<Mul, T>;
  case FusedCode::div:
    return two<Div, T>;
  case FusedCode::min:
    return two<Min, T>;
  case FusedCode::max:
    return two<Max, T>;
  case FusedCode::neg:
    return one<Neg, T>;
  case FusedCode::exp:
    return one<Exp, T>;
  case FusedCode::sqrt:
    return one<Sqrt, T>;
  case FusedCode::reciprocal:
    return one<Reciprocal, T>;
  case FusedCode::tanh:
    return one<Tanh, T>;
  case FusedCode::sigmoid:
    return one<Sigmoid, T>;
  case FusedCode::relu:
    return one<Relu, T>;
  case FusedCode::silu:
    return one<Silu, T>;
  case FusedCode::gelu:
    return one<GeluErf, T>;
  case FusedCode::geluTanh:
    return one<GeluTanh, T>;
  case FusedCode::geluGrad:
    return two<GeluErfGrad, T>;
  case FusedCode::geluTanhGrad:
    return two<GeluTanhGrad, T>;
  case FusedCode::siluGrad:
    return two<SiluGrad, T>;
  default:
    return nullptr;
  }
}

/// Of bools.
FusedStep boolsStep(FusedCode code) {
  switch (code) {
  case FusedCode::cast:
    return one<IsTrue, float>;
  case FusedCode::equal:
    return two<Flags<Equal>, float>;
  case FusedCode::less:
    return two<Flags<Less>, float>;
  case FusedCode::lessEqual:
    return two<Flags<LessEqual>, float>;
  case FusedCode::boolAnd:
    return two<BoolAnd, float>;
  case FusedCode::boolOr:
    return two<BoolOr, float>;
  case FusedCode::boolXor:
    return two<BoolXor, float>;
  case FusedCode::boolNot:
    return one<BoolNot, float>;
  case FusedCode::isNan:
    return one<IsNan, float>;
  default:
    return nullptr;
  }
}

/// The loop of an instruction whose register has type `type`; null where the plain function is all there is.
FusedStep fusedStep(FusedCode code, DType type) {
  if (code == FusedCode::select)
    return three<Select>;
  if (type == DType::boolean)
    return boolsStep(code);
  return withFast(type, [&](auto tag) { return numbersStep<TypeOf<decltype(tag)>>(code); });
}

/// Rounding alone: of what a plain function gives.
FusedStep fusedRounding(DType type) {
  if (type == DType::boolean)
    return one<Same, float>;
  return withFast(type, [&](auto tag) -> FusedStep { return one<Same, TypeOf<decltype(tag)>>; });
}

void fillTile(float value, float *y, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(constant(value), y + i, count); });
}

template <typename T> void loadNumbers(const void *from, int64_t stride, float *y, int64_t n) {
  const T *x = static_cast<const T *>(from);
  if (stride == 0)
    return fillTile(load(*x), y, n);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(loadPart(x + i, count), y + i, count); });
}
void loadBools(const void *from, int64_t stride, float *y, int64_t n) {
  const auto *x = static_cast<const uint8_t *>(from);
  if (stride == 0)
    return fillTile(*x != 0, y, n);
  const hn::Rebind<uint8_t, F> bytes;
  const U u;
  const auto step = static_cast<int64_t>(lanes());
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto words = hn::PromoteTo(u, hn::LoadU(bytes, x + i));
    storeVector(asNumbers(hn::RebindMask(kF, hn::Ne(words, hn::Zero(u)))), y + i);
  }
  for (; i < n; ++i)
    y[i] = x[i] != 0;
}
FusedLoad fusedLoad(DType type) {
  if (type == DType::boolean)
    return loadBools;
  return withFast(type, [&](auto tag) -> FusedLoad { return loadNumbers<TypeOf<decltype(tag)>>; });
}

template <typename T> void storeNumbers(const float *x, void *to, int64_t n) {
  T *y = static_cast<T *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR { storePart(loadPart(x + i, count), y + i, count); });
}
void storeBools(const float *x, void *to, int64_t n) {
  auto *y = static_cast<uint8_t *>(to);
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(hn::Ne(loadPart(x + i, count), hn::Zero(kF)), y + i, count);
  });
}
FusedStore fusedStore(DType type) {
  if (type == DType::boolean)
    return storeBools;
  return withFast(type, [&](auto tag) -> FusedStore { return storeNumbers<TypeOf<decltype(tag)>>; });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/FusedPlain.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(fusedStep);
HWY_EXPORT(fusedRounding);
HWY_EXPORT(fusedLoad);
HWY_EXPORT(fusedStore);
HWY_EXPORT(fillTile);

namespace {

/// Elements of a tile: two KiB, so that those of some sixteen registers are in the first cache.
constexpr int64_t kTile = 512;

/// Where a register's elements are while a tile is computed.
struct Place {
  enum class Kind { tile, operand } kind = Kind::tile; ///< operand: an fp32 tensor of the results' shape
  size_t index = 0;                                    ///< of the tile, or of the operand
};

class FusedKernel : public Kernel {
public:
  FusedKernel(const KernelSpec &spec, FusedProgram given) : program(std::move(given)) {
    const TensorType &shape = spec.operands.back();
    elements = shape.numElements();
    threads = threadsFor(spec.threads, elements);
    for (size_t i = 0; i < spec.numInputs; ++i)
      addInput(spec.operands[i], shape.dims);
    for (const FusedInstruction &instruction : program.instructions)
      addInstruction(instruction);
    for (size_t i = 0; i < program.results.size(); ++i)
      addResult(i, spec);
    assignTiles();
  }

  Status run(void *const *operands, const StepContext &) override {
    parallelParts(threads, elements, kTile, [&](int64_t begin, int64_t end, int) {
      alignas(64) float tiles[kFusedRegisters][kTile];
      fillOnce(operands, tiles, std::min(kTile, end - begin));
      for (int64_t at = begin; at < end; at += kTile)
        runTile(operands, tiles, at, std::min(kTile, end - at));
    });
    return {};
  }

private:
  using Tiles = float (*)[kTile];

  struct Input {
    Walk<2> walk; ///< result, input
    int64_t size;
    FusedLoad load;
    bool isScalar;
  };
  struct Step {
    FusedStep vectors; ///< null: `plain`, then `rounding`
    FusedPlain plain;
    FusedStep rounding;
  };
  struct Output {
    size_t operand, reg;
    FusedStore store;
    bool isDirect; ///< computed where it is
    int64_t size;
  };

  void addInput(const TensorType &type, const Dims &shape) {
    Walk<2> walk(shape, {rowMajorStrides(shape), broadcastStrides(type.dims, shape)});
    const bool isScalar = type.numElements() == 1;
    places.push_back({});
    if (type.dtype == DType::f32 && !isScalar && walk.numRuns() == 1)
      places.back() = {Place::Kind::operand, inputs.size()};
    inputs.push_back({walk, sizeOf(type.dtype), HWY_DYNAMIC_DISPATCH(fusedLoad)(type.dtype), isScalar});
  }

  void addInstruction(const FusedInstruction &instruction) {
    places.push_back({});
    steps.push_back({HWY_DYNAMIC_DISPATCH(fusedStep)(instruction.code, instruction.type), fusedPlain(instruction.code),
                     HWY_DYNAMIC_DISPATCH(fusedRounding)(instruction.type)});
  }

  /// The first result may lie over an input: it is written last, or by the last instruction.
  void addResult(size_t index, const KernelSpec &spec) {
    const size_t reg = program.results[index], operand = spec.numInputs + index;
    const DType type = spec.operands[operand].dtype;
    const bool isLast = reg + 1 == places.size();
    const bool isDirect = type == DType::f32 && (isLast || index > 0 || spec.inPlace.empty());
    if (isDirect)
      places[reg] = {Place::Kind::operand, operand};
    outputs.push_back({operand, reg, HWY_DYNAMIC_DISPATCH(fusedStore)(type), isDirect, sizeOf(type)});
  }

  /// The steps that need a register first and last: its own, and those that read it.
  struct Uses {
    std::vector<size_t> first, last;
  };
  Uses findUses() const {
    Uses uses{std::vector<size_t>(places.size(), steps.size()), std::vector<size_t>(places.size(), 0)};
    auto use = [&](size_t reg, size_t step) {
      uses.first[reg] = std::min(uses.first[reg], step);
      uses.last[reg] = step;
    };
    for (size_t step = 0; step < steps.size(); ++step) {
      const FusedInstruction &instruction = program.instructions[step];
      use(inputs.size() + step, step);
      for (size_t i = 0; i < fusedOperands(instruction.code); ++i)
        use(instruction.from[i], step);
    }
    return uses;
  }

  bool isResult(size_t reg) const {
    return std::find(program.results.begin(), program.results.end(), reg) != program.results.end();
  }

  /// A register has its tile from the first instruction that needs it to the last; of a scalar, a constant and a
  /// result, to the end.
  void assignTiles() {
    const Uses uses = findUses();
    std::vector<size_t> free;
    size_t used = 0;
    auto give = [&](size_t reg) {
      if (free.empty())
        free.push_back(used++);
      places[reg].index = free.back();
      free.pop_back();
    };
    auto inTile = [&](size_t reg) { return places[reg].kind == Place::Kind::tile && !isFilledOnce(reg); };
    for (size_t reg = 0; reg < places.size(); ++reg)
      if (isFilledOnce(reg))
        give(reg);
    loads.resize(steps.size());
    for (size_t step = 0; step < steps.size(); ++step) {
      for (size_t reg = 0; reg < places.size(); ++reg)
        if (uses.first[reg] == step && inTile(reg)) {
          give(reg);
          if (reg < inputs.size())
            loads[step].push_back(reg);
        }
      for (size_t reg = 0; reg < places.size(); ++reg)
        if (uses.first[reg] <= step && uses.last[reg] == step && inTile(reg) && !isResult(reg))
          free.push_back(places[reg].index);
    }
  }

  bool isFilledOnce(size_t reg) const {
    return reg < inputs.size() ? inputs[reg].isScalar
                               : program.instructions[reg - inputs.size()].code == FusedCode::constant;
  }

  void fillOnce(void *const *operands, Tiles tiles, int64_t n) const {
    for (size_t reg = 0; reg < places.size(); ++reg) {
      if (!isFilledOnce(reg))
        continue;
      if (reg < inputs.size())
        inputs[reg].load(operands[reg], 0, tiles[places[reg].index], n);
      else
        HWY_DYNAMIC_DISPATCH(fillTile)(program.instructions[reg - inputs.size()].value, tiles[places[reg].index], n);
    }
  }

  /// Elements [at, at + n) of an input as fp32.
  void loadTile(const Input &input, const char *x, float *y, int64_t at, int64_t n) const {
    const int64_t length = input.walk.runLength(), stride = input.walk.runStride(1);
    int64_t skip = at % length;
    input.walk.forRuns(at / length, (at + n + length - 1) / length, [&](const Walk<2>::Offsets &run) {
      const int64_t count = std::min(length - skip, n);
      input.load(x + (run[1] + skip * stride) * input.size, stride, y, count);
      y += count;
      n -= count;
      skip = 0;
    });
  }

  void runTile(void *const *operands, Tiles tiles, int64_t at, int64_t n) const {
    auto placeOf = [&](size_t reg) {
      const Place &place = places[reg];
      return place.kind == Place::Kind::tile ? tiles[place.index] : as<float>(operands[place.index]) + at;
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      const FusedInstruction &instruction = program.instructions[i];
      for (size_t reg : loads[i])
        loadTile(inputs[reg], as<char>(operands[reg]), tiles[places[reg].index], at, n);
      if (instruction.code == FusedCode::constant)
        continue;
      const float *from[3] = {};
      for (size_t k = 0; k < fusedOperands(instruction.code); ++k)
        from[k] = placeOf(instruction.from[k]);
      float *y = placeOf(inputs.size() + i);
      if (steps[i].vectors) {
        steps[i].vectors(from[0], from[1], from[2], y, n);
        continue;
      }
      for (int64_t k = 0; k < n; ++k)
        y[k] = steps[i].plain(from[0][k], from[1] ? from[1][k] : 0, from[2] ? from[2][k] : 0);
      steps[i].rounding(y, nullptr, nullptr, y, n);
    }
    for (const Output &output : outputs)
      if (!output.isDirect)
        output.store(tiles[places[output.reg].index], as<char>(operands[output.operand]) + at * output.size, n);
  }

  FusedProgram program;
  int64_t elements = 0;
  int threads = 1;
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  std::vector<Place> places;              ///< of registers
  std::vector<std::vector<size_t>> loads; ///< inputs whose tiles are loaded before a step
};

Prepared prepareFused(const KernelSpec &spec) {
  Result<FusedProgram> program = readFused(spec);
  ZC_RETURN_IF_ERROR(program.status());
  return std::unique_ptr<Kernel>(std::make_unique<FusedKernel>(spec, std::move(*program)));
}

} // namespace

void addFastFused(KernelRegistry &registry) { registry.add("fused", prepareFused); }

} // namespace zc::cpu
#endif
