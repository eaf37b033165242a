//===- Ties.cpp - parameters that exporters took apart or joined ---------------===//
//
// torch.export's optimizer stores a tied weight a second time, transposed, and merges parameters that start with equal
// values; TorchScript's constant folding does the first. Both change what is trained, so both are told; --tie and
// --untie undo them.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/parameters/Ties.h"
#include "compiler/import/base/Errors.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using namespace mlir;

//===-- --tie, --untie ---------------------------------------------------------===//

Error zc::importer::badTieError(const std::string &problem, const std::string &flag) {
  return makeError(Code::usage, badTie, problem, flag, "--list-parameters shows the names");
}

static bool isTransposeOf(const TensorInfo &a, const TensorInfo &b) {
  return a.dims.size() == 2 && b.dims.size() == 2 && a.dims[0] == b.dims[1] && a.dims[1] == b.dims[0];
}

Status Ties::resolve(ModelFile &file, const ImportOptions &options, const InitializerMap &initializers,
                     MLIRContext &context) {
  ties = options.ties;
  llvm::StringMap<TensorInfo> infos;
  auto find = [&](const std::string &name, const std::string &flag) -> Status {
    auto found = initializers.find(name);
    if (found == initializers.end())
      return badTieError("there is no initializer '" + name + "'", flag);
    auto info = inspectTensor(file, *found->second, options.limits, file.path + ": initializer \"" + name + "\"");
    if (!info.ok())
      return info.error();
    infos[name] = *info;
    return {};
  };
  ParameterBytes parameterBytes(file, infos);
  for (const auto &[name, other] : ties) {
    std::string flag = "--tie " + name + "=" + other;
    ZC_RETURN_IF_ERROR(find(name, flag));
    ZC_RETURN_IF_ERROR(find(other, flag));
    if (name == other || of(name) || of(other))
      return badTieError("'" + (of(name) ? name : other) + "' is tied already", flag);
    const TensorInfo &a = infos[name], &b = infos[other];
    if (a.dtype != b.dtype || (a.dims != b.dims && !isTransposeOf(a, b)))
      return badTieError("'" + name + "' and '" + other + "' have other types or shapes", flag);
    ParameterBytes::Match match = parameterBytes.compare(name, other);
    if (match == ParameterBytes::Match::none)
      emitWarning(NameLoc::get(StringAttr::get(&context, other)))
          << "'" << other << "' has other values than '" << name << "': those of '" << name << "' count";
    tied[other] = {name, a.dims != b.dims || match == ParameterBytes::Match::transposed};
  }
  for (const std::string &name : options.untied) {
    ZC_RETURN_IF_ERROR(find(name, "--untie " + name));
    untied[name] = 0;
  }
  return {};
}

llvm::SmallVector<StringRef> Ties::tiedTo(StringRef name) const {
  llvm::SmallVector<StringRef> others;
  for (const auto &tie : ties)
    if (tie.first == name)
      others.push_back(tie.second);
  return others;
}

std::string Ties::nameOfNextUse(const std::string &name) {
  auto apart = untied.find(name);
  return apart == untied.end() ? name : name + "#" + std::to_string(++apart->second);
}

//===-- what nobody asked for --------------------------------------------------===//

namespace {

/// A layer's scale or bias, as its operand or combined with its result.
bool isNormOrBias(OpOperand &use) {
  auto kernel = dyn_cast<KernelOp>(use.getOwner());
  unsigned index = use.getOperandNumber();
  return kernel && (kernel.getOperandRole(index) == OperandRole::vector || (index > 0 && isElementwise(kernel)));
}

using ReadsByName = llvm::StringMap<llvm::SmallVector<ReadOp>>;

bool isVector(ParameterOp parameter) { return cast<RankedTensorType>(parameter.getType()).getRank() == 1; }

/// A module that the model calls several times, as a siamese encoder, has its weights in as many layers as its biases:
/// of the innermost module around the parameter that has weights, one does.
bool isOfCalledAgain(StringRef name, ModuleOp module, const ReadsByName &reads) {
  bool hasWeights = false;
  for (StringRef path = name.rsplit('.').first; path != name && !hasWeights; name = path, path = path.rsplit('.').first)
    for (auto other : module.getOps<ParameterOp>()) {
      StringRef rest = other.getSymName();
      auto found = reads.find(rest);
      if (!rest.consume_front(path) || !rest.starts_with(".") || isVector(other) || found == reads.end())
        continue;
      hasWeights = true;
      ptrdiff_t uses = 0;
      for (ReadOp read : found->second)
        uses += std::distance(read.getResult().use_begin(), read.getResult().use_end());
      if (uses > 1)
        return true;
    }
  return false;
}

/// Several layers' vectors that the exporter stored once because they start with the same value.
void reportMerged(ParameterOp parameter, const ReadsByName &readsByName, ParameterBytes &parameterBytes) {
  if (!isVector(parameter))
    return;
  auto reads = readsByName.lookup(parameter.getSymName());
  llvm::SetVector<Operation *> users;
  for (ReadOp read : reads)
    for (OpOperand &use : read.getResult().getUses())
      if (isNormOrBias(use))
        users.insert(use.getOwner());
  auto value = users.size() > 1 ? parameterBytes.splat(parameter.getSymName()) : std::nullopt;
  if (!value || isOfCalledAgain(parameter.getSymName(), parameter->getParentOfType<ModuleOp>(), readsByName))
    return;
  std::string number = llvm::formatv("{0}", *value).str();
  auto warning = emitWarning(parameter.getLoc(), "'")
                 << parameter.getSymName() << "' stands in " << users.size() << " layers and all its elements are "
                 << number << ": the exporter seems to have merged parameters that start equal";
  warning.attachNote() << "help: export with optimize=False or training=TRAINING, or give --untie '"
                       << parameter.getSymName() << "'";
}

/// "layers.0.fc.weight", "layers.1.fc.weight": layers that are made as copies of one, as torch's TransformerEncoder
/// makes them, begin with its values. Whoever ties those of a list has one name for them.
bool areOfLayers(StringRef a, StringRef b) {
  llvm::SmallVector<StringRef> of, other;
  a.split(of, '.');
  b.split(other, '.');
  auto isNumber = [](StringRef part) { return !part.empty() && llvm::all_of(part, llvm::isDigit); };
  bool differ = false;
  for (auto [left, right] : llvm::zip(of, other)) {
    if (left != right && !(isNumber(left) && isNumber(right)))
      return false;
    differ |= left != right;
  }
  return differ && of.size() == other.size();
}

} // namespace

