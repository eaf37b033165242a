//===- Node.h - one ONNX node as its handler sees it ---------------------------===//
#pragma once

#include "compiler/import/node/HandlerTable.h"
#include "compiler/import/node/NodeContext.h"
#include "dialects/graph/Graph.h"

namespace zc::importer {

/// Attributes of a graph op under construction.
class Attrs {
public:
  explicit Attrs(mlir::MLIRContext *context) : builder(context) {}
  Attrs &integer(llvm::StringRef name, int64_t value) { return set(name, builder.getI64IntegerAttr(value)); }
  Attrs &real(llvm::StringRef name, double value) { return set(name, builder.getF64FloatAttr(value)); }
  Attrs &ints(llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
    return set(name, builder.getDenseI64ArrayAttr(values));
  }
  Attrs &type(llvm::StringRef name, mlir::Type value) { return set(name, mlir::TypeAttr::get(value)); }
  Attrs &flag(llvm::StringRef name, bool value = true) { return value ? set(name, builder.getUnitAttr()) : *this; }
  Attrs &set(llvm::StringRef name, mlir::Attribute value) {
    list.set(name, value);
    return *this;
  }
  mlir::NamedAttrList list;

private:
  mlir::Builder builder;
};

/// A handler reads inputs and attributes, makes graph ops and sets outputs. Errors stick: after the first one `make`
/// gives null values, which `make` and `set` accept, and the importer stops when the handler returns. Inputs that the
/// table requires are never null.
class Node {
public:
  Node(NodeContext &context, const onnxpb::Node &proto, int64_t opset, std::string label, mlir::Location loc,
       const HandlerRow *row = nullptr)
      : proto(proto), opset(opset), label(std::move(label)), loc(loc), context(context), row(row) {}

  llvm::StringRef opType() const { return proto.op_type(); }
  const ImportOptions &options() const { return context.options; }
  ExporterHabits &habits() { return context.habits; }

  //===-- inputs --------------------------------------------------------------===//
  unsigned numInputs() const { return proto.input_size(); }
  bool has(unsigned i) const {
    return i < numInputs() && !proto.input(i).empty() && !context.isEmpty(inputOf(proto, i).number);
  }
  mlir::Value input(unsigned i); ///< null when not given
  llvm::SmallVector<mlir::Value> inputs();
  llvm::SmallVector<mlir::Value> sequence(unsigned i);
  /// Whatever it is; empty when not given.
  Binding binding(unsigned i);
  /// Looks all of them up, each once; before the handler runs.
  void readInputs();
  /// The tensor of the graph that is called `name`; null, without an error, if there is none yet.
  mlir::Value named(const std::string &name);

  //===-- attributes; of another type: bad input ------------------------------===//
  bool hasAttr(llvm::StringRef name) const;
  int64_t intAttr(llvm::StringRef name, int64_t fallback);
  double floatAttr(llvm::StringRef name, double fallback);
  /// Of a norm: what is not a finite number of 0 or more is an error.
  double epsilon(double fallback);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef fallback);
  llvm::SmallVector<int64_t> intsAttr(llvm::StringRef name);
  /// Of so many entries, each `fallback` where the attribute is not given; another number: bad input.
  llvm::SmallVector<int64_t> intsAttr(llvm::StringRef name, size_t entries, int64_t fallback);
  llvm::SmallVector<double> floatsAttr(llvm::StringRef name);
  const onnxpb::Tensor *tensorAttr(llvm::StringRef name);
  /// The one element of a tensor, as a scalar; `fallback` where the attribute is not given.
  HostTensor elementAttr(llvm::StringRef name, HostTensor fallback);
  /// The arguments of torch's function `call` ("aten.clamp": "aten.clamp_min.default" too), where the trace that
  /// torch.export writes beside a node says that it was one: "... target=torch.ops.CALL](args = (%x, 0), kwargs = {})".
  std::optional<llvm::SmallVector<llvm::StringRef>> tracedCall(llvm::StringRef call) const;
  /// Missing: bad input.
  const onnxpb::Graph *graphAttr(llvm::StringRef name);

  //===-- values known when compiling -----------------------------------------===//
  const HostTensor *constantOf(mlir::Value value) const { return context.constantOf(value); }
  /// Those that the table says must be known are given and are known. Else unsupported, with what to do.
  void checkKnown();
  /// Input `i`, which the table says is known.
  const HostTensor *known(unsigned i);
  llvm::SmallVector<int64_t> constantInts(unsigned i);
  int64_t constantInt(unsigned i);
  double constantFloat(unsigned i);

