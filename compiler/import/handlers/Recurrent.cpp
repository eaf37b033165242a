//===- Recurrent.cpp - LSTM, GRU and RNN, unrolled ----------------------------------===//
//
// The number of steps is known when compiling, so that a layer is its formula once per step; gradients are those of the
// parts. Products with the input need no previous step and are one for all. ONNX LSTM-22, GRU-22, RNN-22.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Steps of all directions; more make graphs that nobody wants to look at.
constexpr int64_t kMostSteps = 1 << 14;

/// What a layer has for one direction; vectors may be missing. S steps, B sequences, H hidden, G gates.
struct Direction {
  Expr products;     ///< X W^T + Wb: [S, B, G H]
  Value recurrent;   ///< R: [G H, H]
  Value bias;        ///< Rb: [G H]
  Value peephole;    ///< P: [3 H]
  Expr hidden, cell; ///< [B, H]; the present ones
  llvm::SmallVector<std::string> functions;
};

class Layer {
public:
  Layer(Node &node, int64_t gates) : node(node), gates(gates) {}

  /// Reads and checks everything; the formula `advance` gives H (and C) of a step from the gates' products of it.
  template <typename AdvanceT> void run(llvm::ArrayRef<llvm::StringRef> defaults, AdvanceT &&advance);

  Expr piece(Value x, int64_t axis, int64_t index) {
    return {node, x ? node.slice(x, axis, index * hidden, hidden) : Value()};
  }
  Expr activate(Expr x, llvm::StringRef function) {
    return function == "sigmoid" ? x.apply<SigmoidOp>() : function == "tanh" ? x.apply<TanhOp>() : x.apply<ReluOp>();
  }
  /// H R^T + Rb of the gates from `first` on.
  Expr recur(const Direction &d, Value h, int64_t first, int64_t count) {
    Value r = d.recurrent, b = d.bias;
    if (count != gates) {
      r = node.slice(r, 0, first * hidden, count * hidden);
      b = b ? node.slice(b, 0, first * hidden, count * hidden) : b;
    }
    llvm::SmallVector<Value> operands{h, r};
    if (b)
      operands.push_back(b);
    return {node, node.make<MatmulOp>(operands, node.attrs().flag("trans_rhs"))};
  }

private:
  bool read();
  bool readFunctions(llvm::ArrayRef<llvm::StringRef> defaults);
  bool checkShape(unsigned input, llvm::ArrayRef<int64_t> shape);
  /// Input `i`, of one direction and without that dimension; null when not given.
  Value ofDirection(unsigned i, int64_t d) {
    Value value = node.input(i);
    return value ? node.reshape(node.slice(value, 0, d, 1), dimsOf(value).drop_front()) : value;
  }
  Value stateOf(unsigned i, int64_t d) {
    Value value = node.input(i);
    if (!value)
      return node.expand(node.scalar(0, elementOf(x)), {batch, hidden});
    if (isBatchFirst)
      value = node.transpose(value, {1, 0, 2});
    return node.reshape(node.slice(value, 0, d, 1), {batch, hidden});
  }
  Direction direction(int64_t d);
  void setOutputs(llvm::ArrayRef<Value> steps, llvm::ArrayRef<Value> hiddens, llvm::ArrayRef<Value> cells);

  Node &node;
  const int64_t gates;
  Value x; ///< [S, B, I]
  int64_t steps = 0, batch = 0, width = 0, hidden = 0, directions = 1;
  bool isBatchFirst = false, isReverse = false;
  llvm::SmallVector<std::string> functions; ///< of all directions, lower case
};

bool Layer::checkShape(unsigned input, llvm::ArrayRef<int64_t> shape) {
  Value value = node.input(input);
  if (node.failed() || !value || dimsOf(value) == shape)
    return !node.failed();
  node.invalid("input " + std::to_string(input) + " has shape " + shapeText(dimsOf(value)) + " instead of " +
               shapeText(shape));
  return false;
}

