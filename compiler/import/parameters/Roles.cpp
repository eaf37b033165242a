//===- Roles.cpp - which initializers are trained, and why ------------------===//
#include "compiler/import/parameters/Roles.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Listed.h"
#include "compiler/import/parameters/ParamGroups.h"
#include "compiler/import/parameters/Selections.h"
#include "compiler/import/parameters/Ties.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

namespace {

/// What a use is to its operation.
OperandRole roleOf(OpOperand &use) {
  auto kernel = dyn_cast<KernelOp>(use.getOwner());
  return kernel ? kernel.getOperandRole(use.getOperandNumber()) : OperandRole::data;
}

bool isFloatTensor(Value value) { return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType()); }

/// What reads parameters and gets a derivative of the results: a walk backwards through all but what stops gradients.
/// An operation is forgotten once it has been met, behind all that uses it.
llvm::DenseSet<Operation *> differentiatedReads(ProgramOp program) {
  llvm::DenseSet<Operation *> reached;
  auto reach = [&](OpOperand &operand) {
    if (Operation *maker = operand.get().getDefiningOp(); maker && isFloatTensor(operand.get()))
      reached.insert(maker);
  };
  Block &block = program.getBlock();
  llvm::for_each(block.getTerminator()->getOpOperands(), reach);
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (isa<ReadOp>(op) || !reached.erase(&op) || stopsGradient(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands())
      if (roleOf(operand) != OperandRole::statistics)
        reach(operand);
  }
  return reached;
}

bool isRearranged(OpOperand &use) {
  auto kernel = dyn_cast<KernelOp>(use.getOwner());
  return (kernel && kernel.getViewOperand() == static_cast<int>(use.getOperandNumber())) ||
         (use.getOperandNumber() == 0 && movesElements(use.getOwner()));
}

/// A use in one of `roles`, directly or rearranged.
bool isUsedAs(ArrayRef<OperandRole> roles, Value value) {
  llvm::SmallVector<Value> pending{value};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (llvm::is_contained(roles, roleOf(use)))
        return true;
      if (isRearranged(use))
        pending.push_back(use.getOwner()->getResult(0));
    }
  return false;
}

/// Looked up by nothing but the labels of a loss: how much each class counts.
bool isClassWeight(Value value) {
  llvm::SmallVector<Value> pending{value};
  bool found = false;
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (isa<CastOp>(use.getOwner())) {
        pending.push_back(use.getOwner()->getResult(0));
        continue;
      }
      auto gather = dyn_cast<GatherOp>(use.getOwner());
      if (!gather || use.getOperandNumber() != 0 || !gather.getIndices().getDefiningOp<LabelIndexOp>())
        return false;
      found = true;
    }
  return found;
}

struct Verdict {
  Role role;
  std::string evidence;
};

/// Only 0, 1 and numbers that a softmax makes nothing of.
bool isMask(const HostTensor &tensor) {
  for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
    if (double v = tensor.floatAt(i); v != 0 && v != 1 && v > -1e4)
      return false;
  return true;
}

/// Sine and cosine of the same angles, up to a common factor.
bool areRotary(const HostTensor &a, const HostTensor &b) {
  double first = a.floatAt(0) * a.floatAt(0) + b.floatAt(0) * b.floatAt(0);
  bool varies = false;
  for (int64_t i = 0, n = a.numElements(); i < n; ++i) {
    varies |= a.floatAt(i) != a.floatAt(0);
    if (std::abs(a.floatAt(i) * a.floatAt(i) + b.floatAt(i) * b.floatAt(i) - first) > 1e-4 * first)
      return false;
  }
  return varies && first > 0;
}

/// Rows of `width` elements, each sines and cosines of the same angles: beside each other, or in halves of the row, or
/// in halves of its halves (two coordinates). A row of zeros is padding.
bool isSinusoidal(const HostTensor &rows, int64_t width) {
  auto holds = [&](int64_t period, int64_t apart) {
    int64_t norms = 0;
    for (int64_t i = 0, n = rows.numElements(); i < n; ++i) {
      if (i % period >= apart)
        continue;
      double a = rows.floatAt(i), b = rows.floatAt(i + apart), norm = a * a + b * b;
      if (norm != 0 && std::abs(norm - 1) > 1e-2)
        return false;
      norms += norm != 0 && a != 0;
    }
    return 2 * norms > rows.numElements() / 2; // more than half of the pairs have two elements
  };
  return holds(2, 1) || holds(width, width / 2) || (width % 4 == 0 && holds(width / 2, width / 4));
}

