//===- FusionPasses.td - views and programs of a training step ----*- tablegen -*-===//
#ifndef ZC_GRAD_FUSION_PASSES
#define ZC_GRAD_FUSION_PASSES

include "mlir/Pass/PassBase.td"

def HoistReversals : Pass<"hoist-reversals", "::mlir::ModuleOp"> {
  let summary = "parts of rows are turned around before element-wise operations, not behind them";
  let description = [{
    In: a training step, or one that is evaluated, as it will be partitioned. Out, under `views=on`: where the parts of each row of what
    an element-wise operation makes for this alone are put in the other order (reshape, slice backwards, reshape), and one operand
    of it is as large as its result and all others at most an eighth of that, the operands are turned around instead. Of the small ones once for all
    who need it. The bits stay.

    ```mlir
    %p = graph.mul %g, %s : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %a = graph.reshape %p {shape = array<i64: 64, 2, 16>} : (tensor<64x32xf32>) -> tensor<64x2x16xf32>
    %t = graph.slice %a {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 64, 2, 16>, strides = array<i64: 1, -1, 1>} : ...
    %y = graph.reshape %t {shape = array<i64: 64, 32>} : (tensor<64x2x16xf32>) -> tensor<64x32xf32>
    // becomes, %h and %r being %g and %s so turned around
    %y = graph.mul %h, %r : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createHoistReversals()";
  let statistics = [Statistic<"hoisted", "hoisted", "operations behind the turn then">];
}

def FoldViews : Pass<"fold-views", "::mlir::ModuleOp"> {
  let summary = "operations that can read and write inside of larger tensors do so, without copies";
  let description = [{
    In: a training step, or one that is evaluated, as it will be partitioned. Out, under `views=on`:
    operations that are `Strided` read what was copied for them by slice and transpose, with the reshapes between, where it is,
    and write what was transposed and concatenated behind them where it is to be; which is their attribute `views`. Results
    of one operation that a concat joins become one.

    Of what is read, a copy is left out where nobody else reads it, and where the copies from one tensor have as many elements
    together as the tensor has: that then lives in their stead. Parameters are copied still, so that they are let go where
    their layer ends. Of what is written, one where everybody else who reads the result can read it where it is. The bits are
    those of the copies.

    ```mlir
    %s = graph.slice %x {offsets = array<i64: 0, 0, 0>, ...} : (tensor<2x5x12xf32>) -> tensor<2x5x4xf32>
    %r = graph.reshape %s {shape = array<i64: 2, 5, 1, 4>} : (tensor<2x5x4xf32>) -> tensor<2x5x1x4xf32>
    %q = graph.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x1x4xf32>) -> tensor<2x1x5x4xf32>
    %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64} : ...
    // becomes, with %k and %v from the other two thirds
    %y, %lse = graph.attention %x, %x, %x
        {scale = 0.5 : f64, views = #graph.views<[<0 + 0 [2, 1, 5, 4] by [60, 4, 12, 1]>, <1 + 4 ...>, ...] -> [...]>} : ...
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createFoldViews()";
  let statistics = [Statistic<"reads", "reads", "operands read where they are">,
                    Statistic<"writes", "writes", "results written where they are to be">];
}

def SplitSums : Pass<"split-sums", "::mlir::ModuleOp"> {
  let summary = "norms become their sums and element-wise operations";
  let description = [{
    In: a training step, or one that is evaluated, as it will be partitioned. Out, under `fuse=on`: an operation
    that is `Separable`, sums first and then computes element by element with the sums, is that, where operations of
    its result's shape around it are elementwise as well: fuse-elementwise makes them one. The bits are those of the whole.

    ```mlir
    %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64, channels_last} : ...
    // becomes
    %m, %v, %f, %t = graph.batch_norm_statistics %x, %s, %b {epsilon = 1.0e-5 : f64, channels_last} : ...
    %c = graph.sub %x, %m : (tensor<2x4x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
    %p = graph.mul %c, %f : ...
    %y = graph.add %p, %t : ...
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createSplitSums()";
  let statistics = [Statistic<"split", "split", "operations made sums and element-wise work">];
}

def FuseEpilogues : Pass<"fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "products compute the gelu's gradient that follows them";
  let description = [{
    In: a training step, as it will be partitioned. Out, under `fuse=on` and where `target`'s library does so (cuBLASLt's epilogues, of
    16-bit numbers): a gelu_grad {tanh} and the product of matrices that it alone reads, views apart, are a graph.linear_gelu_grad: two
    passes over a layer's largest activation less. On ranks that share a sample, and of weights that are tiled, products stay. The gelu
    itself stays too: recomputed of what is kept it would not have the bits of one that was computed before rounding.

    ```mlir
    %p = graph.matmul %g, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    %d = graph.gelu_grad %p, %u {tanh} : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
    // becomes
    %d = graph.linear_gelu_grad %g, %w, %u : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createFuseEpilogues()";
  let statistics = [Statistic<"fused", "fused", "products that compute a gelu's gradient">];
}

def FuseGatherGrad : Pass<"fuse-gather-grad", "::mlir::ModuleOp"> {
  let summary = "a lookup's gradient is added onto another gradient of its table";
  let description = [{
    In: a training step, as it will be partitioned. Out, under `fuse=on`: a gather_grad that only an addition reads, to another tensor,
    adds its sums onto that one (`onto`), so that an embedding tied to its head has one gradient of its size, of which only rows of the
    batch are read and written again. Tables that are tiled stay. The bits are those of the two apart, but that a zero keeps its sign.

    ```mlir
    %d = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
    %s = graph.add %w, %d : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    // becomes
    %s = graph.gather_grad %g, %i, %w {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<64x8xf32>)
        -> tensor<64x8xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createFuseGatherGrad()";
  let statistics = [Statistic<"fused", "fused", "gradients that are added onto another one">];
}

def SplitDropout : Pass<"split-dropout", "::mlir::ModuleOp"> {
  let summary = "a dropout beside element-wise operations becomes its mask and a formula that fuses";
  let description = [{
    In: a training step before fuse-elementwise. Out, under `fuse=on`: a graph.dropout of fp32, bf16 or fp16 whose operand an
    element-wise operation of its shape makes, or whose result one reads, is a graph.dropout_mask and a graph.dropout_grad, whose
    formula is dropout's too. The bits stay.

    ```mlir
    // %y, %m = graph.dropout %x {ratio = 0.1 : f64, id = 3 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    // %z = graph.add %r, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %m = graph.dropout_mask {shape = array<i64: 4>, ratio = 0.1 : f64, id = 3 : i64} : () -> tensor<4xi1>
    %y = graph.dropout_grad %x, %m {ratio = 0.1 : f64} : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
    %z = graph.add %r, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createSplitDropout()";
}

def SplitRows : Pass<"split-rows", "::mlir::ModuleOp"> {
  let summary = "programs that read parts of rows backwards compute on these parts";
  let description = [{
    In: a training step, or one that is evaluated, behind fuse-elementwise. Out, under `views=on`: a graph.fused, an operand of which is
    rows whose parts were put in the other order (reshape, slice backwards, reshape), computes on tensors of one dimension more, in which the parts
    are: so fold-views can show it them where they are. Reshapes around it rename. The bits stay.

    ```mlir
    %a = graph.reshape %x {shape = array<i64: 4, 2, 8>} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
    %t = graph.slice %a {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 4, 2, 8>, strides = array<i64: 1, -1, 1>} : ...
    %r = graph.reshape %t {shape = array<i64: 4, 16>} : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
    %y = graph.fused %x, %r {program = ...} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    // becomes
    %b = graph.reshape %x {shape = array<i64: 4, 2, 8>} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
    %z = graph.fused %b, %t {program = ...} : (tensor<4x2x8xf32>, tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
    %y = graph.reshape %z {shape = array<i64: 4, 16>} : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createSplitRows()";
}

def FuseElementwise : Pass<"fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "chains of element-wise operations become one program each";
  let description = [{
    In: a training step, or one that is evaluated, as it will be partitioned: what is recomputed and where gradients go is
    decided. Out, under `fuse=on` and where `target` has a kernel: element-wise operations of one result shape that feed each other
    (arithmetic, comparisons, select, activations and their gradients, casts among fp32, bf16, fp16 and bool), with the broadcasts
    (graph.expand) and constants they read, are a graph.fused at the place of the last one; so are those that read the same tensor.
    Before that an operation moves up to an element-wise one that makes its operand, where as much dies with it as it makes. A
    value that only members read is never in memory. The bits are those of the operations one by one. Not fused: across graph.backward; a value
    that somebody before the last member reads; an operation whose move would keep more bytes alive than it saves, or a
    parameter longer.

    An operation that takes programs (`TakesProgram`: sums of a gradient) reads what is made for its first operand alone while the
    program computes it, as a graph.fused_into. What arithmetic makes of tensors that a program reads anyway, and of vectors, is
    computed again in it instead of read: a relu's result of the norm's input. So is what it makes of one more tensor, where nobody
    then needs the result. What would be saved for the program alone may cost a function, too: silu of a gated layer, whose gradient reads
    silu's operand.

    ```mlir
    %z = graph.constant dense<0.0> : tensor<f32>
    %c = graph.less %z, %x : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %y = graph.select %c, %g, %z : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    // becomes
    %y = graph.fused %x, %g {program = array<i64: 3, 1, 0, 0, 11, 3, 2, 0, 3, 0, 3, 1, 2, 0, 4>} : (tensor<2x3xf32>, tensor<2x3xf32>)
        -> tensor<2x3xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createFuseElementwise()";
  let statistics = [Statistic<"groups", "groups", "programs made">,
                    Statistic<"fused", "fused operations", "operations that are part of one">];
}

#endif // ZC_GRAD_FUSION_PASSES