bool Layer::readFunctions(llvm::ArrayRef<llvm::StringRef> defaults) {
  llvm::SmallVector<std::string> given;
  for (const zc::onnxpb::Attribute &attribute : node.proto.attribute())
    if (attribute.name() == "activations")
      given.assign(attribute.strings().begin(), attribute.strings().end());
  if (!node.failed() && !given.empty() && given.size() != defaults.size() * directions)
    node.invalid("has " + std::to_string(given.size()) + " activations");
  for (int64_t i = 0, n = defaults.size() * directions; i < n && !node.failed(); ++i) {
    functions.push_back(given.empty() ? defaults[i % defaults.size()].str() : llvm::StringRef(given[i]).lower());
    if (!llvm::is_contained({"sigmoid", "tanh", "relu"}, functions.back()))
      node.unsupported("activation '" + given[i] + "'");
  }
  return !node.failed();
}

bool Layer::read() {
  x = node.input(0);
  for (auto [i, name] : {std::pair(1u, "W"), {2u, "R"}, {3u, "B"}, {7u, "P"}})
    if (node.isInitializer(i))
      node.noteWeight(i, std::string(name) + " of " + node.opType().str());
  isBatchFirst = node.intAttr("layout", 0) != 0;
  std::string way = node.stringAttr("direction", "forward");
  if (!node.failed() && way != "forward" && way != "reverse" && way != "bidirectional")
    node.invalid("direction is '" + way + "'");
  directions = way == "bidirectional" ? 2 : 1;
  isReverse = way == "reverse";
  if (!node.failed() && (rankOf(x) != 3 || rankOf(node.input(2)) != 3))
    node.invalid("input and recurrent weights do not have rank 3");
  if (node.failed())
    return false;
  if (isBatchFirst)
    x = node.transpose(x, {1, 0, 2});
  steps = dimsOf(x)[0];
  batch = dimsOf(x)[1];
  width = dimsOf(x)[2];
  hidden = dimsOf(node.input(2))[2];
  if (steps == 0 || steps > kMostSteps / directions)
    node.unsupported("of " + std::to_string(steps) + " steps");
  if (node.hasAttr("clip"))
    node.unsupported("with clip");
  if (const HostTensor *lengths = node.has(4) ? node.known(4) : nullptr) {
    bool same = !lengths->isFloat();
    for (int64_t i = 0; same && i < lengths->stored(); ++i)
      same = lengths->intAt(i) == steps;
    if (!same)
      node.unsupported("with sequence lengths other than the input's");
  }
  Dims state = isBatchFirst ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  return checkShape(1, {directions, gates * hidden, width}) && checkShape(2, {directions, gates * hidden, hidden}) &&
         checkShape(3, {directions, 2 * gates * hidden}) && checkShape(5, state) &&
         (gates != 4 || (checkShape(6, state) && checkShape(7, {directions, 3 * hidden})));
}

Direction Layer::direction(int64_t d) {
  Value bias = ofDirection(3, d), inputBias, recurrentBias;
  if (bias) {
    inputBias = node.slice(bias, 0, 0, gates * hidden);
    recurrentBias = node.slice(bias, 0, gates * hidden, gates * hidden);
  }
  llvm::SmallVector<Value> operands{node.reshape(x, {steps * batch, width}), ofDirection(1, d)};
  if (inputBias)
    operands.push_back(inputBias);
  Value products = node.make<MatmulOp>(operands, node.attrs().flag("trans_rhs"));
  size_t each = functions.size() / directions;
  return {Expr(node, node.reshape(products, {steps, batch, gates * hidden})),
          ofDirection(2, d),
          recurrentBias,
          gates == 4 ? ofDirection(7, d) : Value(),
          Expr(node, stateOf(5, d)),
          Expr(node, gates == 4 ? stateOf(6, d) : Value()),
          {functions.begin() + d * each, functions.begin() + (d + 1) * each}};
}

/// `steps`: per step, [B, H] of each direction after the other.
void Layer::setOutputs(llvm::ArrayRef<Value> values, llvm::ArrayRef<Value> hiddens, llvm::ArrayRef<Value> cells) {
  auto joined = [&](llvm::ArrayRef<Value> parts, llvm::ArrayRef<int64_t> shape) {
    llvm::SmallVector<Value> rows;
    for (Value part : parts)
      rows.push_back(node.reshape(part, {1, batch, hidden}));
    return node.reshape(rows.size() == 1 ? rows[0] : node.make<ConcatOp>(rows, node.attrs().integer("axis", 0)), shape);
  };
  if (node.wants(0)) {
    Value y = joined(values, {steps, directions, batch, hidden});
    node.set(0, isBatchFirst ? node.transpose(y, {2, 0, 1, 3}) : y);
  }
  for (unsigned i = 1; i < 3 && !node.failed(); ++i)
    if (auto last = i == 1 ? hiddens : cells; node.wants(i) && !last.empty()) {
      Value state = joined(last, {directions, batch, hidden});
      node.set(i, isBatchFirst ? node.transpose(state, {1, 0, 2}) : state);
    }
}