/// The file's initializer: --untie numbers its uses.
StringRef fileNameOf(StringRef name) {
  return name.take_until([](char c) { return c == '#'; });
}

/// Decides the roles of a module's parameters.
class Judge {
public:
  Judge(ModuleOp module, const ImportOptions &options, const Origins &origins, ParameterBytes &parameterBytes)
      : module(module), origins(origins), parameterBytes(parameterBytes) {
    for (auto program : module.getOps<ProgramOp>()) {
      program.walk([&](AssignOp assign) { assigned.insert(assign.getParameter()); });
      program.walk([&](ReadOp read) { reads[read.getParameter()].push_back(read); });
      if (!options.forwardOnly)
        path = differentiatedReads(program);
    }
  }

  /// The step itself changes it.
  bool isState(StringRef name) const { return assigned.contains(name); }
  bool isRead(StringRef name) const { return reads.count(name) != 0; }

  /// docs/onnx.md 1.4: the exporter's word, else dtype, path to the loss, place, name, values.
  Verdict operator()(ParameterOp parameter) {
    StringRef name = parameter.getSymName();
    const Origin &origin = originOf(name);
    auto type = cast<RankedTensorType>(parameter.getType());
    if (!isa<FloatType>(type.getElementType()))
      return {Role::buffer, "not a float"};
    if (origin.kind == OriginKind::buffer)
      return {Role::buffer, "exporter: " + origin.word};
    if (llvm::none_of(reads[name], [&](ReadOp read) { return path.contains(read); }))
      return {Role::frozen, "no derivative reaches it"};
    if (!origins.isOne(fileNameOf(name)) && isPositionTable(parameter)) {
      warn(parameter, "is not trained: it is a table of sines and cosines, which models keep as it is",
           "--trainable '+");
      return {Role::frozen, "sines and cosines"};
    }
    if (origin.kind == OriginKind::parameter)
      return {Role::trainable, "exporter: parameter"};
    if (origins.isFoldedOfConstants(fileNameOf(name)))
      return {Role::frozen, "exporter: folded from no parameter"};
    if (llvm::all_of(reads[name], [](ReadOp read) { return isClassWeight(read.getResult()); }))
      return {Role::frozen, "class weights of a loss"};
    if (origin.kind == OriginKind::unknown && origins.isState(name))
      return {Role::frozen, "initial state"};
    auto isUsed = [&](ArrayRef<OperandRole> roles) {
      return llvm::any_of(reads[name], [&](ReadOp read) { return isUsedAs(roles, read.getResult()); });
    };
    bool isWeight = isUsed({OperandRole::weight, OperandRole::vector});
    bool isPicked = origins.isParameterOfProgram(origin.copyOf()) && isUsed({OperandRole::picked});
    if ((isWeight || isPicked) && !origin.copyOf().empty())
      return {Role::trainable, "used as a weight; exporter: rearranged '" + origin.copyOf() + "'"};
    if (std::string evidence = origins.weightEvidence(name); !evidence.empty())
      return {Role::trainable, evidence};
    if (type.getRank() == 0 && origin.kind != OriginKind::named)
      return {Role::frozen, "scalar"};
    if (name.ends_with(".weight") || name.ends_with(".bias") || name.starts_with("onnx::MatMul_") ||
        name.starts_with("onnx::Gemm_")) {
      if (!isWeight && isBesideStatistics(name))
        doubtful.push_back(name.str());
      return {Role::trainable, "name"};
    }
    if (origin.kind == OriginKind::named)
      return ofModule(name, isWeight ? "used as a weight" : "name of a module's tensor");
    if (isWeight) {
      if (std::string lost = parametersIn(origin); !lost.empty())
        warn(parameter,
             "is trained as it is, but the exporter computed it of parameter " + lost +
                 "; export with optimize=False to train that",
             "--frozen '");
      return {Role::trainable, "used as a weight"};
    }
    return elementwise(parameter, origin);
  }

  /// What trains for its place or its module's name alone, once all are judged.
  void reportDoubtful() {
    if (doubtful.empty())
      return;
    auto warning = emitWarning(module.getLoc())
                   << listed(doubtful) << (doubtful.size() == 1 ? " is" : " are") << " trained, but could be "
                   << (doubtful.size() == 1 ? "a buffer" : "buffers")
                   << ": the TorchScript exporter does not say which tensors of a module are its parameters";
    warning.attachNote() << "help: --frozen '" << doubtful.front() << "' keeps one as it is, --trainable '+"
                         << doubtful.front() << "' says that it is a parameter";
  }

private:
  const Origin &originOf(StringRef name) const { return origins.of(fileNameOf(name)); }

