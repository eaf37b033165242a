//===- Weights.h - a run's first weights ------------------------------------------------===//
#pragma once

#include "runtime/exec/Executor.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Layout.h"
#include "runtime/train/ModelNames.h"

#include <functional>
#include <memory>
#include <optional>

namespace zc::train {

/// Where each parameter's values come from, checked against the plan when opened. Reads only what it is asked for, from
/// any thread.
class InitialValues {
public:
  /// From the model file, the external data beneath its folder, and the plan itself. `wholeModel`: the model's hash is
  /// compared, which reads all of it; else only its size.
  /// Errors: mismatch (the model is not the one that was compiled), badInput, corrupt.
  static Result<InitialValues> fromModel(const planpb::Plan &plan, bool wholeModel = true);
  /// From a safetensors file with one tensor per parameter: under its own name, a tied one, or, turned, under that of
  /// which the model's file says that it is a copy (ModelNames.h), as exportSafetensors writes them. What is not
  /// trained and not in it is the model's, in a forward-only plan buffers and tables of the exporter. Errors: mismatch
  /// (missing or of another shape; the first are listed), badInput.
  static Result<InitialValues> fromSafetensors(const planpb::Plan &plan, io::SafetensorsFile table);

  /// From a safetensors file, or from a checkpoint's folder or a run's newest one, verified; `passed` is told of
  /// damaged ones on the way. Errors: also corrupt.
  static Result<InitialValues> from(const planpb::Plan &plan, const std::string &path,
                                    const std::function<void(const std::string &)> &passed);

  /// Of the first, middle and last elements of each parameter: others where the values are of another model or run.
  /// Errors: those of reading.
  Result<uint64_t> fingerprint(const planpb::Plan &plan) const;

  /// Elements [first, first + count) of a parameter, converted; of the whole of one that is cut.
  Status read(int parameter, int64_t first, int64_t count, DType as, void *to) const;

private:
  struct Entry;
  /// The entry for a parameter's whole tensor that the file has under another name, turned; false where it has not.
  static Result<bool> findCopy(const io::SafetensorsFile &table, const ModelNames &names, const planpb::Plan &plan,
                               const planpb::Parameter &parameter, Entry &entry);
  Result<InitialValues> withModels(const planpb::Plan &plan);

  struct Entry {
    std::shared_ptr<io::File> file; ///< null: `inlined`
    int64_t offset = 0;
    DType type = DType::f32;
    const std::string *inlined = nullptr; ///< in the plan, which outlives this, or `held`
    std::shared_ptr<std::string> held;    ///< a tensor that was turned
    bool isModels = false;                ///< to be taken from the model
  };
  std::vector<Entry> entries; ///< by parameter
};

/// Opens the model a plan was compiled from. Errors: badInput, mismatch when its size or XXH3-64 (where one is given)
/// is not as recorded.
Result<io::File> openModel(const std::string &path, uint64_t bytes, std::optional<uint64_t> hash);

/// Puts this rank's part of every parameter in place, in every store; padding and optimizer moments become zero.
Status loadWeights(RankExecutor &executor, const InitialValues &values);

} // namespace zc::train
