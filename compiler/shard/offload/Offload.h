//===- Offload.h - the parts of zero-offload ------------------------------------===//
//
// One part per kind of bytes. They share the staging: rings of buffers on the host through which everything passes that
// goes to or comes from a file, so that the host needs the same few bytes whatever the model's size (ZeRO-Infinity,
// arXiv 2104.07857, section 6.3). A slot of a ring is used again when its bytes have left it: the schedule follows from
// that, and so does how far reading runs ahead.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/zero/Zero.h"

#include "llvm/ADT/MapVector.h"

namespace zc::offload {

/// Elements [offset, offset + count) of what a rank stores.
struct Chunk {
  int64_t offset = 0, count = 0;
};
/// `elements` in chunks of at most `chunkElements`.
llvm::SmallVector<Chunk> chunksOf(int64_t elements, int64_t chunkElements);

/// Rings of host buffers in one program; one ring per use and element type.
class Staging {
public:
  static constexpr size_t kSlots = 3; ///< at least: one being read, one in use, one being written

  explicit Staging(graph::ProgramOp program) : program(program) {}

  /// `count` elements of the next slot of ring `use`, at `builder`. How many slots there are, and of how many elements,
  /// is decided when all is asked: by `finish`.
  mlir::Value next(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef use, int64_t count,
                   mlir::Type type);
  /// Lets `bytes` more be read ahead: as many slots of each ring as they are enough for.
  void readAhead(int64_t bytes) { ahead = bytes; }
  /// Makes the slots' buffers, at the program's start.
  void finish();

private:
  struct Ring {
    int64_t elements = 0;
    llvm::SmallVector<zero::PartOp> parts; ///< in the order asked for
  };
  graph::ProgramOp program;
  int64_t ahead = 0; ///< bytes
  llvm::MapVector<std::pair<mlir::StringAttr, mlir::Type>, Ring> rings;
};

/// Part of `buffer`; itself if it is all.
mlir::Value partOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value buffer, Chunk chunk);
/// A chunk of a bucket's storage: of all that the rank stores, or of its own shard.
mlir::Value storageChunk(mlir::OpBuilder &builder, mlir::Location location, zero::BucketOp bucket, zero::Storage what,
                         Chunk chunk, const Mesh &mesh, bool own = false);

/// What the parts have in common.
struct Context {
  mlir::ModuleOp module;
  Mesh mesh;
  int64_t chunkElements = 1 << 20;
  graph::ProgramOp micro, update;
  Staging microStaging, updateStaging;

  /// Moves `source` to `target`, tiers apart or not next to each other, in chunks through the staging.
  void move(mlir::OpBuilder &builder, mlir::Location location, Staging &staging, llvm::StringRef use,
            mlir::Value source, mlir::Value target);
};

/// Gradients, optimizer state and the update of `buckets` on their tiers, which they name already. `readAhead`: bytes
/// for slots in which state waits for updates that wait for all gradients.
void offloadOptimizer(Context &context, llvm::ArrayRef<zero::BucketOp> buckets, int64_t readAhead);
/// Parameters of all sharded buckets (of all, with one rank) on their tiers, fetched where `program`, a micro-step or
/// the evaluation, uses them.
void offloadParameters(Context &context, graph::ProgramOp program, Staging &staging);
/// What forward leaves for backward, on `tier`.
void offloadActivations(Context &context, zero::Tier tier);

} // namespace zc::offload
