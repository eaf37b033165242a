//===- Origins.cpp - what exporters say of an initializer ------------------------===//
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/file/Initializer.h"
#include "compiler/options/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace zc;
using namespace zc::importer;
using llvm::StringRef;

namespace {

/// Last components that modules give buffers; the first list wins over the second.
constexpr const char *bufferNames[] = {"running_*",
                                       "*inv_freq",
                                       "*cached",
                                       "*cache",
                                       "masked_bias",
                                       "pe",
                                       "*mask",
                                       "*_buffer",
                                       "pixel_mean",
                                       "pixel_std",
                                       "mean",
                                       "std",
                                       "freqs*",
                                       "*anchors*",
                                       "*_ids",
                                       "sin",
                                       "cos",
                                       "*_index",
                                       "*window",
                                       "num_batches*",
                                       "mel_filters*",
                                       "relative_coords_table",
                                       "_u",
                                       "_v",
                                       "weight_u", // of a spectral norm
                                       "final_logits_bias"};
constexpr const char
    *parameterNames[] = {"*weight*", "*bias*",   "*token*",   "*embed*",        "*scale*",  "*gamma*",
                         "*beta*",   "*alpha*",  "*query*",   "*latent*",       "*lambda*", "*pos*",
                         "*param*",  "*prompt*", "original*", "readvariableop*"}; // of parametrizations; TensorFlow's

template <size_t N> bool matchesAny(const char *const (&globs)[N], StringRef name) {
  std::string last = name.substr(name.find_last_of("./") + 1).lower(); // "/embed/Expand_output_0" is a node's
  return llvm::any_of(globs, [&](const char *text) {
    auto glob = llvm::GlobPattern::create(text);
    if (!glob) { // cannot happen for the lists above
      llvm::consumeError(glob.takeError());
      return false;
    }
    return glob->match(last);
  });
}

/// Of a node: the line of the exported program that it is from.
constexpr const char *kTrace = "pkg.torch.onnx.fx_node";

/// Entries of a Python list of strings, as exporters print it: "['a', 'b']".
std::vector<std::string> pythonStrings(StringRef text) {
  std::vector<std::string> strings;
  for (size_t open = text.find('\''); open != StringRef::npos; open = text.find('\'', open)) {
    size_t close = text.find('\'', open + 1);
    if (close == StringRef::npos)
      break;
    strings.push_back(text.substr(open + 1, close - open - 1).str());
    open = close + 1;
  }
  return strings;
}

bool isWord(StringRef name) {
  return !name.empty() && llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// "encoder.layers.0.gamma": identifiers and numbers, at least one dot.
bool isModulePath(StringRef name) {
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '.');
  return parts.size() > 1 && llvm::all_of(parts, isWord);
}

/// The TorchScript exporter names nodes by their place ("/head/MatMul") and the tensors that it makes itself too, or by
/// the operator ("onnx::MatMul_592"): a name that is one word ("cls_token") is the exported module's own.
/// torch.export's optimizer gives such names itself ("mul", "val_44"); those of ONNX's tools begin with a "_".
bool isOfTorchScript(const onnxpb::Graph &graph) {
  return llvm::any_of(graph.node(), [](const onnxpb::Node &node) { return StringRef(node.name()).starts_with("/"); });
}
bool isOwnOfModule(StringRef name) { return isWord(name) && llvm::isAlpha(name.front()); }

Origin describedBy(const onnxpb::ValueInfo &info) {
  Origin origin;
  for (const onnxpb::StringStringEntry &entry : info.metadata_props()) {
    if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind") {
      origin.word = StringRef(entry.value()).lower();
      origin.kind = entry.value() == "PARAMETER" ? OriginKind::parameter : OriginKind::buffer;
    } else if (entry.key() == "pkg.onnxscript.optimizer.folded_from") {
      origin.foldedFrom = pythonStrings(entry.value());
    }
  }
  if (origin.kind == OriginKind::unknown && !origin.foldedFrom.empty())
    origin.kind = OriginKind::folded;
  return origin;
}

} // namespace

bool zc::importer::isNamedLikeBuffer(StringRef name) { return matchesAny(bufferNames, name); }
bool zc::importer::isNamedLikeParameter(StringRef name) {
  return !isNamedLikeBuffer(name) && matchesAny(parameterNames, name);
}

bool Origins::isParameterOfProgram(StringRef name) const {
  return program.empty() ? isModulePath(name) && isNamedLikeParameter(name) : program.count(name) != 0;
}

bool Origins::isFoldedOfConstants(StringRef initializer) const {
  const Origin &origin = of(initializer);
  return origin.kind == OriginKind::folded && !program.empty() &&
         llvm::none_of(origin.foldedFrom, [&](const std::string &from) { return isParameterOfProgram(from); });
}

