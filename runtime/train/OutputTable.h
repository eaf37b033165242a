//===- OutputTable.h - what a forward-only plan computed, for a whole data set -----------------===//
//
// One tensor per output of the plan, in data order and the same for any number of ranks. Batch k is samples
// [k*B, (k+1)*B) of the data, B rows; data-parallel rank r of step s computes batch s*D + r. An output whose first
// dimension is B has a row per sample: they stand one after another, [samples, ...]. Of any other there is one per
// whole batch: [batches, ...].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/Safetensors.h"
#include "runtime/plan/plan.pb.h"

namespace zc::train {

/// How much of a data set is evaluated.
struct EvalExtent {
  int64_t rows = 1;    ///< B
  int64_t samples = 0; ///< evaluated
  int64_t wholeBatches() const { return samples / rows; }
};

class OutputTable {
public:
  /// Errors: io; budget when the file would have more than 2^60 bytes.
  static Result<OutputTable> create(const planpb::Plan &plan, const EvalExtent &extent, const std::string &path);
  /// In another process than the creator's.
  static Result<OutputTable> join(const planpb::Plan &plan, const EvalExtent &extent, const std::string &temporaryName);
  const std::string &temporaryName() const { return file.temporaryName(); }

  /// Output `output` of batch `batch`; what is beyond the samples is dropped. Any thread. Errors: io.
  Status store(uint32_t output, int64_t batch, const void *source);
  Status flush() { return file.flush(); }
  Status commit() { return file.commit(); }

private:
  struct Column {
    int64_t batchBytes = 0;
    bool hasRows = false; ///< one per sample
  };
  static Result<OutputTable> layOut(const planpb::Plan &plan, const EvalExtent &extent,
                                    std::vector<io::SafetensorsTable::Tensor> &tensors);
  EvalExtent extent;
  std::vector<Column> columns; ///< by output
  io::SafetensorsTable file;
};

} // namespace zc::train
