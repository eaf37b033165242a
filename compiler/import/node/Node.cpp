//===- Node.cpp - one ONNX node as its handler sees it -------------------------===//
#include "compiler/import/node/Node.h"
#include "compiler/import/base/Errors.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

llvm::ArrayRef<int64_t> zc::importer::dimsOf(Value value) {
  return value ? cast<RankedTensorType>(value.getType()).getShape() : llvm::ArrayRef<int64_t>();
}

Type zc::importer::elementOf(Value value) {
  return value ? cast<RankedTensorType>(value.getType()).getElementType() : Type();
}

std::string zc::importer::shapeText(llvm::ArrayRef<int64_t> dims) {
  std::string text = "[";
  for (int64_t d : dims)
    text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

void Node::fail(Error error) {
  if (status.ok())
    status = std::move(error);
}
void Node::invalid(std::string message) { fail(badFile(badNode, opType().str() + ": " + std::move(message))); }
void Node::unsupported(std::string message, std::string help) {
  fail(unsupportedError(unsupportedForm, opType().str() + ": " + std::move(message), {}, std::move(help)));
}

int64_t Node::axis(int64_t value, int64_t rank) {
  if (value >= -rank && value < rank)
    return value < 0 ? value + rank : value;
  invalid("axis " + std::to_string(value) + " is outside [" + std::to_string(-rank) + ", " + std::to_string(rank) +
          ")");
  return 0;
}

//===-- inputs -----------------------------------------------------------------===//

void Node::readInputs() {
  llvm::SmallVector<Value> read;
  for (unsigned i = 0; i < numInputs(); ++i)
    read.push_back(input(i));
  operands = std::move(read);
}

Value Node::input(unsigned i) {
  if (!has(i))
    return {};
  if (i < operands.size())
    return operands[i];
  auto binding = context.lookup(inputOf(proto, i), loc);
  if (binding.ok() && !binding->isSequence)
    return binding->value;
  if (binding.ok())
    invalid("input '" + proto.input(i) + "' is a sequence, not a tensor");
  else
    fail(binding.error());
  return {};
}

llvm::SmallVector<Value> Node::inputs() {
  llvm::SmallVector<Value> values;
  for (unsigned i = 0; i < numInputs(); ++i)
    values.push_back(input(i));
  return values;
}

llvm::SmallVector<Value> Node::sequence(unsigned i) {
  Binding found = binding(i);
  if (!failed() && !found.isSequence)
    invalid("input '" + proto.input(i) + "' is not a sequence");
  return std::move(found.sequence);
}

Binding Node::binding(unsigned i) {
  Binding none;
  none.isEmpty = true;
  if (!has(i))
    return none;
  auto found = context.lookup(inputOf(proto, i), loc);
  if (found.ok())
    return std::move(*found);
  fail(found.error());
  return none;
}

Value Node::named(const std::string &name) {
  auto bound = context.lookup(context.named(name), loc);
  return bound.ok() && !bound->isSequence ? bound->value : Value();
}

//===-- attributes -------------------------------------------------------------===//

namespace {
constexpr int32_t attrFloat = 1, attrInt = 2, attrString = 3, attrTensor = 4, attrGraph = 5, attrFloats = 6,
                  attrInts = 7;

int32_t presentType(const onnxpb::Attribute &a) {
  if (a.type() != 0)
    return a.type();
  // IR version 3 files may leave the type out.
  return a.has_f()         ? attrFloat
         : a.has_i()       ? attrInt
         : a.has_s()       ? attrString
         : a.has_t()       ? attrTensor
         : a.has_g()       ? attrGraph
         : a.floats_size() ? attrFloats
                           : attrInts;
}
} // namespace

bool Node::hasAttr(llvm::StringRef name) const {
  return llvm::any_of(proto.attribute(), [&](const onnxpb::Attribute &a) { return a.name() == name; });
}

const onnxpb::Attribute *Node::attribute(llvm::StringRef name, int32_t type) {
  for (const onnxpb::Attribute &a : proto.attribute()) {
    if (a.name() != name)
      continue;
    if (presentType(a) == type)
      return &a;
    fail(badFile(badAttribute, "attribute '" + name.str() + "' of " + opType().str() + " has type " +
                                   std::to_string(presentType(a)) + ", not " + std::to_string(type)));
    return nullptr;
  }
  return nullptr;
}

int64_t Node::intAttr(llvm::StringRef name, int64_t fallback) {
  const onnxpb::Attribute *a = attribute(name, attrInt);
  return a ? a->i() : fallback;
}
double Node::floatAttr(llvm::StringRef name, double fallback) {
  const onnxpb::Attribute *a = attribute(name, attrFloat);
  return a ? a->f() : fallback;
}
double Node::epsilon(double fallback) {
  const double value = floatAttr("epsilon", fallback);
  if (!(value >= 0 && std::isfinite(value)))
    invalid("its epsilon is " + std::to_string(value));
  return value;
}
std::string Node::stringAttr(llvm::StringRef name, llvm::StringRef fallback) {
  const onnxpb::Attribute *a = attribute(name, attrString);
  return a ? a->s() : fallback.str();
}
llvm::SmallVector<int64_t> Node::intsAttr(llvm::StringRef name) {
  const onnxpb::Attribute *a = attribute(name, attrInts);
  return a ? llvm::SmallVector<int64_t>(a->ints().begin(), a->ints().end()) : llvm::SmallVector<int64_t>();
}
llvm::SmallVector<int64_t> Node::intsAttr(llvm::StringRef name, size_t entries, int64_t fallback) {
  llvm::SmallVector<int64_t> list = intsAttr(name);
  if (list.empty())
    list.assign(entries, fallback);
  if (list.size() != entries)
    invalid(name.str() + " has " + std::to_string(list.size()) + " entries, not " + std::to_string(entries));
  return list;
}
llvm::SmallVector<double> Node::floatsAttr(llvm::StringRef name) {
  const onnxpb::Attribute *a = attribute(name, attrFloats);
  return a ? llvm::SmallVector<double>(a->floats().begin(), a->floats().end()) : llvm::SmallVector<double>();
}
const onnxpb::Tensor *Node::tensorAttr(llvm::StringRef name) {
  const onnxpb::Attribute *a = attribute(name, attrTensor);
  return a ? &a->t() : nullptr;
}
HostTensor Node::elementAttr(llvm::StringRef name, HostTensor fallback) {
  const onnxpb::Tensor *tensor = tensorAttr(name);
  if (!tensor)
    return fallback;
  std::string what = "attribute \"" + name.str() + "\"";
  auto info = context.inspect(*tensor, what);
  if (!info.ok())
    return fail(info.error()), fallback;
  if (info->elements != 1)
    return invalid("attribute '" + name.str() + "' has " + std::to_string(info->elements) + " elements, not 1"),
           fallback;
  auto read = context.read(*info, what);
  if (!read.ok())
    return fail(read.error()), fallback;
  read->dims.clear();
  return std::move(*read);
}
std::optional<llvm::SmallVector<llvm::StringRef>> Node::tracedCall(llvm::StringRef call) const {
  for (const onnxpb::StringStringEntry &entry : proto.metadata_props()) {
    llvm::StringRef trace = entry.value();
    if (entry.key() != "pkg.torch.onnx.fx_node" || !trace.contains(("target=torch.ops." + call).str()))
      continue;
    llvm::SmallVector<llvm::StringRef> arguments;
    trace.split("](args = (").second.split(')').first.split(arguments, ", ");
    return arguments;
  }
  return std::nullopt;
}

const onnxpb::Graph *Node::graphAttr(llvm::StringRef name) {
  const onnxpb::Attribute *a = attribute(name, attrGraph);
  if (!a && !failed())
    fail(badFile(badAttribute, opType().str() + " needs attribute '" + name.str() + "'"));
  return a ? &a->g() : nullptr;
}

//===-- values known when compiling --------------------------------------------===//

namespace {
/// An initializer (or Constant) that is too large to be evaluated, or a float that may turn out to be trained.
bool isStored(Value value) { return isa_and_nonnull<graph::ReadOp>(value.getDefiningOp()); }
} // namespace

std::string Node::nameOfInput(unsigned i) const {
  for (const KnownInput &input : row ? llvm::ArrayRef(row->known) : llvm::ArrayRef<KnownInput>())
    if (input.index == i)
      return input.name;
  return "input " + std::to_string(i);
}

void Node::checkKnown() {
  for (const KnownInput &known : row->known) {
    Value value = has(known.index) && !failed() ? input(known.index) : Value();
    if (!value || constantOf(value) || (known.mayCount && countedAt(known.index)))
      continue;
    std::string subject = "the " + std::string(known.name) + " of " + opType().str();
    if (isStored(value))
      fail(unsupportedError(
          dynamicShape, subject + " is a stored tensor " + shapeText(dimsOf(value)) + ", not a constant", {},
          "give it as an integer or scalar initializer of at most " +
              std::to_string(context.options.limits.foldedElements) + " elements (--limit folded-elements=N)"));
    else
      fail(unsupportedError(dynamicShape, subject + " is computed from the data, not known when compiling", {},
                            known.help ? known.help
                                       : "shapes of a plan are fixed: write the model so that this follows from shapes "
                                         "and constants only, and bind dimensions with --dim"));
  }
}

const HostTensor *Node::known(unsigned i) {
  Value value = failed() ? Value() : input(i);
  if (auto count = counted.find(i); count != counted.end())
    return &count->second.padded;
  return value ? constantOf(value) : nullptr;
}

const CountedShape *Node::countedAt(unsigned i) {
  if (auto found = counted.find(i); found != counted.end())
    return &found->second;
  Value value = failed() || !has(i) ? Value() : input(i);
  if (!value || constantOf(value))
    return nullptr;
  std::optional<CountedShape> shape = context.pickedRows().countedShape(value);
  return shape ? &counted.try_emplace(i, std::move(*shape)).first->second : nullptr;
}

llvm::SmallVector<int64_t> Node::constantInts(unsigned i) {
  const HostTensor *tensor = known(i);
  llvm::SmallVector<int64_t> ints;
  if (!tensor)
    return ints;
  if (tensor->isFloat()) {
    invalid("the " + nameOfInput(i) + " is not an integer tensor");
    return ints;
  }
  for (int64_t k = 0, n = tensor->numElements(); k < n; ++k)
    ints.push_back(tensor->intAt(k));
  return ints;
}

int64_t Node::constantInt(unsigned i) {
  auto ints = constantInts(i);
  if (ints.size() == 1)
    return ints[0];
  if (!failed())
    invalid("the " + nameOfInput(i) + " has " + std::to_string(ints.size()) + " elements, not 1");
  return 0;
}

double Node::constantFloat(unsigned i) {
  const HostTensor *tensor = known(i);
  if (tensor && tensor->numElements() == 1)
    return tensor->valueAt(0);
  if (tensor)
    invalid("the " + nameOfInput(i) + " has " + std::to_string(tensor->numElements()) + " elements, not 1");
  return 0;
}

//===-- tensors of the file ----------------------------------------------------===//

namespace {
/// The elements of its operands, in another order or shape.
bool isRearranging(Operation *op) {
  return isa_and_nonnull<graph::ConcatOp, graph::ReshapeOp, graph::TransposeOp, graph::ExpandOp, graph::SliceOp,
                         graph::CastOp>(op);
}
} // namespace

std::optional<HostTensor> Node::storedNumbers(Value value, int64_t most) {
  if (!value || failed() || countOf(dimsOf(value)) > most)
    return std::nullopt;
  if (const HostTensor *known = constantOf(value))
    return *known;
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast_or_null<graph::ReadOp>(op))
    return context.storedNumbers(read.getParameter());
  if (!isRearranging(op))
    return std::nullopt;
  llvm::SmallVector<Value> parts;
  for (Value operand : op->getOperands()) {
    auto numbers = storedNumbers(operand, most);
    parts.push_back(numbers ? constant(*numbers) : Value());
    if (!parts.back())
      return std::nullopt;
  }
  auto made = context.makeOp(op->getName().getStringRef(), parts, NamedAttrList(op->getAttrDictionary()), loc);
  const HostTensor *known = made.ok() ? constantOf((*made)[0]) : nullptr;
  return known ? std::optional(*known) : std::nullopt;
}

