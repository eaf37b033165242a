//===- Npy.h - NumPy's .npy files -----------------------------------------------===//
//
// "\x93NUMPY", version, header length, a Python dict literal, then the elements. Versions 1 to 3, little endian, C
// order, plain numbers. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Tensor.h"
#include "runtime/io/File.h"

namespace zc::io {

struct NpyFile {
  char kind = 0; ///< as NumPy writes it: 'f', 'i', 'u' or 'b'
  int64_t elementBytes = 0;
  std::optional<DType> dtype; ///< empty for u16, u32 and u64, which no graph has but token files do
  std::vector<int64_t> dims;
  int64_t offset = 0; ///< of the elements, in bytes
  File file;

  /// Errors: badInput (malformed), unsupported (objects, structures, Fortran order, big endian), io.
  static Result<NpyFile> open(const std::string &path);
  static Result<NpyFile> read(File file);
};

} // namespace zc::io
