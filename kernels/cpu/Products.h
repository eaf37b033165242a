//===- Products.h - who multiplies matrices of a shape, and how threads share them --===//
//
// Which library is fastest at a product, and along which side its threads should cut it, depends on the shape and on
// the machine, and no rule that was tried told it. So a table says it: `zero-run bench-machine` measures the choices of
// each shape that a plan has and keeps the best. What is not in the table is computed as without one. Products that are
// summed in order (Tiles.h), whose bits no cut changes, are in no table.
//
// A choice depends on what is here called a ProductShape and on the table alone, so that a run's bits are a function of
// plan, weights, data, seed, machine and table.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"
#include "kernels/shapes/Shapes.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace zc {

/// What computes the blocks of a product.
enum class ProductMethod : uint8_t {
  openblas,
  onednn,
  packed,  ///< oneDNN, its right factor rearranged into the step's workspace first; of bf16
  widened, ///< blocks widened to fp32, then as fp32; of 16-bit types
  tiles    ///< tiles of registers (fast/MatmulTiles.h), of bf16
};
constexpr std::array<const char *, 5> namesOf(ProductMethod) {
  return {"openblas", "onednn", "packed", "widened", "tiles"};
}

/// What each thread has.
enum class ProductCut : uint8_t {
  rows,    ///< of the result
  columns, ///< of the result
  depth,   ///< terms of each sum; the threads' sums are added up in order
  batch,   ///< whole matrices
  own      ///< as the method cuts it by itself
};
constexpr std::array<const char *, 5> namesOf(ProductCut) { return {"rows", "columns", "depth", "batch", "own"}; }

/// op(lhs) op(rhs) of `batch` matrices, m x k and k x n, on `threads` threads.
struct ProductShape {
  DType type = DType::f32; ///< of the factors: f32, bf16 or f16
  bool transLhs = false, transRhs = false;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int threads = 1;

  auto key() const { return std::tie(type, transLhs, transRhs, batch, m, n, k, threads); }
  bool operator<(const ProductShape &other) const { return key() < other.key(); }
  bool operator==(const ProductShape &other) const { return key() == other.key(); }
  double flops() const { return 2.0 * double(batch) * double(m) * double(n) * double(k); }
};

struct ProductChoice {
  ProductMethod method = ProductMethod::onednn;
  ProductCut cut = ProductCut::rows;
  bool operator==(const ProductChoice &other) const { return method == other.method && cut == other.cut; }
};

/// What a choice reached when the table was made, in flops per second, and what a product of that shape does without.
struct ProductEntry {
  ProductChoice choice;
  double rate = 0, rateWithout = 0;
};

/// "f32 nt 1024x3072x768", m x n x k, each factor not transposed or transposed, then "x48" of as many matrices.
std::string nameOf(const ProductShape &shape);
/// The same as flags and files have it: "bf16:nn:1024x768x3072:48".
std::string textOf(const ProductShape &shape);
/// Back, on one thread. Errors: usage.
Result<ProductShape> productFromText(const std::string &text);

/// The products that a step's kernel asks libraries for, on the spec's threads: one of a matmul, several of a head with
/// its loss, none of most kernels.
std::vector<ProductShape> productsOf(const KernelSpec &spec);
/// A matmul of that shape.
KernelSpec specOf(const ProductShape &shape);

/// What this machine can do for a shape; the first one is what it does without a table. What oneDNN works in, a packed
/// factor above all, must fit the workspace that plans have for the product, else preparing the kernel refuses it as
/// any choice that cannot be; without a table the next one is taken.
std::vector<ProductChoice> choicesFor(const ProductShape &shape);
/// The libraries and what they think the processor is, as "openblas 0.3.21 Cooperlake, onednn 2.6.3": what a table is
/// for, besides the processor.
std::string productLibraries();
/// Bytes of addresses that libraries take for each thread that multiplies matrices of fp32, at its first product, where
/// nothing says how: OpenBLAS a buffer, for which it asks again and again where there is no room.
uint64_t addressesOfProducts();

namespace cpu {
ProductShape productOf(const MatmulShape &shape, int threads);

/// Sums of threads that have terms of a small result each, for which the plan has memory where that can pay.
struct DepthSums {
  static constexpr int kMost = 16; ///< threads
  static bool canPay(const MatmulShape &s) {
    constexpr int64_t kLargestResult = 1 << 16, kShortestSum = 4096;
    return s.dtype == DType::f32 && s.numBatches == 1 && s.k >= kShortestSum && s.m * s.n > 0 &&
           s.m <= kLargestResult && s.n <= kLargestResult && s.m * s.n <= kLargestResult &&
           s.k >= 8 * std::max(s.m, s.n);
  }
  /// fp32 elements of all threads but the first, which has the result.
  static int64_t floats(const MatmulShape &s) { return canPay(s) ? (kMost - 1) * s.m * s.n : 0; }
};
} // namespace cpu

} // namespace zc
