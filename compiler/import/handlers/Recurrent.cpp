//===- Recurrent.cpp - LSTM, GRU and RNN, unrolled ----------------------------------===//
//
// The number of steps is known when compiling, so that a layer is its formula once per step; gradients are those of the
// parts. Products with the input need no previous step and are one for all. Of sequences shorter than the steps,
// lengths that are data among them, a step beyond the end leaves the state as it is and gives 0. ONNX LSTM-22, GRU-22,
// RNN-22.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Activations.h"
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
  llvm::ArrayRef<Activation> functions;
};

class Layer {
public:
  Layer(Node &node, int64_t gates) : node(node), gates(gates) {}

  /// Reads and checks everything; the formula `advance` gives H (and C) of a step from the gates' products of it.
  template <typename AdvanceT> void run(llvm::ArrayRef<llvm::StringRef> defaults, AdvanceT &&advance);

  Expr piece(Value x, int64_t axis, int64_t index) {
    return {node, x ? node.slice(x, axis, index * hidden, hidden) : Value()};
  }
  Expr activate(Expr x, const Activation &function) {
    return function(clip > 0 ? clamp(x, x.number(-clip), x.number(clip)) : x);
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
  void readLengths();
  bool readFunctions(llvm::ArrayRef<llvm::StringRef> defaults);
  /// One step of a direction, and what it gives: [B, H].
  template <typename AdvanceT> Value step(Direction &d, int64_t t, AdvanceT &advance);
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
  double clip = 0;                         ///< of what activations are given; 0: none
  Expr lengths{node, {}};                  ///< of the sequences: i64 [B, 1]; null where all have all steps
  llvm::SmallVector<Activation> functions; ///< of all directions
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
  // Numbers are for those functions that have some, one after the other.
  auto alphas = node.floatsAttr("activation_alpha"), betas = node.floatsAttr("activation_beta");
  size_t alpha = 0, beta = 0;
  for (int64_t i = 0, n = defaults.size() * directions; i < n && !node.failed(); ++i) {
    llvm::StringRef name = given.empty() ? defaults[i % defaults.size()] : llvm::StringRef(given[i]);
    const Activation *function = findActivation(name);
    if (!function) {
      node.unsupported("activation '" + name.str() + "'");
      break;
    }
    functions.push_back(*function);
    if (function->numbers > 0 && alpha < alphas.size())
      functions.back().first = alphas[alpha++];
    if (function->numbers > 1 && beta < betas.size())
      functions.back().second = betas[beta++];
  }
  return !node.failed();
}

void Layer::readLengths() {
  Value given = node.input(4);
  if (!given)
    return;
  const HostTensor *known = node.constantOf(given);
  bool areAll = known && !known->isFloat();
  for (int64_t i = 0; areAll && i < known->stored(); ++i)
    areAll = known->intAt(i) == steps;
  if (!areAll)
    lengths = Expr(node, given).cast(mlir::IntegerType::get(node.loc.getContext(), 64)).reshape({batch, 1});
}

bool Layer::read() {
  x = node.input(0);
  for (auto [i, name] : {std::pair(1u, "W"), {2u, "R"}, {3u, "B"}, {7u, "P"}})
    if (node.has(i))
      node.noteWeight(i, std::string(name) + " of " + node.opType().str());
  for (unsigned i : {5u, 6u})
    if (node.has(i))
      node.noteState(i);
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
  clip = node.floatAttr("clip", 0);
  if (!(clip >= 0))
    node.invalid("clip is " + std::to_string(clip));
  Dims state = isBatchFirst ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  return checkShape(1, {directions, gates * hidden, width}) && checkShape(2, {directions, gates * hidden, hidden}) &&
         checkShape(3, {directions, 2 * gates * hidden}) && checkShape(4, {batch}) && checkShape(5, state) &&
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
          llvm::ArrayRef(functions).slice(d * each, each)};
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

template <typename AdvanceT> Value Layer::step(Direction &d, int64_t t, AdvanceT &advance) {
  Expr hidden = d.hidden, cell = d.cell;
  advance(*this, d, Expr(node, node.reshape(node.slice(d.products, 0, t, 1), {batch, gates * this->hidden})));
  if (!lengths)
    return d.hidden;
  Expr isThere = lengths.number(static_cast<double>(t)).apply<LessOp>(lengths);
  Expr given = d.hidden.where(isThere, d.hidden.number(0));
  d.hidden = d.hidden.where(isThere, hidden);
  d.cell = d.cell.where(isThere, cell);
  return given;
}

template <typename AdvanceT> void Layer::run(llvm::ArrayRef<llvm::StringRef> defaults, AdvanceT &&advance) {
  if (!read() || !readFunctions(defaults))
    return;
  readLengths();
  llvm::SmallVector<Value> values(steps * directions), hiddens, cells;
  for (int64_t d = 0; d < directions; ++d) {
    Direction direction = this->direction(d);
    bool backwards = isReverse || d == 1;
    for (int64_t i = 0; i < steps && !node.failed(); ++i) {
      int64_t t = backwards ? steps - 1 - i : i;
      values[t * directions + d] = step(direction, t, advance);
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
  bool isCoupled = node.intAttr("input_forget", 0) != 0;
  Layer(node, 4).run({"sigmoid", "tanh", "tanh"}, [=](Layer &layer, Direction &d, Expr products) {
    Expr all = products + layer.recur(d, d.hidden, 0, 4), c = d.cell;
    auto gate = [&](int64_t index, int64_t peephole, Expr cell) {
      Expr sum = layer.piece(all, 1, index);
      return d.peephole && peephole >= 0 ? sum + layer.piece(d.peephole, 0, peephole) * cell : sum;
    };
    Expr in = layer.activate(gate(0, 0, c), d.functions[0]);
    Expr forget = isCoupled ? 1 - in : layer.activate(gate(2, 2, c), d.functions[0]);
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
  table.add("LSTM", 7, 3, 8, lstm);
  table.add("GRU", 7, 3, 6, gru);
  table.add("RNN", 7, 3, 6, rnn);
}
