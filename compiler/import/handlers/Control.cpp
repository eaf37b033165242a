//===- Control.cpp - If, Loop, Scan, SequenceMap: unrolled when compiling -------===//
//
// A program has no control flow, so what decides must be known when compiling: the condition of If, the trip count of
// Loop. The nodes of a body are imported once per iteration.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/base/Errors.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Bindings = llvm::SmallVector<Binding>;

constexpr const char *kFixedFlow = "a program has no control flow: export with a fixed condition";

Binding bindingOf(Value value) { return {value, {}, false, false}; }

/// A bool that is known when compiling. Else unsupported.
bool isTrue(Node &node, const Binding &binding, llvm::StringRef what) {
  const HostTensor *known = binding.value ? node.constantOf(binding.value) : nullptr;
  if (node.failed())
    return false;
  if (known && !known->isFloat() && known->numElements() == 1)
    return known->intAt(0) != 0;
  if (known)
    node.invalid("the " + what.str() + " is not one bool");
  else
    node.fail(unsupportedError(dynamicShape,
                               "the " + what.str() + " of " + node.opType().str() +
                                   " is computed from the data, not known when compiling",
                               {}, kFixedFlow));
  return false;
}

void setAll(Node &node, llvm::ArrayRef<Binding> outputs) {
  for (unsigned i = 0; i < outputs.size(); ++i)
    node.setBinding(i, outputs[i]);
}

void ifThenElse(Node &node) {
  Binding condition = node.binding(0);
  const onnxpb::Graph *body = node.graphAttr(isTrue(node, condition, "condition") ? "then_branch" : "else_branch");
  if (!node.failed())
    setAll(node, node.importGraph(*body, {}));
}

/// [...] -> [1, ...], all of them behind one another.
Value stack(Node &node, llvm::ArrayRef<Binding> values, int64_t axis = 0, bool reversed = false) {
  llvm::SmallVector<Value> rows;
  for (const Binding &binding : values) {
    if (!binding.value) {
      node.invalid("a scan output of the body is not a tensor");
      return {};
    }
    llvm::SmallVector<int64_t> shape(dimsOf(binding.value));
    if (axis > static_cast<int64_t>(shape.size()))
      node.invalid("scan output axis " + std::to_string(axis) + " of rank " + std::to_string(shape.size() + 1));
    if (node.failed())
      return {};
    shape.insert(shape.begin() + axis, 1);
    rows.push_back(node.reshape(binding.value, shape));
  }
  if (reversed)
    std::reverse(rows.begin(), rows.end());
  return rows.size() == 1 ? rows[0] : node.make<ConcatOp>(rows, node.attrs().integer("axis", axis));
}

/// Is a loop's condition after an iteration what it was before, as in a `for`?
bool keepsCondition(const onnxpb::Graph &body) {
  return body.input_size() > 1 && body.output_size() > 0 && body.output(0).name() == body.input(1).name();
}

/// Body: (iteration, condition, carried...) -> (condition, carried..., scan outputs...).
void loop(Node &node) {
  const onnxpb::Graph *body = node.graphAttr("body");
  int64_t trips = node.has(0) ? node.constantInt(0) : INT64_MAX;
  bool goesOn = !node.has(1) || isTrue(node, node.binding(1), "condition");
  Bindings carried;
  for (unsigned i = 2; i < node.numInputs(); ++i)
    carried.push_back(node.binding(i));
  if (node.failed())
    return;
  int numScans = body->output_size() - 1 - static_cast<int>(carried.size());
  if (numScans < 0 || static_cast<int>(node.numOutputs()) > body->output_size() - 1)
    return node.invalid("the body has " + std::to_string(body->output_size()) + " outputs for " +
                        std::to_string(carried.size()) + " carried values and " + std::to_string(node.numOutputs()) +
                        " outputs");
  if (goesOn && keepsCondition(*body))
    node.checkRepetitions(*body, trips);
  if (node.failed())
    return;
  std::vector<Bindings> scans(numScans);
  for (int64_t i = 0; i < trips && goesOn; ++i) {
    HostTensor iteration = HostTensor::ofInts(i);
    iteration.dims.clear();
    Bindings inputs{bindingOf(node.constant(iteration)),
                    bindingOf(node.constant(HostTensor::scalar(1, DType::boolean)))};
    inputs.append(carried);
    Bindings outputs = node.importGraph(*body, inputs);
    if (node.failed())
      return;
    goesOn = isTrue(node, outputs[0], "condition after an iteration");
    carried.assign(outputs.begin() + 1, outputs.end() - numScans);
    for (int k = 0; k < numScans; ++k)
      scans[k].push_back(outputs[1 + carried.size() + k]);
  }
  setAll(node, carried);
  for (int k = 0; k < numScans && !node.failed(); ++k) {
    unsigned output = carried.size() + k;
    if (scans[k].empty() && node.wants(output))
      return node.unsupported("no iterations, so that the shape of scan output " + std::to_string(k) + " is unknown");
    if (node.wants(output))
      node.set(output, stack(node, scans[k]));
  }
}

