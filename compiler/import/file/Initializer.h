//===- Initializer.h - TensorProto: type, place of bytes, values ---------------===//
#pragma once

#include "compiler/import/base/HostTensor.h"
#include "compiler/import/file/ModelFile.h"

#include "mlir/IR/BuiltinTypes.h"

namespace zc::importer {

/// A checked tensor of the file: its bytes are exactly what dtype and dims need.
struct TensorInfo {
  const onnxpb::Tensor *tensor = nullptr;
  DType dtype = DType::f32;
  llvm::SmallVector<int64_t, 4> dims;
  int64_t elements = 0;
  int64_t bytes = 0;
  /// Where `bytes` little-endian elements stand; empty when the values are only in the message's number fields.
  std::string sourceFile; ///< relative to the model's folder
  int64_t sourceOffset = 0;
};

/// Nothing for types this project has no tensors of (strings, complex, 8-bit floats, 4-bit integers, ...).
std::optional<DType> dtypeOfOnnx(int32_t dataType);
/// Of those it has, is the tensor's a float's?
bool isFloat(const onnxpb::Tensor &tensor);
/// "FLOAT", or the number.
std::string onnxTypeName(int32_t dataType);

/// Checks dims (overflow, limits), type and length of the bytes, external or not.
Result<TensorInfo> inspectTensor(const ModelFile &model, const onnxpb::Tensor &tensor, const ImportLimits &limits,
                                 const std::string &where);

/// The values of a tensor that stand in number fields, which must be as many as its shape needs.
HostTensor decodeNumbers(const onnxpb::Tensor &tensor, DType dtype);
/// Reads the values of a tensor of at most `limits.foldedElements` elements.
Result<HostTensor> readTensor(ModelFile &model, const TensorInfo &info, const std::string &where);

} // namespace zc::importer