/// As zero-run, which writes weights back under the model's names, passes over another form.
void Origins::readTies(const onnxpb::Model &model) {
  for (const onnxpb::StringStringEntry &entry : model.metadata_props()) {
    if (entry.key() != "zero.tied")
      continue;
    Result<nlohmann::json> names = parseJson(entry.value());
    if (!names || !names->is_object())
      continue;
    shared.emplace();
    for (const auto &[name, first] : names->items())
      (*shared)[name] = first.is_string() ? first.get<std::string>() : "";
  }
}

bool Origins::areTwo(StringRef a, StringRef b) const {
  auto sharedWith = [&](StringRef name) {
    auto found = shared->find(name);
    return found == shared->end() ? name : StringRef(found->second);
  };
  return isOne(a) && isOne(b) && sharedWith(a) != sharedWith(b);
}

bool Origins::isOne(StringRef name) const { return shared && of(name).kind == OriginKind::parameter; }

/// Lines such as "p_fc_weight: PARAMETER target='fc.weight'".
void Origins::readSignature(const onnxpb::Graph &graph) {
  for (const onnxpb::StringStringEntry &entry : graph.metadata_props()) {
    if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature")
      continue;
    llvm::SmallVector<StringRef> lines;
    StringRef(entry.value()).split(lines, '\n');
    for (StringRef line : lines)
      if (auto [argument, rest] = line.split(": PARAMETER "); !rest.empty())
        for (const std::string &target : pythonStrings(rest)) {
          program[target] = true;
          arguments.emplace_back(argument.trim().str(), target);
        }
  }
}

/// Names of values in a trace: "%mm : [num_users=1] = call_function[target=...](args = (%x, %p_fc_weight), kwargs =
/// {})".
static void addTraced(StringRef trace, llvm::StringSet<> &names) {
  for (size_t at = trace.find('%'); at != StringRef::npos; at = trace.find('%', at + 1))
    names.insert(trace.substr(at + 1).take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }));
}

/// What torch's optimizer takes away stays in the traces of the nodes that had it.
void Origins::findMissing(const onnxpb::Graph &graph) {
  llvm::StringSet<> there, read;
  for (const onnxpb::Tensor &tensor : graph.initializer())
    there.insert(tensor.name());
  for (const onnxpb::Node &node : graph.node())
    for (const onnxpb::StringStringEntry &entry : node.metadata_props())
      if (entry.key() == kTrace)
        addTraced(entry.value(), read);
  llvm::StringSet<> folded;
  for (const auto &origin : origins)
    for (const std::string &from : origin.second.foldedFrom)
      folded.insert(from);
  bool isKnown = false; // else somebody has given the initializers other names
  for (const auto &[argument, parameter] : arguments) {
    isKnown |= there.contains(parameter) || folded.contains(parameter);
    if (!there.contains(parameter) && (folded.contains(parameter) || read.contains(argument)))
      absent.push_back(parameter);
  }
  if (!isKnown)
    absent.clear();
  for (const onnxpb::Tensor &tensor : graph.initializer())
    if (tensor.dims_size() == 0 && isFloat(tensor))
      for (const std::string &from : of(tensor.name()).foldedFrom)
        if (of(from).kind == OriginKind::parameter)
          numbers.emplace_back(tensor.name(), from);
}

Origins::Origins(const onnxpb::Model &model) {
  const onnxpb::Graph &graph = model.graph();
  readTies(model);
  readSignature(graph);
  llvm::StringSet<> initializers;
  for (const onnxpb::Tensor &tensor : graph.initializer())
    initializers.insert(tensor.name());
  for (const auto *infos : {&graph.value_info(), &graph.input()}) // an initializer may be an input as well
    for (const onnxpb::ValueInfo &info : *infos)
      if (Origin origin = describedBy(info); origin.kind != OriginKind::unknown && initializers.contains(info.name()))
        origins[info.name()] = std::move(origin);
  for (const auto &parameter : program) // value_info is what tools leave out first
    if (Origin &origin = origins[parameter.getKey()]; origin.kind == OriginKind::unknown)
      origin = {OriginKind::parameter, "parameter", {}};
  traces = llvm::any_of(graph.node(), [](const onnxpb::Node &node) {
    return llvm::any_of(node.metadata_props(),
                        [](const onnxpb::StringStringEntry &entry) { return entry.key() == kTrace; });
  });
  findMissing(graph);
  // A conversion to another opset keeps what was folded, but not the kinds.
  bool hasKinds = llvm::any_of(origins, [](const auto &entry) { return entry.second.kind != OriginKind::folded; });
  if (hasKinds || model.producer_name() != "pytorch")
    return;
  bool hasOwn = isOfTorchScript(graph);
  for (const onnxpb::Tensor &tensor : graph.initializer())
    if ((isModulePath(tensor.name()) || (hasOwn && isOwnOfModule(tensor.name()))) && !origins.count(tensor.name()))
      origins[tensor.name()].kind = OriginKind::named;
}

const Origin &Origins::of(StringRef initializer) const {
  auto found = origins.find(initializer);
  return found == origins.end() ? none : found->second;
}
