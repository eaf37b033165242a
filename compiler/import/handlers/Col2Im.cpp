//===- Col2Im.cpp - blocks put back into an image -----------------------------------===//
//
// ONNX Col2Im, torch's fold: blocks of an image are added where they were taken from. Which element an element of a
// block goes to is dimension by dimension, so each dimension is one addition into indices that are known.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

#include "llvm/Support/MathExtras.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Where the blocks lie along one dimension.
struct Blocks {
  int64_t image = 0, block = 0, stride = 1, dilation = 1, low = 0, high = 0;

  int64_t padded() const { return image + low + high; }
  int64_t count() const {
    int64_t room = padded() - dilation * (block - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

/// One per dimension of the image; empty after an error.
llvm::SmallVector<Blocks> blocksOf(Node &node) {
  constexpr int64_t limit = int64_t(1) << 31;
  Dims image = node.constantInts(1), block = node.constantInts(2);
  if (!node.failed() && (image.size() != block.size() || image.empty()))
    node.invalid("image " + shapeText(image) + " and block " + shapeText(block) + " differ in rank");
  if (node.failed())
    return {};
  size_t rank = image.size();
  Dims strides = node.intsAttr("strides", rank, 1), dilations = node.intsAttr("dilations", rank, 1),
       pads = node.intsAttr("pads", 2 * rank, 0);
  llvm::SmallVector<Blocks> all;
  for (size_t d = 0; d < rank && !node.failed(); ++d) {
    Blocks blocks{image[d], block[d], strides[d], dilations[d], pads[d], pads[rank + d]};
    for (int64_t amount : {blocks.image, blocks.block, blocks.stride, blocks.dilation})
      if (amount < 1 || amount >= limit)
        node.invalid("image, block, stride or dilation " + std::to_string(amount) + " is outside [1, 2^31)");
    for (int64_t amount : {blocks.low, blocks.high})
      if (amount < 0 || amount >= limit)
        node.invalid("padding " + std::to_string(amount) + " is outside [0, 2^31)");
    all.push_back(blocks);
  }
  return node.failed() ? llvm::SmallVector<Blocks>() : all;
}

/// The elements of the padded dimension that those of all blocks go to, [block, count] in one.
Value targetsOf(Node &node, const Blocks &blocks) {
  return node.reshape(placesOf(node, blocks.block, blocks.dilation, blocks.count(), blocks.stride),
                      {blocks.block * blocks.count()});
}

void col2im(Node &node) {
  Value x = node.input(0);
  llvm::SmallVector<Blocks> all = blocksOf(node);
  if (node.failed())
    return;
  int64_t rank = all.size(), sizes = 1, counts = 1;
  for (const Blocks &blocks : all) {
    if (blocks.count() > 0 && blocks.block > node.options().limits.foldingWork / blocks.count())
      return node.unsupported("of " + std::to_string(blocks.count()) + " blocks of " + std::to_string(blocks.block) +
                              " along a dimension");
    if (llvm::MulOverflow(sizes, blocks.block, sizes) || llvm::MulOverflow(counts, blocks.count(), counts))
      return node.unsupported("of more elements than 64 bits count");
  }
  llvm::ArrayRef<int64_t> shape = dimsOf(x);
  if (shape.size() != 3 || shape[1] % sizes != 0 || shape[2] != counts || counts == 0 || !isFloat(x))
    return node.invalid("input " + shapeText(shape) + " does not hold blocks of " + std::to_string(sizes) +
                        " elements at " + std::to_string(counts) + " places");
  int64_t samples = shape[0], channels = shape[1] / sizes;
  // [N, C k1 k2 ..., l1 l2 ...] -> [N C, k1 l1, k2 l2, ...]
  Dims apart{samples * channels}, order{0}, joined{samples * channels};
  for (const Blocks &blocks : all)
    apart.push_back(blocks.block);
  for (int64_t d = 0; d < rank; ++d) {
    apart.push_back(all[d].count());
    order.append({1 + d, 1 + rank + d});
    joined.push_back(all[d].block * all[d].count());
  }
  x = node.reshape(node.transpose(node.reshape(x, apart), order), joined);
  Dims result{samples, channels};
  for (int64_t d = 0; d < rank; ++d) {
    joined[1 + d] = all[d].padded();
    x = node.make<GatherGradOp>({x, targetsOf(node, all[d])},
                                node.attrs().ints("shape", joined).integer("axis", 1 + d));
    x = node.slice(x, 1 + d, all[d].low, all[d].image);
    joined[1 + d] = all[d].image;
    result.push_back(all[d].image);
    if (node.failed())
      return;
  }
  node.set(node.reshape(x, result));
}

} // namespace

void zc::importer::addCol2ImHandlers(HandlerTable &table) {
  table.add("Col2Im", 18, 3, 3, col2im, {{1, "image_shape"}, {2, "block_shape"}});
}
