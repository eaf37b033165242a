//===- Sharding.h - helpers of the sharding rules ----------------------------------------===//
//
// A rule names the dimensions of an op's tensors by letters, as in an einsum: dimensions of one letter are cut
// together. As shardy's sharding rules, of which this takes the factors; their priorities and axes it has no use for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Gradient.h"

/// Heads the definition of how an op is cut.
#define ZC_CUT(OpTy) std::optional<OpCut> OpTy::cutAlong(unsigned index, TensorCut cut, int64_t ranks, std::string &why)
#define ZC_PARTS(OpTy)                                                                                                 \
  llvm::SmallVector<mlir::Value> OpTy::buildParts(mlir::OpBuilder &builder, const OpCut &cut,                          \
                                                  mlir::ValueRange operands, int64_t ranks)

namespace zc::graph {

/// One letter for each dimension of each tensor, operands first; '.' is computed whole.
struct Factors {
  llvm::SmallVector<std::string> tensors;
  std::string summed = {};                 ///< letters that result 0 is a sum over
  llvm::SmallVector<unsigned> behind = {}; ///< operands that are used behind that sum
  bool bearsPadding = true;                ///< OpCut's, along letters that are not summed
};

std::optional<OpCut> cutByFactors(mlir::Operation *op, const Factors &factors, unsigned index, TensorCut cut,
                                  int64_t ranks, std::string &why);

/// Of an op that is elementwise: along any dimension, operands broadcast.
std::optional<OpCut> cutElementwise(mlir::Operation *op, unsigned index, TensorCut cut, int64_t ranks,
                                    std::string &why);

/// As many letters as a tensor has dimensions, in alphabetical order from `first` on.
std::string lettersOf(mlir::Value tensor, char first = 'a');
/// The letters of `tensor`, which broadcasts to a result of these.
std::string broadcastLetters(mlir::Value tensor, llvm::StringRef result);

/// Where the first of a rank's `rows` rows stands in the whole, as a scalar of the element type of `like`.
mlir::Value rankOffset(TensorBuilder &on, mlir::Value like, int64_t rows);

/// Which random numbers of the whole a rank draws for its part: `run` and `stride` of dropout, random and attention.
struct NumbersOfRank {
  NumbersOfRank(mlir::RankedTensorType whole, TensorCut cut, int64_t ranks);
  mlir::IntegerAttr run, stride;
};

/// `place`, counted from a rank's first row, where it is one of its `rows`, else 0; `inside`: where it is.
mlir::Value placeInPart(TensorBuilder &on, mlir::Value place, int64_t rows, mlir::Value &inside);

/// Tensor `index`: operands first, then results.
mlir::Value tensorAt(mlir::Operation *op, unsigned index);
/// An OpCut of `op` with all tensors whole.
OpCut wholeCut(mlir::Operation *op);

/// The sum over the ranks of `part`, and `bias`, where there is one, in `shape`, which broadcasts, behind it.
mlir::Value sumOverRanks(TensorBuilder &on, mlir::Value part, mlir::Value bias, llvm::ArrayRef<int64_t> shape);

/// The op on parts, with some attributes that differ.
llvm::SmallVector<mlir::Value> buildOnParts(mlir::OpBuilder &builder, mlir::Operation *op, const OpCut &cut,
                                            mlir::ValueRange operands, int64_t ranks,
                                            llvm::ArrayRef<mlir::NamedAttribute> changed);

} // namespace zc::graph