/// The parameters that a value is, or is rearranged of.
static void forEachStored(Value value, llvm::function_ref<void(std::string parameter)> visit) {
  llvm::SmallVector<Value> pending{value};
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next ? next.getDefiningOp() : nullptr;
    if (auto read = dyn_cast_or_null<graph::ReadOp>(op))
      visit(read.getParameter().str());
    else if (isRearranging(op))
      pending.append(op->operand_begin(), op->operand_end());
  }
}

void Node::noteWeight(unsigned i, llvm::StringRef evidence) {
  forEachStored(input(i), [&](std::string parameter) { context.noteWeight(parameter, evidence.str()); });
}
void Node::noteState(unsigned i) {
  forEachStored(input(i), [&](std::string parameter) { context.noteState(parameter); });
}

Value Node::readState(unsigned i) {
  auto state = context.readState(context.initializerOf(proto.input(i)), loc);
  if (state.ok())
    return *state;
  fail(state.error());
  return {};
}

void Node::assignState(unsigned i, Value value) {
  if (value && context.pickedRows().isAny(value))
    unsupported("keeps rows that a mask picked from step to step");
  if (!failed())
    context.assignState(context.initializerOf(proto.input(i)), value, loc);
}

Value Node::ownTensor(const onnxpb::Tensor &tensor) {
  auto value = context.makeTensor(tensor, proto.output_size() ? proto.output(0) : proto.name(), loc);
  if (value.ok())
    return *value;
  fail(value.error());
  return {};
}

