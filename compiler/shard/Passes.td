//===- Passes.td - from one device to a mesh of ranks ----*- tablegen -*-===//
#ifndef ZC_SHARD_PASSES
#define ZC_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ZeroBucket : Pass<"zero-bucket", "::mlir::ModuleOp"> {
  let summary = "lay parameters out flat in buckets, in order of first use";
  let description = [{
    In: graph dialect, after append-optimizer. Out: with a `zero.mesh` and `zero.bucket`s over the trainable and frozen
    `graph.parameter`s; nothing else changes. Parameters share a bucket when they have the element type, trainability and
    weight decay in common, so that the optimizer runs once per bucket. Members start at multiples of 64 elements; a
    bucket is padded to a multiple of ranks x 64. A parameter larger than the bucket size gets a bucket of its own.
    Source: ZeRO (arXiv 1910.02054, section 5.2), PyTorch DDP's bucketing.
  }];
  let options = [
    Option<"worldSize", "world-size", "int64_t", "1", "ranks">,
    Option<"ranksPerNode", "ranks-per-node", "int64_t", "0", "ranks of one node; 0: all">,
    Option<"bucketSize", "bucket-size", "int64_t", "26214400", "bytes of parameters at which a bucket is full">];
  let statistics = [Statistic<"numBuckets", "buckets", "buckets made">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroPartition : Pass<"zero-partition", "::mlir::ModuleOp"> {
  let summary = "shard optimizer state (1), gradients (2), parameters (3)";
  let description = [{
    In: output of zero-bucket. Out: buckets that say what is cut; `graph.accumulate_grad` has become writes to gradient
    buckets that are reduce-scattered as soon as they are complete, and the update program one norm, one
    clip factor and one update per bucket. Every stage reduces in every micro-step, in the same order, which makes the
    stages bit-identical. Source: ZeRO (arXiv 1910.02054, sections 5.1 to 5.3).
  }];
  let options = [Option<"stage", "stage", "int64_t", "0", "0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters">,
    Option<"accumulation", "accumulation", "int64_t", "1", "micro-steps per step">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroInsertGatherRelease : Pass<"zero-insert-gather-release", "::mlir::ModuleOp"> {
  let summary = "gather a bucket just before its first use, release it after its last, again in backward";
  let description = [{
    In: output of zero-partition. Out: each `graph.read` of a bucket's member has become a view of the gathered bucket
    (sharded parameters: one gather in forward, one in backward) or of the resident one. What follows the loss is backward.
    Source: ZeRO (arXiv 1910.02054, section 7.2.2): 3 M per step.
  }];
  let statistics = [Statistic<"numGathers", "gathers", "gathers inserted">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def VerifyZero : Pass<"verify-zero", "::mlir::ModuleOp"> {
  let summary = "border check: no operation of the graph level is left that the zero level replaces";
  let description = "In: output of zero-insert-gather-release. Out: the same; an operation of the graph level is an error.";
}

#endif // ZC_SHARD_PASSES
