//===- ModelAxis.h - what the ranks of the model axis exchange, in one process -----------===//
#pragma once

#include "dialects/graph/Graph.h"

#include <cstring>
#include <vector>

namespace zc::test {

/// Does `op` do something else on each rank, or with what others have?
inline bool isOfModelAxis(mlir::Operation *op) {
  return graph::isCollective(op) || mlir::isa<graph::AllSliceOp, graph::RankOffsetOp>(op);
}

/// A tensor as [outer, parts, run bytes] around one dimension.
struct Runs {
  Runs(mlir::RankedTensorType whole, int64_t dim, int64_t ranks) : ranks(ranks) {
    for (int64_t i = 0; i < whole.getRank(); ++i)
      (i < dim ? outer : run) *= whole.getDimSize(i);
    run = run / ranks * graph::bytesOfElement(whole.getElementType());
  }
  /// Part `rank` of the whole, from or to a tensor of its own.
  template <typename Copy> void each(int64_t rank, Copy copy) const {
    for (int64_t o = 0; o < outer; ++o)
      copy((o * ranks + rank) * run, o * run, static_cast<size_t>(run));
  }
  int64_t outer = 1, run = 1, ranks;
};

/// Adds, or takes the larger, in rank order.
template <typename T>
void reduceRanks(const std::vector<const std::vector<char> *> &parts, bool max, std::vector<char> &result) {
  result = *parts[0];
  for (size_t r = 1; r < parts.size(); ++r)
    for (size_t at = 0; at + sizeof(T) <= result.size(); at += sizeof(T)) {
      T sum, next;
      std::memcpy(&sum, result.data() + at, sizeof(T));
      std::memcpy(&next, parts[r]->data() + at, sizeof(T));
      sum = max ? std::max(sum, next) : sum + next;
      std::memcpy(result.data() + at, &sum, sizeof(T));
    }
}

/// Executes an operation of the model axis on all ranks: operand 0 and result 0 of each. Floats are f32 or f64.
inline void runOnModelAxis(mlir::Operation *op, const std::vector<const std::vector<char> *> &operands,
                           const std::vector<std::vector<char> *> &results) {
  auto type = mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType());
  auto ranks = static_cast<int64_t>(results.size());
  auto take = [&](const std::vector<char> &whole, mlir::RankedTensorType wholeType, int64_t dim, int64_t rank) {
    Runs(wholeType, dim, ranks).each(rank, [&](int64_t from, int64_t to, size_t bytes) {
      std::memcpy(results[rank]->data() + to, whole.data() + from, bytes);
    });
  };
  auto sum = [&](bool max) {
    std::vector<char> result;
    if (type.getElementType().isF64())
      reduceRanks<double>(operands, max, result);
    else
      reduceRanks<float>(operands, max, result);
    return result;
  };
  if (auto reduce = mlir::dyn_cast<graph::AllReduceOp>(op)) {
    std::vector<char> result = sum(reduce.getMax());
    for (std::vector<char> *each : results)
      *each = result;
  } else if (auto scatter = mlir::dyn_cast<graph::ReduceScatterOp>(op)) {
    std::vector<char> result = sum(/*max=*/false);
    for (int64_t r = 0; r < ranks; ++r)
      take(result, scatter.getInput().getType(), scatter.getDim(), r);
  } else if (auto slice = mlir::dyn_cast<graph::AllSliceOp>(op)) {
    for (int64_t r = 0; r < ranks; ++r)
      take(*operands[r], slice.getInput().getType(), slice.getDim(), r);
  } else if (auto gather = mlir::dyn_cast<graph::AllGatherOp>(op)) {
    for (int64_t r = 0; r < ranks; ++r)
      for (std::vector<char> *each : results)
        Runs(type, gather.getDim(), ranks).each(r, [&](int64_t to, int64_t from, size_t bytes) {
          std::memcpy(each->data() + to, operands[r]->data() + from, bytes);
        });
  } else if (auto offset = mlir::dyn_cast<graph::RankOffsetOp>(op)) {
    for (int64_t r = 0; r < ranks; ++r) {
      auto value = static_cast<int64_t>(offset.getStride()) * r; // little endian: i32 is its first half
      std::memcpy(results[r]->data(), &value, results[r]->size());
    }
  }
}

} // namespace zc::test
