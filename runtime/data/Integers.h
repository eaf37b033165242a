//===- Integers.h - little-endian integers of a file, of any width ----------------===//
#pragma once

#include "runtime/base/Tensor.h"
#include "runtime/io/File.h"

#include <functional>
#include <memory>

namespace zc::data {

/// `count` integers of `width` bytes (1, 2, 4 or 8) from byte `offset` on.
struct Integers {
  std::shared_ptr<io::File> file;
  int64_t offset = 0, count = 0;
  int width = 1;
  bool isSigned = false;
  int64_t row = 0; ///< elements of each row of two dimensions; 0: there are no rows

  /// Elements [first, first + n) widened; what is beyond an int64 becomes its largest. Allocates only when it fails.
  /// Errors: io.
  Status read(int64_t first, int64_t n, int64_t *to) const;
  int64_t byteOf(int64_t element) const { return offset + element * width; }
  /// The greatest number that such an integer can be.
  int64_t largest() const;
};

/// Nothing where `type` is none of integers; bool is 0 and 1.
std::optional<Integers> integersOf(std::shared_ptr<io::File> file, int64_t offset, const TensorType &type);

/// What a plan takes for the elements of a graph input that it uses as indices or labels.
struct IndexRange {
  int64_t lowest = 0, limit = 0;  ///< elements are in [lowest, limit); limit 0: not known
  std::optional<int64_t> ignored; ///< labels that do not count
  bool isLabel = false;

  bool isKnown() const { return limit > 0; }
  bool holds(int64_t value) const { return (value >= lowest && value < limit) || value == ignored; }
  /// The first of `n` values that is not in it, or -1.
  int64_t firstOutside(const int64_t *values, int64_t n) const;
  /// Both are meant.
  void meet(const IndexRange &other);
  /// "is not below the 50257 classes", "is negative"; of a value that is not in it.
  std::string complaint(int64_t value) const;
};

/// How long data are checked before the first step.
struct Patience {
  double seconds = 60;
  int64_t begun = 0;          ///< nanoseconds
  int64_t bytes = 0, all = 0; ///< read so far, to be read

  /// Whether what is left can be read in time, as far as what was read tells.
  bool lasts() const;
};

/// Calls inspect(first, values, n) for pieces of `integers`, in order, as long as `patience` lasts; false if it ended
/// before. Errors: io, and what `inspect` returns.
Result<bool> scan(const Integers &integers, Patience &patience,
                  const std::function<Status(int64_t, const int64_t *, int64_t)> &inspect);

} // namespace zc::data
