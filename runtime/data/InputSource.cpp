#include "runtime/data/InputSource.h"

#include <algorithm>
#include <cstring>

namespace zc::data {

void InputSource::ignoreFrom(int64_t first, void *labels) const {
  const InputSpec &input = batch.inputs[*batch.labels()];
  const int64_t rows = BatchSpec::rowsOf(input), size = sizeOf(input.type.dtype);
  const int64_t elements = input.type.numElements() / rows, ignored = *input.range.ignored;
  auto *to = static_cast<char *>(labels);
  for (int64_t i = std::clamp(first, int64_t(0), rows) * elements; i < rows * elements; ++i)
    std::memcpy(to + i * size, &ignored, size_t(size)); // little-endian: the low bytes are the narrower integer
}

} // namespace zc::data
