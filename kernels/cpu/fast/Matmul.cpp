// matmul, matmul_part, by what the table of products says of the shape (../Products.h). fp32: MatmulF32.h. bf16:
// MatmulTiles.h where the CPU multiplies it, else, or in batches, oneDNN, sums in fp32; where that has no kernel, or
// needs more memory than is planned, tiles all the same; where the CPU has none (without AVX-512), and for f16, blocks
// widened to fp32 and multiplied in that. Small products: MatmulOrdered.h.
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/Gemm.h"
#include "kernels/cpu/fast/MatmulDnnl.h"
#include "kernels/cpu/fast/MatmulF32.h"
#include "kernels/cpu/fast/MatmulOrdered.h"
#include "kernels/cpu/fast/MatmulTiles.h"
#include "kernels/cpu/fast/ProductChoices.h"

#include <cstring>

namespace zc::cpu {
namespace {

class MatmulBf16 : public Kernel {
public:
  MatmulBf16(const MatmulShape &s, std::unique_ptr<MatmulDnnl> product, bool isWhole, std::string method)
      : hasBias(s.hasBias), matrix(s.m * s.n), product(std::move(product)), text(std::move(method)) {
    if (isWhole)
      offsets.push_back({0, 0});
    else
      Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) {
        offsets.push_back(at);
      });
  }

  Status run(void *const *operands, const StepContext &) override {
    Bf16 *out = as<Bf16>(operands[hasBias ? 3 : 2]);
    for (const auto &at : offsets) {
      ZC_RETURN_IF_ERROR(product->run(as<Bf16>(operands[0]) + at[0], as<Bf16>(operands[1]) + at[1],
                                      hasBias ? operands[2] : nullptr, out, operands));
      out += matrix;
    }
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  bool hasBias;
  int64_t matrix;
  std::unique_ptr<MatmulDnnl> product;
  std::string text;
  std::vector<Walk<2>::Offsets> offsets;
};

/// bf16 without a bf16 library, and f16: panels of one side on threads, each in blocks that are widened into scratch.
template <typename T> class MatmulWidened : public Kernel {
public:
  /// With `wide` the result is f32, added to an addend if there is one.
  MatmulWidened(const KernelSpec &spec, const MatmulShape &shape, const ChosenProduct &chosen, bool wide,
                bool hasAddend)
      : s(shape), tile(shape), wide(wide), hasAddend(hasAddend), byRows(chosen.choice.cut == ProductCut::rows),
        text(chosen.text),
        threads(s.m * s.n * s.k < kParallelProducts ? 1 : std::min(spec.threads, ProductTile::tiles(shape))),
        tiles(Workspace(spec).take<float>(tile.floats() * threads)) {
    Walk<2>(s.batch, {s.lhsStrides, s.rhsStrides}).forEach([&](const Walk<2>::Offsets &at) { offsets.push_back(at); });
  }

  Status run(void *const *operands, const StepContext &) override {
    Ends ends;
    ends.bias = s.hasBias ? as<T>(operands[2]) : nullptr;
    ends.addend = hasAddend ? as<float>(operands[2]) : nullptr;
    void *result = operands[s.hasBias || hasAddend ? 3 : 2];
    if (wide)
      ends.wide = as<float>(result);
    else
      ends.narrow = as<T>(result);
    for (const auto &at : offsets) {
      const T *lhs = as<T>(operands[0]) + at[0], *rhs = as<T>(operands[1]) + at[1];
      parallelParts(threads, byRows ? s.m : s.n, kPanel, [&](int64_t begin, int64_t end, int part) {
        float *own = tiles.of(operands) + part * tile.floats();
        for (int64_t i = byRows ? begin : 0; i < (byRows ? end : s.m); i += kBlock)
          for (int64_t j = byRows ? 0 : begin; j < (byRows ? s.n : end); j += kBlock)
            block(lhs, rhs, ends, i, std::min(i + kBlock, byRows ? end : s.m), j,
                  std::min(j + kBlock, byRows ? s.n : end), own);
      });
      if (!wide)
        ends.narrow += s.m * s.n;
    }
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  static constexpr int64_t kBlock = ProductTile::kBlock;

  /// What a product is added to, and where it goes.
  struct Ends {
    const T *bias = nullptr;
    const float *addend = nullptr;
    float *wide = nullptr;
    T *narrow = nullptr;
  };

  /// Rows [r0, r1) and columns [c0, c1) of a matrix stored `width` wide, as fp32. Rows are too short, and too far from
  /// each other, for a processor to ask for the next ones itself.
  static void widenBlock(const T *x, int64_t width, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float *y) {
    constexpr int64_t kAhead = 8, kLine = 64 / sizeof(T);
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t c = c0; r + kAhead < r1 && c < c1; c += kLine)
        __builtin_prefetch(x + (r + kAhead) * width + c);
      widen(x + r * width + c0, y + (r - r0) * (c1 - c0), c1 - c0);
    }
  }

