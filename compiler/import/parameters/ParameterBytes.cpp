//===- ParameterBytes.cpp - looking into the bytes of parameters --------------------===//
#include "compiler/import/parameters/ParameterBytes.h"
#include "compiler/import/file/ExternalData.h"

#include <cstring>

using namespace zc;
using namespace zc::importer;
using llvm::StringRef;

namespace {

constexpr int64_t wholeBytesLimit = int64_t(64) << 20;                          ///< compared byte by byte up to here
constexpr int64_t searchedBytesLimit = int64_t(16) << 20, searchedEndRows = 16; ///< for a row of zeros
constexpr int64_t signatureElements = 16, sampledElements = 4096;

/// `count` indices below `elements`, spread and fixed.
llvm::SmallVector<int64_t> spread(int64_t elements, int64_t count) {
  llvm::SmallVector<int64_t> indices;
  for (int64_t k = 0; k < std::min(count, elements); ++k)
    indices.push_back(static_cast<int64_t>((static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15u) >> 16) % elements);
  return indices;
}

/// Index of element `e` of a matrix with `dims` in its transpose.
int64_t transposedIndex(int64_t e, llvm::ArrayRef<int64_t> dims) { return (e % dims[1]) * dims[0] + e / dims[1]; }

} // namespace

const FileReader *ParameterBytes::fileOf(const TensorInfo &info) {
  if (info.sourceFile.empty())
    return nullptr;
  if (info.tensor->data_location() != 1)
    return &model.file;
  auto found = files.find(info.sourceFile);
  if (found == files.end()) {
    auto opened = openExternal(model, info.sourceFile, model.path);
    if (!opened.ok())
      return nullptr;
    found = files.try_emplace(info.sourceFile, std::move(*opened)).first;
  }
  return &found->second;
}

bool ParameterBytes::gather(const TensorInfo &info, llvm::ArrayRef<int64_t> indices, std::string &out) {
  const FileReader *file = fileOf(info);
  int64_t size = sizeOf(info.dtype);
  out.resize(indices.size() * size);
  for (size_t k = 0; file && k < indices.size(); ++k)
    if (!file->file().readAt(out.data() + k * size, size, info.sourceOffset + indices[k] * size).ok())
      return false;
  return file != nullptr;
}

bool ParameterBytes::bytesAt(const TensorInfo &info, int64_t offset, int64_t size, std::string &out) {
  const FileReader *file = fileOf(info);
  out.resize(size);
  return file && file->file().readAt(out.data(), size, info.sourceOffset + offset).ok();
}

bool ParameterBytes::wholeBytes(const TensorInfo &info, std::string &out) { return bytesAt(info, 0, info.bytes, out); }

std::optional<int64_t> ParameterBytes::zeroRow(StringRef name) {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dims.size() != 2 || found->second.elements == 0)
    return std::nullopt;
  const TensorInfo &info = found->second;
  int64_t rows = info.dims[0], rowBytes = info.bytes / rows;
  int64_t ends = info.bytes <= searchedBytesLimit ? rows : std::min(rows, searchedEndRows);
  std::optional<int64_t> zero;
  for (int64_t first : {int64_t(0), std::max(ends, rows - searchedEndRows)}) {
    int64_t count = first == 0 ? ends : rows - first;
    std::string bytes;
    if (count > 0 && !bytesAt(info, first * rowBytes, count * rowBytes, bytes))
      return std::nullopt;
    for (int64_t row = 0; row < count; ++row) {
      if (StringRef(bytes.data() + row * rowBytes, rowBytes).find_if([](char c) { return c != 0; }) != StringRef::npos)
        continue;
      if (zero)
        return std::nullopt;
      zero = first + row;
    }
  }
  return rows > 1 ? zero : std::nullopt;
}

std::unique_ptr<HostTensor> ParameterBytes::values(StringRef name, int64_t most) {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.elements > most)
    return nullptr;
  auto read = readTensor(model, found->second, model.path);
  return read.ok() ? std::make_unique<HostTensor>(std::move(*read)) : nullptr;
}

std::unique_ptr<HostTensor> ParameterBytes::part(StringRef name, int64_t first, int64_t count) {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.elements < first + count)
    return nullptr;
  auto tensor = std::make_unique<HostTensor>();
  tensor->dtype = found->second.dtype;
  tensor->dims = {count};
  tensor->allocate();
  std::string bytes;
  const auto size = static_cast<int64_t>(sizeOf(tensor->dtype));
  if (!bytesAt(found->second, first * size, count * size, bytes))
    return nullptr;
  for (int64_t i = 0; i < count; ++i)
    tensor->decode(i, bytes.data() + i * size);
  return tensor;
}

