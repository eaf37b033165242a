#include "runtime/data/Integers.h"
#include "base/Clock.h"

#include <algorithm>
#include <cstring>

namespace zc::data {

template <typename T> static void widen(const char *raw, int64_t n, int64_t *to) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, raw + i * int64_t(sizeof value), sizeof value);
    if constexpr (std::is_same_v<T, uint64_t>)
      to[i] = int64_t(std::min(value, uint64_t(INT64_MAX)));
    else
      to[i] = value;
  }
}

static void widen(const char *raw, int64_t n, int width, bool isSigned, int64_t *to) {
  switch (width) {
  case 1:
    return isSigned ? widen<int8_t>(raw, n, to) : widen<uint8_t>(raw, n, to);
  case 2:
    return isSigned ? widen<int16_t>(raw, n, to) : widen<uint16_t>(raw, n, to);
  case 4:
    return isSigned ? widen<int32_t>(raw, n, to) : widen<uint32_t>(raw, n, to);
  default:
    return isSigned ? widen<int64_t>(raw, n, to) : widen<uint64_t>(raw, n, to);
  }
}

Status Integers::read(int64_t first, int64_t n, int64_t *to) const {
  char raw[1 << 14];
  const int64_t piece = int64_t(sizeof raw) / width;
  for (int64_t done = 0; done < n; done += piece) {
    int64_t now = std::min(piece, n - done);
    ZC_RETURN_IF_ERROR(file->readAt(raw, now * width, byteOf(first + done)));
    widen(raw, now, width, isSigned, to + done);
  }
  return Status::success();
}

int64_t Integers::largest() const {
  int bits = 8 * width - (isSigned ? 1 : 0);
  return bits >= 63 ? INT64_MAX : (int64_t(1) << bits) - 1;
}

std::optional<Integers> integersOf(std::shared_ptr<io::File> file, int64_t offset, const TensorType &type) {
  bool isSigned =
      type.dtype == DType::i64 || type.dtype == DType::i32 || type.dtype == DType::i16 || type.dtype == DType::i8;
  bool isUnsigned = type.dtype == DType::u64 || type.dtype == DType::u32 || type.dtype == DType::u16 ||
                    type.dtype == DType::u8 || type.dtype == DType::boolean;
  if (!isSigned && !isUnsigned)
    return std::nullopt;
  return Integers{std::move(file), offset, type.numElements(), int(sizeOf(type.dtype)), isSigned};
}

/// Bytes before the time that they took tells anything.
static constexpr int64_t kTrial = int64_t(64) << 20;

bool Patience::lasts() const {
  if (bytes < std::min(kTrial, all))
    return true;
  double passed = double(nanoseconds() - begun) * 1e-9;
  return passed * double(all) / double(std::max<int64_t>(bytes, 1)) <= seconds;
}

Result<bool> scan(const Integers &integers, Patience &patience,
                  const std::function<Status(int64_t, const int64_t *, int64_t)> &inspect) {
  constexpr int64_t kPiece = 1 << 16, kLook = 64;
  std::vector<int64_t> values(size_t(std::min(kPiece, std::max<int64_t>(integers.count, 1))));
  int64_t piece = 0;
  for (int64_t first = 0; first < integers.count; first += kPiece) {
    if (++piece % kLook == 0 && !patience.lasts())
      return false;
    int64_t n = std::min(kPiece, integers.count - first);
    ZC_RETURN_IF_ERROR(integers.read(first, n, values.data()));
    ZC_RETURN_IF_ERROR(inspect(first, values.data(), n));
    patience.bytes += n * integers.width;
  }
  return true;
}

} // namespace zc::data
