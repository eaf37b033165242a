//===- GraphMath.td - products, norms, softmaxes, attention, loss ----*- tablegen -*-===//
#ifndef ZC_GRAPH_MATH
#define ZC_GRAPH_MATH

include "dialects/graph/GraphBase.td"

def Graph_MatmulOp : Graph_DiffOp<"matmul",
    [Graph_KernelWith<["getFlops", "getOperandRole"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>, Graph_Neutral]> {
  let summary = "op(lhs) op(rhs) + bias, batched";
  let description = [{
    Ranks are 2 or more (`matmul_c1`). op transposes the last two dimensions under `trans_lhs`, `trans_rhs`. Leading dimensions broadcast
    (`matmul_c2`); the contracted dimensions are equal (`matmul_c3`). `bias`, N elements (`matmul_c4`), is added to every row. Sums in fp32
    for bf16 operands.

    ```mlir
    %y = graph.matmul %a, %b {trans_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$lhs, Graph_FloatTensor:$rhs, Optional<Graph_FloatTensor>:$bias,
      UnitAttr:$trans_lhs, UnitAttr:$trans_rhs);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_MatmulPartOp : Graph_TensorOp<"matmul_part", [Graph_KernelWith<["getFlops", "mayOverwrite"]>]> {
  let summary = "part of a product that was cut: op(lhs) op(rhs) + addend";
  let description = [{
    Two matrices (`matmul_part_c1`), contracted dimensions equal (`matmul_part_c2`); `addend`, which has the result's type
    (`matmul_part_c3`), is what earlier parts of a sum have come to. `whole`, positive (`matmul_part_c4`), is the number of
    multiplications of the product that was cut: up to kOrderedProducts (kernels/cpu/fast/MatmulOrdered.h) the parts give the bits of the
    whole, wherever it was cut. With `widens` the result is f32 whatever the operands are, so that a sum of parts is
    rounded once. Created by zero-tile-linear.

    ```mlir
    %y = graph.matmul_part %a, %b, %sum {trans_rhs, whole = 1024 : i64} : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<4x16xf32>)
        -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$lhs, Graph_FloatTensor:$rhs, Optional<Graph_FloatTensor>:$addend,
      UnitAttr:$trans_lhs, UnitAttr:$trans_rhs, I64Attr:$whole, UnitAttr:$widens);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_LinearGeluGradOp : Graph_TensorOp<"linear_gelu_grad", [Graph_KernelWith<["getFlops", "getOperandRole"]>]> {
  let summary = "op(lhs) op(rhs) * gelu'(input), gelu as tanh approximates it";
  let description = [{
    Constraints of matmul, of two matrices (`linear_gelu_grad_c1`); `input` has the result's type (`linear_gelu_grad_c2`). The product is
    rounded to the type before, or, in a library's kernel, not. Made by fuse-epilogues of a gelu_grad {tanh} and the product that it is of,
    a kernel from then on.

    ```mlir
    %d = graph.linear_gelu_grad %g, %w, %u : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$lhs, Graph_FloatTensor:$rhs, Graph_FloatTensor:$input, UnitAttr:$trans_lhs,
      UnitAttr:$trans_rhs);
  let results = (outs Graph_FloatTensor:$result);
}

class Graph_SoftmaxLikeOp<string mnemonic, string formula>
    : Graph_DiffOp<mnemonic, [Graph_Kernel, Graph_Sharded, Graph_Neutral, Graph_Singular]> {
  let summary = formula # " along `axis`";
  let description = "With `zero_masked`, rows of nothing but -inf give zeros, not NaN (exporters' IsNaN/Where guard).\n\n```mlir\n%y = graph." # mnemonic
      # " %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n```";
  let arguments = (ins Graph_FloatTensor:$input, I64Attr:$axis, UnitAttr:$zero_masked);
  let results = (outs Graph_FloatTensor:$result);
}
def Graph_SoftmaxOp : Graph_SoftmaxLikeOp<"softmax", "e^x / sum e^x">;
def Graph_LogSoftmaxOp : Graph_SoftmaxLikeOp<"log_softmax", "x - log sum e^x">;

class Graph_SoftmaxGradLikeOp<string mnemonic, string formula> : Graph_DiffOp<mnemonic, [Graph_InPlaceKernel]> {
  let summary = formula # " along `axis`";
  let description = "`grad` has the output's type (`softmax_grad_c1`). Created by differentiate.\n\n```mlir\n%d = graph." # mnemonic
      # " %g, %y {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n```";
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$output, I64Attr:$axis);
  let results = (outs Graph_FloatTensor:$result);
}
def Graph_SoftmaxGradOp : Graph_SoftmaxGradLikeOp<"softmax_grad", "y (g - sum g y)">;
def Graph_LogSoftmaxGradOp : Graph_SoftmaxGradLikeOp<"log_softmax_grad", "g - e^y sum g">;

def Graph_LayerNormOp : Graph_DiffOp<"layer_norm", [Graph_KernelWith<["getOperandRole"]>, Graph_Sharded]> {
  let summary = "(x - mean) / sqrt(var + epsilon) * scale + bias over dimensions axis..";
  let description = [{
    ONNX LayerNormalization-17. `scale` has shape input[axis:] (`norm_c1`), `bias` its type (`norm_c2`). `mean` and `inv_std` have one fp32
    element per row (shape input[:axis]); statistics are computed in fp32 (f64 for f64).

    ```mlir
    %y, %m, %r = graph.layer_norm %x, %s, %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Optional<Graph_FloatTensor>:$bias,
      I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$mean, Graph_FloatTensor:$inv_std);
}

def Graph_LayerNormGradOp : Graph_TensorOp<"layer_norm_grad", [Graph_Kernel]> {
  let summary = "gradients of layer_norm: d_input, d_scale, d_bias";
  let description = [{
    `grad` has the input's type (`norm_c3`), the statistics those layer_norm gives (`norm_c4`). Created by differentiate.

    ```mlir
    %dx, %ds, %db = graph.layer_norm_grad %g, %x, %s, %m, %r {axis = 1 : i64}
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$inv_std, I64Attr:$axis);
  let results = (outs Graph_FloatTensor:$d_input, Graph_FloatTensor:$d_scale, Graph_FloatTensor:$d_bias);
}

def Graph_RmsNormOp : Graph_DiffOp<"rms_norm", [Graph_KernelWith<["getOperandRole"]>, Graph_Sharded]> {
  let summary = "x / sqrt(mean x^2 + epsilon) * scale over dimensions axis..";
  let description = [{
    ONNX RMSNormalization-23; scale (`norm_c1`) and statistics as in layer_norm.

    ```mlir
    %y, %r = graph.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>)
        -> (tensor<4x8xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$inv_rms);
}

def Graph_RmsNormGradOp : Graph_TensorOp<"rms_norm_grad", [Graph_Kernel]> {
  let summary = "gradients of rms_norm: d_input, d_scale";
  let description = [{
    Constraints `norm_c1`, `norm_c3`, `norm_c4` as in layer_norm_grad. Created by differentiate.

    ```mlir
    %dx, %ds = graph.rms_norm_grad %g, %x, %s, %r {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>)
        -> (tensor<4x8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$inv_rms, I64Attr:$axis);
  let results = (outs Graph_FloatTensor:$d_input, Graph_FloatTensor:$d_scale);
}

def Graph_AttentionOp : Graph_DiffOp<"attention", [Graph_KernelWith<["getFlops", "dependsOnMicroStep"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>, Graph_Strided]> {
  let summary = "softmax(scale Q K^T + mask) V";
  let description = [{
    query [B, H, S, D], key [B, Hk, L, D], value [B, Hk, L, Dv], all of rank 4 (`attention_c1`); one batch
    (`attention_c2`); Hk divides H, for grouped queries (`attention_c3`); key has the query's D (`attention_c4`) and the
    value's B, Hk, L (`attention_c5`). `mask` is bool (false = masked out) or float (added)
    (`attention_c7`), rank 4, each dimension 1 or that of [B, H, S, L] (`attention_c6`). `causal` masks
    key j > query i + L - S, `window` (1 or more, `attention_c11`) all that are so many keys or more away from it on
    either side. With `softcap` c, positive (`attention_c12`), scores are c tanh(scale Q K^T / c) before they are masked
    (Gemma 2, section 2). Fully masked rows give zeros with zero gradient (ONNX Attention-23). `lse`, [B, H, S] in
    fp32, is the log-sum-exp of each row (-inf when fully masked); probabilities are never stored. With `dropout`, in (0, 1),
    they are dropped as graph.dropout of that ratio and of id `dropout_id`, which comes with it (`attention_c10`), would drop
    them, [B, H, S, L]; `run` and `stride` are then that one's, of whole heads (`attention_c13`). With `views` all that has
    heads may be seen in other tensors, rows of D elements each in one piece (dialects/graph/View.h).

    ```mlir
    %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
        -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$query, Graph_FloatTensor:$key, Graph_FloatTensor:$value,
      Optional<Graph_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window,
      OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$dropout_id,
      OptionalAttr<I64Attr>:$run, OptionalAttr<I64Attr>:$stride, OptionalAttr<Graph_ViewsAttr>:$views);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$lse);
}

def Graph_AttentionGradOp : Graph_TensorOp<"attention_grad", [Graph_KernelWith<["getFlops", "dependsOnMicroStep"]>, Graph_Strided]> {
  let summary = "gradients of attention: d_query, d_key, d_value, [d_mask]; probabilities are recomputed from lse";
  let description = [{
    Constraints as in attention; grad, output and lse have the types of attention's results (`attention_c8`). With
    `mask_grad` there is a fourth gradient, of the mask's shape in lse's element type: the scores' own, summed over
    batches and heads that the mask broadcasts along. Such a mask is float and has an element for each query and key
    (`attention_c9`). With `views` the gradients of query, key and value may be parts of fewer results. Created by
    differentiate.

    ```mlir
    %dq, %dk, %dv = graph.attention_grad %g, %q, %k, %v, %y, %lse {scale = 0.5 : f64}
        : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
        -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$query, Graph_FloatTensor:$key,
      Graph_FloatTensor:$value, Graph_FloatTensor:$output, Graph_FloatTensor:$lse, Optional<Graph_Tensor>:$mask,
      F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap,
      OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$dropout_id, OptionalAttr<I64Attr>:$run,
      OptionalAttr<I64Attr>:$stride, UnitAttr:$mask_grad, OptionalAttr<Graph_ViewsAttr>:$views);
  let results = (outs Variadic<Graph_FloatTensor>:$gradients);
  let extraClassDeclaration = [{
    /// Can a mask that is added to scores of [queries, keys] have a gradient here?
    static bool hasMaskGradient(mlir::RankedTensorType mask, llvm::ArrayRef<int64_t> scores);
  }];
}

def Graph_CrossEntropyOp : Graph_DiffOp<"cross_entropy", [Graph_Indexing, Graph_Kernel, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "mean or sum of -log softmax(logits)[label] over rows whose label is not ignored";
  let description = [{
    ONNX SoftmaxCrossEntropyLoss-13 with reduction mean (default) or sum. logits [N, C] (`cross_entropy_c1`), labels [N]
    (`cross_entropy_c2`) in [0, C) or equal to `ignore_index`; others are a run-time error. `loss` is fp32 (f64 for f64
    logits), `lse` [N], of its type, is each row's log-sum-exp. All rows ignored: NaN, as torch.

    ```mlir
    %loss, %lse = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$logits, Graph_IndexTensor:$labels, I64Attr:$ignore_index, UnitAttr:$sum);
  let results = (outs Graph_FloatTensor:$loss, Graph_FloatTensor:$lse);
}

def Graph_CrossEntropyGradOp : Graph_TensorOp<"cross_entropy_grad", [Graph_KernelWith<["mayOverwrite"]>]> {
  let summary = "gradient of cross_entropy: (softmax(logits) - onehot(label)) * grad / count";
  let description = [{
    `grad` and `lse` have the types of cross_entropy's results (`cross_entropy_c3`, `cross_entropy_c4`). Ignored rows get
    zeros. May overwrite the logits (operand 1). Created by differentiate.

    ```mlir
    %d = graph.cross_entropy_grad %g, %x, %t, %lse {ignore_index = -100 : i64}
        : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$logits, Graph_IndexTensor:$labels,
      Graph_FloatTensor:$lse, I64Attr:$ignore_index, UnitAttr:$sum);
  let results = (outs Graph_FloatTensor:$d_logits);
}

def Graph_LinearCrossEntropyOp : Graph_DiffOp<"linear_cross_entropy", [Graph_KernelWith<["getFlops", "getOperandRole"]>]> {
  let summary = "cross_entropy of a linear layer's logits, which never exist as a whole";
  let description = [{
    cross_entropy (labels, `ignore_index`, `sum`, `loss`) of input weight + bias: input [N, K]; weight [K, C], or [C, K] with
    `trans_weight` (`linear_cross_entropy_c1`); labels [N] (`linear_cross_entropy_c2`); bias [C] (`linear_cross_entropy_c3`).
    Logits of at most `chunk` rows, at least one (`linear_cross_entropy_c4`), exist at a time, in the operands' type: how
    a kernel sums may depend on it. With a `cap`, above 0 (`linear_cross_entropy_c6`), the loss is that of
    cap tanh(logits / cap), which is computed in fp32. Not cut over the model axis. Created by fuse-head. Source: Liger's
    FusedLinearCrossEntropy (arXiv 2410.10989), Cut Cross-Entropy (arXiv 2411.09009).

    ```mlir
    %loss = graph.linear_cross_entropy %x, %t, %w {trans_weight, ignore_index = -100 : i64, chunk = 2 : i64}
        : (tensor<4x8xf32>, tensor<4xi64>, tensor<16x8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_IndexTensor:$labels, Graph_FloatTensor:$weight,
      Optional<Graph_FloatTensor>:$bias, UnitAttr:$trans_weight, I64Attr:$ignore_index, UnitAttr:$sum, I64Attr:$chunk,
      OptionalAttr<F64Attr>:$cap);
  let results = (outs Graph_FloatTensor:$loss);
}

def Graph_LinearCrossEntropyGradOp : Graph_TensorOp<"linear_cross_entropy_grad", [Graph_KernelWith<["getFlops"]>]> {
  let summary = "linear_cross_entropy's loss and gradients: d_input, d_weight, d_bias";
  let description = [{
    Makes the logits of each chunk, and of them the loss and the three gradients; `grad` has the loss's type
    (`linear_cross_entropy_c5`). There is a `d_bias` where there is a bias. In 16 bits sums over chunks are kept in fp32.
    Of a `frozen` layer, whose weight and bias are not trained, there is `d_input` only. Created by differentiate; join-loss
    then takes the loss from here, so that logits are made once.

    ```mlir
    %loss, %dx, %dw = graph.linear_cross_entropy_grad %g, %x, %t, %w {trans_weight, ignore_index = -100 : i64, chunk = 2 : i64}
        : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<16x8xf32>) -> (tensor<f32>, tensor<4x8xf32>, tensor<16x8xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_IndexTensor:$labels,
      Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias, UnitAttr:$trans_weight, I64Attr:$ignore_index,
      UnitAttr:$sum, I64Attr:$chunk, OptionalAttr<F64Attr>:$cap, UnitAttr:$frozen);
  let results = (outs Graph_FloatTensor:$loss, Graph_FloatTensor:$d_input, Variadic<Graph_FloatTensor>:$d_layer);
}

def Graph_LinearLogSoftmaxOp : Graph_DiffOp<"linear_log_softmax", [Graph_KernelWith<["getFlops", "getOperandRole"]>]> {
  let summary = "of a linear layer's log-softmaxes what losses take of each row: the label's, and shares of all";
  let description = [{
    With y the log-softmax of the logits that linear_cross_entropy has (its layer, its `cap`, its `chunk`): `picked` [N] is y of each
    row's label, `shared` [N] the sum over classes of `shares` [C] y, both in fp32, as shares are (`linear_log_softmax_c1`; f64 of f64
    inputs). Labels are taken as gather_elements takes indices: negative ones count from the end, others outside of the classes are a
    run-time error. Of these are made the losses that cross_entropy does not cover: class weights, label smoothing, masks.
    Shares get no gradient. Not cut over the model axis. Created by fuse-head.

    ```mlir
    %p, %s = graph.linear_log_softmax %x, %t, %v, %w {trans_weight, chunk = 2 : i64}
        : (tensor<4x8xf32>, tensor<4xi64>, tensor<16xf32>, tensor<16x8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_IndexTensor:$labels, Graph_FloatTensor:$shares,
      Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias, UnitAttr:$trans_weight, I64Attr:$chunk,
      OptionalAttr<F64Attr>:$cap);
  let results = (outs Graph_FloatTensor:$picked, Graph_FloatTensor:$shared);
}

def Graph_LinearLogSoftmaxGradOp : Graph_TensorOp<"linear_log_softmax_grad", [Graph_KernelWith<["getFlops"]>]> {
  let summary = "linear_log_softmax's results and gradients: d_input, d_weight, d_bias";
  let description = [{
    As linear_cross_entropy_grad; `by_picked` and `by_shared` have the types of the results (`linear_log_softmax_c2`). Created by
    differentiate; join-loss then takes the results from here.

    ```mlir
    %p, %s, %dx, %dw = graph.linear_log_softmax_grad %g, %h, %x, %t, %v, %w {trans_weight, chunk = 2 : i64}
        : (tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<16xf32>, tensor<16x8xf32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<16x8xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$by_picked, Graph_FloatTensor:$by_shared, Graph_FloatTensor:$input,
      Graph_IndexTensor:$labels, Graph_FloatTensor:$shares, Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias,
      UnitAttr:$trans_weight, I64Attr:$chunk, OptionalAttr<F64Attr>:$cap, UnitAttr:$frozen);
  let results = (outs Graph_FloatTensor:$picked, Graph_FloatTensor:$shared, Graph_FloatTensor:$d_input,
      Variadic<Graph_FloatTensor>:$d_layer);
}

def Graph_LabelIndexOp : Graph_TensorOp<"label_index", [Graph_Indexing, Graph_ElementwiseKernel]> {
  let summary = "labels as indices: checked, ignored ones replaced by 0";
  let description = [{
    A label is in [0, classes) or equal to `ignore_index`; others are a run-time error (a gather would take negative ones
    for positions from the end). `classes` is at least 1 (`label_index_c1`). Made by import for losses that cross_entropy
    does not cover.

    ```mlir
    %i = graph.label_index %t {classes = 8 : i64, ignore_index = -100 : i64} : (tensor<4xi64>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Graph_IndexTensor:$labels, I64Attr:$classes, I64Attr:$ignore_index);
  let results = (outs Graph_IndexTensor:$result);
}

def Graph_DropoutOp : Graph_DiffOp<"dropout", [Graph_KernelWith<["dependsOnMicroStep"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "zeroes elements with probability `ratio`, scales the rest by 1 / (1 - ratio)";
  let description = [{
    The mask is a pure function of (run seed, `id`, step, micro-step, rank, element index), Philox4x32-10, so that
    recomputation replays it. `id` differs between the dropouts of a graph. `ratio` is in [0, 1) (`dropout_c1`).

    Where the input is a rank's part of a tensor, the mask is that part of the whole's: element e of rank m of the model axis counts
    as element e / run * stride + m run + e mod run. `run` > 0 goes with `stride` >= run (`random_c2`). Created so by shard-tensors.

    ```mlir
    %y, %m = graph.dropout %x {ratio = 0.1 : f64, id = 3 : i64} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, F64Attr:$ratio, I64Attr:$id, OptionalAttr<I64Attr>:$run,
      OptionalAttr<I64Attr>:$stride);
  let results = (outs Graph_FloatTensor:$result, Graph_BoolTensor:$mask);
}

def Graph_DropoutMaskOp : Graph_TensorOp<"dropout_mask", [Graph_KernelWith<["dependsOnMicroStep"]>]> {
  let summary = "what dropout keeps: its mask alone";
  let description = [{
    The mask of graph.dropout with the same `ratio` (`dropout_c1`), `id` and place (`random_c2`), for a tensor of `shape`.
    Created by split-dropout: what it leaves of a tensor is dropout_grad's formula, which has a place in programs.

    ```mlir
    %m = graph.dropout_mask {shape = array<i64: 4, 8>, ratio = 0.1 : f64, id = 3 : i64} : () -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$shape, F64Attr:$ratio, I64Attr:$id, OptionalAttr<I64Attr>:$run,
      OptionalAttr<I64Attr>:$stride);
  let results = (outs Graph_BoolTensor:$result);
}

def Graph_DropoutGradOp : Graph_DiffOp<"dropout_grad", [Graph_ElementwiseKernel]> {
  let summary = "mask ? grad / (1 - ratio) : 0";
  let description = [{
    The gradient of dropout; `mask` has the shape of `grad` (`dropout_c2`). Created by differentiate, and by split-dropout
    of a dropout, which has the same formula.

    ```mlir
    %d = graph.dropout_grad %g, %m {ratio = 0.1 : f64} : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_BoolTensor:$mask, F64Attr:$ratio);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_RandomOp : Graph_TensorOp<"random", [Graph_KernelWith<["dependsOnMicroStep"]>]> {
  let summary = "random numbers: uniform in [0, 1), or standard normal";
  let description = [{
    A pure function of (run seed, `id`, step, micro-step, rank, element index), as dropout's mask. `type` is a float tensor
    (`random_c1`). `run` and `stride` as of dropout, for a rank's part (`random_c2`).

    ```mlir
    %y = graph.random {type = tensor<4xf32>, id = 3 : i64, normal} : () -> tensor<4xf32>
    ```
  }];
  let arguments = (ins TypeAttrOf<Graph_Tensor>:$type, I64Attr:$id, UnitAttr:$normal, OptionalAttr<I64Attr>:$run,
      OptionalAttr<I64Attr>:$stride);
  let results = (outs Graph_FloatTensor:$result);
}

#endif // ZC_GRAPH_MATH
