//===- Origins.h - what exporters say of an initializer --------------------------===//
//
// ONNX has no word for "parameter". torch.export writes the kind of every initializer and what a folded one was folded
// from; the TorchScript exporter keeps the names of parameters and persistent buffers and invents none that could be
// one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/onnx.pb.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace zc::importer {

enum class OriginKind {
  unknown,
  parameter, ///< exporter: PARAMETER
  buffer,    ///< exporter: BUFFER or CONSTANT_TENSOR
  folded,    ///< exporter: computed from `foldedFrom` when exporting
  named,     ///< a module path that the TorchScript exporter kept: parameter or persistent buffer
};

struct Origin {
  OriginKind kind = OriginKind::unknown;
  std::string word;                    ///< the exporter's, for messages
  std::vector<std::string> foldedFrom; ///< values, among them initializers that may be gone
  /// The one parameter that this is a rearranged copy of; empty if it is more than that.
  std::string copyOf() const { return foldedFrom.size() == 1 ? foldedFrom[0] : std::string(); }
};

class Origins {
public:
  explicit Origins(const onnxpb::Model &model);
  const Origin &of(llvm::StringRef initializer) const;
  /// Whether nodes carry the exporter's traces: then its silence says something too.
  bool hasTraces() const { return traces; }
  /// An operator's definition says that this is a weight, whatever the exporter did to it.
  void noteWeight(llvm::StringRef initializer, std::string evidence) { weights[initializer] = std::move(evidence); }
  /// A layer begins with it.
  void noteState(llvm::StringRef initializer) { states.insert(initializer); }
  bool isState(llvm::StringRef initializer) const { return states.contains(initializer); }
  /// Empty where no operator says so.
  std::string weightEvidence(llvm::StringRef initializer) const { return weights.lookup(initializer); }
  /// Parameters of the exported program: by the exporter's word, or, where that is lost, by a module's name.
  bool isParameterOfProgram(llvm::StringRef name) const;
  /// The exporter's optimizer computed it, and of no parameter of the exported program, all of which are known.
  bool isFoldedOfConstants(llvm::StringRef initializer) const;
  /// Are both parameters of the model itself, and not a shared one? By the record of `zero export` (docs/own-model.md),
  /// which knows the shared ones; without it nobody says so.
  bool areTwo(llvm::StringRef a, llvm::StringRef b) const;
  /// Is it one parameter of the model itself, in however many layers? By the same record, which accounts for each.
  bool isOne(llvm::StringRef name) const;
  /// Parameters that nodes of the exported program read and that no initializer is: the exporter's optimizer left them
  /// out (a bias of zeros), took an equal one for them, or folded them into something else.
  const std::vector<std::string> &missing() const { return absent; }
  /// Numbers that the exporter's optimizer computed, each with a parameter that it computed them of and that others
  /// still read: a part of the loss that depends on parameters alone, the reciprocal of one.
  const std::vector<std::pair<std::string, std::string>> &foldedNumbers() const { return numbers; }

private:
  void readTies(const onnxpb::Model &model);
  void readSignature(const onnxpb::Graph &graph);
  void findMissing(const onnxpb::Graph &graph);
  llvm::StringMap<Origin> origins;
  std::optional<llvm::StringMap<std::string>> shared; ///< name -> the one that it is shared with
  llvm::StringMap<bool> program;
  std::vector<std::pair<std::string, std::string>> arguments; ///< of the program: its name for it, the parameter
  std::vector<std::string> absent;
  std::vector<std::pair<std::string, std::string>> numbers;
  llvm::StringMap<std::string> weights;
  llvm::StringSet<> states;
  bool traces = false;
  Origin none;
};

/// "running_mean", "inv_freq", "attn_mask", ...: the last component of a name that modules give their buffers.
bool isNamedLikeBuffer(llvm::StringRef name);
/// "cls_token", "pos_embed", "logit_scale", "gamma", ...
bool isNamedLikeParameter(llvm::StringRef name);

} // namespace zc::importer