  void block(const T *lhs, const T *rhs, const Ends &ends, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
             float *own) const {
    float *a = own, *b = a + tile.lhs, *c = b + tile.rhs;
    int64_t rows = i1 - i0, columns = j1 - j0;
    for (int64_t i = 0; ends.addend && i < rows; ++i)
      std::copy_n(ends.addend + (i0 + i) * s.n + j0, columns, c + i * columns);
    for (int64_t k0 = 0; k0 < s.k; k0 += kBlock) {
      int64_t k1 = std::min(k0 + kBlock, s.k), depth = k1 - k0;
      s.transLhs ? widenBlock(lhs, s.m, k0, k1, i0, i1, a) : widenBlock(lhs, s.k, i0, i1, k0, k1, a);
      s.transRhs ? widenBlock(rhs, s.k, j0, j1, k0, k1, b) : widenBlock(rhs, s.n, k0, k1, j0, j1, b);
      gemm(fittingLibrary(), s.transLhs, s.transRhs, rows, columns, depth, 1, a, s.transLhs ? rows : depth, b,
           s.transRhs ? depth : columns, k0 == 0 && !ends.addend ? 0 : 1, c, columns);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; ends.bias && j < columns; ++j)
        c[i * columns + j] += load(ends.bias[j0 + j]);
      if (ends.wide)
        std::copy_n(c + i * columns, columns, ends.wide + (i0 + i) * s.n + j0);
      else
        narrow(c + i * columns, ends.narrow + (i0 + i) * s.n + j0, columns);
    }
  }

  MatmulShape s;
  ProductTile tile;
  bool wide, hasAddend, byRows;
  std::string text;
  int threads;
  Piece<float> tiles;
  std::vector<Walk<2>::Offsets> offsets;
};

/// Part of a product of bf16 factors, on top of the addend.
class MatmulPartBf16 : public Kernel {
public:
  MatmulPartBf16(const MatmulPartShape &shape, std::unique_ptr<MatmulDnnl> product, std::string method)
      : bytes(shape.product.m * shape.product.n * sizeOf(shape.out)), hasAddend(shape.hasAddend),
        product(std::move(product)), text(std::move(method)) {}

  Status run(void *const *operands, const StepContext &) override {
    void *out = operands[hasAddend ? 3 : 2];
    if (hasAddend && operands[2] != out)
      std::memcpy(out, operands[2], static_cast<size_t>(bytes));
    return product->run(operands[0], operands[1], nullptr, out, operands);
  }
  std::string method() const override { return text; }

private:
  int64_t bytes;
  bool hasAddend;
  std::unique_ptr<MatmulDnnl> product;
  std::string text;
};

std::unique_ptr<Kernel> makeWidened(const KernelSpec &spec, const MatmulShape &shape, const ChosenProduct &chosen,
                                    bool wide = false, bool hasAddend = false) {
  if (shape.dtype == DType::f16)
    return std::make_unique<MatmulWidened<F16>>(spec, shape, chosen, wide, hasAddend);
  return std::make_unique<MatmulWidened<Bf16>>(spec, shape, chosen, wide, hasAddend);
}

/// oneDNN's product where that is chosen and possible; else `chosen` becomes what is done without, or, where a table
/// says otherwise, an error.
Result<std::unique_ptr<MatmulDnnl>> makeDnnl(const KernelSpec &spec, const MatmulShape &shape, DnnlProduct what,
                                             ChosenProduct &chosen, std::string &note) {
  const ProductMethod method = chosen.choice.method;
  if (method == ProductMethod::widened && (chosen.isTuned || shape.dtype != DType::bf16))
    return std::unique_ptr<MatmulDnnl>();
  what.packs = method == ProductMethod::packed;
  auto product = prepareDnnl(spec, shape, what, note);
  if (product)
    return product;
  if (chosen.isTuned)
    return lacksChoice(productOf(shape, spec.threads), chosen.choice);
  chosen = withoutOnednn(productOf(shape, spec.threads));
  if (!note.empty())
    note = (chosen.choice.method == ProductMethod::tiles ? "multiplies by tiles of registers: "
                                                         : "multiplies blocks widened to fp32: ") +
           note;
  return product;
}

/// The libraries index with 32 bits.
bool fitsLibrary(const MatmulShape &s) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  return isFast(s.dtype) && s.m <= limit && s.n <= limit && s.k <= limit;
}

