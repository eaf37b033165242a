//===- Options.cpp - options of the import stage by name ----------------------------------===//

#include "compiler/import/Options.h"

#include <charconv>

using namespace zc;
using namespace zc::importer;

static Status readDim(const std::string &text, ImportOptions &options) {
  size_t equals = text.rfind('=');
  int64_t value = 0;
  if (equals != std::string::npos) {
    auto [end, problem] = std::from_chars(text.data() + equals + 1, text.data() + text.size(), value);
    value = problem == std::errc() && end == text.data() + text.size() ? value : 0;
  }
  if (equals == 0 || value < 1)
    return optionError(quotedText(text) + " is not NAME=N with N of at least 1", "dim");
  auto [entry, isNew] = options.dims.emplace(text.substr(0, equals), value);
  if (!isNew && entry->second != value)
    return optionError("dimension " + quotedText(entry->first) + " is bound to " + std::to_string(entry->second) +
                           " and to " + std::to_string(value),
                       "dim");
  return Status::success();
}

static Status readTie(const std::string &text, ImportOptions &options) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return optionError(quotedText(text) + " is not A=B with the names of two initializers", "tie");
  options.ties.push_back({text.substr(0, equals), text.substr(equals + 1)});
  return Status::success();
}

static Status readPadding(const std::string &text, ImportOptions &options) {
  size_t equals = text.rfind('=');
  std::string row = equals == std::string::npos ? "" : text.substr(equals + 1);
  bool isNone = row == "none";
  if (equals == 0 || row.empty() || row.size() > 18 ||
      (!isNone && row.find_first_not_of("0123456789") != std::string::npos))
    return optionError(quotedText(text) + " is not GLOB=K with names of initializers and a row, or none",
                       "padding-idx");
  options.paddingIndices.push_back({text.substr(0, equals), isNone ? std::nullopt : std::optional(std::stoll(row))});
  return Status::success();
}

static Status readTrainable(const std::string &text, ImportOptions &options) {
  bool isAlso = !text.empty() && text[0] == '+';
  options.selections.push_back({isAlso ? Selection::Kind::also : Selection::Kind::trainable, text.substr(isAlso), ""});
  return Status::success();
}

static Status readFrozen(const std::string &text, ImportOptions &options) {
  options.selections.push_back({Selection::Kind::frozen, text, ""});
  return Status::success();
}

/// What they say of training is said by selections.
static Status readGroups(const std::string &path, ImportOptions &options) {
  Result<std::vector<ParamGroup>> groups = readParamGroups(path);
  if (!groups)
    return groups.error();
  for (const ParamGroup &group : *groups)
    for (const std::string &glob : group.globs)
      if (group.frozen)
        options.selections.push_back({*group.frozen ? Selection::Kind::frozen : Selection::Kind::also, glob, path});
  options.paramGroups.insert(options.paramGroups.end(), groups->begin(), groups->end());
  return Status::success();
}

void zc::importer::listOptions(ImportOptions &o, OptionList &list) {
  list.group("Model");
  auto form = [&](const char *name, const char *values, auto read, const char *help) -> Option & {
    return list.add(
        name, Option::Kind::several, values, [&o, read](const std::string &text) { return read(text, o); }, help);
  };
  form("dim", "NAME=N", readDim, "NAME=N: bind a symbolic dimension");
  list.add("loss", o.loss, "the output to differentiate (default: the only floating scalar)");
  list.add("loss-op", o.lossOp, "cross_entropy:LOGITS:LABELS, mse:OUT:TARGET, l1, bce_with_logits, ...: appended");
  list.add("outputs", o.outputs, "graph outputs to hand over (default: all), with --forward-only");
  auto file = [&](const char *name, std::optional<std::string> &value, const char *help) -> Option & {
    return list.add(
        name, Option::Kind::value, "FILE", [&value](const std::string &text) { return value = text, Status(); }, help);
  };
  file("ort-checkpoint", o.ortCheckpoint, "parameters of an ONNX Runtime training_model (checkpoint)");
  file("ort-optimizer", o.ortOptimizer, "its update rule (optimizer_model.onnx, where it is there)").forTraining();
  form(
      "limit", "NAME=N", [](const std::string &text, ImportOptions &options) { return setLimit(options.limits, text); },
      "NAME=N: nodes, node-attributes, name-bytes, rank, model-bytes, folding-work, hard-links, ...");
  form("trainable", "GLOB|+GLOB", readTrainable,
       "only initializers of these names train; +GLOB: these too. A name wins over a glob, the longer glob, the later")
      .forTraining();
  form("frozen", "GLOB", readFrozen, "initializers of these names do not train").forTraining();
  form("param-groups", "FILE.json", readGroups,
       "learning rate, weight decay and frozen by name, as torch's param_groups (docs/cli.md)")
      .forTraining();
  list.add("no-decay", o.noDecay, "globs of parameters without weight decay, whatever groups say").forTraining();
  form("tie", "A=B", readTie, "A=B: initializer B is A, transposed where it fits so");
  form("padding-idx", "GLOB=K", readPadding,
       "GLOB=K|none: row K of these embeddings gets no gradient (found where torch.export says so, or a row is zeros)");
  list.add("untie", o.untied, "initializers of which every use is a parameter of its own");
  list.add("dropout", o.dropout, "as-exported, off or force");
  list.add("batch-norm", o.batchNorm,
           "as-exported, train (each batch's statistics; running ones are kept, rank 0's are saved) or eval");
  list.add("batch-norm-variance", o.batchNormVariance,
           "of the running statistics: torch (divided by N - 1) or onnx (by N)")
      .forTraining();
}
