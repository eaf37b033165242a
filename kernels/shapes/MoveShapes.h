//===- MoveShapes.h - specs of kernels that move and reduce elements, checked and read -------===//
//
// Every version of a kernel, on whatever processor, accepts the same specs: all read them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/shapes/Support.h"

namespace zc::shapes {

/// y[outStart + along outStrides] = x[inStart + along inStrides] over all of `dims`; strides and starts in elements.
struct MoveShape {
  DType dtype;
  Dims dims, outStrides, inStrides;
  int64_t outStart, inStart;
  bool zeroFirst;   ///< the result is zero elsewhere
  int64_t outBytes; ///< of the whole result; set where that matters
};
Result<MoveShape> readTranspose(const KernelSpec &spec);
Result<MoveShape> readExpand(const KernelSpec &spec);
Result<MoveShape> readSlice(const KernelSpec &spec);
Result<MoveShape> readSliceGrad(const KernelSpec &spec);

/// What is kept of the operand, in a result of `n` elements of `value`.
struct PadShape {
  MoveShape move;
  int64_t n;
  double value;
};
Result<PadShape> readPad(const KernelSpec &spec);
/// The value as bytes of one element.
template <typename T> T fillValue(double value) {
  if constexpr (Element<T>::isFloat)
    return store<T>(static_cast<Compute<T>>(value));
  else if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<uint8_t>(value != 0)};
  else
    return static_cast<T>(static_cast<int64_t>(value));
}

/// `outer` times the bytes of each operand, one after the other.
struct ConcatShape {
  int64_t outer;
  std::vector<int64_t> bytes;
};
Result<ConcatShape> readConcat(const KernelSpec &spec);

Status checkCopy(const KernelSpec &spec);
/// This rank's part of x, which is cut over the ranks of an axis of the mesh: where it starts, in bytes.
Result<int64_t> readOwnPart(const KernelSpec &spec);

//===-- kernels without inputs ---------------------------------------------------===//

/// Attribute `value` (a splat) or `data` (raw little-endian elements).
Status checkConstant(const KernelSpec &spec);
/// What a constant's `value` is as an element.
template <typename T> T splatValue(const KernelSpec &spec) {
  if constexpr (Element<T>::isFloat)
    return store<T>(static_cast<Compute<T>>(spec.getReal("value", 0)));
  auto it = spec.attributes.find("value");
  const int64_t *integer = it == spec.attributes.end() ? nullptr : std::get_if<int64_t>(&it->second);
  // Saturates: a real far outside 64 bits must not be undefined behaviour.
  double real = std::min(std::max(spec.getReal("value", 0), -9.2e18), 9.2e18);
  return store<T>(static_cast<Compute<T>>(integer ? *integer : std::isnan(real) ? 0 : static_cast<int64_t>(real)));
}

/// start + i * delta, as a cast makes it an element.
template <typename T> ZC_HD T iotaValue(double start, double delta, int64_t i) {
  double value = start + static_cast<double>(i) * delta;
  if constexpr (Element<T>::isFloat)
    return store<T>(static_cast<Compute<T>>(value));
  else // saturates
    return store<T>(static_cast<Compute<T>>(static_cast<int64_t>(value != value    ? 0
                                                                 : value < -9.2e18 ? -9.2e18
                                                                 : value > 9.2e18  ? 9.2e18
                                                                                   : value)));
}
Status checkIota(const KernelSpec &spec);
Status checkLossScale(const KernelSpec &spec);

//===-- reductions ------------------------------------------------------------------===//

/// The kept and the reduced dimensions of the operand, with its strides along them.
struct ReduceShape {
  DType dtype;
  Dims kept, keptStrides, reduced, reducedStrides;
};
Result<ReduceShape> readReduce(const KernelSpec &spec);

} // namespace zc::shapes
