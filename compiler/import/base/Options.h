//===- Options.h - what may be asked of an import ---------------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/config/ParamGroups.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zc::importer {

/// Caps on what a file may ask for; larger is refused as bad input.
struct ImportLimits {
  uint64_t modelBytes = (uint64_t(1) << 31) - 1;
  int64_t nodes = 1000000; ///< also with functions and loops unrolled
  int64_t depth = 64;      ///< of functions and subgraphs in each other
  int64_t nodeAttributes = 100000;
  int64_t nameBytes = 4096;
  int64_t rank = 64;
  int64_t hardLinks = 1; ///< names of a file of external data
  int64_t tensorBits = int64_t(1) << 48;
  int64_t foldedElements = 65536;         ///< of one constant
  int64_t foldingWork = int64_t(6) << 20; ///< elements of constants computed over a whole import
};

/// Sets one from "NAME=N" (`nodes=2000000`). Errors: usage, with the names there are.
Status setLimit(ImportLimits &limits, const std::string &text);

enum class DropoutPolicy {
  asExported, ///< active where the file says training_mode = true
  off,
  force, ///< active wherever the ratio is not zero
};

/// Whether batch norm uses the batch's own statistics (and keeps running ones), or those of the file.
enum class BatchNormPolicy { asExported, train, eval };

/// Which variance the running statistics follow: N - 1 in the denominator, as PyTorch has it, or N, as ONNX says.
enum class BatchNormVariance { sample, population };

/// What the user says of initializers by name. Of several that match one the most special wins: a name over a glob,
/// then the glob with more letters, then the later.
struct Selection {
  enum class Kind {
    trainable, ///< trains; of what no selection names, nothing does
    also,      ///< trains, beside what is found
    frozen,
  };
  Kind kind;
  std::string glob;
  std::string file; ///< of parameter groups that says it; empty: a flag
};

struct ImportOptions {
  std::map<std::string, int64_t> dims; ///< symbolic dimension -> size
  bool anySize = false;                ///< one that is not bound gets a size: what is asked for does not depend on it
  std::string loss;                    ///< graph output to differentiate; empty: found
  std::string lossOp;                  ///< "cross_entropy:LOGITS:LABELS": appended, and the loss
  std::vector<Selection> selections;   ///< in the order given
  std::vector<ParamGroup> paramGroups; ///< in the order given; which of them train at all, `selections` say too
  std::vector<std::string> noDecay;    ///< globs of parameters without weight decay, whatever groups say
  std::vector<std::pair<std::string, std::string>> ties; ///< the second initializer becomes the first one, transposed
                                                         ///< where the shapes or the values say so
  /// Globs over initializer names -> the row of such an embedding that gets no gradient (torch's padding_idx), or none.
  std::vector<std::pair<std::string, std::optional<int64_t>>> paddingIndices;
  bool findPadding = true;  ///< take an embedding's one row of zeros for its padding_idx
  bool findDetached = true; ///< take x + (y - x) for a straight-through step, where the file says nothing of detach
  std::vector<std::string> untied; ///< initializers of which every use becomes a parameter of its own
  /// ONNX Runtime's training artifacts, files in the model's folder (OrtArtifacts.h); not given: "checkpoint", and
  /// "optimizer_model.onnx" where it is there.
  std::optional<std::string> ortCheckpoint, ortOptimizer;
  /// Graph inputs whose values are fixed when compiling: raw little-endian elements. They are no inputs of the program.
  std::map<std::string, std::vector<char>> fixedInputs;
  DropoutPolicy dropout = DropoutPolicy::asExported;
  BatchNormPolicy batchNorm = BatchNormPolicy::asExported;
  BatchNormVariance batchNormVariance = BatchNormVariance::sample;
  bool forwardOnly = false; ///< return graph outputs, in order; nothing trainable, a loss only where there is one
  std::vector<std::string> outputs; ///< with forwardOnly, the only ones returned (and a loss that is asked for)
  bool raise = true;                ///< run the recognisers (`raise-composites`)
  ImportLimits limits;
};

} // namespace zc::importer