/// One sequence of iterations over given states and inputs.
class Scan {
public:
  Scan(Node &node, const onnxpb::Graph &body, int64_t numScans) : node(node), body(body), numScans(numScans) {}

  /// In opset 8 the inputs' directions have another name, and there is no other attribute of these.
  bool readAxes(llvm::ArrayRef<int64_t> ranks, bool batched) {
    auto given = [&](llvm::StringRef name, size_t count) {
      auto values = node.intsAttr(name);
      if (!values.empty() && values.size() != count)
        node.invalid(name.str() + " has " + std::to_string(values.size()) + " entries, not " + std::to_string(count));
      values.resize(count, 0);
      return values;
    };
    size_t outputs = node.failed() ? 0 : body.output_size() - numStates();
    inputAxes = given("scan_input_axes", numScans);
    inputDirections = given(batched ? "directions" : "scan_input_directions", numScans);
    outputAxes = given("scan_output_axes", outputs);
    outputDirections = given("scan_output_directions", outputs);
    for (auto [axis, rank] : llvm::zip(inputAxes, ranks))
      axis = node.failed() ? 0 : node.axis(axis, rank);
    return !node.failed();
  }
  size_t numStates() const { return body.input_size() - numScans; }

  /// Final states, then the stacked outputs.
  Bindings run(Bindings states, llvm::ArrayRef<Value> inputs) {
    int64_t length = numScans ? dimsOf(inputs[0])[inputAxes[0]] : 0;
    for (int64_t k = 0; k < numScans; ++k)
      if (dimsOf(inputs[k])[inputAxes[k]] != length)
        node.invalid("scan inputs have different lengths");
    node.checkRepetitions(body, length);
    std::vector<Bindings> scans(body.output_size() - states.size());
    for (int64_t i = 0; i < length && !node.failed(); ++i) {
      Bindings given = states;
      for (int64_t k = 0; k < numScans; ++k)
        given.push_back(bindingOf(element(inputs[k], inputAxes[k], inputDirections[k] ? length - 1 - i : i)));
      Bindings outputs = node.importGraph(body, given);
      if (node.failed())
        return {};
      for (size_t k = 0; k < scans.size(); ++k)
        scans[k].push_back(outputs[states.size() + k]);
      states.assign(outputs.begin(), outputs.begin() + states.size());
    }
    for (size_t k = 0; k < scans.size() && !node.failed(); ++k) {
      if (scans[k].empty())
        return node.unsupported("no iterations"), Bindings();
      int64_t axis = node.axis(outputAxes[k], rankOf(scans[k][0].value) + 1);
      states.push_back(bindingOf(stack(node, scans[k], axis, outputDirections[k] != 0)));
    }
    return states;
  }

  Value element(Value x, int64_t axis, int64_t i) {
    llvm::SmallVector<int64_t> shape(dimsOf(x));
    shape.erase(shape.begin() + axis);
    return node.reshape(node.slice(x, axis, i, 1), shape);
  }

private:
  Node &node;
  const onnxpb::Graph &body;
  const int64_t numScans;
  llvm::SmallVector<int64_t> inputAxes, inputDirections, outputAxes, outputDirections;
};

