//===- ParameterBytes.h - looking into the bytes of parameters ----------------------===//
//
// Importing reads no weights. Questions of evidence (is this a mask? are these two the same?) are answered from a few
// elements, and from all of them only where there are few or where a sample already says yes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/Initializer.h"

#include "llvm/ADT/StringMap.h"

#include <memory>

namespace zc::importer {

class ParameterBytes {
public:
  ParameterBytes(ModelFile &model, const llvm::StringMap<TensorInfo> &tensors) : model(model), tensors(tensors) {}

  /// All values, of at most `most` elements; null when there are more or they cannot be read.
  std::unique_ptr<HostTensor> values(llvm::StringRef name, int64_t most = 65536);
  /// `count` elements from `first` on, without their shape; null when there are fewer or they cannot be read.
  std::unique_ptr<HostTensor> part(llvm::StringRef name, int64_t first, int64_t count);
  /// The one value that all elements have.
  std::optional<double> splat(llvm::StringRef name);

  /// The band that each matrix of a tensor of at least two dimensions is, as causal masks and windows are: element (i,
  /// j) is one number where first <= j - i <= last, another elsewhere (scalars of the tensor's type); no other where
  /// all elements are one. The last row's last element is inside.
  struct Band {
    HostTensor kept;
    std::optional<HostTensor> dropped;
    int64_t first, last;
  };
  std::optional<Band> band(const TensorInfo &info);

  /// The only row of a matrix that is all zeros. Large ones: among their first and last rows, where padding stands.
  std::optional<int64_t> zeroRow(llvm::StringRef name);

  enum class Match { none, equal, transposed };
  /// Same dtype and the same bytes, in the same or in transposed order (rank 2). Large tensors: all of `sampled`
  /// elements.
  Match compare(llvm::StringRef a, llvm::StringRef b);
  /// A few elements in an order that transposition of a matrix does not change (unless it is square, then
  /// `transposed` gives that of the transpose); empty where nothing can be read or all of them are equal.
  std::string signature(llvm::StringRef name, bool transposed = false);

private:
  const FileReader *fileOf(const TensorInfo &info);
  /// Bytes of elements at `indices`, one after the other.
  bool gather(const TensorInfo &info, llvm::ArrayRef<int64_t> indices, std::string &out);
  bool bytesAt(const TensorInfo &info, int64_t offset, int64_t size, std::string &out);
  bool wholeBytes(const TensorInfo &info, std::string &out);

  ModelFile &model;
  const llvm::StringMap<TensorInfo> &tensors;
  llvm::StringMap<FileReader> files; ///< external ones
};

} // namespace zc::importer