std::optional<ParameterBytes::Band> ParameterBytes::band(const TensorInfo &info) {
  if (info.dims.size() < 2 || info.elements == 0)
    return std::nullopt;
  const int64_t rows = info.dims[info.dims.size() - 2], columns = info.dims.back(),
                size = static_cast<int64_t>(sizeOf(info.dtype)), rowBytes = columns * size;
  std::string first, numbers, row;
  if (!bytesAt(info, 0, rowBytes, first) || !bytesAt(info, (rows - 1) * rowBytes, rowBytes, numbers))
    return std::nullopt;
  // Of j - i from 1 - rows on: what any row is, is a part of this. With fewer columns than rows only one number is.
  for (int64_t more = numbers.size() / size; more < rows + columns - 1; ++more)
    numbers +=
        first.substr(static_cast<size_t>(std::max<int64_t>(more - rows + 1, 0) * size), static_cast<size_t>(size));
  auto numberAt = [&](int64_t far) {
    return StringRef(numbers).substr(static_cast<size_t>((far + rows - 1) * size), static_cast<size_t>(size));
  };
  const StringRef kept = numberAt(columns - rows);
  int64_t from = columns - rows, last = from;
  while (from > 1 - rows && numberAt(from - 1) == kept)
    --from;
  while (last < columns - 1 && numberAt(last + 1) == kept)
    ++last;
  std::optional<StringRef> dropped;
  for (int64_t far = 1 - rows; far < columns; ++far) {
    if (from <= far && far <= last)
      continue;
    if (dropped && numberAt(far) != *dropped)
      return std::nullopt;
    dropped = numberAt(far);
  }
  if (dropped && (columns < rows || rows < 2))
    return std::nullopt;
  for (int64_t r = 0, n = info.elements / columns; r < n; ++r)
    if (!bytesAt(info, r * rowBytes, rowBytes, row) ||
        row !=
            StringRef(numbers).substr(static_cast<size_t>((rows - 1 - r % rows) * size), static_cast<size_t>(rowBytes)))
      return std::nullopt;
  auto scalar = [&](StringRef bytes) {
    HostTensor number;
    number.dtype = info.dtype;
    number.allocate();
    number.decode(0, bytes.data());
    return number;
  };
  return Band{scalar(kept), dropped ? std::optional(scalar(*dropped)) : std::nullopt, from, last};
}

std::optional<double> ParameterBytes::splat(StringRef name) {
  auto tensor = values(name);
  if (!tensor || tensor->numElements() == 0)
    return std::nullopt;
  for (int64_t i = 1, n = tensor->numElements(); i < n; ++i)
    if (tensor->valueAt(i) != tensor->valueAt(0))
      return std::nullopt;
  return tensor->valueAt(0);
}

std::string ParameterBytes::signature(StringRef name, bool transposed) {
  auto found = tensors.find(name);
  if (found == tensors.end() || found->second.elements < 2)
    return {};
  const TensorInfo &info = found->second;
  llvm::SmallVector<int64_t> indices = spread(info.elements, signatureElements);
  bool isMatrix = info.dims.size() == 2;
  // A tall matrix is looked at as its transpose, so that a matrix and its transpose look the same.
  if (isMatrix && (transposed || info.dims[0] > info.dims[1])) {
    int64_t flipped[] = {info.dims[1], info.dims[0]};
    for (int64_t &index : indices)
      index = transposedIndex(index, flipped);
  }
  std::string bytes;
  if (!gather(info, indices, bytes))
    return {};
  size_t size = sizeOf(info.dtype);
  bool allEqual = true;
  for (size_t k = 1; k < indices.size(); ++k)
    allEqual &= std::memcmp(bytes.data(), bytes.data() + k * size, size) == 0;
  return allEqual ? std::string() : bytes;
}

ParameterBytes::Match ParameterBytes::compare(StringRef a, StringRef b) {
  auto foundA = tensors.find(a), foundB = tensors.find(b);
  if (foundA == tensors.end() || foundB == tensors.end())
    return Match::none;
  const TensorInfo &first = foundA->second, &second = foundB->second;
  if (first.dtype != second.dtype || first.elements != second.elements)
    return Match::none;
  bool straight = first.dims == second.dims;
  bool flipped = first.dims.size() == 2 && second.dims.size() == 2 && first.dims[0] == second.dims[1] &&
                 first.dims[1] == second.dims[0];
  std::string left, right;
  size_t size = sizeOf(first.dtype);
  if (first.bytes <= wholeBytesLimit) {
    if (!wholeBytes(first, left) || !wholeBytes(second, right))
      return Match::none;
    if (straight && left == right)
      return Match::equal;
    for (int64_t e = 0; flipped && e < first.elements; ++e)
      flipped = std::memcmp(left.data() + e * size, right.data() + transposedIndex(e, first.dims) * size, size) == 0;
    return flipped ? Match::transposed : Match::none;
  }
  llvm::SmallVector<int64_t> indices = spread(first.elements, sampledElements), others = indices;
  if (!gather(first, indices, left))
    return Match::none;
  if (straight && gather(second, indices, right) && left == right)
    return Match::equal;
  if (!flipped)
    return Match::none;
  for (int64_t &index : others)
    index = transposedIndex(index, first.dims);
  return gather(second, others, right) && left == right ? Match::transposed : Match::none;
}