/// `first`: inputs before the states. `batched`: opset 8, where everything has a batch dimension in front.
void scanBy(Node &node, unsigned first, bool batched) {
  const onnxpb::Graph *body = node.graphAttr("body");
  int64_t numScans = node.intAttr("num_scan_inputs", 0), given = static_cast<int64_t>(node.numInputs()) - first;
  if (node.failed())
    return;
  if (numScans < 1 || numScans > given || body->input_size() != given || body->output_size() < given - numScans)
    return node.invalid("num_scan_inputs is " + std::to_string(numScans) + " for " + std::to_string(given) +
                        " inputs and a body with " + std::to_string(body->input_size()));
  llvm::SmallVector<Value> values;
  llvm::SmallVector<int64_t> ranks;
  for (unsigned i = first; i < node.numInputs(); ++i)
    values.push_back(node.input(i));
  if (node.failed() || llvm::is_contained(values, Value()))
    return node.invalid("an input is missing");
  size_t numStates = given - numScans;
  for (size_t i = numStates; i < values.size(); ++i)
    ranks.push_back(rankOf(values[i]) - batched);
  Scan scan(node, *body, numScans);
  if (!scan.readAxes(ranks, batched))
    return;
  auto bindAll = [](llvm::ArrayRef<Value> tensors) {
    Bindings bindings;
    for (Value value : tensors)
      bindings.push_back(bindingOf(value));
    return bindings;
  };
  llvm::ArrayRef<Value> all = values;
  if (!batched)
    return setAll(node, scan.run(bindAll(all.take_front(numStates)), all.drop_front(numStates)));
  for (Value value : values)
    if (rankOf(value) == 0 || dimsOf(value)[0] != dimsOf(values[0])[0])
      return node.invalid("inputs of shapes " + shapeText(dimsOf(values[0])) + " and " + shapeText(dimsOf(value)) +
                          " have no batch in common");
  std::vector<Bindings> perBatch(body->output_size());
  for (int64_t b = 0, n = dimsOf(values[0])[0]; b < n && !node.failed(); ++b) {
    llvm::SmallVector<Value> row;
    for (Value value : values)
      row.push_back(scan.element(value, 0, b));
    llvm::ArrayRef<Value> rows = row;
    Bindings outputs = scan.run(bindAll(rows.take_front(numStates)), rows.drop_front(numStates));
    for (size_t k = 0; k < outputs.size(); ++k)
      perBatch[k].push_back(outputs[k]);
  }
  for (size_t k = 0; k < perBatch.size() && !node.failed(); ++k)
    if (node.wants(k) && !perBatch[k].empty())
      node.set(k, stack(node, perBatch[k]));
}

void scan(Node &node) { scanBy(node, 0, false); }
void scanBatched(Node &node) {
  if (node.has(0))
    return node.unsupported("sequence_lens");
  scanBy(node, 1, true);
}

/// The body for each element of the first sequence, and of the further ones; tensors are the same each time.
void sequenceMap(Node &node) {
  const onnxpb::Graph *body = node.graphAttr("body");
  Bindings inputs;
  for (unsigned i = 0; i < node.numInputs(); ++i)
    inputs.push_back(node.binding(i));
  if (node.failed())
    return;
  if (!inputs[0].isSequence)
    return node.invalid("input 0 is not a sequence");
  std::vector<Bindings> results(body->output_size());
  for (size_t i = 0; i < inputs[0].sequence.size(); ++i) {
    Bindings given;
    for (const Binding &input : inputs) {
      if (input.isSequence && input.sequence.size() != inputs[0].sequence.size())
        return node.invalid("the sequences have different lengths");
      given.push_back(input.isSequence ? bindingOf(input.sequence[i]) : input);
    }
    Bindings outputs = node.importGraph(*body, given);
    for (size_t k = 0; k < outputs.size(); ++k)
      results[k].push_back(outputs[k]);
  }
  for (size_t k = 0; k < results.size() && !node.failed(); ++k) {
    Binding sequence;
    sequence.isSequence = true;
    for (const Binding &element : results[k])
      sequence.sequence.push_back(element.value);
    node.setBinding(k, std::move(sequence));
  }
}

} // namespace

void zc::importer::addControlHandlers(HandlerTable &table) {
  auto add = [&](llvm::StringRef op, int64_t since, int minInputs, Handler handler,
                 std::vector<KnownInput> known = {}) {
    table.add("", op, {since, minInputs, -1, handler, true, std::move(known)});
  };
  add("If", 1, 1, ifThenElse, {{0, "condition", kFixedFlow}});
  add("Loop", 1, 0, loop, {{0, "trip count", kFixedFlow}, {1, "condition", kFixedFlow}});
  add("Scan", 8, 0, scanBatched);
  add("Scan", 9, 1, scan);
  add("SequenceMap", 17, 1, sequenceMap);
  table.limit("", "Loop", "conditions after an iteration too");
  table.limit("", "Scan", "no sequence_lens (opset 8)");
}
