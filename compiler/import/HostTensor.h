//===- HostTensor.h - small constants, evaluated while importing --------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/base/Tensor.h"

#include <optional>
#include <vector>

namespace zc::importer {

/// The elements of a tensor, row major; one element stands for all when `splat`. Integers and bools (0, 1) in `ints`,
/// floats in `floats`, rounded to `dtype`.
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
  double valueAt(int64_t i) const { return isFloat() ? floatAt(i) : static_cast<double>(intAt(i)); }
  /// Makes room for `stored()` elements.
  void allocate();
  /// Element `i` of this from element `j` of a tensor of the same kind.
  void copyElement(int64_t i, const HostTensor &from, int64_t j) {
    if (isFloat())
      floats[i] = from.floatAt(j);
    else
      ints[i] = from.intAt(j);
  }

  static HostTensor ofInts(llvm::ArrayRef<int64_t> values);
  static HostTensor scalar(double value, DType dtype);
};

/// `value` as an element of `dtype` holds it: rounded, wrapped, or 0/1.
double roundTo(DType dtype, double value);
int64_t wrapTo(DType dtype, int64_t value);

/// Nothing for element types that no tensor of this project has.
std::optional<DType> dtypeOf(mlir::Type element);
mlir::Type typeOf(DType dtype, mlir::MLIRContext *context);

mlir::DenseElementsAttr toAttribute(const HostTensor &tensor, mlir::MLIRContext *context);
/// A tensor of zeros-to-be with the type's dtype and dims (nothing allocated).
std::optional<HostTensor> shapedLike(mlir::Type type);
std::optional<HostTensor> fromAttribute(mlir::Attribute attribute);

} // namespace zc::importer
