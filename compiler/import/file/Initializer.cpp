//===- Initializer.cpp - TensorProto: type, place of bytes, values -------------===//
#include "compiler/import/file/Initializer.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/file/ExternalData.h"

using namespace zc;
using namespace zc::importer;

namespace {

/// ONNX TensorProto.DataType, by number.
struct OnnxType {
  const char *name;
  std::optional<DType> dtype;
};
constexpr OnnxType onnxTypes[] = {
    {"UNDEFINED", {}},
    {"FLOAT", DType::f32},
    {"UINT8", DType::u8},
    {"INT8", DType::i8},
    {"UINT16", DType::u16},
    {"INT16", DType::i16},
    {"INT32", DType::i32},
    {"INT64", DType::i64},
    {"STRING", {}},
    {"BOOL", DType::boolean},
    {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},
    {"UINT32", DType::u32},
    {"UINT64", DType::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", DType::bf16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
};

/// How often each value field is given.
int64_t numberFieldSize(const onnxpb::Tensor &tensor, DType dtype) {
  switch (dtype) {
  case DType::f32:
    return tensor.float_data_size();
  case DType::f64:
    return tensor.double_data_size();
  case DType::i64:
    return tensor.int64_data_size();
  case DType::u32:
  case DType::u64:
    return tensor.uint64_data_size();
  default:
    return tensor.int32_data_size();
  }
}

} // namespace

std::optional<DType> zc::importer::dtypeOfOnnx(int32_t dataType) {
  if (dataType < 0 || dataType >= static_cast<int32_t>(std::size(onnxTypes)))
    return std::nullopt;
  return onnxTypes[dataType].dtype;
}

bool zc::importer::isFloat(const onnxpb::Tensor &tensor) {
  HostTensor probe;
  const auto dtype = dtypeOfOnnx(tensor.data_type());
  probe.dtype = dtype.value_or(probe.dtype);
  return dtype && probe.isFloat();
}

std::string zc::importer::onnxTypeName(int32_t dataType) {
  if (dataType < 0 || dataType >= static_cast<int32_t>(std::size(onnxTypes)))
    return std::to_string(dataType);
  return onnxTypes[dataType].name;
}

static Status countElements(TensorInfo &info, const ImportLimits &limits, const std::string &where) {
  const onnxpb::Tensor &tensor = *info.tensor;
  if (tensor.dims_size() > limits.rank)
    return badFile(badTensor,
                   "has rank " + std::to_string(tensor.dims_size()) + ", more than " + std::to_string(limits.rank),
                   where);
  info.elements = 1;
  int64_t volume = 1, bytes = 0; // as if dimensions of 0 were 1
  for (int64_t d : tensor.dims()) {
    if (d < 0)
      return badFile(badTensor, "has negative dimension " + std::to_string(d), where);
    info.dims.push_back(d);
  }
  for (int64_t d : tensor.dims()) {
    bool over = __builtin_mul_overflow(volume, std::max<int64_t>(d, 1), &volume) ||
                __builtin_mul_overflow(volume, sizeOf(info.dtype), &bytes);
    // A zero does not excuse absurd dimensions beside it.
    if (over || bytes > limits.tensorBits / 8)
      return badFile(tooLarge, "its dimensions make more than 2^48 bits", where);
    info.elements *= d;
  }
  info.bytes = info.elements * sizeOf(info.dtype);
  return Status::success();
}

/// Values inside of the model: in one piece of bytes, which `info` then tells, or in number fields.
static Status inspectValues(TensorInfo &info, const ModelFile &model, const ImportLimits &limits,
                            const std::string &where) {
  const onnxpb::Tensor &tensor = *info.tensor;
  auto found = model.payloads.find(&tensor);
  Payload payload = found == model.payloads.end() ? Payload() : found->second;
  int direct = info.dtype == DType::f32 ? 4 : info.dtype == DType::f64 ? 10 : 9;
  int64_t numbers = numberFieldSize(tensor, info.dtype);
  if (payload.pieces == 0 && tensor.has_raw_data()) // of a small node, which was parsed whole
    payload = {0, tensor.raw_data().size(), 9, 1};
  if (payload.pieces == 1 && (payload.field == 9 || payload.field == direct)) {
    if (payload.field == 9 && numbers > 0)
      return badFile(badTensor, "has both raw_data and number fields", where);
    if (static_cast<int64_t>(payload.bytes) != info.bytes)
      return badFile(
          badTensor,
          "has " + std::to_string(payload.bytes) + " bytes, but its shape needs " + std::to_string(info.bytes), where);
    if (found == model.payloads.end())
      return Status::success();
    info.sourceFile = model.name;
    info.sourceOffset = static_cast<int64_t>(payload.offset);
    return Status::success();
  }
  if (payload.pieces > 0 && (payload.field == 9 || tensor.has_raw_data()))
    return badFile(badTensor, "gives its values several times", where);
  if (numbers != info.elements)
    return badFile(badTensor,
                   "has " + std::to_string(numbers) + " values of type " + onnxTypeName(tensor.data_type()) +
                       ", but its shape needs " + std::to_string(info.elements),
                   where);
  if (numbers > limits.foldedElements)
    return unsupportedError(unsupportedForm, "keeps " + std::to_string(numbers) + " values in number fields", where,
                            "save the model with raw_data (onnx.save with external data does)");
  return Status::success();
}

Result<TensorInfo> zc::importer::inspectTensor(const ModelFile &model, const onnxpb::Tensor &tensor,
                                               const ImportLimits &limits, const std::string &where) {
  TensorInfo info;
  info.tensor = &tensor;
  auto dtype = dtypeOfOnnx(tensor.data_type());
  if (tensor.data_type() <= 0 || tensor.data_type() >= static_cast<int32_t>(std::size(onnxTypes)))
    return badFile(badTensor, "has data_type " + std::to_string(tensor.data_type()) + ", which does not exist", where);
  if (!dtype)
    return unsupportedError(unsupportedForm, "has element type " + onnxTypeName(tensor.data_type()), where);
  info.dtype = *dtype;
  ZC_RETURN_IF_ERROR(countElements(info, limits, where));

  if (tensor.data_location() == 1) {
    auto range = resolveExternal(model, tensor, info.bytes, where);
    if (!range.ok())
      return range.error();
    info.sourceFile = range->file;
    info.sourceOffset = range->offset;
    return info;
  }
  if (tensor.data_location() != 0)
    return badFile(badTensor, "has data_location " + std::to_string(tensor.data_location()), where);
  ZC_RETURN_IF_ERROR(inspectValues(info, model, limits, where));
  return info;
}

HostTensor zc::importer::decodeNumbers(const onnxpb::Tensor &tensor, DType dtype) {
  HostTensor out;
  out.dtype = dtype;
  out.dims.assign(tensor.dims().begin(), tensor.dims().end());
  out.allocate();
  for (int64_t i = 0, n = std::min<int64_t>(out.stored(), numberFieldSize(tensor, dtype)); i < n; ++i) {
    if (dtype == DType::f32)
      out.floats[i] = tensor.float_data(i);
    else if (dtype == DType::f64)
      out.floats[i] = tensor.double_data(i);
    else if (dtype == DType::i64)
      out.ints[i] = tensor.int64_data(i);
    else if (dtype == DType::u32 || dtype == DType::u64)
      out.ints[i] = wrapTo(dtype, static_cast<int64_t>(tensor.uint64_data(i)));
    else if (out.isFloat()) { // 16-bit floats stand as bit patterns in int32_data
      uint16_t bits = static_cast<uint16_t>(tensor.int32_data(i));
      out.decode(i, reinterpret_cast<const char *>(&bits));
    } else
      out.ints[i] = wrapTo(dtype, tensor.int32_data(i));
  }
  return out;
}

Result<HostTensor> zc::importer::readTensor(ModelFile &model, const TensorInfo &info, const std::string &where) {
  if (info.sourceFile.empty() && !info.tensor->has_raw_data())
    return decodeNumbers(*info.tensor, info.dtype);
  HostTensor out;
  out.dtype = info.dtype;
  out.dims.assign(info.dims.begin(), info.dims.end());
  out.allocate();
  std::string bytes;
  bool ok = true;
  if (info.sourceFile.empty()) {
    bytes = info.tensor->raw_data();
  } else if (info.tensor->data_location() == 1) {
    auto file = openExternal(model, info.sourceFile, where);
    if (!file.ok())
      return file.error();
    ok = file->append(info.sourceOffset, info.bytes, bytes);
  } else {
    ok = model.file.append(info.sourceOffset, info.bytes, bytes);
  }
  if (!ok)
    return makeError(Code::io, readFailed, "cannot read its " + std::to_string(info.bytes) + " bytes", where);
  for (int64_t i = 0; i < info.elements; ++i)
    out.decode(i, bytes.data() + i * sizeOf(out.dtype));
  return out;
}
