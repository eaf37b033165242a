// Specs of the kernels on block-quantized pieces.
#include "kernels/shapes/Shapes.h"

namespace zc::shapes {
namespace {

bool isPlain(const TensorType &type) { return isFast(type.dtype); }

/// `runs` runs of `pieces` quantized pieces. By division: the product of a crafted plan's numbers may wrap.
bool isQuantized(const TensorType &type, const QuantizeShape &s, int64_t runs) {
  int64_t bytes = type.numElements(), piece = s.piece.bytes();
  if (type.dtype != DType::u8 || piece == 0)
    return type.dtype == DType::u8 && bytes == 0;
  return bytes % piece == 0 && bytes / piece == runs * s.pieces;
}

/// What all four have: bits, block, and `rows` x `columns` or `pieces`.
QuantizeShape readCommon(const KernelSpec &spec) {
  QuantizeShape s;
  s.dtype = DType::f32;
  s.piece.bits = spec.getInt("bits", 0);
  s.piece.block = spec.getInt("block", 0);
  s.grid.rows = spec.getInt("rows", 1);
  s.grid.columns = spec.getInt("columns", spec.getInt("pieces", 1));
  s.sources = spec.getInt("sources", 1);
  s.beta = static_cast<float>(spec.getReal("beta", 0));
  s.scale = static_cast<float>(spec.getReal("scale", 1));
  s.accumulate = spec.getInt("accumulate", 0) != 0;
  return s;
}

constexpr int64_t kMostPieces = int64_t(1) << 20, kMostElements = int64_t(1) << 40;

Check checkCommon(const KernelSpec &spec, QuantizeShape &s, size_t maxOutputs) {
  return Check(spec)
      .counts(1, 1, 1, maxOutputs)
      .that([&] { return s.piece.bits == 8 || s.piece.bits == 4; }, "bits of 8 or 4")
      .that([&] { return s.piece.block > 0 && s.piece.block % 2 == 0 && s.piece.block <= kMostElements; },
            "a positive even block")
      .that(
          [&] {
            auto [rows, columns] = s.grid;
            bool areCounts = rows > 0 && columns > 0 && rows <= kMostPieces && columns <= kMostPieces / rows;
            s.pieces = areCounts ? rows * columns : 0;
            return areCounts;
          },
          "rows and columns of pieces")
      .that([&] { return s.sources > 0 && s.sources <= kMostPieces; }, "a positive number of sources");
}

/// The plain tensor says how many elements a piece has.
void takePlain(QuantizeShape &s, const TensorType &plain) {
  s.dtype = plain.dtype;
  s.piece.elements = plain.numElements() / s.pieces;
}

} // namespace

Result<QuantizeShape> readQuantize(const KernelSpec &spec) {
  QuantizeShape s = readCommon(spec);
  ZC_RETURN_IF_ERROR(
      checkCommon(spec, s, 2)
          .that([&] { return isPlain(spec.operands[0]) && spec.operands[0].numElements() % s.pieces == 0; },
                "equal pieces of f32, bf16 or f16")
          .that([&] { return takePlain(s, spec.operands[0]), isQuantized(spec.operands[1], s, 1); },
                "bytes for values and scales")
          .that([&] { return spec.operands.size() < 3 || spec.operands[2] == spec.operands[0]; },
                "a residual of the input's type")
          .done());
  s.hasResidual = spec.operands.size() == 3;
  return s;
}

Result<QuantizeShape> readDequantize(const KernelSpec &spec) {
  QuantizeShape s = readCommon(spec);
  ZC_RETURN_IF_ERROR(
      checkCommon(spec, s, 1)
          .that([&] { return isPlain(spec.operands[1]) && spec.operands[1].numElements() % s.pieces == 0; },
                "equal pieces of f32, bf16 or f16")
          .that([&] { return takePlain(s, spec.operands[1]), isQuantized(spec.operands[0], s, 1); },
                "bytes of values and scales")
          .done());
  return s;
}

Result<QuantizeShape> readDequantizeSumQuantize(const KernelSpec &spec) {
  QuantizeShape s = readCommon(spec);
  s.piece.elements = spec.getInt("elements", -1);
  ZC_RETURN_IF_ERROR(
      checkCommon(spec, s, 2)
          .that([&] { return s.piece.elements >= 0 && s.piece.elements <= kMostElements && s.grid.rows == 1; },
                "elements of a piece, and one row of pieces")
          .that([&] { return isQuantized(spec.operands[0], s, s.sources) && isQuantized(spec.operands[1], s, 1); },
                "bytes of values and scales")
          .that(
              [&] {
                return spec.operands.size() < 3 ||
                       (isPlain(spec.operands[2]) && spec.operands[2].numElements() == s.pieces * s.piece.elements);
              },
              "a residual of f32, bf16 or f16")
          .done());
  s.hasResidual = spec.operands.size() == 3;
  if (s.hasResidual)
    s.dtype = spec.operands[2].dtype;
  return s;
}

Result<QuantizeShape> readDequantizeSum(const KernelSpec &spec) {
  QuantizeShape s = readCommon(spec);
  ZC_RETURN_IF_ERROR(
      checkCommon(spec, s, 1)
          .that([&] { return isPlain(spec.operands[1]) && s.pieces == 1; }, "one piece of f32, bf16 or f16")
          .that([&] { return takePlain(s, spec.operands[1]), isQuantized(spec.operands[0], s, s.sources); },
                "bytes of values and scales")
          .done());
  return s;
}

} // namespace zc::shapes