  /// `flag` goes on with the name.
  static void warn(ParameterOp parameter, const Twine &what, StringRef flag) {
    auto warning = emitWarning(parameter.getLoc(), "'") << parameter.getSymName() << "' " << what.str();
    warning.attachNote() << "help: " << flag << parameter.getSymName() << "' says otherwise";
  }

  /// Those that the exporter computed it of, for messages.
  std::string parametersIn(const Origin &origin) const {
    std::string names;
    for (const std::string &from : origin.foldedFrom)
      if (origins.isParameterOfProgram(from))
        names += (names.empty() ? "'" : ", '") + from + "'";
    return names;
  }

  /// Has its module statistics of a batch, though no batch norm takes it? Of detectors' frozen norms all four are
  /// buffers.
  bool isBesideStatistics(StringRef name) const {
    return reads.count((name.rsplit('.').first + ".running_var").str()) != 0;
  }

  /// A parameter or a buffer: the TorchScript exporter writes both alike, under the module's own names.
  Verdict ofModule(StringRef name, std::string evidence) {
    if (isNamedLikeBuffer(name))
      return {Role::frozen, "named like a buffer"};
    if (!isNamedLikeParameter(name))
      doubtful.push_back(name.str());
    return {Role::trainable, std::move(evidence)};
  }

  /// A bare parameter (class token, layer scale) or a table? The place in the graph does not tell.
  Verdict elementwise(ParameterOp parameter, const Origin &origin) {
    StringRef name = parameter.getSymName();
    auto values = parameterBytes.values(name);
    if (values && values->numElements() > 0 && isMask(*values))
      return {Role::frozen, "mask"};
    if (values && values->numElements() > 0 && hasRotaryPartner(parameter, *values))
      return {Role::frozen, "rotary table"};
    if (origin.kind == OriginKind::unknown && !origins.hasTraces() && isNamedLikeParameter(name))
      return {Role::trainable, "name"};
    std::string lost = parametersIn(origin);
    if (lost.empty())
      warn(parameter, "is not trained: it is only combined elementwise and nothing says that it is a parameter",
           "--trainable '+");
    else
      warn(parameter,
           "is not trained: the exporter folded parameter " + lost +
               " into it; export with optimize=False to train that",
           "--trainable '+");
    return {Role::frozen, lost.empty() ? "not used as a weight" : "exporter: folded from " + lost};
  }

  /// Positions by sines and cosines, [P, D] or [1, P, D]. Modules hold them as parameters that need no gradient, a word
  /// that no exporter writes but `zero export`.
  bool isPositionTable(ParameterOp parameter) {
    auto shape = cast<RankedTensorType>(parameter.getType()).getShape();
    if (shape.size() < 2 || shape.size() > 3 || (shape.size() == 3 && shape[0] != 1))
      return false;
    int64_t rows = shape[shape.size() - 2], width = shape.back();
    if (rows < 4 || width < 4 || width % 2 != 0 || width > 65536)
      return false;
    if (!beginsAsAngle(parameter.getSymName(), 3 * width, width))
      return false;
    auto values = parameterBytes.part(parameter.getSymName(), 0, std::min<int64_t>(rows, 16) * width);
    return values && values->isFloat() && isSinusoidal(*values, width);
  }

  /// Are two elements of the row at `first`, where isSinusoidal looks for them, sine and cosine of one angle? Tells
  /// most weights from tables by six elements: sixteen rows of each would be more than all else of an import.
  bool beginsAsAngle(StringRef name, int64_t first, int64_t width) {
    auto squareOf = [&](int64_t index) {
      auto value = parameterBytes.part(name, index, 1);
      return value && value->isFloat() ? value->floatAt(0) * value->floatAt(0) : 0;
    };
    return llvm::any_of(std::initializer_list<int64_t>{1, width / 2, width / 4},
                        [&](int64_t apart) { return std::abs(squareOf(first) + squareOf(first + apart) - 1) <= 1e-2; });
  }

