//===- StridedView.h - elements of a tensor, under another shape --------------===//
//
// How a step reads and writes parts of tensors without copying them first: the attribute `views` of its kernel, one
// list of integers, which has for each tensor that the kernel's description names, in that order,
//
//   operand, offset, rank, size of each dimension, stride of each dimension
//
// Index i of it is element offset + sum of i[d] * strides[d] of that operand of the step.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zc {

struct StridedView {
  size_t tensor = 0;  ///< operands first, then results
  int64_t offset = 0; ///< elements, as strides
  std::vector<int64_t> sizes, strides;

  /// All of a tensor of this shape.
  static StridedView whole(size_t tensor, const std::vector<int64_t> &shape);
  int64_t numElements() const;
  /// Where element `index` of it, row major, is in its tensor.
  int64_t at(int64_t index) const;
  /// Do its elements follow each other, row major?
  bool isContiguous() const;
  /// Is element i of it element i of a tensor of this shape?
  bool isAllOf(const std::vector<int64_t> &shape) const;

  // The view of what an operation would make of this one.
  /// graph.transpose
  StridedView transposed(const std::vector<int64_t> &permutation) const;
  /// graph.slice
  StridedView sliced(const std::vector<int64_t> &offsets, const std::vector<int64_t> &sliceSizes,
                     const std::vector<int64_t> &sliceStrides) const;
  /// graph.reshape; nothing where dimensions would be joined whose elements do not follow each other.
  std::optional<StridedView> reshaped(const std::vector<int64_t> &shape) const;
};

/// The attribute, and back; nothing where the list is none of views.
std::vector<int64_t> encode(const std::vector<StridedView> &views);
std::optional<std::vector<StridedView>> decodeViews(const std::vector<int64_t> &words);

/// What is wrong with views, and the label of what they violate.
///
///   view_c1  each tensor is seen, an operand by one view, in order; at most 256 views of at most 64 dimensions; no
///   offset
///            or size is negative
///   view_c2  inside its tensor
///   view_c3  no element is in a view twice: its dimensions lie within each other
///   view_c4  views of a result have all its elements, each in one of them
struct ViewProblem {
  const char *label;
  std::string what;
};
/// `elements` of each tensor, each below 2^48; the first `numInputs` are read only.
std::optional<ViewProblem> findProblem(const std::vector<StridedView> &views, const std::vector<int64_t> &elements,
                                       size_t numInputs);

} // namespace zc
