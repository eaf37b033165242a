//===- GraphModel.td - what the ranks of the model axis exchange ----*- tablegen -*-===//
#ifndef ZC_GRAPH_MODEL
#define ZC_GRAPH_MODEL

include "dialects/graph/GraphBase.td"

/// Moves elements between the ranks of the model axis.
class Graph_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Graph_TensorOp<mnemonic, !listconcat([Graph_Kernel, Graph_Collective, DeclareOpInterfaceMethods<Differentiable>], traits)>;

def Graph_AllReduceOp : Graph_CollectiveOp<"all_reduce", [Graph_MakesWhole, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "the sum, or the `max`, over the ranks of the model axis, in rank order: equal bits on all of them";
  let description = [{
    A partial tensor becomes a whole one. The gradient of the sum is the result's, which is whole; the maximum has none: it is what
    exponents are shifted by, on which nothing depends (Megatron's g, arXiv 1909.08053). Of a sum that is wanted in parts a
    reduce_scatter is left, with the same bits. Created by shard-tensors.

    ```mlir
    %y = graph.all_reduce %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, UnitAttr:$max);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_DivergeOp : Graph_TensorOp<"diverge", [Graph_ViewKernel, Graph_MakesParts, DeclareOpInterfaceMethods<Differentiable>]> {
  let summary = "a whole tensor, from here on read by what every rank of the model axis does for its own part";
  let description = [{
    A view. The ranks' gradients differ: that of the operand is their sum (Megatron's f). Created by shard-tensors.

    ```mlir
    %y = graph.diverge %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_AllGatherOp : Graph_CollectiveOp<"all_gather", [Graph_MakesWhole]> {
  let summary = "the parts of all ranks of the model axis along `dim`, in rank order";
  let description = [{
    `dim` is in [0, rank) (`axis_c1`), `ranks` are those of the axis (`model_c1`). Created by shard-tensors, for what cannot be
    computed in parts; its gradient is all_slice.

    ```mlir
    %y = graph.all_gather %x {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$dim, I64Attr:$ranks);
  let results = (outs Graph_Tensor:$result);
}

def Graph_AllSliceOp : Graph_TensorOp<"all_slice", [Graph_Kernel, Graph_MakesParts, DeclareOpInterfaceMethods<Differentiable>]> {
  let summary = "this rank's part along `dim` of what all ranks of the model axis have whole";
  let description = [{
    The m-th of `ranks` equal parts (`model_c2`) on rank m of the axis (`axis_c1`, `model_c1`). Nothing is sent; the gradient is
    all_gather. Created by shard-tensors and differentiate.

    ```mlir
    %y = graph.all_slice %x {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x16xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$dim, I64Attr:$ranks);
  let results = (outs Graph_Tensor:$result);
  let hasCanonicalizer = 1;
}

def Graph_ReduceScatterOp : Graph_CollectiveOp<"reduce_scatter", [Graph_MakesParts]> {
  let summary = "this rank's part along `dim` of the sum over the ranks of the model axis, in rank order";
  let description = [{
    all_slice of all_reduce, for fewer bytes: `ranks` equal parts of `dim` (`axis_c1`, `model_c1`, `model_c2`). The gradient is
    all_gather. What all_gather and diverge have as their gradient.

    ```mlir
    %y = graph.reduce_scatter %x {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, I64Attr:$dim, I64Attr:$ranks);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_RankOffsetOp : Graph_TensorOp<"rank_offset", [Graph_Kernel, Graph_MakesParts]> {
  let summary = "`stride` times this rank's index on the model axis";
  let description = [{
    An integer scalar (`rank_offset_c1`): where a rank's rows of a cut table begin. Created by shard-tensors.

    ```mlir
    %o = graph.rank_offset {type = tensor<i64>, stride = 128 : i64} : () -> tensor<i64>
    ```
  }];
  let arguments = (ins TypeAttrOf<Graph_Tensor>:$type, I64Attr:$stride);
  let results = (outs Graph_IndexTensor:$result);
}

#endif // ZC_GRAPH_MODEL
