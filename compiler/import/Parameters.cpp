//===- Parameters.cpp - which initializers are trained, and why ----------------===//
#include "compiler/import/Errors.h"
#include "compiler/import/HostTensor.h"
#include "compiler/import/Importer.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/raw_ostream.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

namespace {

/// Operands that a layer's weight stands at; what is multiplied or added elementwise may as well be a table or a mask.
struct WeightOperand {
  StringLiteral op;
  unsigned operand;
};
constexpr WeightOperand weightOperands[] = {
    {"graph.matmul", 0},     {"graph.matmul", 1},     {"graph.matmul", 2},   {"graph.gather", 0},
    {"graph.layer_norm", 1}, {"graph.layer_norm", 2}, {"graph.rms_norm", 1},
};

/// Operands without a derivative although they are floats.
constexpr WeightOperand undifferentiated[] = {{"graph.attention", 3}};

bool isListed(ArrayRef<WeightOperand> list, OpOperand &use) {
  return llvm::any_of(list, [&](const WeightOperand &entry) {
    return entry.op == use.getOwner()->getName().getStringRef() && entry.operand == use.getOperandNumber();
  });
}

bool isFloatTensor(Value value) { return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType()); }

/// Values from which a derivative of the results arrives: a walk backwards through differentiable operations.
llvm::DenseSet<Value> differentiablePath(ProgramOp program) {
  llvm::DenseSet<Value> reached;
  llvm::SmallVector<Value> pending(program.getBlock().getTerminator()->getOperands());
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!isFloatTensor(value) || !reached.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || !isa<Differentiable>(op))
      continue;
    for (OpOperand &operand : op->getOpOperands())
      if (!isListed(undifferentiated, operand))
        pending.push_back(operand.get());
  }
  return reached;
}

/// A use as a weight, directly or under another shape.
bool isUsedAsWeight(Value value) {
  llvm::SmallVector<Value> pending{value};
  while (!pending.empty())
    for (OpOperand &use : pending.pop_back_val().getUses()) {
      if (isListed(weightOperands, use))
        return true;
      if (isa<ReshapeOp, TransposeOp, ExpandOp, CastOp>(use.getOwner()))
        pending.push_back(use.getOwner()->getResult(0));
    }
  return false;
}

struct Verdict {
  Role role;
  std::string evidence;
};

/// Globs given by the user, in order.
class Globs {
public:
  static Result<Globs> compile(const std::vector<std::string> &patterns) {
    Globs globs;
    for (const std::string &pattern : patterns) {
      auto glob = llvm::GlobPattern::create(pattern, 1024);
      if (!glob) {
        std::string problem = llvm::toString(glob.takeError());
        return makeError(Code::usage, unmatchedGlob, "'" + pattern + "' is not a glob: " + problem);
      }
      globs.globs.push_back({pattern, std::move(*glob), false});
    }
    return globs;
  }
  const std::string *match(StringRef name) {
    for (Entry &entry : globs)
      if (entry.glob.match(name)) {
        entry.used = true;
        return &entry.text;
      }
    return nullptr;
  }
  Status allUsed(const char *flag) const {
    for (const Entry &entry : globs)
      if (!entry.used)
        return makeError(Code::usage, unmatchedGlob, "no parameter matches '" + entry.text + "'", flag,
                         "--list-parameters shows their names");
    return Status::success();
  }

private:
  struct Entry {
    std::string text;
    llvm::GlobPattern glob;
    bool used;
  };
  std::vector<Entry> globs;
};

