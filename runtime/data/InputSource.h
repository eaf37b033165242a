//===- InputSource.h - the data of a run ----------------------------------------===//
#pragma once

#include "base/IndexRange.h"
#include "base/Status.h"
#include "base/Tensor.h"
#include "runtime/data/Integers.h"

#include <memory>

namespace zc::data {

/// A graph input of the plan: dims[0] is B, the rows of one micro-step on one rank.
struct InputSpec {
  std::string name;
  TensorType type;
  bool used = true;   ///< some step loads it; others need no data
  IndexRange range{}; ///< where the plan looks something up by it
  /// Of labels along the last dimension: element t + shift is compared with what is computed at t. Nothing: not known.
  std::optional<int64_t> shift{};
};

/// What the plan says about data. Row b of data-parallel rank r at micro-step g of step s stands at position
/// ((s*G+g)*D+r)*B+b.
struct BatchSpec {
  int64_t dataDegree = 1;   ///< D, the data-parallel degree
  int64_t accumulation = 1; ///< G
  std::vector<InputSpec> inputs;

  /// B of `input`; a scalar is one row.
  static int64_t rowsOf(const InputSpec &input) { return input.type.dims.empty() ? 1 : input.type.dims[0]; }
  /// B of the first used input: rows per rank and micro-step.
  int64_t rows() const {
    for (const InputSpec &input : inputs)
      if (input.used)
        return rowsOf(input);
    return 1;
  }
  int64_t samplesPerStep() const { return dataDegree * accumulation * rows(); }
  /// The input whose elements are labels, with one that is ignored, and a row for each sample; nothing where none is.
  std::optional<size_t> labels() const {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].used && inputs[i].range.isLabel && inputs[i].range.ignored && rowsOf(inputs[i]) == rows())
        return i;
    return std::nullopt;
  }
};

struct DataOptions {
  std::string data;                ///< FILE.safetensors or a folder of INPUT.npy
  std::vector<std::string> tokens; ///< concatenated; FILE:WEIGHT (TokenFile.h): each by itself, WEIGHT times an epoch
  std::string tokenType;           ///< of raw files (TokenFile.h)
  bool byteLevel = false;          ///< every byte of `tokens` is a token
  bool shiftLabels = false;        ///< labels are the tokens that follow, not the same ones
  bool shuffle = false;
  bool isRepeated = true; ///< epoch by epoch; else they are gone through once, and may be less than a step takes
  uint64_t seed = 0;
};

/// How a source makes labels, for people; nothing where it takes the user's.
struct LabelMaking {
  std::string text;
  bool isDoubtful = false; ///< most likely not what is meant
};

/// Fills graph inputs. `load` is called from several ranks' threads at once and allocates only when it fails.
class InputSource {
public:
  explicit InputSource(const BatchSpec &batch)
      : batch(batch), perStep(batch.samplesPerStep()), rowsPerStep(batch.rows()) {}
  virtual ~InputSource() = default;
  /// `destination` takes all bytes of graph input `input`; `step` and `micro` count from 0,
  /// `dataRank` is the data-parallel rank. Errors: badInput (an index or label out of range, with its place), io.
  Status load(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const {
    ZC_RETURN_IF_ERROR(fill(input, step, micro, dataRank, destination));
    if (end && input == *batch.labels())
      ignoreFrom(*end - positionOf(input, step, micro, dataRank), destination);
    return Status::success();
  }
  /// Reads every index and label that the plan has bounds for, as long as `patience` lasts; false where it did not.
  /// Errors: as of `load`.
  virtual Result<bool> check(Patience patience) const = 0;
  /// How labels are made.
  virtual LabelMaking labels() const { return {}; }
  /// How rows of tokens are made samples, for people; empty where there are none.
  virtual std::string rows() const { return {}; }
  /// Samples of one epoch.
  virtual int64_t samples() const = 0;
  /// From step `step` (from 0) on positions go on after the first `position` samples, as in a run that took others per
  /// step before. Before any `load`.
  void startAt(int64_t step, int64_t position) { offset = position - step * perStep; }
  /// Rows that stand behind the first `samples` are filled up: the batch's labels(), which must be there, are ignored
  /// in them. Before any `load`.
  void endAt(int64_t samples) { end = samples; }
  /// Tells changed data; of long files a hash of parts. Errors: io.
  virtual Result<uint64_t> fingerprint() const = 0;
  /// Where the data of a step (from 0), of all ranks, have a NaN or an infinity (not minus: masks do), for who wonders
  /// at a loss that is none; empty: nowhere. Errors: as of `load`.
  virtual Result<std::string> notFinite(int64_t step) const {
    (void)step; // of tokens
    return std::string();
  }
  /// Tokens of one sample; 0 when samples are not made of tokens.
  virtual int64_t tokensPerSample() const { return 0; }

protected:
  /// `load`, as if the data had no end.
  virtual Status fill(size_t input, int64_t step, int64_t micro, int64_t dataRank, void *destination) const = 0;

  /// Position of row 0 of graph input `input`, counted in rows of that input since the run began.
  int64_t positionOf(size_t input, int64_t step, int64_t micro, int64_t dataRank) const {
    int64_t rows = BatchSpec::rowsOf(batch.inputs[input]);
    return ((step * batch.accumulation + micro) * batch.dataDegree + dataRank) * rows + offset / rowsPerStep * rows +
           offset % rowsPerStep * rows / rowsPerStep;
  }

  const BatchSpec batch;

private:
  /// Of the labels' rows, those from `first` on.
  void ignoreFrom(int64_t first, void *labels) const;

  const int64_t perStep, rowsPerStep;
  int64_t offset = 0;         ///< samples
  std::optional<int64_t> end; ///< samples; nothing: they begin again
};

/// Checks every input against the plan before anything runs. Errors: usage (no data, or both kinds), badInput (missing
/// array, malformed or too short file), mismatch (shape or element type), unsupported.
Result<std::unique_ptr<InputSource>> openSource(const DataOptions &options, const BatchSpec &batch);

/// The two kinds; `openSource` chooses.
Result<std::unique_ptr<InputSource>> openArrays(const DataOptions &options, const BatchSpec &batch);
Result<std::unique_ptr<InputSource>> openTokens(const DataOptions &options, const BatchSpec &batch);

} // namespace zc::data
