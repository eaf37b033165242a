//===- Lifetimes.h - which bytes each value needs, and when --------------------------===//
#pragma once

#include "compiler/schedule/MemoryProblem.h"
#include "compiler/schedule/Options.h"
#include "compiler/schedule/Placement.h"

#include <vector>

namespace zc {

/// Lifetimes of a program's values at positions of its order. A *root* is a run of bytes; several values may share one:
/// views, elementwise results that overwrite a dying operand, gradients produced inside their bucket.
class Lifetimes {
public:
  struct Root {
    int64_t bytes = 0;
    zero::Tier tier = zero::Tier::device;
    int64_t first = 0, last = 0;
    int64_t until = 0; ///< the last position that is planned to begin before the last use ends: `last` or later
    plan::Class klass = plan::Class::activations;
    mlir::FlatSymbolRefAttr slice; ///< already known for what outlives the program
    mlir::Location loc;
    bool mayBeOverwritten = false;       ///< by a result computed in place
    bool isPublished = false;            ///< by a delayed update, beside the update of the step before
    mlir::FlatSymbolRefAttr bucket = {}; ///< whose gradients these are
  };
  struct Place {
    size_t root = 0;
    int64_t offset = 0; ///< bytes
    /// Bytes by axis of the mesh: times the rank's coordinate, added to the offset.
    llvm::SmallVector<int64_t, 2> strides = {};
  };

  /// `lossSlice`, `normSlice`: where the step's metrics are.
  Lifetimes(graph::ProgramOp program, Overlap overlap, mlir::FlatSymbolRefAttr lossSlice,
            mlir::FlatSymbolRefAttr normSlice);

  std::vector<Root> roots;
  llvm::DenseMap<mlir::Value, Place> places;
  /// What steps work in besides their operands: roots that live while their operation runs.
  std::vector<std::pair<mlir::Operation *, size_t>> workspaces;

  mlir::Operation *operationAt(int64_t position) const;
  zero::BucketOp bucketOf(mlir::FlatSymbolRefAttr name) const { return context.bucketOf(name); }
  /// Positions at which a root is in use; with overlap also while other work runs beside it.
  std::pair<int64_t, int64_t> span(const Root &root) const;

private:
  void computeLastUses();
  void keepWhatLeaves(mlir::Block &block);
  int64_t endOf(int64_t position) const;
  void findGradientPuts();
  void placeResults(mlir::Operation *op, int64_t position);
  void placeWorkspace(mlir::Operation *op, int64_t position);
  bool placeWithKnownStorage(mlir::OpResult result, int64_t position);
  void placeInGradients(mlir::OpResult result, int64_t position, const zero::State &state);
  mlir::FlatSymbolRefAttr sliceOf(mlir::Operation *op, const zero::State &state);
  bool placeInBucket(mlir::OpResult result, int64_t position);
  bool placeOverOperand(mlir::OpResult result, int64_t position);
  size_t addRoot(mlir::Value value, int64_t first, plan::Class klass);
  void share(mlir::Value value, Place place);

  const Overlap overlap;
  std::vector<mlir::Operation *> operations;
  llvm::DenseMap<mlir::Value, int64_t> firstUse; ///< by an operation that is no view
  struct Uses {
    int64_t last = 0, until = 0;
  };
  llvm::DenseMap<mlir::Value, Uses> lastUse;     ///< of a value and all views of it
  llvm::ArrayRef<double> starts;                 ///< as planned, of each position; empty: not known
  llvm::DenseMap<mlir::Value, zero::PutOp> puts; ///< computed value -> the put that may say where it is computed
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Attribute, size_t> gradients; ///< bucket -> root, of those that do not outlive the program
  mlir::FlatSymbolRefAttr lossSlice, normSlice;
  plan::Class transientClass;
  zero::ScheduleContext context;
  mlir::SymbolTableCollection symbols;
};

} // namespace zc