  /// Another stored tensor of the same type is the sine to this cosine.
  bool hasRotaryPartner(ParameterOp parameter, const HostTensor &values) {
    for (auto other : module.getOps<ParameterOp>())
      if (other != parameter && other.getType() == parameter.getType() && reads.count(other.getSymName()))
        if (auto partner = parameterBytes.values(other.getSymName()); partner && areRotary(values, *partner))
          return true;
    return false;
  }

  ModuleOp module;
  const Origins &origins;
  ParameterBytes &parameterBytes;
  llvm::StringMap<llvm::SmallVector<ReadOp>> reads;
  llvm::StringSet<> assigned;
  llvm::DenseSet<Operation *> path;
  std::vector<std::string> doubtful;
};

/// Parameters of the exported program of which nothing is left that is trained.
void reportMissing(ModuleOp module, const Origins &origins) {
  llvm::StringSet<> trained; // by what they were folded into
  for (auto parameter : module.getOps<ParameterOp>())
    if (parameter.getRole() == Role::trainable)
      for (const std::string &from : origins.of(fileNameOf(parameter.getSymName())).foldedFrom)
        trained.insert(from);
  std::vector<std::string> lost;
  for (const std::string &name : origins.missing())
    if (!trained.contains(name))
      lost.push_back(name);
  if (lost.empty())
    return;
  auto warning =
      emitWarning(module.getLoc())
      << lost.size() << (lost.size() == 1 ? " parameter" : " parameters")
      << " of the exported model, which the exporter's optimizer left out, merged with equal ones or folded, "
         "cannot be trained as in PyTorch: "
      << listed(lost);
  warning.attachNote() << "help: export with optimize=False, or with 'zero export', which accounts for every parameter";
}

/// Numbers that stay what they are although a parameter that they follow from is trained.
void reportNumbers(ModuleOp module, const Origins &origins) {
  if (origins.foldedNumbers().empty())
    return;
  const SymbolTable parameters(module);
  for (const auto &[number, from] : origins.foldedNumbers()) {
    auto parameter = parameters.lookup<ParameterOp>(from);
    if (!parameter || parameter.getRole() != Role::trainable)
      continue;
    auto warning = emitWarning(module.getLoc())
                   << "'" << number << "' stays as it is: the exporter computed it of parameter '" << from
                   << "', which gets no gradient through it";
    warning.attachNote() << "help: export with optimize=False to train that";
  }
}

} // namespace

Status zc::importer::assignRoles(ModuleOp module, const ImportOptions &options, const Origins &origins,
                                 ParameterBytes &parameterBytes) {
  auto selections = Selections::compile(options.selections);
  if (!selections)
    return selections.error();
  Judge judge(module, options, origins, parameterBytes);
  for (auto parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>())) {
    StringRef name = parameter.getSymName();
    if (!judge.isRead(name) && !judge.isState(name)) {
      parameter.erase();
      continue;
    }
    bool isFloat = isa<FloatType>(cast<RankedTensorType>(parameter.getType()).getElementType());
    const Selection *selection = selections->match(name);
    bool isWanted = selection && selection->kind != Selection::Kind::frozen;
    if (isWanted && !isFloat)
      return makeError(Code::usage, unmatchedGlob, "'" + name.str() + "' is not a float and cannot be trained",
                       Selections::flagOf(*selection));
    if (isWanted && judge.isState(name))
      return makeError(Code::usage, unmatchedGlob,
                       "'" + name.str() + "' holds running statistics and cannot be trained",
                       Selections::flagOf(*selection));
    Verdict verdict = judge.isState(name) ? Verdict{Role::buffer, "running statistics"}
                      : selection ? Verdict{isWanted ? Role::trainable : Role::frozen, Selections::flagOf(*selection)}
                                  : judge(parameter);
    if (!selection && selections->areAll() && verdict.role == Role::trainable)
      verdict = {Role::frozen, "no --trainable names it"};
    if (options.forwardOnly && verdict.role == Role::trainable)
      verdict = {Role::frozen, "forward only"};
    parameter.setRole(verdict.role);
    parameter.setEvidence(verdict.evidence);
  }
  ZC_RETURN_IF_ERROR(selections->allUsed());
  if (!options.forwardOnly) {
    ZC_RETURN_IF_ERROR(applyParamGroups(module, options.paramGroups, options.noDecay));
    judge.reportDoubtful();
    reportMissing(module, origins);
    reportNumbers(module, origins);
  }
  reportTies(module, origins, parameterBytes);
  return Status::success();
}