double multiplications(const MatmulShape &s) {
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

Prepared prepareMatmulPart(const KernelSpec &spec, std::string &note) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const MatmulShape &shape = read->product;
  // A 16-bit addend has lost what the whole would have kept: the plain kernel's sums are as good.
  if (!fitsLibrary(shape) || multiplications(shape) == 0 || (read->hasAddend && read->out != DType::f32))
    return decline();
  Result<ChosenProduct> chosen = chooseProduct(spec, shape);
  ZC_RETURN_IF_ERROR(chosen.status());
  if (shape.dtype == DType::f32)
    return makeMatmulPartF32(spec, *read, chosen->choice, chosen->text);
  auto product = makeDnnl(spec, shape, {1, read->out, read->hasAddend}, *chosen, note);
  ZC_RETURN_IF_ERROR(product.status());
  if (chosen->choice.method == ProductMethod::tiles)
    return makeMatmulTiles(spec, *read, chosen->text);
  if (!*product)
    return makeWidened(spec, shape, *chosen, read->out == DType::f32, read->hasAddend);
  return std::unique_ptr<Kernel>(std::make_unique<MatmulPartBf16>(*read, std::move(*product), chosen->text));
}

Prepared prepareMatmul(const KernelSpec &spec, std::string &note) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  MatmulShape shape = foldedBatch(*read);
  if (!fitsLibrary(shape) || (shape.dtype != DType::f32 && multiplications(shape) * double(shape.numBatches) == 0))
    return decline();
  Result<ChosenProduct> chosen = chooseProduct(spec, shape);
  ZC_RETURN_IF_ERROR(chosen.status());
  if (shape.dtype == DType::f32)
    return makeMatmulF32(spec, shape, chosen->choice, chosen->text);
  bool isWhole = isRowMajorBatch(shape.lhsStrides, shape.batch, shape.m * shape.k) &&
                 isRowMajorBatch(shape.rhsStrides, shape.batch, shape.k * shape.n);
  auto product = makeDnnl(spec, shape, {isWhole ? shape.numBatches : 1}, *chosen, note);
  ZC_RETURN_IF_ERROR(product.status());
  if (chosen->choice.method == ProductMethod::tiles)
    return makeMatmulTiles(spec, {shape, false, shape.dtype, 0}, chosen->text);
  if (!*product)
    return makeWidened(spec, shape, *chosen);
  return std::unique_ptr<Kernel>(std::make_unique<MatmulBf16>(shape, std::move(*product), isWhole, chosen->text));
}

/// Those that are computed by tiles of registers.
Prepared prepareTiles(const KernelSpec &spec, const MatmulPartShape &shape) {
  if (shape.product.dtype != DType::bf16 || !fitsLibrary(shape.product) ||
      multiplications(shape.product) * double(shape.product.numBatches) == 0 ||
      (shape.hasAddend && shape.out != DType::f32))
    return decline();
  Result<ChosenProduct> chosen = chooseProduct(spec, shape.product);
  ZC_RETURN_IF_ERROR(chosen.status());
  if (chosen->choice.method != ProductMethod::tiles)
    return decline();
  return makeMatmulTiles(spec, shape, chosen->text);
}

Prepared prepareTiledMatmul(const KernelSpec &spec) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return prepareTiles(spec, {foldedBatch(*read), false, read->dtype, 0});
}

Prepared prepareTiledPart(const KernelSpec &spec) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return prepareTiles(spec, *read);
}

/// Those that are small, in order.
Prepared prepareOrdered(const KernelSpec &spec) {
  Result<MatmulShape> read = readMatmul(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const MatmulShape shape = foldedBatch(*read);
  if (!isFast(shape.dtype) || shape.numBatches != 1 || !isOrdered(multiplications(shape)))
    return decline();
  return makeMatmulOrdered(spec, {shape, false, shape.dtype, 0});
}

/// Parts of such.
Prepared prepareOrderedPart(const KernelSpec &spec) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->product.dtype) || (read->hasAddend && read->out != DType::f32) || !isOrdered(read->whole) ||
      !isOrdered(multiplications(read->product)))
    return decline();
  return makeMatmulOrdered(spec, *read);
}

} // namespace

void addFastMatmul(KernelRegistry &registry) {
  registry.addNoting("matmul", prepareMatmul);
  registry.addNoting("matmul_part", prepareMatmulPart);
}

void addTiledMatmul(KernelRegistry &registry) {
  registry.add("matmul", prepareTiledMatmul);
  registry.add("matmul_part", prepareTiledPart);
}

void addOrderedMatmul(KernelRegistry &registry) {
  registry.add("matmul", prepareOrdered);
  registry.add("matmul_part", prepareOrderedPart);
}

} // namespace zc::cpu
