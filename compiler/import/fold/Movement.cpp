//===- Movement.cpp - constants that are moved, joined and indexed ----------===//
#include "compiler/import/fold/Fold.h"
#include "dialects/graph/Graph.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;

namespace {

using Index = llvm::SmallVector<int64_t, 6>;

Index rowMajorStrides(llvm::ArrayRef<int64_t> dims) {
  Index strides(dims.size(), 1);
  for (int64_t d = static_cast<int64_t>(dims.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

/// The next index in row-major order.
void advance(Index &index, llvm::ArrayRef<int64_t> dims) {
  for (int64_t d = dims.size() - 1; d >= 0; --d) {
    if (++index[d] < dims[d])
      return;
    index[d] = 0;
  }
}

/// out[i] = in[base + sum(index[d] * steps[d])]
void gatherStrided(const HostTensor &in, int64_t base, llvm::ArrayRef<int64_t> steps, HostTensor &out) {
  Index index(out.dims.size(), 0);
  for (int64_t i = 0, n = out.stored(); i < n; ++i, advance(index, out.dims)) {
    int64_t position = base;
    for (size_t d = 0; d < index.size(); ++d)
      position += index[d] * steps[d];
    out.copyElement(i, in, position);
  }
}

bool foldReshape(mlir::Operation *, Operands in, HostTensor &out, std::string &) {
  for (int64_t i = 0, n = out.stored(); i < n; ++i)
    out.copyElement(i, *in[0], i);
  return true;
}

bool foldTranspose(mlir::Operation *op, Operands in, HostTensor &out, std::string &) {
  Index strides = rowMajorStrides(in[0]->dims), steps;
  for (int64_t d : mlir::cast<TransposeOp>(op).getPermutation())
    steps.push_back(strides[d]);
  gatherStrided(*in[0], 0, steps, out);
  return true;
}

bool foldExpand(mlir::Operation *, Operands in, HostTensor &out, std::string &) {
  Index strides = rowMajorStrides(in[0]->dims), steps(out.dims.size(), 0);
  size_t lead = out.dims.size() - in[0]->dims.size();
  for (size_t d = 0; d < in[0]->dims.size(); ++d)
    steps[lead + d] = in[0]->dims[d] == 1 ? 0 : strides[d];
  gatherStrided(*in[0], 0, steps, out);
  return true;
}

bool foldSlice(mlir::Operation *op, Operands in, HostTensor &out, std::string &) {
  auto slice = mlir::cast<SliceOp>(op);
  Index strides = rowMajorStrides(in[0]->dims), steps;
  int64_t base = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    base += slice.getOffsets()[d] * strides[d];
    steps.push_back(slice.getStrides()[d] * strides[d]);
  }
  gatherStrided(*in[0], base, steps, out);
  return true;
}

bool foldConcat(mlir::Operation *op, Operands in, HostTensor &out, std::string &) {
  if (out.splat) // equal operands only
    return false;
  int64_t axis = mlir::cast<ConcatOp>(op).getAxis();
  int64_t inner = rowMajorStrides(out.dims)[axis], outRow = out.dims[axis] * inner, shift = 0;
  for (const HostTensor *part : in) {
    int64_t row = part->dims[axis] * inner;
    for (int64_t i = 0, n = part->numElements(); i < n; ++i)
      out.copyElement(i / row * outRow + shift + i % row, *part, i);
    shift += row;
  }
  return true;
}

bool foldPad(mlir::Operation *op, Operands in, HostTensor &out, std::string &) {
  auto pad = mlir::cast<PadOp>(op);
  double fill = pad.getValue().convertToDouble();
  Index strides = rowMajorStrides(in[0]->dims), index(out.dims.size(), 0);
  for (int64_t i = 0, n = out.stored(); i < n; ++i, advance(index, out.dims)) {
    int64_t position = 0;
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t at = index[d] - pad.getLow()[d];
      inside &= at >= 0 && at < in[0]->dims[d];
      position += at * strides[d];
    }
    if (inside)
      out.copyElement(i, *in[0], position);
    else if (out.isFloat())
      out.floats[i] = roundTo(out.dtype, fill);
    else
      out.ints[i] = wrapTo(out.dtype, static_cast<int64_t>(fill));
  }
  return true;
}

bool foldIota(mlir::Operation *op, Operands, HostTensor &out, std::string &) {
  auto iota = mlir::cast<IotaOp>(op);
  double start = iota.getStart().convertToDouble(), delta = iota.getDelta().convertToDouble();
  for (int64_t i = 0, n = out.stored(); i < n; ++i) {
    if (out.isFloat())
      out.floats[i] = roundTo(out.dtype, start + i * delta);
    else
      out.ints[i] = wrapTo(out.dtype, static_cast<int64_t>(start + i * delta));
  }
  return true;
}

/// Negative indices count from the end.
bool normalizeIndex(int64_t &index, int64_t size, std::string &error) {
  if (index < -size || index >= size) {
    error =
        "index " + std::to_string(index) + " is outside [" + std::to_string(-size) + ", " + std::to_string(size) + ")";
    return false;
  }
  if (index < 0)
    index += size;
  return true;
}

bool foldGather(mlir::Operation *op, Operands in, HostTensor &out, std::string &error) {
  int64_t axis = mlir::cast<GatherOp>(op).getAxis();
  const HostTensor &data = *in[0], &indices = *in[1];
  int64_t inner = rowMajorStrides(data.dims)[axis], rows = data.dims[axis], picks = indices.numElements();
  for (int64_t i = 0, n = out.stored(); i < n; ++i) {
    int64_t pick = indices.intAt(i / inner % picks);
    if (!normalizeIndex(pick, rows, error))
      return false;
    out.copyElement(i, data, (i / inner / picks * rows + pick) * inner + i % inner);
  }
  return true;
}

bool foldGatherElements(mlir::Operation *op, Operands in, HostTensor &out, std::string &error) {
  int64_t axis = mlir::cast<GatherElementsOp>(op).getAxis();
  Index strides = rowMajorStrides(in[0]->dims), index(out.dims.size(), 0);
  for (int64_t i = 0, n = out.stored(); i < n; ++i, advance(index, out.dims)) {
    int64_t pick = in[1]->intAt(i), position = 0;
    if (!normalizeIndex(pick, in[0]->dims[axis], error))
      return false;
    for (size_t d = 0; d < index.size(); ++d)
      position += (static_cast<int64_t>(d) == axis ? pick : index[d]) * strides[d];
    out.copyElement(i, *in[0], position);
  }
  return true;
}

bool foldGatherNd(mlir::Operation *op, Operands in, HostTensor &out, std::string &error) {
  int64_t batchDims = mlir::cast<GatherNdOp>(op).getBatchDims();
  const HostTensor &data = *in[0], &indices = *in[1];
  Index strides = rowMajorStrides(data.dims);
  int64_t tuple = indices.dims.back(), tuples = tuple ? indices.numElements() / tuple : 0, batch = 1;
  for (int64_t d = 0; d < batchDims; ++d)
    batch *= data.dims[d];
  if (tuples == 0 || batch == 0)
    return false;
  int64_t block = out.numElements() / tuples;
  for (int64_t i = 0, n = out.stored(); i < n; ++i) {
    int64_t row = i / block, position = i % block;
    position += batchDims ? row / (tuples / batch) * strides[batchDims - 1] : 0;
    for (int64_t k = 0; k < tuple; ++k) {
      int64_t pick = indices.intAt(row * tuple + k);
      if (!normalizeIndex(pick, data.dims[batchDims + k], error))
        return false;
      position += pick * strides[batchDims + k];
    }
    out.copyElement(i, data, position);
  }
  return true;
}

} // namespace

void zc::importer::addMovementFolds(FoldTable &table) {
  table["graph.reshape"] = {foldReshape, true};
  table["graph.transpose"] = {foldTranspose, true};
  table["graph.expand"] = {foldExpand, true};
  table["graph.slice"] = {foldSlice, true};
  table["graph.concat"] = {foldConcat, false};
  table["graph.pad"] = {foldPad, false};
  table["graph.iota"] = {foldIota, false};
  table["graph.gather"] = {foldGather, false};
  table["graph.gather_elements"] = {foldGatherElements, false};
  table["graph.gather_nd"] = {foldGatherNd, false};
}
