#include "dialects/graph/ElementType.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace zc::graph {

std::optional<zc::DType> dtypeOf(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element)) {
    if (integer.isSigned())
      return std::nullopt;
    const bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 64:
      return isUnsigned ? DType::u64 : DType::i64;
    case 32:
      return isUnsigned ? DType::u32 : DType::i32;
    case 16:
      return isUnsigned ? DType::u16 : DType::i16;
    case 8:
      return isUnsigned ? DType::u8 : DType::i8;
    case 1:
      return isUnsigned ? std::nullopt : std::optional(DType::boolean);
    }
    return std::nullopt;
  }
  return element.isF32()    ? std::optional(DType::f32)
         : element.isBF16() ? std::optional(DType::bf16)
         : element.isF16()  ? std::optional(DType::f16)
         : element.isF64()  ? std::optional(DType::f64)
                            : std::nullopt;
}

} // namespace zc::graph
