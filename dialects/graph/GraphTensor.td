//===- GraphTensor.td - moving, indexing and reducing elements ----*- tablegen -*-===//
#ifndef ZC_GRAPH_TENSOR
#define ZC_GRAPH_TENSOR

include "dialects/graph/GraphBase.td"

def Graph_ReshapeOp : Graph_DiffOp<"reshape", [Graph_MovesElements, Graph_ViewKernel, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "the same elements under another shape";
  let description = [{
    A view: no bytes move. `shape` has as many elements as the operand (`reshape_c1`). Stands for ONNX Reshape, Flatten, Squeeze, Unsqueeze.

    ```mlir
    %y = graph.reshape %x {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$shape);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_BitcastOp : Graph_TensorOp<"bitcast", [Graph_ViewKernel, Graph_StopsGradient]> {
  let summary = "the same bytes as elements of another type (ONNX BitCast)";
  let description = [{
    A view: no bytes move. Both types take as many bytes (`bitcast_c1`). No gradient goes through it, which torch's detach is made of.

    ```mlir
    %y = graph.bitcast %x {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, TypeAttr:$to);
  let results = (outs Graph_Tensor:$result);
}

def Graph_TransposeOp : Graph_DiffOp<"transpose", [Graph_MovesElements, Graph_Kernel, Graph_Sharded]> {
  let summary = "permutes dimensions: result dimension i is operand dimension permutation[i]";
  let description = [{
    `permutation` has each dimension once (`transpose_c1`).

    ```mlir
    %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_ExpandOp : Graph_DiffOp<"expand", [Graph_MovesElements, Graph_Layout, Graph_Kernel, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "broadcasts to a shape (numpy rules, operand dimensions 1 or equal)";
  let description = [{
    The operand's shape broadcasts to exactly `shape` (`expand_c1`).

    ```mlir
    %y = graph.expand %x {shape = array<i64: 2, 3>} : (tensor<3xf32>) -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$shape);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_SliceOp : Graph_DiffOp<"slice", [Graph_Layout, Graph_KernelWith<["getBytes"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "a regular sub-block: result[i] = input[offsets + i * strides]";
  let description = [{
    One entry per dimension (`slice_c1`), already clamped; strides may be negative, not zero (`slice_c2`); sizes are not
    negative (`slice_c3`); every index touched is inside its dimension (`slice_c4`).

    ```mlir
    %y = graph.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>)
        -> tensor<2x2xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes,
      DenseI64ArrayAttr:$strides);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_SliceGradOp : Graph_DiffOp<"slice_grad", [Graph_Layout, Graph_Kernel]> {
  let summary = "zeros of `shape` with the operand written at the slice";
  let description = [{
    The gradient of slice, with its constraints (`slice_c1` to `slice_c4`). Created by differentiate.

    ```mlir
    %d = graph.slice_grad %g {shape = array<i64: 3>, offsets = array<i64: 1>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$grad, DenseI64ArrayAttr:$shape, DenseI64ArrayAttr:$offsets,
      DenseI64ArrayAttr:$strides);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_ConcatOp : Graph_DiffOp<"concat", [Graph_Layout, Graph_Kernel, Graph_Sharded]> {
  let summary = "joins tensors along an axis";
  let description = [{
    One operand at least (`concat_c1`), of one rank (`concat_c2`), equal outside the axis (`concat_c3`).

    ```mlir
    %y = graph.concat %a, %b {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Graph_PadOp : Graph_DiffOp<"pad", [Graph_Layout, Graph_Kernel, Graph_Sharded]> {
  let summary = "surrounds with a constant; negative amounts crop";
  let description = [{
    One entry per dimension (`pad_c1`), of less than 2^48; no dimension becomes negative (`pad_c2`).

    ```mlir
    %y = graph.pad %x {low = array<i64: 0>, high = array<i64: 1>, value = -100.0 : f64} : (tensor<3xi64>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, F64Attr:$value);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

def Graph_IotaOp : Graph_TensorOp<"iota", [Graph_Kernel, Graph_FreeToRecompute]> {
  let summary = "start + i * delta, one dimension";
  let description = [{
    `type` has rank 1 (`iota_c1`).

    ```mlir
    %y = graph.iota {type = tensor<4xi64>, start = 0.0 : f64, delta = 1.0 : f64} : () -> tensor<4xi64>
    ```
  }];
  let arguments = (ins TypeAttrOf<Graph_Tensor>:$type, F64Attr:$start, F64Attr:$delta);
  let results = (outs Graph_Tensor:$result);
}

def Graph_LossScaleOp : Graph_TensorOp<"loss_scale", [Graph_Kernel]> {
  let summary = "what the run multiplies the gradient of the loss by in this step";
  let description = [{
    A scalar float (`loss_scale_c1`). Created by differentiate, undone by graph.clip_factor.

    ```mlir
    %y = graph.loss_scale {type = tensor<f32>} : () -> tensor<f32>
    ```
  }];
  let arguments = (ins TypeAttrOf<Graph_FloatTensor>:$type);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_GatherOp : Graph_DiffOp<"gather", [Graph_Indexing, Graph_KernelWith<["getBytes", "getOperandRole"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "picks slices of `data` along `axis` by index (ONNX Gather; embedding lookup)";
  let description = [{
    Result shape: data[:axis] ++ indices ++ data[axis+1:]. Indices in [-n, n); others are a run-time error. The slice at
    `padding_index` gets no gradient (torch's Embedding with a padding_idx).

    ```mlir
    %y = graph.gather %t, %i {axis = 0 : i64} : (tensor<64x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$data, Graph_IndexTensor:$indices, I64Attr:$axis,
      OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Graph_Tensor:$result);
}

def Graph_GatherGradOp : Graph_DiffOp<"gather_grad", [Graph_KernelWith<["getBytes", "mayOverwrite"]>]> {
  let summary = "zeros of `shape`, or `onto`, and gradient slices added at their indices, in index order";
  let description = [{
    The gradient of gather; `grad` has the shape gather gives for `shape` and the indices (`gather_grad_c1`). `onto`, of the
    result's type (`gather_grad_c2`), is another gradient of the same tensor, to which sums of slices are added; it may be
    written over. Created by differentiate, `onto` by fuse-gather-grad.

    ```mlir
    %d = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$grad, Graph_IndexTensor:$indices, Optional<Graph_Tensor>:$onto,
      DenseI64ArrayAttr:$shape, I64Attr:$axis);
  let results = (outs Graph_Tensor:$result);
}

def Graph_GatherElementsOp : Graph_DiffOp<"gather_elements", [Graph_KernelWith<["getBytes"]>, Graph_Sharded]> {
  let summary = "result[i..] = data[.., indices[i..], ..] along `axis` (ONNX GatherElements)";
  let description = [{
    Ranks are equal (`gather_elements_c1`); outside the axis no dimension of the indices is larger (`gather_elements_c2`).

    ```mlir
    %y = graph.gather_elements %t, %i {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$data, Graph_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Graph_Tensor:$result);
}

def Graph_GatherElementsGradOp : Graph_DiffOp<"gather_elements_grad", [Graph_Kernel]> {
  let summary = "zeros of `shape`, gradient elements added at their indices, in index order";
  let description = [{
    The gradient of gather_elements; `grad` has the indices' shape (`gather_elements_grad_c1`). Created by differentiate.

    ```mlir
    %d = graph.gather_elements_grad %g, %i {shape = array<i64: 4, 8>, axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x2xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$grad, Graph_IndexTensor:$indices, DenseI64ArrayAttr:$shape, I64Attr:$axis);
  let results = (outs Graph_Tensor:$result);
}

def Graph_GatherNdOp : Graph_DiffOp<"gather_nd", [Graph_KernelWith<["getBytes", "getOperandRole"]>]> {
  let summary = "picks slices by index tuples (ONNX GatherND)";
  let description = [{
    The last dimension of `indices` holds tuples into data[batch_dims:], of 1 index to one per dimension
    (`gather_nd_c3`). `batch_dims` is below both ranks (`gather_nd_c1`), the batch dimensions are equal (`gather_nd_c2`).

    ```mlir
    %y = graph.gather_nd %t, %i {batch_dims = 0 : i64} : (tensor<4x8xf32>, tensor<3x2xi64>) -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$data, Graph_IndexTensor:$indices, I64Attr:$batch_dims);
  let results = (outs Graph_Tensor:$result);
}

def Graph_GatherNdGradOp : Graph_DiffOp<"gather_nd_grad", [Graph_Kernel]> {
  let summary = "zeros of `shape`, gradient slices added at their index tuples, in index order";
  let description = [{
    The gradient of gather_nd; `grad` has its result's shape (`gather_nd_grad_c1`). Created by differentiate.

    ```mlir
    %d = graph.gather_nd_grad %g, %i {shape = array<i64: 4, 8>, batch_dims = 0 : i64} : (tensor<3xf32>, tensor<3x2xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$grad, Graph_IndexTensor:$indices, DenseI64ArrayAttr:$shape, I64Attr:$batch_dims);
  let results = (outs Graph_Tensor:$result);
}

class Graph_ReduceOp<string mnemonic, string what, list<Trait> traits = [Graph_Neutral]> : Graph_DiffOp<mnemonic,
    !listconcat([Graph_Layout, Graph_Kernel, Graph_ShardedBy<["cutAlong", "buildParts"]>], traits)> {
  let summary = what # " over `axes`; kept as 1 under `keepdims`";
  let description = "Axes are sorted, unique, in [0, rank) (`reduce_c1`).\n\n```mlir\n%y = graph." # mnemonic
      # " %x {axes = array<i64: 1>, keepdims} : (tensor<2x3xf32>) -> tensor<2x1xf32>\n```";
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keepdims);
  let results = (outs Graph_Tensor:$result);
}
def Graph_ReduceSumOp : Graph_ReduceOp<"reduce_sum", "sum">;
def Graph_ReduceMeanOp : Graph_ReduceOp<"reduce_mean", "mean", []>;
def Graph_ReduceMaxOp : Graph_ReduceOp<"reduce_max", "maximum (gradient shared evenly between equal maxima)">;

def Graph_ReduceMinOp : Graph_ReduceOp<"reduce_min", "minimum (gradient shared evenly between equal minima)">;
def Graph_ReduceProdOp : Graph_ReduceOp<"reduce_prod", "product">;

#endif // ZC_GRAPH_TENSOR