//===-- building ---------------------------------------------------------------===//

llvm::SmallVector<Value> Node::makeAll(llvm::StringRef op, ValueRange operands, const Attrs &attrs) {
  // An operand that could not be made: the error is already there.
  if (failed())
    return {};
  auto results = context.makeOp(op, operands, attrs.list, loc);
  if (results.ok())
    return std::move(*results);
  fail(results.error());
  return {};
}

Value Node::constant(const HostTensor &tensor) {
  if (tensor.stored() > context.options.limits.foldedElements) {
    unsupported("with this one, a table of " + std::to_string(tensor.stored()) +
                    " elements would be made when compiling",
                "--limit folded-elements=N allows more");
    return {};
  }
  if (context.maySpend(tensor.stored()))
    return context.makeConstant(tensor, loc);
  unsupported("with this one, tables made when compiling have more than " +
                  std::to_string(context.options.limits.foldingWork) + " elements in all",
              "--limit folding-work=N allows more");
  return {};
}

Value Node::scalar(double value, Type element) {
  auto dtype = element ? dtypeOf(element) : std::nullopt;
  return dtype ? constant(HostTensor::scalar(value, *dtype)) : Value();
}
Value Node::reshape(Value x, llvm::ArrayRef<int64_t> shape) {
  return dimsOf(x) == shape ? x : make<graph::ReshapeOp>({x}, attrs().ints("shape", shape));
}
Value Node::transpose(Value x, llvm::ArrayRef<int64_t> permutation) {
  for (size_t d = 0; d < permutation.size(); ++d)
    if (permutation[d] != static_cast<int64_t>(d))
      return make<graph::TransposeOp>({x}, attrs().ints("permutation", permutation));
  return x;
}
Value Node::expand(Value x, llvm::ArrayRef<int64_t> shape) {
  return dimsOf(x) == shape ? x : make<graph::ExpandOp>({x}, attrs().ints("shape", shape));
}
Value Node::cast(Value x, Type element) {
  return elementOf(x) == element ? x : make<graph::CastOp>({x}, attrs().type("to", element));
}

