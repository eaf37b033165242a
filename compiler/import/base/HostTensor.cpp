//===- HostTensor.cpp - small constants, evaluated while importing ------------===//
#include "compiler/import/base/HostTensor.h"
#include "dialects/graph/ElementType.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <cstring>

using namespace zc;
using namespace zc::importer;
using namespace mlir;

int64_t HostTensor::numElements() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

void HostTensor::allocate() {
  if (isFloat())
    floats.assign(stored(), 0);
  else
    ints.assign(stored(), 0);
}

/// Are all elements the same bits?
template <typename T> static bool areAlike(const std::vector<T> &values) {
  return std::all_of(values.begin(), values.end(),
                     [&](const T &value) { return std::memcmp(&value, values.data(), sizeof(T)) == 0; });
}

void HostTensor::compress() {
  if (splat || numElements() < 2 || !(isFloat() ? areAlike(floats) : areAlike(ints)))
    return;
  splat = true;
  floats.resize(std::min<size_t>(floats.size(), 1));
  ints.resize(std::min<size_t>(ints.size(), 1));
}

HostTensor HostTensor::ofInts(llvm::ArrayRef<int64_t> values) {
  HostTensor tensor;
  tensor.dims = {static_cast<int64_t>(values.size())};
  tensor.ints.assign(values.begin(), values.end());
  return tensor;
}

HostTensor HostTensor::scalar(double value, DType dtype) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.allocate();
  if (tensor.isFloat())
    tensor.floats[0] = roundTo(dtype, value);
  else
    tensor.ints[0] = wrapTo(dtype, static_cast<int64_t>(value));
  return tensor;
}

namespace {
template <typename T> T load(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}
template <typename T> void save(char *bytes, T value) { std::memcpy(bytes, &value, sizeof(value)); }

/// fn(T()) for the C++ integer of an integer type.
template <typename Fn> void withInteger(DType dtype, Fn fn) {
  switch (dtype) {
  case DType::i32:
    return fn(int32_t());
  case DType::i16:
    return fn(int16_t());
  case DType::i8:
    return fn(int8_t());
  case DType::u8:
  case DType::boolean:
    return fn(uint8_t());
  case DType::u16:
    return fn(uint16_t());
  case DType::u32:
    return fn(uint32_t());
  default: // u64 as the signed number of the same bits
    return fn(int64_t());
  }
}

constexpr auto nearestEven = llvm::APFloat::rmNearestTiesToEven;
} // namespace

void HostTensor::decode(int64_t i, const char *bytes) {
  if (dtype == DType::f32)
    floats[i] = load<float>(bytes);
  else if (dtype == DType::f64)
    floats[i] = load<double>(bytes);
  else if (dtype == DType::bf16)
    floats[i] = fromBf16(load<uint16_t>(bytes));
  else if (dtype == DType::f16) {
    llvm::APFloat half(llvm::APFloat::IEEEhalf(), llvm::APInt(16, load<uint16_t>(bytes)));
    bool lossy = false;
    half.convert(llvm::APFloat::IEEEdouble(), nearestEven, &lossy);
    floats[i] = half.convertToDouble();
  } else
    withInteger(dtype, [&](auto zero) { ints[i] = static_cast<int64_t>(load<decltype(zero)>(bytes)); });
  if (dtype == DType::boolean)
    ints[i] = ints[i] != 0;
}

void HostTensor::encode(int64_t i, char *bytes) const {
  if (dtype == DType::f32)
    save(bytes, static_cast<float>(floatAt(i)));
  else if (dtype == DType::f64)
    save(bytes, floatAt(i));
  else if (dtype == DType::bf16)
    save(bytes, toBf16(static_cast<float>(floatAt(i))));
  else if (dtype == DType::f16) {
    llvm::APFloat half(floatAt(i));
    bool lossy = false;
    half.convert(llvm::APFloat::IEEEhalf(), nearestEven, &lossy);
    save(bytes, static_cast<uint16_t>(half.bitcastToAPInt().getZExtValue()));
  } else
    withInteger(dtype, [&](auto zero) { save(bytes, static_cast<decltype(zero)>(intAt(i))); });
}

