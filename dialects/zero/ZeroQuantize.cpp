//===- ZeroQuantize.cpp - verifiers of ZeRO++'s operations -----------------------===//

#include "base/Tensor.h"
#include "dialects/zero/Zero.h"
#include "kernels/Quantized.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

namespace {

/// Of ranks, nodes, pieces that somebody sends: products of two, times the bytes of a piece, fit int64_t.
bool isCount(uint64_t count) { return count > 0 && count <= uint64_t(1) << 20; }

bool isSoundForm(uint64_t bits, uint64_t block) {
  return (bits == 4 || bits == 8) && block > 0 && block <= uint64_t(kMaxElements) && block % 2 == 0;
}

bool isFloat(BufferType type) {
  Type element = type.getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

/// `count` pieces of `elements` elements, as bytes.
bool holds(BufferType type, int64_t count, int64_t elements, uint64_t bits, uint64_t block) {
  QuantizedPiece piece{elements, static_cast<int64_t>(bits), static_cast<int64_t>(block)};
  const int64_t bytes = piece.bytes();
  return type.getElementType().isUnsignedInteger(8) &&
         (bytes == 0 ? type.getNumElements() == 0
                     : type.getNumElements() % bytes == 0 && type.getNumElements() / bytes == count);
}

LogicalResult verifyPieces(Operation *op, BufferType plain, BufferType bytes, uint64_t rows, uint64_t columns,
                           uint64_t bits, uint64_t block, StringRef label) {
  bool areCounts = isCount(rows) && isCount(columns);
  auto pieces = static_cast<int64_t>(rows * columns);
  if (!areCounts || !isSoundForm(bits, block) || !isFloat(plain) || plain.getNumElements() % pieces != 0 ||
      plain.getTier() != bytes.getTier() || !holds(bytes, pieces, plain.getNumElements() / pieces, bits, block))
    return op->emitOpError("[") << label << "] " << bytes << " is not " << plain << " in " << rows << " x " << columns
                                << " pieces of " << bits << " bits with a scale per " << block << " elements";
  return success();
}

} // namespace

LogicalResult QuantizeOp::verify() {
  // quantize_c2
  if (getResidual() && getResidual().getType() != getInput().getType())
    return emitOpError("[quantize_c2] has a residual of ")
           << getResidual().getType() << " for " << getInput().getType();
  return verifyPieces(*this, getInput().getType(), getType(), getRows(), getColumns(), getBits(), getBlock(),
                      "quantize_c1");
}

LogicalResult DequantizeOp::verify() {
  return verifyPieces(*this, getType(), getInput().getType(), getRows(), getColumns(), getBits(), getBlock(),
                      "dequantize_c1");
}

LogicalResult DequantizeSumQuantizeOp::verify() {
  auto sources = static_cast<int64_t>(getSources()), pieces = static_cast<int64_t>(getPieces());
  auto elements = static_cast<int64_t>(getElements());
  bool sound = isSoundForm(getBits(), getBlock()) && isCount(getSources()) && isCount(getPieces()) && elements > 0 &&
               elements < kMaxElements;
  auto residual = getResidual() ? cast<BufferType>(getResidual().getType()) : BufferType();
  // dequantize_sum_quantize_c1
  if (!sound || !holds(getInput().getType(), sources * pieces, elements, getBits(), getBlock()) ||
      !holds(getType(), pieces, elements, getBits(), getBlock()) ||
      (residual && (!isFloat(residual) || residual.getNumElements() % pieces != 0 ||
                    residual.getNumElements() / pieces != elements)))
    return emitOpError("[dequantize_sum_quantize_c1] does not sum ")
           << sources << " times " << pieces << " pieces of " << elements << " elements in " << getInput().getType()
           << " to " << getType();
  return success();
}

LogicalResult DequantizeSumOp::verify() {
  auto sources = static_cast<int64_t>(getSources());
  // dequantize_sum_c1
  if (!isSoundForm(getBits(), getBlock()) || !isCount(getSources()) || !isFloat(getShard().getType()) ||
      !holds(getInput().getType(), sources, getShard().getType().getNumElements(), getBits(), getBlock()))
    return emitOpError("[dequantize_sum_c1] does not sum ")
           << sources << " pieces in " << getInput().getType() << " to " << getShard().getType();
  return success();
}

LogicalResult OwnPartOp::verify() {
  // own_part_c1
  BufferType part = getType(), whole = getInput().getType();
  if (part.getElementType() != whole.getElementType() || part.getTier() != whole.getTier() ||
      part.getNumElements() <= 0 || whole.getNumElements() % part.getNumElements() != 0)
    return emitOpError("[own_part_c1] ") << part << " is no part of " << whole;
  return success();
}

LogicalResult ReorderOp::verify() {
  // reorder_c1
  const bool areCounts = isCount(getRows()) && isCount(getColumns());
  if (!areCounts || getInput().getType().getNumElements() % static_cast<int64_t>(getRows() * getColumns()) != 0)
    return emitOpError("[reorder_c1] cannot cut ")
           << getInput().getType() << " into " << getRows() << " x " << getColumns() << " pieces";
  return success();
}