Value Node::slice(Value x, int64_t axis, int64_t offset, int64_t size) {
  if (!x || failed())
    return {};
  llvm::SmallVector<int64_t> offsets(rankOf(x), 0), sizes(dimsOf(x)), strides(rankOf(x), 1);
  offsets[axis] = offset;
  sizes[axis] = size;
  return make<graph::SliceOp>({x}, attrs().ints("offsets", offsets).ints("sizes", sizes).ints("strides", strides));
}
Value Node::iota(int64_t count, Type element, double start, double delta) {
  auto type = RankedTensorType::get({count}, element);
  return make<graph::IotaOp>({}, attrs().type("type", type).real("start", start).real("delta", delta));
}

//===-- outputs ----------------------------------------------------------------===//

void Node::set(unsigned i, Value value) {
  if (wants(i) && value)
    context.bind(outputOf(proto, i).number, {value, {}, false, false});
}

void Node::setBinding(unsigned i, Binding binding) {
  if (llvm::is_contained(binding.sequence, Value()))
    return invalid("a tensor of the sequence is missing");
  if (wants(i))
    context.bind(outputOf(proto, i).number, std::move(binding));
}

void Node::checkRepetitions(const onnxpb::Graph &graph, int64_t times) {
  if (Status status = context.checkRepetitions(graph, times); !status.ok())
    fail(status.error());
}

llvm::SmallVector<Binding> Node::importGraph(const onnxpb::Graph &graph, llvm::ArrayRef<Binding> inputs) {
  if (failed())
    return {};
  auto outputs = context.importGraph(graph, inputs, label, loc);
  if (outputs.ok())
    return std::move(*outputs);
  fail(outputs.error());
  return {};
}

bool zc::importer::dependsOnParameters(Value value) {
  llvm::SmallVector<mlir::Operation *> pending;
  llvm::DenseSet<mlir::Operation *> seen;
  auto visit = [&](Value operand) {
    if (mlir::Operation *op = operand.getDefiningOp(); op && seen.insert(op).second)
      pending.push_back(op);
  };
  for (visit(value); !pending.empty();) {
    mlir::Operation *op = pending.pop_back_val();
    if (llvm::isa<graph::ReadOp>(op))
      return true;
    for (Value operand : op->getOperands())
      visit(operand);
  }
  return false;
}