double zc::importer::roundTo(DType dtype, double value) {
  if (dtype == DType::f32)
    return static_cast<float>(value);
  if (dtype == DType::bf16)
    return fromBf16(toBf16(static_cast<float>(value)));
  if (dtype != DType::f16)
    return value;
  llvm::APFloat rounded(value);
  bool lossy = false;
  rounded.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  rounded.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return rounded.convertToDouble();
}

int64_t zc::importer::wrapTo(DType dtype, int64_t value) {
  if (dtype == DType::boolean)
    return value != 0;
  withInteger(dtype, [&](auto zero) { value = static_cast<int64_t>(static_cast<decltype(zero)>(value)); });
  return value;
}

std::optional<DType> zc::importer::dtypeOf(Type element) { return graph::dtypeOf(element); }

Type zc::importer::typeOf(DType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case DType::f32:
    return b.getF32Type();
  case DType::f64:
    return b.getF64Type();
  case DType::f16:
    return b.getF16Type();
  case DType::bf16:
    return b.getBF16Type();
  case DType::i64:
    return b.getI64Type();
  case DType::i32:
    return b.getI32Type();
  case DType::i16:
    return b.getIntegerType(16);
  case DType::i8:
    return b.getIntegerType(8);
  case DType::u8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case DType::u16:
    return b.getIntegerType(16, /*isSigned=*/false);
  case DType::u32:
    return b.getIntegerType(32, /*isSigned=*/false);
  case DType::u64:
    return b.getIntegerType(64, /*isSigned=*/false);
  case DType::boolean:
    return b.getI1Type();
  }
  return {};
}

DenseElementsAttr zc::importer::toAttribute(const HostTensor &tensor, MLIRContext *context) {
  Type element = typeOf(tensor.dtype, context);
  auto type = RankedTensorType::get(tensor.dims, element);
  if (tensor.dtype == DType::boolean) {
    llvm::SmallVector<bool> values;
    for (int64_t value : tensor.ints)
      values.push_back(value != 0);
    return DenseElementsAttr::get(type, values);
  }
  int64_t stored = tensor.stored(), size = sizeOf(tensor.dtype);
  std::vector<char> bytes(stored * size);
  for (int64_t i = 0; i < stored; ++i)
    tensor.encode(i, bytes.data() + i * size);
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

std::optional<HostTensor> zc::importer::shapedLike(Type type) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return std::nullopt;
  auto dtype = dtypeOf(ranked.getElementType());
  if (!dtype)
    return std::nullopt;
  HostTensor tensor;
  tensor.dtype = *dtype;
  tensor.dims.assign(ranked.getShape().begin(), ranked.getShape().end());
  return tensor;
}

std::optional<HostTensor> zc::importer::fromAttribute(Attribute attribute) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attribute);
  if (!dense)
    return std::nullopt;
  auto tensor = shapedLike(dense.getType());
  if (!tensor)
    return std::nullopt;
  tensor->splat = dense.isSplat() && dense.getNumElements() > 0;
  tensor->allocate();
  auto toDouble = [](APFloat value) {
    bool lossy = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return value.convertToDouble();
  };
  auto toInt = [&](const APInt &value) {
    return isUnsigned(tensor->dtype) ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
  };
  if (tensor->splat) {
    if (tensor->isFloat())
      tensor->floats[0] = toDouble(dense.getSplatValue<APFloat>());
    else
      tensor->ints[0] = toInt(dense.getSplatValue<APInt>());
    return tensor;
  }
  int64_t i = 0;
  if (tensor->isFloat())
    for (const APFloat &value : dense.getValues<APFloat>())
      tensor->floats[i++] = toDouble(value);
  else
    for (const APInt &value : dense.getValues<APInt>())
      tensor->ints[i++] = toInt(value);
  return tensor;
}
