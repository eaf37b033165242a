//===- RawBytes.cpp - elements as the bytes kernels see ----------------------------===//

#include "dialects/graph/KernelAttributes.h"
#include "dialects/plan/PlanProto.h"

using namespace mlir;

static int64_t bytesOfElement(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

std::string zc::plan::rawBytesOf(ElementsAttr elements) {
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  return dense ? graph::elementBytes(dense) : std::string();
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