template <typename AdvanceT> void Layer::run(llvm::ArrayRef<llvm::StringRef> defaults, AdvanceT &&advance) {
  if (!read() || !readFunctions(defaults))
    return;
  llvm::SmallVector<Value> values(steps * directions), hiddens, cells;
  for (int64_t d = 0; d < directions; ++d) {
    Direction direction = this->direction(d);
    bool backwards = isReverse || d == 1;
    for (int64_t i = 0; i < steps && !node.failed(); ++i) {
      int64_t t = backwards ? steps - 1 - i : i;
      advance(*this, direction,
              Expr(node, node.reshape(node.slice(direction.products, 0, t, 1), {batch, gates * hidden})));
      values[t * directions + d] = direction.hidden;
    }
    hiddens.push_back(direction.hidden);
    if (direction.cell)
      cells.push_back(direction.cell);
  }
  if (!node.failed())
    setOutputs(values, hiddens, cells);
}

/// Gates i, o, f, c.
void lstm(Node &node) {
  if (node.intAttr("input_forget", 0) != 0)
    return node.unsupported("with input_forget");
  Layer(node, 4).run({"sigmoid", "tanh", "tanh"}, [](Layer &layer, Direction &d, Expr products) {
    Expr all = products + layer.recur(d, d.hidden, 0, 4), c = d.cell;
    auto gate = [&](int64_t index, int64_t peephole, Expr cell) {
      Expr sum = layer.piece(all, 1, index);
      return d.peephole && peephole >= 0 ? sum + layer.piece(d.peephole, 0, peephole) * cell : sum;
    };
    Expr in = layer.activate(gate(0, 0, c), d.functions[0]), forget = layer.activate(gate(2, 2, c), d.functions[0]);
    Expr next = forget * c + in * layer.activate(gate(3, -1, c), d.functions[1]);
    Expr out = layer.activate(gate(1, 1, next), d.functions[0]);
    d.cell = next;
    d.hidden = out * layer.activate(next, d.functions[2]);
  });
}

/// Gates z, r, h. With linear_before_reset (torch), the reset gate acts on the product, else on the state.
void gru(Node &node) {
  bool resetsProduct = node.intAttr("linear_before_reset", 0) != 0;
  Layer(node, 3).run({"sigmoid", "tanh"}, [=](Layer &layer, Direction &d, Expr products) {
    Expr h = d.hidden;
    Expr recurrent = layer.recur(d, h, 0, resetsProduct ? 3 : 2);
    auto gate = [&](int64_t index) {
      return layer.activate(layer.piece(products, 1, index) + layer.piece(recurrent, 1, index), d.functions[0]);
    };
    Expr update = gate(0), reset = gate(1);
    Expr candidate = resetsProduct ? reset * layer.piece(recurrent, 1, 2) : layer.recur(d, reset * h, 2, 1);
    candidate = layer.activate(layer.piece(products, 1, 2) + candidate, d.functions[1]);
    d.hidden = (1 - update) * candidate + update * h;
  });
}

void rnn(Node &node) {
  Layer(node, 1).run({"tanh"}, [](Layer &layer, Direction &d, Expr products) {
    d.hidden = layer.activate(products + layer.recur(d, d.hidden, 0, 1), d.functions[0]);
  });
}

} // namespace

void zc::importer::addRecurrentHandlers(HandlerTable &table) {
  const std::vector<KnownInput> lengths{
      {4, "sequence_lens",
       "pack_padded_sequence makes sequences of other lengths each step: feed padded ones, and leave "
       "the padding out of the loss by labels of -100"}};
  table.add("LSTM", 7, 3, 8, lstm, lengths);
  table.add("GRU", 7, 3, 6, gru, lengths);
  table.add("RNN", 7, 3, 6, rnn, lengths);
  for (const char *op : {"LSTM", "GRU", "RNN"})
    table.limit("", op, "sigmoid, tanh and relu, no clip; all sequences of one length");
}
