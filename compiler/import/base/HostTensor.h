//===- HostTensor.h - small constants, evaluated while importing --------------===//
#pragma once

#include "base/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <optional>
#include <vector>

namespace zc::importer {

/// The elements of a tensor, row major; one element stands for all when `splat`. Integers and bools (0, 1) in `ints`
/// (u64 as the signed number of the same bits), floats in `floats`, rounded to `dtype`.
struct HostTensor {
  DType dtype = DType::i64;
  llvm::SmallVector<int64_t, 6> dims;
  bool splat = false;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  bool isFloat() const {
    return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
  }
  int64_t rank() const { return dims.size(); }
  int64_t numElements() const;
  /// Elements held: 1 for a splat.
  int64_t stored() const { return splat ? 1 : numElements(); }
  int64_t intAt(int64_t i) const { return ints[splat ? 0 : i]; }
  double floatAt(int64_t i) const { return floats[splat ? 0 : i]; }
  /// Either kind, as a double.
  double valueAt(int64_t i) const {
    return isFloat()             ? floatAt(i)
           : dtype == DType::u64 ? static_cast<double>(static_cast<uint64_t>(intAt(i)))
                                 : static_cast<double>(intAt(i));
  }
  /// Becomes a splat if all elements are the same bits.
  void compress();
  /// Makes room for `stored()` elements.
  void allocate();
  /// Element `i` of this from element `j` of a tensor of the same kind.
  void copyElement(int64_t i, const HostTensor &from, int64_t j) {
    if (isFloat())
      floats[i] = from.floatAt(j);
    else
      ints[i] = from.intAt(j);
  }

  /// Element `i` (stored) from its little-endian bytes, and back.
  void decode(int64_t i, const char *bytes);
  void encode(int64_t i, char *bytes) const;

  static HostTensor ofInts(llvm::ArrayRef<int64_t> values);
  static HostTensor scalar(double value, DType dtype);
};

/// `value` as an element of `dtype` holds it: rounded, wrapped, or 0/1.
double roundTo(DType dtype, double value);
int64_t wrapTo(DType dtype, int64_t value);

constexpr bool isUnsigned(DType dtype) {
  return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64 ||
         dtype == DType::boolean;
}

/// Nothing for element types that no tensor of this project has.
std::optional<DType> dtypeOf(mlir::Type element);
mlir::Type typeOf(DType dtype, mlir::MLIRContext *context);

mlir::DenseElementsAttr toAttribute(const HostTensor &tensor, mlir::MLIRContext *context);
/// A tensor of zeros-to-be with the type's dtype and dims (nothing allocated).
std::optional<HostTensor> shapedLike(mlir::Type type);
std::optional<HostTensor> fromAttribute(mlir::Attribute attribute);

} // namespace zc::importer
