#include "dialects/graph/KernelAttributes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/View.h"

using namespace mlir;

namespace zc::graph {

std::string elementBytes(DenseElementsAttr elements) {
  std::string bytes;
  if (elements.getElementType().isInteger(1)) { // MLIR packs bools to bits
    for (bool value : elements.getValues<bool>())
      bytes.push_back(value);
    return bytes;
  }
  ArrayRef<char> raw = elements.getRawData();
  size_t copies = elements.isSplat() ? elements.getNumElements() : 1;
  for (size_t i = 0; i < copies; ++i)
    bytes.append(raw.data(), raw.size());
  return bytes;
}

/// A constant's: a splat as a number `value`, other elements as they are, `data`.
static void addElements(NamedAttrList &attributes, ElementsAttr elements) {
  if (!elements.isSplat() || elements.getNumElements() == 0) {
    attributes.set("data", elements);
    return;
  }
  Builder builder(elements.getContext());
  Type type = elements.getElementType();
  mlir::Attribute value = elements.getSplatValue<mlir::Attribute>();
  if (auto real = dyn_cast<FloatAttr>(value)) {
    attributes.set("value", builder.getF64FloatAttr(real.getValueAsDouble()));
    return;
  }
  const APInt number = cast<IntegerAttr>(value).getValue();
  const bool isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  attributes.set("value",
                 builder.getI64IntegerAttr(isUnsigned ? int64_t(number.getZExtValue()) : number.getSExtValue()));
}

NamedAttrList kernelAttributes(Operation *op) {
  NamedAttrList attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (auto elements = dyn_cast<ElementsAttr>(attribute.getValue()))
      addElements(attributes, elements);
    else if (auto views = dyn_cast<ViewsAttr>(attribute.getValue())) {
      SmallVector<zc::StridedView> all = toStridedViews(views);
      attributes.set(attribute.getName(),
                     DenseI64ArrayAttr::get(op->getContext(), zc::encode({all.begin(), all.end()})));
    } else if (auto reduction = dyn_cast<ScatterReductionAttr>(attribute.getValue())) {
      attributes.set(attribute.getName(), StringAttr::get(op->getContext(), nameOf(reduction.getValue())));
    } else if (!isa<TypeAttr>(attribute.getValue()) && !isNote(attribute))
      attributes.push_back(attribute);
  return attributes;
}

} // namespace zc::graph
