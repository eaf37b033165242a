// Programs of element-wise operations: FusedTiles.h, and the kernel `fused`.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Fused.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Functions-inl.h"
#include "kernels/cpu/fast/FusedTiles.h"

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
template <typename Op, typename T> void one(const float *const *from, float *y, int64_t n) {
  const float *a = from[0];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(rounded<T>(Op::apply(loadPart(a + i, count))), y + i, count);
  });
}
template <typename Op, typename T> void two(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(rounded<T>(Op::apply(loadPart(a + i, count), loadPart(b + i, count))), y + i, count);
  });
}
template <typename Op> void three(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1], *c = from[2];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(Op::apply(loadPart(a + i, count), loadPart(b + i, count), loadPart(c + i, count)), y + i, count);
  });
}

/// Second of what First gives, at its operand `Place`, and of a third.
template <typename First, typename Second, size_t Place> struct Pair {
  static HWY_INLINE V apply(V a, V b, V c) {
    const V first = First::apply(a, b);
    return Place == 0 ? Second::apply(first, c) : Second::apply(c, first);
  }
};
template <typename First, typename Second> struct PairOfOne {
  static HWY_INLINE V apply(V a, V b) { return Second::apply(First::apply(a, b)); }
};
/// a < b ? c : d
void chooseLess(const float *const *from, float *y, int64_t n) {
  const float *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  forVectors(0, n, [&](int64_t i, size_t count) HWY_ATTR {
    const M isLess = Less::apply(loadPart(a + i, count), loadPart(b + i, count));
    storePart(hn::IfThenElse(isLess, loadPart(c + i, count), loadPart(d + i, count)), y + i, count);
  });
}

template <typename First> FusedStep pairAfter(FusedCode second, size_t place) {
  switch (second) {
  case FusedCode::add:
    return three<Pair<First, Add, 0>>;
  case FusedCode::mul:
    return three<Pair<First, Mul, 0>>;
  case FusedCode::sub:
    return place == 0 ? three<Pair<First, Sub, 0>> : three<Pair<First, Sub, 1>>;
  case FusedCode::relu:
    return two<PairOfOne<First, Relu>, float>;
  default:
    return nullptr;
  }
}

