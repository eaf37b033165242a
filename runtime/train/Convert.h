//===- Convert.h - elements from one type to another ---------------------------------===//
#pragma once

#include "base/Status.h"
#include "base/Tensor.h"

namespace zc::train {

/// The types are equal, or both are floating.
bool convertible(DType from, DType to);
/// `count` elements; rounds to nearest even; `from` and `to` must not overlap and be convertible.
void convert(const void *from, DType fromType, void *to, DType toType, int64_t count);

/// A matrix of `rows` x `columns` elements of `size` bytes, written column by column.
void turn(const char *from, int64_t rows, int64_t columns, int64_t size, char *to);

} // namespace zc::train
