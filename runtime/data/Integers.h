//===- Integers.h - little-endian integers of a file, of any width ----------------===//
#pragma once

#include "base/Tensor.h"
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