/// Two instructions as one loop, on the first one's operands and then the second one's others, in fp32; null: none. The
/// second reads the first at operand `place`.
FusedStep fusedPair(FusedCode first, FusedCode second, size_t place) {
  switch (first) {
  case FusedCode::add:
    return pairAfter<Add>(second, place);
  case FusedCode::sub:
    return pairAfter<Sub>(second, place);
  case FusedCode::mul:
    return pairAfter<Mul>(second, place);
  case FusedCode::less:
    return second == FusedCode::select && place == 0 ? chooseLess : nullptr;
  case FusedCode::max:
    return second == FusedCode::min ? three<Pair<Max, Min, 0>> : nullptr;
  case FusedCode::min:
    return second == FusedCode::max ? three<Pair<Min, Max, 0>> : nullptr;
  default:
    return nullptr;
  }
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
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(fusedStep);
HWY_EXPORT(fusedPair);
HWY_EXPORT(fusedRounding);
HWY_EXPORT(fusedLoad);
HWY_EXPORT(fusedStore);
HWY_EXPORT(fillTile);

FusedTiles::FusedTiles(FusedProgram given, const std::vector<TensorType> &types, const Dims &shape, bool isOver)
    : program(std::move(given)) {
  for (const TensorType &type : types)
    addInput(type, shape);
  for (const FusedInstruction &instruction : program.instructions)
    addInstruction(instruction);
  for (size_t i = 0; i < program.results.size(); ++i)
    addResult(i, isOver);
  readThroughRelus();
  pairUp();
  assignTiles();
}

void FusedTiles::addInput(const TensorType &type, const Dims &shape) {
  Walk<2> walk(shape, {rowMajorStrides(shape), broadcastStrides(type.dims, shape)});
  const bool isScalar = type.numElements() == 1;
  same.push_back(places.size());
  places.push_back({});
  if (type.dtype == DType::f32 && !isScalar && walk.numRuns() == 1)
    places.back() = {Place::Kind::input, inputs.size()};
  else if (walk.numDims() == 2 && walk.stride(1, 0) == 0 && walk.runStride(1) == 1 && walk.runLength() <= kTile)
    places.back().period = walk.runLength();
  inputs.push_back({walk, sizeOf(type.dtype), HWY_DYNAMIC_DISPATCH(fusedLoad)(type.dtype), isScalar});
}

void FusedTiles::addInstruction(const FusedInstruction &instruction) {
  const size_t reg = places.size();
  const bool isCast = instruction.code == FusedCode::cast && !isResult(reg) &&
                      (instruction.type == DType::f32 || instruction.type == program.typeOf(instruction.from[0]));
  same.push_back(isCast ? same[instruction.from[0]] : reg);
  places.push_back({});
  Step step{instruction.code,
            HWY_DYNAMIC_DISPATCH(fusedStep)(instruction.code, instruction.type),
            fusedPlain(instruction.code),
            HWY_DYNAMIC_DISPATCH(fusedRounding)(instruction.type),
            {},
            isCast || instruction.code == FusedCode::constant};
  for (size_t i = 0; i < fusedOperands(instruction.code); ++i)
    step.from.push_back(same[instruction.from[i]]);
  steps.push_back(std::move(step));
}

bool FusedTiles::isRelu(size_t reg) const {
  return reg >= inputs.size() && steps[reg - inputs.size()].code == FusedCode::relu;
}

/// 0 < relu(x) is 0 < x.
void FusedTiles::readThroughRelus() {
  for (Step &step : steps)
    if (step.code == FusedCode::less && isFilledOnce(step.from[0]) && step.from[0] >= inputs.size() &&
        program.instructions[step.from[0] - inputs.size()].value == 0 && isRelu(step.from[1]))
      step.from[1] = steps[step.from[1] - inputs.size()].from[0];
}

/// Joins steps with the only one that reads what they make, and leaves out those that nobody reads.
void FusedTiles::pairUp() {
  std::vector<size_t> reads(places.size());
  for (const Step &step : steps)
    if (!step.isNone)
      for (size_t reg : step.from)
        ++reads[reg];
  for (size_t i = steps.size(); i-- > 0;)
    if (const size_t reg = inputs.size() + i;
        reads[reg] == 0 && same[reg] == reg && !isResult(reg) && !steps[i].isNone) {
      steps[i].isNone = true;
      for (size_t from : steps[i].from)
        --reads[from];
    }
  auto isF32 = [&](const Step &step, size_t i) {
    return program.instructions[i].type == DType::f32 || step.code == FusedCode::less || step.code == FusedCode::select;
  };
  for (size_t j = 0; j < steps.size(); ++j)
    for (size_t place = 0; place < steps[j].from.size() && !steps[j].isNone; ++place) {
      const size_t reg = steps[j].from[place];
      if (reg < inputs.size() || reads[reg] != 1 || isResult(reg))
        continue;
      Step &first = steps[reg - inputs.size()], &second = steps[j];
      FusedStep pair = first.isNone || !isF32(first, reg - inputs.size()) || !isF32(second, j)
                           ? nullptr
                           : HWY_DYNAMIC_DISPATCH(fusedPair)(first.code, second.code, place);
      if (!pair)
        continue;
      std::vector<size_t> from = first.from;
      for (size_t k = 0; k < second.from.size(); ++k)
        if (k != place)
          from.push_back(second.from[k]);
      second.code = FusedCode::end;
      second.vectors = pair;
      second.from = std::move(from);
      first.isNone = true;
    }
}

/// The first result may lie over an input: it is written last, or by the last instruction.
void FusedTiles::addResult(size_t index, bool isOver) {
  const size_t reg = program.results[index];
  const DType type = program.typeOf(reg);
  const bool isLast = reg + 1 == places.size();
  const bool isDirect = type == DType::f32 && (isLast || index > 0 || !isOver);
  if (isDirect)
    places[reg] = {Place::Kind::result, index};
  outputs.push_back({reg, HWY_DYNAMIC_DISPATCH(fusedStore)(type), isDirect, sizeOf(type)});
}

FusedTiles::Uses FusedTiles::findUses() const {
  Uses uses{std::vector<size_t>(places.size(), steps.size()), std::vector<size_t>(places.size(), 0)};
  auto use = [&](size_t reg, size_t step) {
    uses.first[reg] = std::min(uses.first[reg], step);
    uses.last[reg] = step;
  };
  for (size_t step = 0; step < steps.size(); ++step) {
    if (steps[step].isNone)
      continue;
    use(inputs.size() + step, step);
    for (size_t reg : steps[step].from)
      use(reg, step);
  }
  return uses;
}

bool FusedTiles::isResult(size_t reg) const {
  return std::find(program.results.begin(), program.results.end(), reg) != program.results.end();
}

/// A register has its tile from the first instruction that needs it to the last; of a result, and of what is filled
/// once, to the end. A row that repeats has two tiles.
void FusedTiles::assignTiles() {
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
    if (isFilledOnce(reg)) {
      give(reg);
      used += places[reg].period != 0;
    }
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

bool FusedTiles::isFilledOnce(size_t reg) const {
  return reg < inputs.size() ? inputs[reg].isScalar || places[reg].period != 0
                             : program.instructions[reg - inputs.size()].code == FusedCode::constant;
}

void FusedTiles::fillOnce(void *const *operands, Tiles tiles, int64_t n) const {
  for (size_t reg = 0; reg < places.size(); ++reg) {
    if (!isFilledOnce(reg))
      continue;
    float *tile = tiles[places[reg].index];
    if (const int64_t period = places[reg].period)
      for (int64_t at = 0; at < n + period; at += period)
        inputs[reg].load(operands[reg], 1, tile + at, std::min(period, n + period - at));
    else if (reg < inputs.size())
      inputs[reg].load(operands[reg], 0, tile, n);
    else
      HWY_DYNAMIC_DISPATCH(fillTile)(program.instructions[reg - inputs.size()].value, tile, n);
  }
}

/// Elements [at, at + n) of an input as fp32.
void FusedTiles::loadTile(const Input &input, const char *x, float *y, int64_t at, int64_t n) const {
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

void FusedTiles::run(void *const *operands, void *const *results, int64_t begin, int64_t end) const {
  alignas(64) float tiles[kFusedRegisters + kFusedInputs][kTile];
  fillOnce(operands, tiles, std::min(kTile, end - begin));
  for (int64_t at = begin; at < end; at += kTile)
    runTile(operands, results, tiles, begin, at, std::min(kTile, end - at));
}

void FusedTiles::runTile(void *const *operands, void *const *results, Tiles tiles, int64_t begin, int64_t at,
                         int64_t n) const {
  auto placeOf = [&](size_t reg) {
    const Place &place = places[reg];
    switch (place.kind) {
    case Place::Kind::input:
      return as<float>(operands[place.index]) + at;
    case Place::Kind::result:
      return as<float>(results[place.index]) + (at - begin);
    case Place::Kind::tile:
      break;
    }
    return tiles[place.index] + (place.period ? at % place.period : 0);
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t reg : loads[i])
      loadTile(inputs[reg], as<char>(operands[reg]), tiles[places[reg].index], at, n);
    const Step &step = steps[i];
    if (step.isNone)
      continue;
    const float *from[4] = {};
    for (size_t k = 0; k < step.from.size(); ++k)
      from[k] = placeOf(step.from[k]);
    float *y = placeOf(inputs.size() + i);
    if (step.vectors) {
      step.vectors(from, y, n);
      continue;
    }
    for (int64_t k = 0; k < n; ++k)
      y[k] = step.plain(from[0][k], from[1] ? from[1][k] : 0, from[2] ? from[2][k] : 0);
    from[0] = y;
    step.rounding(from, y, n);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].isDirect)
      outputs[i].store(tiles[places[outputs[i].reg].index], as<char>(results[i]) + (at - begin) * outputs[i].size, n);
}

namespace {

Prepared prepareFused(const KernelSpec &spec) {
  Result<FusedProgram> program = readFused(spec);
  ZC_RETURN_IF_ERROR(program.status());
  const TensorType &shape = spec.operands.back();
  std::vector<int64_t> sizes; // of the results' elements
  for (size_t i = spec.numInputs; i < spec.operands.size(); ++i)
    sizes.push_back(sizeOf(spec.operands[i].dtype));
  const std::vector<TensorType> inputs(spec.operands.begin(),
                                       spec.operands.begin() + static_cast<std::ptrdiff_t>(spec.numInputs));
  return makeKernel(
      [tiles = FusedTiles(std::move(*program), inputs, shape.dims, !spec.inPlace.empty()), sizes = std::move(sizes),
       numInputs = spec.numInputs, elements = shape.numElements(),
       threads = threadsFor(spec.threads, shape.numElements())](void *const *operands, const StepContext &) {
        parallelParts(threads, elements, FusedTiles::kTile, [&](int64_t begin, int64_t end, int) {
          void *results[kFusedResults];
          for (size_t i = 0; i < sizes.size(); ++i)
            results[i] = as<char>(operands[numInputs + i]) + begin * sizes[i];
          tiles.run(operands, results, begin, end);
        });
      });
}

} // namespace

void addFastFused(KernelRegistry &registry) { registry.add("fused", prepareFused); }

} // namespace zc::cpu
#endif