/// Ranges of a file that overlap without being the same: one parameter's update would be another's.
static void reportOverlaps(ModuleOp module) {
  std::map<StringRef, std::vector<ParameterOp>> files;
  for (auto parameter : module.getOps<ParameterOp>())
    if (auto source = parameter.getSource())
      files[source->getFile()].push_back(parameter);
  for (auto &[file, parameters] : files) {
    llvm::stable_sort(parameters, [](ParameterOp a, ParameterOp b) {
      return a.getSource()->getOffset() < b.getSource()->getOffset();
    });
    llvm::SmallVector<size_t> overlapping; ///< with the one before
    for (size_t i = 1; i < parameters.size(); ++i) {
      auto before = *parameters[i - 1].getSource(), here = *parameters[i].getSource();
      if (here.getOffset() < before.getOffset() + before.getBytes() &&
          (here.getOffset() != before.getOffset() || here.getBytes() != before.getBytes()))
        overlapping.push_back(i);
    }
    if (overlapping.empty())
      continue;
    ParameterOp before = parameters[overlapping[0] - 1], here = parameters[overlapping[0]];
    auto warning = emitWarning(here.getLoc(), "the bytes of '")
                   << here.getSymName() << "' overlap those of '" << before.getSymName() << "' in '" << file << "'";
    if (overlapping.size() > 1)
      warning << ", as " << overlapping.size() - 1 << " more do";
  }
}

void zc::importer::reportTies(ModuleOp module, const Origins &origins, ParameterBytes &parameterBytes) {
  reportOverlaps(module);
  ReadsByName reads;
  module.walk([&](ReadOp read) { reads[read.getParameter()].push_back(read); });
  std::map<std::pair<llvm::SmallVector<int64_t>, std::string>, ParameterOp> seen;
  constexpr int kCopiesTold = 8;
  int copies = 0;
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (parameter.getRole() != Role::trainable)
      continue;
    StringRef name = parameter.getSymName();
    if (!origins.isOne(name))
      reportMerged(parameter, reads, parameterBytes);
    auto type = cast<RankedTensorType>(parameter.getType());
    llvm::SmallVector<int64_t> key(type.getShape());
    if (type.getRank() < 2)
      continue;
    if (key.size() == 2)
      llvm::sort(key);
    std::string straight = parameterBytes.signature(name);
    if (straight.empty())
      continue;
    auto earlier = seen.find({key, straight});
    if (earlier == seen.end() && key.size() == 2 && key[0] == key[1])
      earlier = seen.find({key, parameterBytes.signature(name, /*transposed=*/true)});
    if (earlier == seen.end()) {
      seen[{key, straight}] = parameter;
      continue;
    }
    ParameterBytes::Match match = parameterBytes.compare(earlier->second.getSymName(), name);
    if (match == ParameterBytes::Match::none || origins.areTwo(earlier->second.getSymName(), name) ||
        areOfLayers(earlier->second.getSymName(), name))
      continue;
    if (++copies > kCopiesTold)
      continue;
    auto warning = emitWarning(parameter.getLoc(), "'")
                   << name << "' is a copy of '" << earlier->second.getSymName() << "'"
                   << (match == ParameterBytes::Match::transposed ? ", transposed" : "")
                   << ": the exporter seems to have untied them; they are trained apart";
    warning.attachNote() << "help: give --tie '" << earlier->second.getSymName() << "=" << name
                         << "', or export with optimize=False (do_constant_folding=False)";
  }
  if (copies > kCopiesTold)
    emitWarning(module.getLoc()) << copies - kCopiesTold << " more parameters are copies of others";
}
