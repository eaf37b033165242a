//===- Passes.td - from one device to a mesh of ranks ----*- tablegen -*-===//
#ifndef ZC_SHARD_PASSES
#define ZC_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ZeroTileLinear : Pass<"zero-tile-linear", "::mlir::ModuleOp"> {
  let summary = "memory-centric tiling: a weight larger than the limit is gathered, used and released in tiles of rows";
  let description = [{
    In: graph dialect, after append-optimizer. Out: each two-dimensional weight of more than `tile-linear` bytes
    (`bucket-size` unless given) that only linears use has become tiles, parameters of their own that say what they are part
    of; the products of the linear (forward, recomputed, both gradients) have become one `graph.matmul_part` per tile. At most
    1024 tiles of a weight (`tile_c2`). Weights that something else uses (a tied embedding) stay whole, with a remark.

    Tiles are rows of the weight as stored. Of a weight [out, in] the forward is out-split (parts joined) and the input
    gradient in-split (parts summed, each going on where the one before stopped), of [in, out] the other way round. Bits are
    those of the untiled plan for products of up to 2^20 multiplications, whose kernels sum in order; larger ones go to
    libraries whose rounding depends on the shape of each call, and agree to rounding.
    Source: ZeRO-Infinity (arXiv 2104.07857, section 5.1.3).
  }];
  let constructor = "::zc::createZeroTileLinear()";
  let statistics = [Statistic<"numLinears", "linears", "weights tiled">, Statistic<"numTiles", "tiles", "tiles made">];
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def ZeroPartitionActivations : Pass<"zero-partition-activations", "::mlir::ModuleOp"> {
  let summary = "Pa: what recomputation begins with, kept in parts over the ranks of the model axis";
  let description = [{
    In: graph dialect, after append-optimizer, of a step that shard-tensors cut over `model` ranks and checkpoint-activations made
    recompute. Out: what backward's recomputed operations read of forward, and all ranks of the axis have whole, is kept in parts: behind
    its last use in forward each rank takes its own (`graph.all_slice`), and before the first use in backward they are gathered. So
    block inputs take 1/T of the bytes, and with zero-offload it is the part that leaves the device (Pa+cpu). Bits do not change. What the
    ranks do not divide, and what is small, stays whole. Source: ZeRO-R (arXiv 1910.02054, section 6.1).
  }];
  let constructor = "::zc::createZeroPartitionActivations()";
  let statistics = [Statistic<"numCut", "cut", "values kept in parts">];
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def ZeroModelAxis : Pass<"zero-model-axis", "::mlir::ModuleOp"> {
  let summary = "what ranks of the model axis exchange as whole runs of bytes, and what depends on the rank as an address";
  let description = [{
    In: graph dialect, after append-optimizer, of a step that shard-tensors cut over `model` ranks. Out: collectives along the
    outermost dimension that is more than one, with transpositions around them where it was another; a maximum over ranks is one over
    what is gathered; a rank's offset is its own element of a table (`graph.all_slice`), so that one plan serves all ranks.
  }];
  let constructor = "::zc::createZeroModelAxis()";
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def ZeroBucket : Pass<"zero-bucket", "::mlir::ModuleOp"> {
  let summary = "lay parameters out flat in buckets, in order of first use";
  let description = [{
    In: graph dialect, after append-optimizer. Out: with a `zero.mesh` and `zero.bucket`s over the trainable and frozen `graph.parameter`s;
    nothing else changes. Parameters share a bucket when they have the element type, trainability, weight decay and scale of the learning
    rate in common, so that the optimizer runs once per bucket. Members start at multiples of 64 elements; a bucket is cut over the data
    axes and padded to a multiple of their ranks x 64. A parameter larger than the bucket size gets a bucket of its own, and so does a tile
    of one. Parameters that are cut over the model axis are in other buckets than those that its ranks have whole; a bucket of the latter is
    padded to a multiple of all ranks x 64, since each of them adds its share of the gradient to the norm. The mesh is node x local x model,
    or has the model axis before local or node, without an axis of one model rank. Source: ZeRO (arXiv 1910.02054, section 5.2), PyTorch
    DDP's bucketing.
  }];
  let constructor = "::zc::createZeroBucket()";
  let statistics = [Statistic<"numBuckets", "buckets", "buckets made">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroResidency : Pass<"zero-residency", "::mlir::ModuleOp"> {
  let summary = "choose buckets whose parameters every rank keeps whole, on the device";
  let description = [{
    In: output of zero-bucket. Out: buckets marked `resident`, as many as fit in `resident`
    more of the device. Their parameters are neither cut at stage 3 nor offloaded: completed once after the update, not gathered
    and fetched by forward and backward of every micro-step. Those that save the most of that per byte come first; of equal ones the
    smaller, since each gather has a latency, then those used first. Bits do not change. Source: DeepCompile's selective
    unsharding (arXiv 2504.09983).
  }];
  let constructor = "::zc::createZeroResidency()";
  let statistics = [Statistic<"numResident", "resident", "buckets chosen">];
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
  let constructor = "::zc::createZeroPartition()";
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroDelayUpdate : Pass<"zero-delay-update", "::mlir::ModuleOp"> {
  let summary = "one-step delayed parameter update";
  let description = [{
    In: output of zero-partition. Out: buckets are `delayed`: the update works on fp32 weights of their own, and begins with
    `zero.publish`, which makes the weights of the step before the parameters, and with the gathers of parameters. So nothing waits
    for an update but the next one, and it may run beside a whole step. Both go through the buckets backward: so
    backward is done with their parameters, and so the next one takes the gradients' buffers back. Steps up to `delay-after` are
    ordinary: the plan says so (`zero.execution`), the runtime publishes at their end.
    All trainable parameters are delayed, wherever they are updated, so that placement changes no bits.
    Source: ZeRO-Offload (arXiv 2101.06840, section 5.2).
  }];
  let constructor = "::zc::createZeroDelayUpdate()";
  let statistics = [Statistic<"numDelayed", "delayed", "updates delayed">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroVertical : Pass<"zero-vertical", "::mlir::ModuleOp"> {
  let summary = "all micro-steps of a block before the next block";
  let description = [{
    In: output of zero-partition. Out: with accumulation, the micro program has the operations of all micro-steps (`zero.execution`), block
    after block and in a block micro-step after micro-step; its inputs are there once for each. Parameters of a block are then
    gathered or fetched once per step and half instead of once per micro-step, and what backward needs of forward waits for all
    micro-steps. Every sum keeps its order, so bits do not change. Programs with running statistics stay as they are. Tiles
    (zero-tile-linear) are gathered for each micro-step all the same.
    Source: GreedySnake (arXiv 2512.17570).
  }];
  let constructor = "::zc::createZeroVertical()";
}

def ZeroInsertGatherRelease : Pass<"zero-insert-gather-release", "::mlir::ModuleOp"> {
  let summary = "gather a bucket just before its first use, release it after its last, again in backward";
  let description = [{
    In: output of zero-partition. Out: each `graph.read` of a bucket's member has become a view of the gathered bucket
    (sharded parameters: one gather in forward, one in backward; of a tile, one for each use) or of the resident one. A gather
    stands in a `zero.load`, which has all that brings the buffer to the device: the passes that follow rewrite what is in it.
    Source: ZeRO (arXiv 1910.02054, section 7.2.2): 3 M per step.
  }];
  let statistics = [Statistic<"numGathers", "gathers", "gathers inserted">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroQuantizeWeights : Pass<"zero-quantize-weights", "::mlir::ModuleOp"> {
  let summary = "qwZ: gather parameters as int8, in blocks with a scale each";
  let description = [{
    In: output of zero-insert-gather-release. Out: each gather has become quantize, a gather of bytes (values and scales in one
    run), dequantize. Forward and backward quantize the same shard, and compute with the same weights. Nothing changes where
    parameters are not sharded. Source: ZeRO++ (arXiv 2306.10209, section 3.1).
  }];
  let constructor = "::zc::createZeroQuantizeWeights()";
  let statistics = [Statistic<"numGathers", "gathers", "gathers quantized">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroQuantizeGradients : Pass<"zero-quantize-gradients", "::mlir::ModuleOp"> {
  let summary = "qgZ: gradients travel as int4 or int8, inside the node first";
  let description = [{
    In: output of zero-insert-gather-release. Out: each reduce-scatter has become quantize (slices reordered, so that what one
    rank will own lies together: 0, 4, 1, 5, 2, 6, 3, 7 for 2 nodes of 4), all-to-all in the node, sum and quantize, all-to-all
    between nodes, sum into the shard; one hop where the mesh has one axis. Sums run in fp32, in rank order. With
    error-feedback what quantization loses is kept in a persistent buffer and added the next time.
    Source: ZeRO++ (arXiv 2306.10209, section 3.3), LoCo (arXiv 2407.04480).
  }];
  let constructor = "::zc::createZeroQuantizeGradients()";
  let statistics = [Statistic<"numReductions", "reductions", "reduce-scatters quantized">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroHierarchicalCollectives : Pass<"zero-hierarchical-collectives", "::mlir::ModuleOp"> {
  let summary = "gathers and reduce-scatters along one axis of the mesh after the other";
  let description = [{
    In: output of zero-insert-gather-release and of the quantizing passes. Out: a gather over all ranks has become one between
    nodes, then one inside the node, so that each byte enters a node once; a reduce-scatter one inside the node, then one
    between nodes. Pieces are put in their order by `zero.reorder`, or by whoever dequantizes them. Gathers give the same bits;
    sums run over the node's ranks first, and differ in bits from those over all ranks in order.
  }];
  let statistics = [Statistic<"numCollectives", "collectives", "collectives split">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroHierarchical : Pass<"zero-hierarchical", "::mlir::ModuleOp"> {
  let summary = "hpZ: backward gathers inside the node, from what forward's gather left there";
  let description = [{
    In: output of zero-hierarchical-collectives, or of any pass before it from zero-insert-gather-release on. Out: of each
    bucket that forward and backward gather, this rank's part of the node's copy (a *secondary shard*, 1 / ranks per node of
    the bucket, quantized where gathers are) is kept from forward to backward, and backward gathers it inside the node. It is
    made anew in every micro-step, and so never older than the weights. Bits do not change.
    Source: ZeRO++ (arXiv 2306.10209, section 3.2).
  }];
  let statistics = [Statistic<"numGathers", "gathers", "gathers kept inside the node">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def ZeroOffload : Pass<"zero-offload", "::mlir::ModuleOp"> {
  let summary = "keep optimizer state, parameters or activations on the host or in a file";
  let description = [{
    In: output of zero-insert-gather-release. Out: buckets say on which tier their storage is, and fetches and evictions move
    what is needed. Gradients live with the optimizer: they leave the device as soon as they are reduced, the update runs on
    the host, chunk by chunk, and parameters come back. Under `offload-optimizer=nvme` they wait on the host, as far as
    `gradients-on-host` goes, and as many bytes as `read-ahead` more are for state read before an update that waits for all
    gradients. Updates follow each other as gradients land, but as many as forward is of the step's arithmetic come last, in
    the order in which the next forward wants the parameters. Parameters are fetched before they are gathered, in the same
    `zero.load`, each rank its shard over its own link. Activations that backward needs are evicted after their last use in
    forward. What passes through the host on its way to or from a file goes through rings whose size does not depend on the
    model's. Under `offload-param=nvme` parameters of the first buckets stay on the host, as far as `resident-on-host` goes:
    each micro-step reads the others twice. Source: ZeRO-Offload (arXiv 2101.06840, section 4), ZeRO-Infinity (arXiv
    2104.07857, sections 5 and 6).
  }];
  let constructor = "::zc::createZeroOffload()";
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def VerifyZero : Pass<"verify-zero", "::mlir::ModuleOp"> {
  let summary = "border check: no operation of the graph level is left that the zero level replaces";
  let description = "In: output of zero-insert-gather-release. Out: the same; an operation of the graph level is an error.";
}

#endif // ZC_SHARD_PASSES