/// ONNX.md 1.4: the exporter's word, else dtype, rank, path to the loss, name or place.
Verdict judge(ParameterOp parameter, ArrayRef<ReadOp> reads, const llvm::DenseSet<Value> &path, StringRef kind) {
  auto type = cast<RankedTensorType>(parameter.getType());
  if (!isa<FloatType>(type.getElementType()))
    return {Role::buffer, "not a float"};
  if (kind == "BUFFER" || kind == "CONSTANT_TENSOR")
    return {Role::buffer, "exporter: " + kind.lower()};
  bool onPath = llvm::any_of(reads, [&](ReadOp read) { return path.contains(read.getResult()); });
  if (!onPath)
    return {Role::frozen, "no derivative reaches it"};
  if (kind == "PARAMETER")
    return {Role::trainable, "exporter: parameter"};
  if (type.getRank() == 0)
    return {Role::frozen, "scalar"};
  StringRef name = parameter.getSymName();
  if (name.ends_with(".weight") || name.ends_with(".bias") || name.starts_with("onnx::MatMul_") ||
      name.starts_with("onnx::Gemm_"))
    return {Role::trainable, "name"};
  if (llvm::any_of(reads, [](ReadOp read) { return isUsedAsWeight(read.getResult()); }))
    return {Role::trainable, "used as a weight"};
  return {Role::frozen, "not used as a weight"};
}

} // namespace

Status zc::importer::assignRoles(ModuleOp module, const ImportOptions &options) {
  auto trainable = Globs::compile(options.trainable), frozen = Globs::compile(options.frozen);
  if (!trainable.ok() || !frozen.ok())
    return trainable.ok() ? frozen.error() : trainable.error();
  llvm::StringMap<llvm::SmallVector<ReadOp>> reads;
  llvm::DenseSet<Value> path;
  for (auto program : module.getOps<ProgramOp>()) {
    program.walk([&](ReadOp read) { reads[read.getParameter()].push_back(read); });
    if (!options.forwardOnly)
      path = differentiablePath(program);
  }
  Builder builder(module.getContext());
  for (auto parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>())) {
    StringRef name = parameter.getSymName();
    if (!reads.count(name)) {
      parameter.erase();
      continue;
    }
    auto kind = parameter->getAttrOfType<StringAttr>("zc.kind");
    Verdict verdict = judge(parameter, reads[name], path, kind ? kind.getValue() : "");
    bool isFloat = isa<FloatType>(cast<RankedTensorType>(parameter.getType()).getElementType());
    if (const std::string *glob = trainable->match(name)) {
      if (!isFloat)
        return makeError(Code::usage, unmatchedGlob, "'" + name.str() + "' is not a float and cannot be trained",
                         "--trainable " + *glob);
      verdict = {Role::trainable, "--trainable " + *glob};
    }
    if (const std::string *glob = frozen->match(name))
      verdict = {Role::frozen, "--frozen " + *glob};
    if (options.forwardOnly && verdict.role == Role::trainable)
      verdict = {Role::frozen, "forward only"};
    parameter->removeAttr("zc.kind");
    parameter.setRole(verdict.role);
    parameter.setEvidenceAttr(builder.getStringAttr(verdict.evidence));
  }
  ZC_RETURN_IF_ERROR(trainable->allUsed("--trainable"));
  return frozen->allUsed("--frozen");
}

std::string zc::importer::listParameters(ModuleOp module) {
  std::vector<std::array<std::string, 6>> rows{{"name", "dtype", "shape", "role", "tied to", "evidence"}};
  int64_t trained = 0, all = 0;
  for (auto parameter : module.getOps<ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    std::string shape, tied;
    for (int64_t d : type.getShape())
      shape += (shape.empty() ? "" : "x") + std::to_string(d);
    if (auto names = parameter.getTied())
      for (Attribute name : *names)
        tied += (tied.empty() ? "" : ",") + escapeName(cast<StringAttr>(name).str());
    auto dtype = dtypeOf(type.getElementType());
    rows.push_back({escapeName(parameter.getSymName().str()), dtype ? std::string(nameOf(*dtype)) : "?",
                    shape.empty() ? "scalar" : shape, stringifyRole(parameter.getRole()).str(),
                    tied.empty() ? "-" : tied, escapeName(parameter.getEvidence().value_or("-").str())});
    all += type.getNumElements();
    trained += parameter.getRole() == Role::trainable ? type.getNumElements() : 0;
  }
  std::array<size_t, 6> widths{};
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto &row : rows) {
    for (size_t c = 0; c < row.size(); ++c)
      text += c + 1 < row.size() ? row[c] + std::string(widths[c] + 2 - row[c].size(), ' ') : row[c];
    text += '\n';
  }
  return text + std::to_string(trained) + " of " + std::to_string(all) + " elements are trained\n";
}
