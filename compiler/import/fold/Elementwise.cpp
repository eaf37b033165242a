//===- Elementwise.cpp - constants under elementwise operations -------------===//
#include "compiler/import/fold/Fold.h"
#include "dialects/graph/Graph.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;

namespace {

/// Walks all indices of a shape and keeps the linear position in operands that broadcast to it.
class Broadcast {
public:
  Broadcast(const HostTensor &out, Operands in) : dims(out.dims), index(out.dims.size(), 0) {
    for (const HostTensor *operand : in) {
      llvm::SmallVector<int64_t, 6> operandStrides(dims.size(), 0);
      int64_t step = 1;
      for (int64_t d = operand->rank() - 1, o = dims.size() - 1; d >= 0; --d, --o) {
        operandStrides[o] = operand->dims[d] == 1 ? 0 : step;
        step *= operand->dims[d];
      }
      strides.push_back(operandStrides);
      positions.push_back(0);
    }
  }
  int64_t operator[](unsigned operand) const { return positions[operand]; }
  void advance() {
    for (int64_t d = dims.size() - 1; d >= 0; --d) {
      bool carry = ++index[d] == dims[d];
      for (unsigned k = 0; k < positions.size(); ++k)
        positions[k] += carry ? -strides[k][d] * (dims[d] - 1) : strides[k][d];
      if (!carry)
        return;
      index[d] = 0;
    }
  }

private:
  llvm::ArrayRef<int64_t> dims;
  llvm::SmallVector<int64_t, 6> index, positions;
  llvm::SmallVector<llvm::SmallVector<int64_t, 6>, 3> strides;
};

using FloatUnary = double (*)(double);
using FloatBinary = double (*)(double, double);
/// False: no value (division by zero).
using IntBinary = bool (*)(int64_t, int64_t, int64_t &);

int64_t wrappingAdd(int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) + uint64_t(b)); }
int64_t wrappingSub(int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) - uint64_t(b)); }
int64_t wrappingMul(int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) * uint64_t(b)); }

