//===- Cuts.cpp - where one block of a model ends and the next begins -------------------===//

#include "compiler/grad/Cuts.h"
#include "dialects/graph/Graph.h"

#include <map>

using namespace mlir;
using namespace zc;

namespace {

class OpRange {
public:
  OpRange(ArrayRef<Operation *> operations, size_t begin, size_t end) : operations(operations), begin(begin), end(end) {
    for (size_t i = begin; i < end; ++i)
      indices[operations[i]] = i;
  }

  std::vector<size_t> cuts() {
    std::vector<int64_t> bytes = crossing();
    std::map<int64_t, size_t> minima; // size -> how many
    int64_t before = 0;               // the size before the present plateau
    for (size_t p = begin + 1; p < end; ++p) {
      if (bytes[p - begin] != bytes[p - begin - 1])
        before = bytes[p - begin - 1];
      if (bytes[p - begin + 1] > bytes[p - begin] && before > bytes[p - begin])
        ++minima[bytes[p - begin]];
    }
    int64_t stream = -1;
    size_t most = 0;
    for (auto [size, count] : minima)
      if (count >= most) {
        stream = size;
        most = count;
      }
    // A plateau counts once, at its end, so that what makes free values stays with its users.
    std::vector<size_t> positions;
    for (size_t p = begin + 1; p < end; ++p)
      if (bytes[p - begin] == stream && bytes[p - begin + 1] > stream)
        positions.push_back(p);
    return positions;
  }

private:
  /// crossing[p - begin]: bytes of tensors made before operation p and needed from p on.
  std::vector<int64_t> crossing() {
    std::vector<int64_t> change(end - begin + 2, 0);
    for (size_t i = begin; i < end; ++i) {
      if (graph::isFreeToRecompute(operations[i]) || graph::isView(operations[i]))
        continue;
      for (Value result : operations[i]->getResults()) {
        auto type = dyn_cast<RankedTensorType>(result.getType());
        size_t last = type ? lastUse(result, indices, end) : 0;
        if (last > i) {
          change[i + 1 - begin] += graph::bytesOf(type);
          change[last + 1 - begin] -= graph::bytesOf(type);
        }
      }
    }
    for (size_t p = 1; p < change.size(); ++p)
      change[p] += change[p - 1];
    change.resize(end - begin + 1);
    return change;
  }

  ArrayRef<Operation *> operations;
  size_t begin, end;
  DenseMap<Operation *, size_t> indices;
};

} // namespace

size_t zc::lastUse(Value value, const DenseMap<Operation *, size_t> &indices, size_t end) {
  size_t last = 0;
  for (Operation *user : value.getUsers()) {
    auto found = indices.find(user);
    if (found == indices.end() || found->second >= end)
      continue;
    last = std::max(last, found->second);
    if (graph::isView(user))
      last = std::max(last, lastUse(user->getResult(0), indices, end));
  }
  return last;
}

std::vector<size_t> zc::streamCuts(ArrayRef<Operation *> operations, size_t begin, size_t end) {
  return end > begin + 1 ? OpRange(operations, begin, end).cuts() : std::vector<size_t>();
}