  //===-- tensors of the file -------------------------------------------------===//
  /// Whether input `i` is an initializer of the model.
  bool isInitializer(unsigned i) const { return has(i) && !context.initializerOf(proto.input(i)).empty(); }
  /// If so, output `o` stands for it too, from here on: a state that the next node goes on with.
  void standFor(unsigned o, unsigned i) {
    if (isInitializer(i) && wants(o))
      context.standFor(proto.output(o), context.initializerOf(proto.input(i)));
  }
  /// The numbers of a value that is, or is rearranged of, initializers of at most `most` elements, trained or not.
  std::optional<HostTensor> storedNumbers(mlir::Value value, int64_t most);
  /// The present value of the initializer at input `i`, which the step changes. Null after an error.
  mlir::Value readState(unsigned i);
  /// From here on that initializer is `value`.
  void assignState(unsigned i, mlir::Value value);
  /// The row of the embedding at input `i` that gets no gradient; `traced`: the exporter's word.
  std::optional<int64_t> paddingOf(unsigned i, std::optional<int64_t> traced) {
    return context.paddingOf(context.initializerOf(proto.input(i)), traced);
  }
  /// The operator's definition says that input `i` is a weight: so are the initializers that it is, under whatever
  /// name, or is rearranged of.
  void noteWeight(unsigned i, llvm::StringRef evidence);
  /// The same of a state that a layer begins with, which is a weight only where somebody says so.
  void noteState(unsigned i);
  /// A tensor that the node itself holds: constant if small, else stored under the name of its output.
  mlir::Value ownTensor(const onnxpb::Tensor &tensor);

  /// The numbers at input `i`, where rows that a mask picks are counted in them; null where they are not.
  const CountedShape *countedAt(unsigned i);
  PickedRows &pickedRows() { return context.pickedRows(); }

  //===-- building ------------------------------------------------------------===//
  Attrs attrs() const { return Attrs(loc.getContext()); }
  /// For what `make` cannot build: derivatives.
  mlir::OpBuilder &builder() { return context.opBuilder(); }
  int64_t nextDropoutId() { return context.nextDropoutId(); }
  llvm::SmallVector<mlir::Value> makeAll(llvm::StringRef op, mlir::ValueRange operands, const Attrs &attrs);
  mlir::Value make(llvm::StringRef op, mlir::ValueRange operands, const Attrs &attrs) {
    auto results = makeAll(op, operands, attrs);
    return results.empty() ? mlir::Value() : results[0];
  }
  template <typename OpT> mlir::Value make(mlir::ValueRange operands) {
    return make(OpT::getOperationName(), operands, attrs());
  }
  template <typename OpT> mlir::Value make(mlir::ValueRange operands, const Attrs &attrs) {
    return make(OpT::getOperationName(), operands, attrs);
  }
  /// Null after an error: too many in all.
  mlir::Value constant(const HostTensor &tensor);
  /// Rank 0, of `like`'s element type.
  mlir::Value scalar(double value, mlir::Type element);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value expand(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value cast(mlir::Value x, mlir::Type element);
  /// `size` indices along `axis` from `offset` on.
  mlir::Value slice(mlir::Value x, int64_t axis, int64_t offset, int64_t size);
  /// start, start + delta, ...: `count` of them.
  mlir::Value iota(int64_t count, mlir::Type element, double start = 0, double delta = 1);

  //===-- outputs -------------------------------------------------------------===//
  unsigned numOutputs() const { return proto.output_size(); }
  bool wants(unsigned i) const { return i < numOutputs() && !proto.output(i).empty(); }
  void set(unsigned i, mlir::Value value);
  void set(mlir::Value value) { set(0, value); }
  void setSequence(llvm::ArrayRef<mlir::Value> values) {
    setBinding(0, {mlir::Value(), llvm::SmallVector<mlir::Value>(values), true, false});
  }
  void setBinding(unsigned i, Binding binding);

  /// Fails where a subgraph, imported so many times, has more nodes than a model may have.
  void checkRepetitions(const onnxpb::Graph &graph, int64_t times);
  /// A subgraph's nodes with these inputs; its outputs, none after an error.
  llvm::SmallVector<Binding> importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs);

  //===-- errors --------------------------------------------------------------===//
  void fail(Error error);
  void invalid(std::string message);                            ///< bad input: the node is wrong
  void unsupported(std::string message, std::string help = {}); ///< right, but not here
  bool failed() const { return !status.ok(); }
  /// `axis` in [-rank, rank) made non-negative; else an error and 0.
  int64_t axis(int64_t value, int64_t rank);

  const onnxpb::Node &proto;
  const int64_t opset;
  const std::string label;
  const mlir::Location loc;
  Status status;

private:
  NodeContext &context;
  const HandlerRow *row;
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallDenseMap<unsigned, CountedShape, 1> counted; ///< by input

  std::string nameOfInput(unsigned i) const;
  const onnxpb::Attribute *attribute(llvm::StringRef name, int32_t type);
};

/// Of a shape from Node::countedAt that a tensor cannot have.
constexpr const char *countsNothing =
    "a number of rows that a mask picks shapes a tensor whose rows the mask did not pick";

/// Shape and element type; empty and null for a null value.
llvm::ArrayRef<int64_t> dimsOf(mlir::Value value);
inline int64_t rankOf(mlir::Value value) { return dimsOf(value).size(); }
/// The elements of a tensor of that shape.
inline int64_t countOf(llvm::ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= d;
  return count;
}
mlir::Type elementOf(mlir::Value value);
inline bool isFloat(mlir::Value value) { return llvm::isa_and_nonnull<mlir::FloatType>(elementOf(value)); }
/// Whether a parameter is among what a value is computed from.
bool dependsOnParameters(mlir::Value value);
/// Pieces of given sizes along an axis; sizes that do not add up are bad input.
llvm::SmallVector<mlir::Value> splitBy(Node &node, mlir::Value x, int64_t axis, llvm::ArrayRef<int64_t> sizes);
std::string shapeText(llvm::ArrayRef<int64_t> dims);

} // namespace zc::importer
