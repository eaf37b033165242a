//===- Fourier.cpp - discrete Fourier transforms ------------------------------------===//
//
// Products with matrices of cosines and sines, whose gradients are products again. A long transform is two short ones
// (Cooley and Tukey 1965): of n = a b elements, of which one matrix would have n^2, a transforms of length b and b of
// length a with factors in between. Prime lengths stay one matrix.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include <cmath>
#include <optional>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Up to here one product costs no more than two with the factors between them.
constexpr int64_t kShort = 64;

/// Rows of complex numbers, [R, n] each; `im` null: zeros.
struct Complex {
  Expr re, im;
};

/// Cosine and sine of sign 2 pi row column / n.
Complex rotations(Node &node, int64_t rows, int64_t columns, int64_t n, int sign, mlir::Type element) {
  Complex result{{node, Value()}, {node, Value()}};
  for (bool sine : {false, true}) {
    HostTensor table;
    table.dtype = *dtypeOf(element);
    table.dims = {rows, columns};
    table.allocate();
    for (int64_t i = 0; i < rows * columns; ++i) {
      int64_t turns = (i / columns) * (i % columns) % n;
      double angle = sign * 2 * M_PI * static_cast<double>(turns) / static_cast<double>(n);
      table.floats[i] = roundTo(table.dtype, sine ? std::sin(angle) : std::cos(angle));
    }
    (sine ? result.im : result.re) = Expr(node, node.constant(table));
  }
  return result;
}

/// Products of two complex numbers, or matrices.
template <typename OpT> Complex times(Complex a, Complex b) {
  if (!a.im)
    return {a.re.apply<OpT>(b.re), a.re.apply<OpT>(b.im)};
  return {a.re.apply<OpT>(b.re) - a.im.apply<OpT>(b.im), a.re.apply<OpT>(b.im) + a.im.apply<OpT>(b.re)};
}

template <typename Change> Complex both(Complex z, Change change) {
  Expr re = change(z.re);
  return {re, z.im ? change(z.im) : z.im};
}

/// The largest divisor of n that is no larger than its root.
int64_t shorterFactor(int64_t n) {
  int64_t a = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % a != 0)
    --a;
  return a;
}

/// Sums over j of z[r, j] e^(sign 2 pi i j k / n), for k < n.
Complex transform(Node &node, Complex z, int64_t rows, int64_t n, int sign) {
  int64_t a = n <= kShort ? 1 : shorterFactor(n), b = n / a;
  if (a == 1) {
    if (n * n > node.options().limits.foldedElements) {
      node.unsupported("of " + std::to_string(n) + " elements, a number with a large prime factor",
                       "pad to a power of two");
      return {{node, Value()}, {node, Value()}};
    }
    return times<MatmulOp>(z, rotations(node, n, n, n, sign, z.re.element()));
  }
  auto turned = [&](Dims from, Dims to) { // the last two of three dimensions change places
    return [&node, from, to](Expr x) { return Expr(node, node.transpose(x.reshape(from), {0, 2, 1})).reshape(to); };
  };
  // j = j1 b + j2 and k = k1 + a k2: over j1, times the factor of j2 and k1, over j2.
  z = transform(node, both(z, turned({rows, a, b}, {rows * b, a})), rows * b, a, sign);
  z = both(z, [&](Expr x) { return x.reshape({rows, b, a}); });
  if (node.failed())
    return z;
  z = times<MulOp>(z, rotations(node, b, a, n, sign, z.re.element()));
  z = transform(node, both(z, turned({rows, b, a}, {rows * a, b})), rows * a, b, sign);
  return both(z, turned({rows, a, b}, {rows, n}));
}

/// [R, n] with `length` columns, by zeros or without the last ones.
Expr fitted(Node &node, Expr x, int64_t length) {
  int64_t n = dimsOf(x)[1];
  if (length < n)
    return {node, node.slice(x, 1, 0, length)};
  return length == n
             ? x
             : Expr(node, node.make<PadOp>(
                              {x}, node.attrs().ints("low", {0, 0}).ints("high", {0, length - n}).real("value", 0)));
}

/// The first n/2 + 1 numbers of the transform of a real signal, as all n: the others are their conjugates.
Complex mirrored(Node &node, Complex z, int64_t n) {
  Dims sources;
  HostTensor signs;
  signs.dtype = *dtypeOf(z.re.element());
  signs.dims = {n};
  signs.allocate();
  for (int64_t k = 0; k < n; ++k) {
    sources.push_back(k <= n / 2 ? k : n - k);
    signs.floats[k] = k <= n / 2 ? 1 : -1;
  }
  Value at = node.constant(HostTensor::ofInts(sources)), sign = node.constant(signs);
  auto all = [&](Expr x) { return Expr(node, node.make<GatherOp>({x, at}, node.attrs().integer("axis", 1))); };
  return {all(z.re), z.im ? all(z.im).apply<MulOp>(sign) : z.im};
}

/// One dimension at the end: real and imaginary parts, or the real ones alone.
Value joined(Node &node, Complex z, Dims shape) {
  shape.push_back(1);
  if (!z.im)
    return z.re.reshape(shape);
  return node.make<ConcatOp>({z.re.reshape(shape), z.im.reshape(shape)},
                             node.attrs().integer("axis", shape.size() - 1));
}

