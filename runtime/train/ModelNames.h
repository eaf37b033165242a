//===- ModelNames.h - what an ONNX file says of the names of its weights --------------------===//
//
// Exporters rename: torch.export's optimizer folds transposes into weights and calls them val_17, though it leaves a
// note of what each was folded from; shared parameters keep one of their names; tables of the graph stand among the
// weights. zero export writes down what is what (docs/own-model.md). Read from the file's fields alone, without the
// bytes of its tensors, so that a model of any size takes little memory; the file is not trusted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Tensor.h"
#include "runtime/io/File.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace zc::train {

struct ModelNames {
  /// An initializer whose elements lie in the model's file or in one beside it.
  struct Initializer {
    std::string file; ///< relative to the model's folder; empty: the model's own
    int64_t offset = 0, bytes = 0;
    TensorType type;
    bool isKnown = false; ///< the above is all there
  };
  std::map<std::string, Initializer> initializers;
  std::map<std::string, std::string> copyOf; ///< initializer -> the one parameter of which it is a rearranged copy
  std::map<std::string, std::string> tied;   ///< name that is not in the graph -> the one that it is shared with
  std::set<std::string> parameters; ///< of the exported program, and buffers that its state has; frozen ones too
  std::set<std::string> others;     ///< initializers that are nobody's weights
  std::set<std::string> unused;     ///< parameters of the program that its loss does not reach
  bool isComplete = false;          ///< the exporter says of each what it is
};

/// Errors: badInput (no ONNX file).
Result<ModelNames> readModelNames(const io::File &model);

} // namespace zc::train
