//===- GraphIndexing.td - scattering and ordering elements ----*- tablegen -*-===//
#ifndef ZC_GRAPH_INDEXING
#define ZC_GRAPH_INDEXING

include "dialects/graph/GraphBase.td"

def Graph_ScatterElementsOp : Graph_DiffOp<"scatter_elements", [Graph_Kernel]> {
  let summary = "`data`, with updates[i..] put at data[.., indices[i..], ..] along `axis` (ONNX ScatterElements)";
  let description = [{
    `reduction`: none (the last of several wins), add, mul, min or max, in index order. Data and updates have
    one element type; indices and updates have one shape (`scatter_c1`). Ranks and shapes as in gather_elements
    (`gather_elements_c1`, `gather_elements_c2`).

    ```mlir
    %y = graph.scatter_elements %d, %i, %u {axis = 1 : i64, reduction = #graph<scatter_reduction add>} : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>)
        -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$data, Graph_IndexTensor:$indices, Graph_Tensor:$updates, I64Attr:$axis,
      Graph_ScatterReductionAttr:$reduction);
  let results = (outs Graph_Tensor:$result);
}

def Graph_ScatterNdOp : Graph_DiffOp<"scatter_nd", [Graph_Kernel]> {
  let summary = "`data`, with slices put at index tuples (ONNX ScatterND)";
  let description = [{
    `reduction` and types as in scatter_elements; `updates` has the shape gather_nd with batch_dims 0 gives
    for data and indices (`scatter_nd_c1`), tuples are as there (`gather_nd_c1`, `gather_nd_c3`).

    ```mlir
    %y = graph.scatter_nd %d, %i, %u {reduction = #graph<scatter_reduction none>} : (tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$data, Graph_IndexTensor:$indices, Graph_Tensor:$updates,
      Graph_ScatterReductionAttr:$reduction);
  let results = (outs Graph_Tensor:$result);
}

def Graph_TopKOp : Graph_DiffOp<"top_k", [Graph_Kernel]> {
  let summary = "the `k` largest (or `smallest`) elements along `axis`, in order, and their indices (ONNX TopK)";
  let description = [{
    `k` is in [0, dimension] (`top_k_c1`). Equal elements: the lower index first. NaN counts as the largest.

    ```mlir
    %v, %i = graph.top_k %x {k = 2 : i64, axis = 1 : i64} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$k, I64Attr:$axis, UnitAttr:$smallest);
  let results = (outs Graph_Tensor:$values, StaticShapeTensorOf<[I64]>:$indices);
}

def Graph_ArgMaxOp : Graph_TensorOp<"arg_max", [Graph_Kernel]> {
  let summary = "index of the largest (or `smallest`) element along `axis` (ONNX ArgMax, ArgMin)";
  let description = [{
    The axis goes and has an element (`arg_max_c1`). Of equal elements the first, or the `last`.

    ```mlir
    %i = graph.arg_max %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$axis, UnitAttr:$smallest, UnitAttr:$last);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
}

class Graph_CumulativeOp<string mnemonic, string what> : Graph_DiffOp<mnemonic, [Graph_Kernel, Graph_Sharded, Graph_Neutral]> {
  let summary = what # " of the elements up to each one along `axis`";
  let description = "`exclusive` leaves the element itself out, `reverse` begins at the end.\n\n```mlir\n%y = graph." # mnemonic
      # " %x {axis = 1 : i64, exclusive} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n```";
  let arguments = (ins Graph_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Graph_Tensor:$result);
}
def Graph_CumSumOp : Graph_CumulativeOp<"cumsum", "sum">;
def Graph_CumProdOp : Graph_CumulativeOp<"cumprod", "product">;

#endif // ZC_GRAPH_INDEXING
