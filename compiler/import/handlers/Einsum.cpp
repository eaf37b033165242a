//===- Einsum.cpp - Einstein sums as products -----------------------------------===//
//
// Operands are multiplied from left to right. Each is brought to the form [batch, kept, summed] of its labels, so that
// one pair is one batched matrix product; labels that stand in one operand only, and not behind it, are summed before.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include "llvm/ADT/StringExtras.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// A tensor whose dimensions have labels: letters, or numbers of the ellipsis' dimensions above them.
struct Term {
  Value value;
  llvm::SmallVector<int> labels;
  bool has(int label) const { return llvm::is_contained(labels, label); }
  int64_t sizeOf(int label) const { return dimsOf(value)[llvm::find(labels, label) - labels.begin()]; }
};

constexpr int firstOfEllipsis = 1000;

class Einsum {
public:
  explicit Einsum(Node &node) : node(node) {}

  void run() {
    std::string equation = node.stringAttr("equation", "");
    llvm::erase_if(equation, [](char c) { return c == ' '; });
    llvm::StringRef left = equation, right;
    bool isExplicit = left.contains("->");
    std::tie(left, right) = left.split("->");
    llvm::SmallVector<llvm::StringRef> parts;
    left.split(parts, ',');
    if (parts.size() != node.numInputs())
      return node.invalid("the equation has " + std::to_string(parts.size()) + " terms for " +
                          std::to_string(node.numInputs()) + " inputs");
    for (unsigned i = 0; i < parts.size() && !node.failed(); ++i)
      readTerm(node.input(i), parts[i]);
    llvm::SmallVector<int> output = isExplicit ? labelsOf(right, ellipsis) : implicitOutput();
    if (node.failed())
      return;
    for (size_t i = 0; i < output.size(); ++i)
      if (llvm::none_of(terms, [&](const Term &term) { return term.has(output[i]); }) ||
          llvm::is_contained(llvm::ArrayRef<int>(output).take_front(i), output[i]))
        return node.invalid("an output label is in no term, or there twice");
    Term result = terms[0];
    for (size_t i = 1; i < terms.size() && !node.failed(); ++i)
      result = product(result, terms[i], output, llvm::ArrayRef<Term>(terms).drop_front(i + 1));
    if (node.failed())
      return;
    result = sumOut(result, [&](int label) { return llvm::is_contained(output, label); });
    node.set(arrange(result, output));
  }

private:
  /// `dimensions`: how many the ellipsis stands for.
  llvm::SmallVector<int> labelsOf(llvm::StringRef text, int64_t dimensions) {
    llvm::SmallVector<int> labels;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text.substr(i).starts_with("...")) {
        for (int64_t d = dimensions; d > 0; --d)
          labels.push_back(firstOfEllipsis + static_cast<int>(d)); // aligned at the right
        i += 2;
      } else if (llvm::isAlpha(text[i])) {
        labels.push_back(text[i]);
      } else {
        node.invalid("the equation has an unexpected character '" + text.substr(i, 1).str() + "'");
        return labels;
      }
    }
    return labels;
  }

  void readTerm(Value x, llvm::StringRef text) {
    int64_t letters = llvm::count_if(text, llvm::isAlpha), rest = rankOf(x) - letters;
    if (rest < 0 || (rest > 0 && !text.contains("...")))
      return node.invalid("the term '" + text.str() + "' does not fit rank " + std::to_string(rankOf(x)));
    ellipsis = std::max(ellipsis, rest);
    Term term{x, labelsOf(text, rest)};
    for (size_t i = 0; i < term.labels.size() && !node.failed(); ++i) {
      int label = term.labels[i];
      counts[label]++;
      int64_t &size = sizes.try_emplace(label, 1).first->second, own = dimsOf(x)[i];
      if (size != own && size != 1 && own != 1)
        node.invalid("label " + std::to_string(label) + " has sizes " + std::to_string(size) + " and " +
                     std::to_string(own));
      size = own == 1 ? size : own; // 0 is a size as any
    }
    terms.push_back(diagonals(term));
  }

  /// A label that stands twice takes the diagonal.
  Term diagonals(Term term) {
    for (size_t i = 0; i < term.labels.size() && !node.failed(); ++i)
      for (size_t j = i + 1; j < term.labels.size(); ++j) {
        if (term.labels[i] != term.labels[j])
          continue;
        // Elements [k, k] of both dimensions, brought to the front.
        Dims order{static_cast<int64_t>(i), static_cast<int64_t>(j)};
        llvm::SmallVector<int> labels{term.labels[i]};
        for (size_t d = 0; d < term.labels.size(); ++d)
          if (d != i && d != j) {
            order.push_back(d);
            labels.push_back(term.labels[d]);
          }
        Value moved = node.transpose(term.value, order);
        int64_t n = dimsOf(moved)[0];
        HostTensor pairs;
        pairs.dims = {n, 2};
        for (int64_t k = 0; k < n; ++k)
          pairs.ints.insert(pairs.ints.end(), {k, k});
        term = {node.make<GatherNdOp>({moved, node.constant(pairs)}, node.attrs().integer("batch_dims", 0)), labels};
        return diagonals(term);
      }
    return term;
  }

  llvm::SmallVector<int> implicitOutput() {
    llvm::SmallVector<int> output = labelsOf("...", ellipsis);
    for (auto &[label, count] : counts)
      if (label < firstOfEllipsis && count == 1)
        output.push_back(label);
    return output;
  }

  /// Sums over the labels that are not kept.
  template <typename Keep> Term sumOut(const Term &term, Keep keep) {
    Dims axes;
    Term result{term.value, {}};
    for (size_t i = 0; i < term.labels.size(); ++i)
      if (keep(term.labels[i]))
        result.labels.push_back(term.labels[i]);
      else
        axes.push_back(i);
    if (!axes.empty())
      result.value = node.make<ReduceSumOp>({term.value}, node.attrs().ints("axes", axes));
    return result;
  }

  /// Dimensions in the order of `labels`, all of which it has.
  Value arrange(const Term &term, llvm::ArrayRef<int> labels) {
    Dims order;
    for (int label : labels)
      order.push_back(llvm::find(term.labels, label) - term.labels.begin());
    return node.failed() ? Value() : node.transpose(term.value, order);
  }

  Term product(Term a, Term b, llvm::ArrayRef<int> output, llvm::ArrayRef<Term> later) {
    auto needed = [&](int label) {
      return llvm::is_contained(output, label) ||
             llvm::any_of(later, [&](const Term &term) { return term.has(label); });
    };
    a = sumOut(a, [&](int label) { return needed(label) || b.has(label); });
    b = sumOut(b, [&](int label) { return needed(label) || a.has(label); });
    if (node.failed())
      return a;
    // A dimension of 1 against a larger one is broadcast, which sums must see.
    llvm::SmallVector<int> batch, onlyA, onlyB, summed;
    for (int label : a.labels)
      (!b.has(label) ? onlyA : needed(label) ? batch : summed).push_back(label);
    for (int label : b.labels)
      if (!a.has(label))
        onlyB.push_back(label);
    auto matrix = [&](const Term &term, std::initializer_list<llvm::ArrayRef<int>> groups) {
      llvm::SmallVector<int> labels;
      Dims full, sizesOfGroups;
      for (llvm::ArrayRef<int> group : groups) {
        int64_t n = 1;
        for (int label : group) {
          labels.push_back(label);
          full.push_back(sizes[label]);
          n *= sizes[label];
        }
        sizesOfGroups.push_back(n);
      }
      Value value = node.expand(arrange(term, labels), full);
      return node.failed() ? Value() : node.reshape(value, sizesOfGroups);
    };
    Value left = matrix(a, {batch, onlyA, summed}), right = matrix(b, {batch, summed, onlyB});
    if (node.failed())
      return a;
    Value y = matrixProduct(node, left, right);
    Term result{y, batch};
    result.labels.append(onlyA.begin(), onlyA.end());
    result.labels.append(onlyB.begin(), onlyB.end());
    Dims shape;
    for (int label : result.labels)
      shape.push_back(sizes[label]);
    if (!node.failed())
      result.value = node.reshape(y, shape);
    return result;
  }

  Node &node;
  std::vector<Term> terms;
  std::map<int, int64_t> sizes, counts;
  int64_t ellipsis = 0;
};

void einsum(Node &node) { Einsum(node).run(); }

} // namespace

void zc::importer::addEinsumHandlers(HandlerTable &table) { table.add("Einsum", 12, 1, -1, einsum); }