double nanMin(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double nanMax(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
/// The sign of b, as Python's %.
double floorMod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double sign(double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }
double softplus(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

bool intDiv(int64_t a, int64_t b, int64_t &y) {
  if (b == 0)
    return false;
  y = b == -1 ? wrappingSub(0, a) : a / b;
  return true;
}
bool intMod(int64_t a, int64_t b, int64_t &y) {
  if (b == 0)
    return false;
  y = b == -1 ? 0 : a % b;
  if (y != 0 && (y < 0) != (b < 0))
    y += b;
  return true;
}
bool intPow(int64_t a, int64_t b, int64_t &y) {
  if (b < 0)
    return false;
  for (y = 1; b > 0; b >>= 1, a = wrappingMul(a, a))
    if (b & 1)
      y = wrappingMul(y, a);
  return true;
}

/// `G` null: floats only.
FoldFn unary(FloatUnary f, int64_t (*g)(int64_t) = nullptr) {
  return [=](mlir::Operation *, Operands in, HostTensor &out, std::string &) {
    if (!out.isFloat() && !g)
      return false;
    for (int64_t i = 0, n = out.stored(); i < n; ++i) {
      if (out.isFloat())
        out.floats[i] = roundTo(out.dtype, f(in[0]->floatAt(i)));
      else
        out.ints[i] = wrapTo(out.dtype, g(in[0]->intAt(i)));
    }
    return true;
  };
}

/// Integer operands take no detour over floats.
FoldFn binary(FloatBinary f, IntBinary g) {
  return [=](mlir::Operation *, Operands in, HostTensor &out, std::string &) {
    Broadcast at(out, in);
    for (int64_t i = 0, n = out.stored(); i < n; ++i, at.advance()) {
      int64_t y = 0;
      if (out.isFloat())
        out.floats[i] = roundTo(out.dtype, f(in[0]->floatAt(at[0]), in[1]->floatAt(at[1])));
      else if (!g(in[0]->intAt(at[0]), in[1]->intAt(at[1]), y))
        return false;
      else
        out.ints[i] = wrapTo(out.dtype, y);
    }
    return true;
  };
}
FoldFn binary(FloatBinary f, int64_t (*g)(int64_t, int64_t)) {
  return [=](mlir::Operation *, Operands in, HostTensor &out, std::string &) {
    Broadcast at(out, in);
    for (int64_t i = 0, n = out.stored(); i < n; ++i, at.advance()) {
      if (out.isFloat())
        out.floats[i] = roundTo(out.dtype, f(in[0]->floatAt(at[0]), in[1]->floatAt(at[1])));
      else
        out.ints[i] = wrapTo(out.dtype, g(in[0]->intAt(at[0]), in[1]->intAt(at[1])));
    }
    return true;
  };
}

FoldFn compare(bool (*f)(double, double), bool (*g)(int64_t, int64_t)) {
  return [=](mlir::Operation *, Operands in, HostTensor &out, std::string &) {
    Broadcast at(out, in);
    bool isFloat = in[0]->isFloat();
    for (int64_t i = 0, n = out.stored(); i < n; ++i, at.advance())
      out.ints[i] =
          isFloat ? f(in[0]->floatAt(at[0]), in[1]->floatAt(at[1])) : g(in[0]->intAt(at[0]), in[1]->intAt(at[1]));
    return true;
  };
}

template <typename T> bool isEqual(T a, T b) { return a == b; }
template <typename T> bool isLess(T a, T b) { return a < b; }
template <typename T> bool isLessEqual(T a, T b) { return a <= b; }

/// Of each bit; a bool has one.
bool foldNot(mlir::Operation *, Operands in, HostTensor &out, std::string &) {
  for (int64_t i = 0, n = out.stored(); i < n; ++i)
    out.ints[i] = out.dtype == DType::boolean ? !in[0]->intAt(i) : wrapTo(out.dtype, ~in[0]->intAt(i));
  return true;
}
FoldFn bitwise(int64_t (*g)(int64_t, int64_t)) {
  return binary([](double, double) { return 0.0; }, g);
}

/// An evaluator that asks for signs or sizes: u64, held as signed numbers, is left to the kernels.
FoldFn ordered(FoldFn fold) {
  return [fold = std::move(fold)](mlir::Operation *op, Operands in, HostTensor &out, std::string &error) {
    return in[0]->dtype != DType::u64 && fold(op, in, out, error);
  };
}

bool foldCast(mlir::Operation *, Operands in, HostTensor &out, std::string &) {
  for (int64_t i = 0, n = out.stored(); i < n; ++i) {
    if (out.isFloat()) {
      out.floats[i] = roundTo(out.dtype, in[0]->valueAt(i));
    } else if (!in[0]->isFloat()) {
      out.ints[i] = wrapTo(out.dtype, in[0]->intAt(i));
    } else if (out.dtype == DType::boolean) {
      out.ints[i] = in[0]->floatAt(i) != 0;
    } else {
      double value = std::trunc(in[0]->floatAt(i));
      if (!(std::abs(value) < 9.2e18)) // no defined result
        return false;
      out.ints[i] = wrapTo(out.dtype, static_cast<int64_t>(value));
    }
  }
  return true;
}

bool foldSelect(mlir::Operation *, Operands in, HostTensor &out, std::string &) {
  Broadcast at(out, in);
  for (int64_t i = 0, n = out.stored(); i < n; ++i, at.advance()) {
    int from = in[0]->intAt(at[0]) ? 1 : 2;
    out.copyElement(i, *in[from], at[from]);
  }
  return true;
}

} // namespace

void zc::importer::addElementwiseFolds(FoldTable &table) {
  auto add = [&](const char *name, FoldFn fn) { table[name] = {std::move(fn), true}; };
  add("graph.neg", unary([](double x) { return -x; }, [](int64_t x) { return wrappingSub(0, x); }));
  add("graph.abs",
      ordered(unary([](double x) { return std::abs(x); }, [](int64_t x) { return x < 0 ? wrappingSub(0, x) : x; })));
  add("graph.sign", ordered(unary(sign, [](int64_t x) { return int64_t((x > 0) - (x < 0)); })));
  add("graph.exp", unary([](double x) { return std::exp(x); }));
  add("graph.log", unary([](double x) { return std::log(x); }));
  add("graph.sqrt", unary([](double x) { return std::sqrt(x); }));
  add("graph.reciprocal", unary([](double x) { return 1 / x; }));
  add("graph.sin", unary([](double x) { return std::sin(x); }));
  add("graph.cos", unary([](double x) { return std::cos(x); }));
  add("graph.tanh", unary([](double x) { return std::tanh(x); }));
  add("graph.sigmoid", unary(sigmoid));
  add("graph.erf", unary([](double x) { return std::erf(x); }));
  add("graph.relu", unary([](double x) { return nanMax(x, 0); }));
  add("graph.expm1", unary([](double x) { return std::expm1(x); }));
  add("graph.softplus", unary(softplus));
  add("graph.floor", unary([](double x) { return std::floor(x); }));
  add("graph.ceil", unary([](double x) { return std::ceil(x); }));
  add("graph.round", unary([](double x) { return std::nearbyint(x); }));
  add("graph.not", foldNot);
  add("graph.cast", foldCast);
  add("graph.select", foldSelect);
  add("graph.add", binary([](double a, double b) { return a + b; }, wrappingAdd));
  add("graph.sub", binary([](double a, double b) { return a - b; }, wrappingSub));
  add("graph.mul", binary([](double a, double b) { return a * b; }, wrappingMul));
  add("graph.div", ordered(binary([](double a, double b) { return a / b; }, intDiv)));
  add("graph.pow", ordered(binary([](double a, double b) { return std::pow(a, b); }, intPow)));
  add("graph.mod", ordered(binary(floorMod, intMod)));
  add("graph.min", ordered(binary(nanMin, [](int64_t a, int64_t b) { return std::min(a, b); })));
  add("graph.max", ordered(binary(nanMax, [](int64_t a, int64_t b) { return std::max(a, b); })));
  add("graph.equal", compare(isEqual<double>, isEqual<int64_t>));
  add("graph.less", ordered(compare(isLess<double>, isLess<int64_t>)));
  add("graph.less_equal", ordered(compare(isLessEqual<double>, isLessEqual<int64_t>)));
  add("graph.and", bitwise([](int64_t a, int64_t b) { return a & b; }));
  add("graph.or", bitwise([](int64_t a, int64_t b) { return a | b; }));
  add("graph.xor", bitwise([](int64_t a, int64_t b) { return a ^ b; }));
}
