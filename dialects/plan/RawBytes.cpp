//===- RawBytes.cpp - elements as the bytes kernels see ----------------------------===//

#include "dialects/plan/PlanProto.h"

using namespace mlir;

static int64_t bytesOfElement(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

std::string zc::plan::rawBytesOf(ElementsAttr elements) {
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return {};
  auto type = dense.getType();
  std::string bytes;
  if (type.getElementType().isInteger(1)) { // MLIR packs bits
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value ? 1 : 0);
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat())
    return std::string(raw.begin(), raw.end());
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    bytes.append(raw.begin(), raw.end());
  return bytes;
}

ElementsAttr zc::plan::elementsFromRawBytes(RankedTensorType type, StringRef bytes) {
  if (static_cast<int64_t>(bytes.size()) != type.getNumElements() * bytesOfElement(type.getElementType()))
    return {};
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, values);
  }
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size()));
}
