//===- ShardingSearch.cpp - which weights are cut over the model axis -------------------------===//

#include "compiler/grad/ShardingSearch.h"
#include "base/Size.h"
#include "compiler/grad/CutClass.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <set>
#include <tuple>

using namespace mlir;
using namespace zc;
using namespace zc::graph;

namespace {

RankedTensorType typeOf(ParameterOp weight) { return cast<RankedTensorType>(weight.getType()); }

/// Chooses classes.
class Search {
public:
  Search(ProgramOp program, int64_t ranks) : context(program, ranks) {
    for (ParameterOp weight : context.weights) {
      Sharding::Weight entry;
      entry.parameter = weight;
      found.weights.insert({weight, entry});
      found.elements += typeOf(weight).getNumElements();
    }
  }

  Sharding run() {
    for (ParameterOp weight : context.weights)
      for (int64_t dim = 0, rank = typeOf(weight).getRank(); rank >= 2 && dim < rank; ++dim)
        propose(weight, {dim, 1});
    std::stable_sort(classes.begin(), classes.end(), [](const CutClass &a, const CutClass &b) {
      return a.bytes * double(b.elements) < b.bytes * double(a.elements);
    });
    for (const CutClass &each : classes)
      if (!isEnough() || isCheap(each))
        take(each);
    explainWhole();
    return std::move(found);
  }

private:
  /// What is left then, small tables and vectors, saves little for what it would send.
  bool isEnough() const {
    constexpr double kShare = 0.95;
    return double(found.cutElements) >= kShare * double(found.elements);
  }

  /// Sends no more for an element than some times what is sent for those that are cut: the last layer as the first.
  bool isCheap(const CutClass &each) const {
    constexpr double kTimes = 4;
    return each.bytes * double(found.cutElements) <= kTimes * bytes * double(each.elements);
  }

  void propose(ParameterOp weight, TensorCut cut) {
    for (Reach reach : {Reach::whole, Reach::near}) {
      if (reach == Reach::whole && seen.count({weight.getOperation(), cut.dim, cut.groups}))
        continue;
      CutClass grown = growClass(context, weight, cut, reach);
      if (reach == Reach::whole)
        for (auto &[member, own] : grown.weights)
          seen.insert({member, own.dim, own.groups});
      if (grown.problem.empty()) {
        for (auto &[member, own] : grown.weights)
          possible.insert(member);
        classes.push_back(std::move(grown));
      } else if (reach == Reach::near) // the one that asks for less
        found.weights[weight].why += (found.weights[weight].why.empty() ? "dimension " : ", dimension ") +
                                     std::to_string(cut.dim) + ": " + grown.problem;
    }
  }

  void take(const CutClass &taken) {
    for (auto &[weight, cut] : taken.weights)
      if (found.weights[weight].cut)
        return;
    for (auto &[op, cut] : taken.operations)
      if (found.operations.count(op))
        return;
    for (auto &[op, cut] : taken.operations)
      found.operations.insert({op, cut});
    std::string together;
    for (auto &[weight, cut] : taken.weights)
      if (typeOf(cast<ParameterOp>(weight)).getRank() >= 2)
        together += (together.empty() ? "" : ", ") + cast<ParameterOp>(weight).getSymName().str();
    for (auto &[weight, cut] : taken.weights) {
      Sharding::Weight &entry = found.weights[weight];
      entry.cut = cut;
      entry.bytes = taken.bytes;
      entry.why = "with " + together;
    }
    found.cutElements += taken.elements;
    bytes += taken.bytes;
  }

  void explainWhole() {
    for (auto &[op, weight] : found.weights)
      if (!weight.cut && (weight.why.empty() || possible.contains(op) || isEnough()))
        weight.why = typeOf(weight.parameter).getRank() < 2 ? "a vector of what is whole"
                     : isEnough()                           ? "little is left to cut"
                                                            : "shares operations with what is cut for fewer bytes";
  }

  CutContext context;
  Sharding found;
  double bytes = 0; ///< sent for what is cut
  std::vector<CutClass> classes;
  llvm::DenseSet<Operation *> possible;                     ///< weights of these
  std::set<std::tuple<Operation *, int64_t, int64_t>> seen; ///< weights' cuts in a class that was grown
};

} // namespace

Sharding zc::findSharding(ProgramOp program, int64_t ranks) { return Search(program, ranks).run(); }

std::string zc::explain(const Sharding &sharding, int64_t ranks) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto shape = [](RankedTensorType type) {
    std::string dims;
    for (int64_t dim : type.getShape())
      dims += (dims.empty() ? "" : "x") + std::to_string(dim);
    return dims.empty() ? "scalar" : dims;
  };
  out << llvm::formatv("{0,-48} {1,-14} {2,-14} {3,-8} {4,10}  {5}\n", "parameter", "shape", "of a rank", "cut",
                       "sends", "why");
  for (auto &[op, weight] : sharding.weights) {
    ParameterOp parameter = weight.parameter;
    RankedTensorType whole = parameter.getWholeType();
    std::string cut = "-";
    if (weight.cut)
      cut = std::to_string(weight.cut->dim) +
            (weight.cut->groups > 1 ? " in " + std::to_string(weight.cut->groups) : std::string());
    out << llvm::formatv("{0,-48} {1,-14} {2,-14} {3,-8} {4,10}  {5}\n", parameter.getSymName(), shape(whole),
                         shape(weight.cut ? partType(whole, *weight.cut, ranks) : whole), cut,
                         weight.cut ? showSize(static_cast<uint64_t>(weight.bytes)) : std::string("-"), weight.why);
  }
  out << llvm::formatv("{0} of {1} parameters are cut over {2} ranks ({3:f1} %). \"sends\" is what a rank sends in a "
                       "micro-step for a weight and those that are cut with it.\n",
                       sharding.cutElements, sharding.elements, ranks,
                       100.0 * double(sharding.cutElements) / double(std::max<int64_t>(1, sharding.elements)));
  return text;
}