/// The parts of x [..., 1 or 2]: null for an imaginary part that is not there.
std::optional<Complex> partsOf(Node &node, Value x) {
  Dims shape(dimsOf(x));
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2) || !isFloat(x)) {
    node.invalid("input " + shapeText(shape) +
                 " has no last dimension of a real number or of two parts of a complex one");
    return std::nullopt;
  }
  int64_t last = shape.size() - 1, parts = shape.pop_back_val();
  auto part = [&](int64_t i) { return Expr(node, node.slice(x, last, i, 1)).reshape(shape); };
  return Complex{part(0), parts == 2 ? part(1) : Expr(node, Value())};
}

void dftAlong(Node &node, int64_t axis) {
  Value x = node.input(0);
  std::optional<Complex> z = partsOf(node, x);
  bool inverse = node.intAttr("inverse", 0) != 0, onesided = node.intAttr("onesided", 0) != 0;
  if (node.failed())
    return;
  int64_t rank = rankOf(x) - 1; // without the parts
  axis = node.axis(axis, rank + 1);
  if (!node.failed() && axis == rank)
    node.invalid("its axis is that of the parts of complex numbers");
  if (node.failed())
    return;
  Dims shape(dimsOf(x).drop_back()), order, back;
  int64_t n = inverse && onesided ? 2 * (shape[axis] - 1) : shape[axis];
  if (node.has(1))
    n = node.constantInt(1);
  if (!node.failed() && (n < 1 || countOf(shape) == 0 || n > node.options().limits.foldedElements))
    node.unsupported("of length " + std::to_string(n) + " of a tensor " + shapeText(shape));
  if (node.failed())
    return;
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis)
      order.push_back(d);
  order.push_back(axis);
  back.resize(rank);
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = to;
  int64_t rows = countOf(shape) / shape[axis], given = inverse && onesided ? n / 2 + 1 : n;
  *z = both(*z, [&](Expr e) {
    return fitted(node, Expr(node, node.transpose(e, order)).reshape({rows, shape[axis]}), given);
  });
  if (inverse && onesided)
    z = mirrored(node, *z, n);
  if (node.failed())
    return;
  z = transform(node, *z, rows, n, inverse ? 1 : -1);
  if (node.failed())
    return;
  if (inverse && onesided)
    z->im = Expr(node, Value());
  int64_t kept = onesided && !inverse ? n / 2 + 1 : n;
  shape.erase(shape.begin() + axis);
  shape.push_back(kept);
  *z = both(*z, [&](Expr e) {
    e = fitted(node, inverse ? e / static_cast<double>(n) : e, kept);
    return Expr(node, node.transpose(e.reshape(shape), back));
  });
  if (!node.failed())
    node.set(joined(node, *z, Dims(dimsOf(z->re))));
}

void dftAttribute(Node &node) { dftAlong(node, node.intAttr("axis", 1)); }
void dftInput(Node &node) { dftAlong(node, node.has(2) ? node.constantInt(2) : -2); }

/// Transforms of pieces of a signal [B, n, 1 or 2] that begin `step` elements apart, each weighted by the window. A
/// piece is as long as frame_length says, else the window, else the signal.
void stft(Node &node) {
  Value x = node.input(0);
  std::optional<Complex> z = partsOf(node, x);
  int64_t step = node.constantInt(1);
  Value window = node.input(2);
  bool onesided = node.intAttr("onesided", 1) != 0;
  if (!node.failed() && (rankOf(x) != 3 || (window && rankOf(window) != 1)))
    node.invalid("signal " + shapeText(dimsOf(x)) + " is not of rank 3, or the window is no vector");
  if (node.failed())
    return;
  int64_t batch = dimsOf(x)[0], n = dimsOf(x)[1];
  int64_t length = node.has(3) ? node.constantInt(3) : window ? dimsOf(window)[0] : n;
  if (!node.failed() && (step < 1 || length < 1 || length > n || (window && dimsOf(window)[0] != length)))
    node.invalid("frame_step " + std::to_string(step) + " and frame_length " + std::to_string(length) +
                 " do not fit the window or a signal of " + std::to_string(n));
  if (node.failed())
    return;
  int64_t frames = 1 + (n - length) / step, bins = onesided ? length / 2 + 1 : length;
  if (frames > node.options().limits.foldingWork / length)
    return node.unsupported("of " + std::to_string(frames) + " frames of " + std::to_string(length) + " elements");
  Value sources = placesOf(node, frames, step, length, 1);
  *z = both(*z, [&](Expr e) {
    Expr pieces(node, node.make<GatherOp>({e, sources}, node.attrs().integer("axis", 1)));
    return (window ? pieces.apply<MulOp>(window) : pieces).reshape({batch * frames, length});
  });
  if (node.failed())
    return;
  z = transform(node, *z, batch * frames, length, -1);
  if (node.failed())
    return;
  *z = both(*z, [&](Expr e) { return fitted(node, e, bins); });
  node.set(joined(node, *z, {batch, frames, bins}));
}

} // namespace

void zc::importer::addFourierHandlers(HandlerTable &table) {
  table.add("DFT", 17, 1, 2, dftAttribute, {{1, "dft_length"}});
  table.add("DFT", 20, 1, 3, dftInput, {{1, "dft_length"}, {2, "axis"}});
  table.add("STFT", 17, 2, 4, stft, {{1, "frame_step"}, {3, "frame_length"}});
}
