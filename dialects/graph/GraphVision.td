//===- GraphVision.td - convolutions, pooling, batch and group norm ----*- tablegen -*-===//
#ifndef ZC_GRAPH_VISION
#define ZC_GRAPH_VISION

include "dialects/graph/GraphBase.td"

// Operations here are written for activations [N, C, d...]. Under `channels_last` the activations, and what has their
// dimensions, are [N, d..., C] instead, and all else is the same: weights, windows, positions in a plane. Only
// propagate-layout sets it, and only kernels of CPUs know it.

/// Attributes of everything that slides a window over the spatial dimensions; one entry per dimension each.
defvar windowAttributes = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low);

def Graph_ConvOp : Graph_DiffOp<"conv",
    [Graph_LayoutWith<["getActivations", "getRearrangedElements"]>, Graph_KernelWith<["getFlops", "getOperandRole"]>,
    Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "convolution (cross-correlation) over the spatial dimensions, in groups of channels";
  let description = [{
    ONNX Conv-22 with explicit padding. input [N, C, d...] and weight [M, C / groups, k...] have one rank, at least 3
    (`conv_c1`). `groups` divides C and M (`conv_c2`) and the weight has C / groups channels (`conv_c3`). bias has M
    elements (`conv_c4`). Window attributes have one entry per spatial dimension (`window_c1`), strides, dilations and
    kernel are positive and all amounts below 2^31 (`window_c2`). `low` and `high` zeros are added before and after;
    negative amounts crop; the dilated kernel fits into what results (`conv_c5`). Result: [N, M, o...], o = (low + d + high -
    dilation (k - 1) - 1) / stride + 1, rounded down.

    ```mlir
    %y = graph.conv %x, %w {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64}
        : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) -> tensor<2x4x4xf32>
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$input, Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias),
      windowAttributes, (ins DenseI64ArrayAttr:$high, I64Attr:$groups, UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_ConvTransposeOp : Graph_DiffOp<"conv_transpose", [Graph_LayoutWith<["getActivations", "getRearrangedElements"]>,
    Graph_KernelWith<["getFlops", "getOperandRole"]>,
    Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "the adjoint of conv with respect to its input: spreads each element over its window";
  let description = [{
    ONNX ConvTranspose-22, and the gradient of conv. input [N, M, o...], weight [M, C / groups, k...], bias of C elements
    (`conv_c4`); result [N, C, sizes...]. A conv of the result with this weight and these attributes has the input's
    shape (`conv_transpose_c1`); constraints of conv hold for it.

    ```mlir
    %y = graph.conv_transpose %x, %w
        {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, sizes = array<i64: 8>}
        : (tensor<2x4x4xf32>, tensor<4x3x3xf32>) -> tensor<2x3x8xf32>
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$input, Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias),
      windowAttributes, (ins DenseI64ArrayAttr:$high, I64Attr:$groups, DenseI64ArrayAttr:$sizes,
          UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_ConvWeightGradOp : Graph_DiffOp<"conv_weight_grad",
    [Graph_LayoutWith<["getActivations", "getRearrangedElements"]>, Graph_KernelWith<["getFlops"]>]> {
  let summary = "gradient of conv with respect to its weight";
  let description = [{
    A conv of `input` with a weight of the result's shape, [M, C / groups, kernel...], has the shape of `grad`
    (`conv_weight_grad_c1`). Created by differentiate.

    ```mlir
    %d = graph.conv_weight_grad %x, %g
        {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, kernel = array<i64: 3>}
        : (tensor<2x3x8xf32>, tensor<2x4x4xf32>) -> tensor<4x3x3xf32>
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$input, Graph_FloatTensor:$grad), windowAttributes,
      (ins DenseI64ArrayAttr:$high, I64Attr:$groups, DenseI64ArrayAttr:$kernel, UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_MaxPoolOp : Graph_DiffOp<"max_pool", [Graph_LayoutWith<["getActivations"]>, Graph_KernelWith<["getFlops"]>, Graph_Sharded]> {
  let summary = "largest element of each window, and where it is";
  let description = [{
    input [N, C, d...] of rank 3 or more (`pool_c1`); `sizes` windows per spatial dimension, window i beginning at
    i * stride - low. What lies outside the input does not count. `window_c1`, `window_c2` as in conv; a plane has fewer
    than 2^31 elements (`pool_c2`). `indices`: the first maximum's row-major position in its plane (NaN is largest), -1
    for a window without elements, whose result is -inf.

    ```mlir
    %y, %i = graph.max_pool %x
        {kernel = array<i64: 3>, strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, sizes = array<i64: 4>}
        : (tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi32>)
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$input, DenseI64ArrayAttr:$kernel), windowAttributes,
      (ins DenseI64ArrayAttr:$sizes, UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result, Graph_IndexTensor:$indices);
}

def Graph_MaxPoolGradOp : Graph_DiffOp<"max_pool_grad", [Graph_LayoutWith<["getActivations", "buildChannelsLast"]>, Graph_Kernel]> {
  let summary = "zeros of `shape`, gradients added at the positions of the maxima, in window order";
  let description = [{
    `grad` and `indices` have the shapes of max_pool's results (`pool_grad_c1`): `shape` before the spatial dimensions.
    Created by differentiate.

    ```mlir
    %d = graph.max_pool_grad %g, %i {shape = array<i64: 2, 3, 8>} : (tensor<2x3x4xf32>, tensor<2x3x4xi32>) -> tensor<2x3x8xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_IndexTensor:$indices, DenseI64ArrayAttr:$shape,
      UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_SumPoolOp : Graph_DiffOp<"sum_pool", [Graph_LayoutWith<["getActivations"]>, Graph_KernelWith<["getFlops"]>, Graph_Sharded]> {
  let summary = "sum of each window; what lies outside the input counts as zero";
  let description = [{
    Windows and constraints as in max_pool. An average divides by the number of elements that should count.

    ```mlir
    %y = graph.sum_pool %x
        {kernel = array<i64: 3>, strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, sizes = array<i64: 4>}
        : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$input, DenseI64ArrayAttr:$kernel), windowAttributes,
      (ins DenseI64ArrayAttr:$sizes, UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_SumPoolGradOp : Graph_DiffOp<"sum_pool_grad", [Graph_LayoutWith<["getActivations", "buildChannelsLast"]>,
    Graph_KernelWith<["getFlops"]>]> {
  let summary = "gradient of sum_pool: zeros of `shape`, each gradient added to all elements of its window";
  let description = [{
    `grad` has the shape sum_pool gives for `shape` (`pool_grad_c1`). Created by differentiate.

    ```mlir
    %d = graph.sum_pool_grad %g
        {kernel = array<i64: 3>, strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, shape = array<i64: 2, 3, 8>}
        : (tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
    ```
  }];
  let arguments = !con((ins Graph_FloatTensor:$grad, DenseI64ArrayAttr:$kernel), windowAttributes,
      (ins DenseI64ArrayAttr:$shape, UnitAttr:$channels_last));
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_BatchNormOp : Graph_DiffOp<"batch_norm", [Graph_Separable, Graph_LayoutWith<["getActivations"]>,
    Graph_KernelWith<["getOperandRole"]>, Graph_Sharded]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias per channel, with the batch's own statistics";
  let description = [{
    ONNX BatchNormalization-15 in training mode. input [N, C, ...] of rank 2 or more (`batch_norm_c1`), scale and bias of
    C elements (`batch_norm_c2`). `mean` and `variance` (population: divided by the number of elements), C elements in fp32
    (f64 for f64), are of this batch on this rank.

    ```mlir
    %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
        -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Graph_FloatTensor:$bias, F64Attr:$epsilon,
      UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$mean, Graph_FloatTensor:$variance);
}

def Graph_BatchNormGradOp : Graph_TensorOp<"batch_norm_grad", [Graph_Separable, Graph_LayoutWith<["getActivations"]>, Graph_Kernel]> {
  let summary = "gradients of batch_norm: d_input, d_scale, d_bias";
  let description = [{
    `grad` has the input's type (`batch_norm_c3`), the statistics those batch_norm gives (`batch_norm_c4`). Created by
    differentiate.

    ```mlir
    %dx, %ds, %db = graph.batch_norm_grad %g, %x, %s, %m, %v {epsilon = 1.0e-5 : f64}
        : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$d_input, Graph_FloatTensor:$d_scale, Graph_FloatTensor:$d_bias);
}

def Graph_BatchNormStatisticsOp : Graph_TensorOp<"batch_norm_statistics", [Graph_Kernel]> {
  let summary = "what batch_norm sums, and what then makes its result of an element";
  let description = [{
    Constraints `batch_norm_c1`, `batch_norm_c2` as in batch_norm, whose statistics `mean` and `variance` are. Its result is
    (x - mean) * factor + shift, of fp32 (f64 for f64), as `factor`, scale / sqrt(variance + epsilon), and `shift`, the bias, are.
    Made by split-sums.

    ```mlir
    %m, %v, %f, %t = graph.batch_norm_statistics %x, %s, %b {epsilon = 1.0e-5 : f64, channels_last}
        : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Graph_FloatTensor:$bias, F64Attr:$epsilon,
      UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, Graph_FloatTensor:$factor,
      Graph_FloatTensor:$shift);
}

def Graph_BatchNormGradSumsOp : Graph_TensorOp<"batch_norm_grad_sums", [Graph_Kernel, Graph_TakesProgram]> {
  let summary = "what batch_norm_grad sums, and what then makes d_input of an element";
  let description = [{
    Constraints `batch_norm_c3`, `batch_norm_c4` as in batch_norm_grad, whose d_scale and d_bias these are. Its d_input is
    factor * ((g - mean_grad) - (x - mean) * slope), of fp32 (f64 for f64), as `factor`, `mean_grad` and `slope` are. Made by split-sums.

    ```mlir
    %ds, %db, %f, %a, %s = graph.batch_norm_grad_sums %g, %x, %c, %m, %v {epsilon = 1.0e-5 : f64, channels_last}
        : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$d_scale, Graph_FloatTensor:$d_bias, Graph_FloatTensor:$factor,
      Graph_FloatTensor:$mean_grad, Graph_FloatTensor:$slope);
}

def Graph_BatchNormApplyOp : Graph_DiffOp<"batch_norm_apply",
    [Graph_LayoutWith<["getActivations"]>, Graph_KernelWith<["getOperandRole"]>, Graph_Sharded]> {
  let summary = "batch norm with given statistics (evaluation mode), which get no gradient";
  let description = [{
    Constraints `batch_norm_c1`, `batch_norm_c2` as in batch_norm; mean and variance have the scale's type
    (`batch_norm_c5`).

    ```mlir
    %y = graph.batch_norm_apply %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64}
        : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Graph_FloatTensor:$bias,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_GroupNormOp : Graph_DiffOp<"group_norm", [Graph_Separable, Graph_LayoutWith<["getActivations"]>,
    Graph_KernelWith<["getOperandRole"]>, Graph_ShardedBy<["cutAlong", "buildParts"]>]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias with the statistics of each sample's groups of channels";
  let description = [{
    ONNX GroupNormalization-21; with as many groups as channels, InstanceNormalization-6. input [N, C, ...] of rank 2 or more
    (`group_norm_c1`), of which `groups` divides C (`group_norm_c2`), scale and bias of C elements (`group_norm_c3`). `mean` and
    `variance` (population) have one element of fp32 (f64 for f64) per sample and group.

    ```mlir
    %y, %m, %v = graph.group_norm %x, %s, %b {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>)
        -> (tensor<2x4x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Graph_FloatTensor:$bias, I64Attr:$groups,
      F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$mean, Graph_FloatTensor:$variance);
}

def Graph_GroupNormGradOp : Graph_TensorOp<"group_norm_grad", [Graph_Separable, Graph_LayoutWith<["getActivations"]>, Graph_Kernel]> {
  let summary = "gradients of group_norm: d_input, d_scale, d_bias";
  let description = [{
    `grad` has the input's type (`group_norm_c4`), the statistics those group_norm gives (`group_norm_c5`). Created by
    differentiate.

    ```mlir
    %dx, %ds, %db = graph.group_norm_grad %g, %x, %s, %m, %v {groups = 2 : i64, epsilon = 1.0e-5 : f64}
        : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
        -> (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, I64Attr:$groups, F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$d_input, Graph_FloatTensor:$d_scale, Graph_FloatTensor:$d_bias);
}

def Graph_GroupNormStatisticsOp : Graph_TensorOp<"group_norm_statistics", [Graph_Kernel]> {
  let summary = "what group_norm sums, and what then makes its result of an element";
  let description = [{
    Constraints `group_norm_c1` to `group_norm_c3` as in group_norm, whose statistics `mean` and `variance` are. Its result is
    (x - centre) * factor + shift, of fp32 (f64 for f64), as `centre`, the mean, `factor`, scale / sqrt(variance + epsilon), and `shift`,
    the bias, are: one element per sample and channel, in the input's dimensions, so that they broadcast. Made by split-sums.

    ```mlir
    %m, %v, %c, %f, %t = graph.group_norm_statistics %x, %s, %b {groups = 2 : i64, epsilon = 1.0e-5 : f64, channels_last}
        : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>)
        -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, Graph_FloatTensor:$bias, I64Attr:$groups,
      F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, Graph_FloatTensor:$centre,
      Graph_FloatTensor:$factor, Graph_FloatTensor:$shift);
}

def Graph_GroupNormGradSumsOp : Graph_TensorOp<"group_norm_grad_sums", [Graph_Kernel]> {
  let summary = "what group_norm_grad sums, and what then makes d_input of an element";
  let description = [{
    Constraints `group_norm_c4`, `group_norm_c5` as in group_norm_grad, whose d_scale and d_bias these are. Its d_input is
    factor * g - ((x - centre) * slope + offset), of fp32 (f64 for f64), as `centre`, `factor`, `slope` and `offset` are: one element per
    sample and channel, in the input's dimensions. Made by split-sums.

    ```mlir
    %ds, %db, %c, %f, %s, %o = graph.group_norm_grad_sums %g, %x, %w, %m, %v {groups = 2 : i64, epsilon = 1.0e-5 : f64, channels_last}
        : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>)
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
      Graph_FloatTensor:$mean, Graph_FloatTensor:$variance, I64Attr:$groups, F64Attr:$epsilon, UnitAttr:$channels_last);
  let results = (outs Graph_FloatTensor:$d_scale, Graph_FloatTensor:$d_bias, Graph_FloatTensor:$centre,
      Graph_FloatTensor:$factor, Graph_FloatTensor:$slope, Graph_FloatTensor:$offset);
}

def Graph_MovingAverageOp : Graph_SameTypeOp<"moving_average", [Graph_ElementwiseKernel, Graph_StopsGradient]> {
  let summary = "momentum * old + (1 - momentum) * factor * new, elementwise";
  let description = [{
    How running statistics follow those of the batches, without a gradient as in torch; its result is assigned to the buffer that `old` was read from.
    `factor` is N / (N - 1) where the sample variance is kept although `new` is that of the population. Created by import.

    ```mlir
    %r = graph.moving_average %old, %new {momentum = 0.9 : f64, factor = 1.0 : f64} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$old, Graph_FloatTensor:$new_value, F64Attr:$momentum, F64Attr:$factor);
  let results = (outs Graph_FloatTensor:$result);
}

#endif // ZC_GRAPH_VISION
