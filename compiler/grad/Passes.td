//===- Passes.td - from the forward graph to a training step ----*- tablegen -*-===//
#ifndef ZC_GRAD_PASSES
#define ZC_GRAD_PASSES

include "mlir/Pass/PassBase.td"

def ConvertPrecision : Pass<"convert-precision", "::mlir::ModuleOp"> {
  let summary = "computes the micro-step in bf16 or f16 where f32 is not needed";
  let description = [{
    In: the f32 `micro` program of import. Out: the same program with trainable and frozen parameters and what is
    computed from them (or from float inputs) in bf16 (or f16, for which read bf16). Three classes of f32 values, with a
    cast at each border:

    - constant: depends on no parameter and no float input (RoPE tables, masks, buffers). Stays f32. What of it is beyond
      f16's range becomes the largest number of f16; what is finite and beyond bf16's the largest of bf16.
    - narrow: becomes bf16.
    - wide: results that the dialect keeps in f32 (statistics, lse, the loss of cross_entropy), reductions of everything
      to one number, and whatever is computed from these. Stays f32.

    An operation with a wide operand is computed in f32, else with a narrow operand in bf16. What the program returns and
    assigns keeps its type. Runs before differentiate, so that gradients take the types of the values they belong to.

    ```mlir
    %w = graph.read @w : tensor<8x8xf32>     ->   %w = graph.read @w : tensor<8x8xbf16>
    ```
  }];
  let constructor = "::zc::createConvertPrecision()";
  let statistics = [Statistic<"parameters", "parameters", "parameters converted">,
                    Statistic<"casts", "casts", "casts at the borders">];
}

def ExpandDropout : Pass<"expand-dropout", "::mlir::ModuleOp"> {
  let summary = "attention that drops probabilities becomes plain operations";
  let description = [{
    In: a forward program. Out: in place of each graph.attention with `dropout` its products, softmax and graph.dropout, which draws
    the same numbers. Under `kernels-of=cuda` and without a model axis those of 16 bits stay, which tensor cores compute in one operation.
    Before shard-tensors: numbers are counted by the index in the whole, of which an attention on some of the heads knows nothing.

    ```mlir
    %y, %lse = graph.attention %q, %k, %v {scale = 1.0 : f64, dropout = 0.1 : f64, dropout_id = 3 : i64} : ...
    // becomes
    %s = graph.matmul %q, %k {trans_rhs} : ...
    %p = graph.softmax %s {axis = 3 : i64, zero_masked} : ...
    %d, %m = graph.dropout %p {ratio = 0.1 : f64, id = 3 : i64} : ...
    %y = graph.matmul %d, %v : ...
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createExpandDropout()";
  let statistics = [Statistic<"expanded", "expanded", "attentions that became plain operations">];
}

def Differentiate : Pass<"differentiate", "::mlir::ModuleOp"> {
  let summary = "reverse mode: appends the backward to the micro-step";
  let description = [{
    In: a `micro` program whose first result is a scalar float, the loss. Out: the program with its backward behind it,
    one `graph.accumulate_grad` per trainable parameter, placed as early as the gradient is complete, and only the loss
    returned. Only what lies between a trainable parameter and the loss is differentiated. Contributions to a value are
    added in the order in which the reverse sweep meets them; all reads of a parameter are summed once. A trainable
    parameter without a path to the loss is frozen, with a warning: gradients stop at integers and at what `StopsGradient`.
    Any other operation without a derivative that one would go through is an error. A gradient op's location is its forward op's. With
    `precision=fp16` the gradient of the loss is `graph.loss_scale` instead of 1, and so every gradient is multiplied by
    it. A buffer that forward assigns, and computes with besides, is assigned at the end: backward reads what forward read.

    ```mlir
    %l = graph.reduce_sum %w {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    graph.return %l : tensor<f32>
    // becomes
    %l = graph.reduce_sum %w {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    %one = graph.constant dense<1.0> : tensor<f32>
    %r = graph.reshape %one {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
    %g = graph.expand %r {shape = array<i64: 4>} : (tensor<1xf32>) -> tensor<4xf32>
    graph.accumulate_grad @w, %g : tensor<4xf32>
    graph.return %l : tensor<f32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createDifferentiate()";
  let statistics = [Statistic<"forward", "forward ops", "forward operations differentiated">,
                    Statistic<"backward", "backward ops", "operations of the backward">,
                    Statistic<"frozen", "frozen parameters", "trainable parameters without a gradient">];
}

def LossMean : Pass<"loss-mean", "::mlir::ModuleOp"> {
  let summary = "the loss as numerator and weight of a mean over all ranks and micro-steps";
  let description = [{
    In: the `micro` program before differentiate. Out, under `loss-mean=global`: where the loss is a mean over labels that count, S / c, it
    returns S / n and c / n, n the number of all labels, marked `weighted`, and so is the module's `graph.training`; a program to be
    evaluated returns c / n as one more output, the `weight` of its `graph.outputs`. A mean over what is equally much on every rank stays.
    Fails where the loss is something else, as the sum of two means. With `loss-mean=rank` nothing changes: each rank and micro-step has its
    mean, and these are averaged, as in torch's DDP.

    ```mlir
    %l, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : ...
    graph.return %l : tensor<f32>
    // becomes, with %w from the labels
    %l, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64, sum} : ...
    %d = graph.div %l, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.return weighted %d, %w : tensor<f32>, tensor<f32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createLossMean()";
  let statistics = [Statistic<"weighted", "weighted losses", "losses that are a mean over a varying weight">];
}

def RepeatKeys : Pass<"repeat-keys", "::mlir::ModuleOp"> {
  let summary = "grouped queries: heads of keys and values, fewer than there are ranks, are repeated, one for each rank";
  let description = [{
    In: a forward program. Out, under `model-ranks` that the heads of keys divide and that divide those of queries: attention with as many
    heads of keys and values as there are ranks, so that shard-tensors can give each rank the one of its queries. The gradients of
    repeated heads are summed. A single head (multi-query attention) is what all ranks have and stays, as does attention that drops, which
    expand-dropout gives a head of keys for each of queries. Fails where attention has several heads, but fewer than there are ranks.

    ```mlir
    %y, %lse = graph.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<1x8x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> ...
    // becomes, for 4 ranks
    %e = graph.expand ... : (tensor<1x2x1x3x4xf32>) -> tensor<1x2x2x3x4xf32>
    %r = graph.reshape %e {shape = array<i64: 1, 4, 3, 4>} : (tensor<1x2x2x3x4xf32>) -> tensor<1x4x3x4xf32>
    %y, %lse = graph.attention %q, %r, %r {scale = 1.0 : f64} : (tensor<1x8x3x4xf32>, tensor<1x4x3x4xf32>, tensor<1x4x3x4xf32>) -> ...
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createRepeatKeys()";
  let statistics = [Statistic<"repeated", "repeated", "attentions whose keys and values are repeated">];
}

def ShardTensors : Pass<"shard-tensors", "::mlir::ModuleOp"> {
  let summary = "tensor parallelism: weights and the work on them cut over the ranks of the model axis";
  let description = [{
    In: the `micro` program before differentiate. Out, under `model-ranks` of more than one: the program that each rank of the model
    axis executes on its parts. Parameters that are cut have a rank's type and say of what (`#graph.cut`); the module says how many
    ranks there are. What is cut follows from each operation's sharding rule (`Shardable`), not from names: the hidden units of an MLP
    from the columns of one weight to the rows of the next, attention by heads, embeddings and heads by vocabulary, with a
    cross-entropy of the cut logits. A whole value that each rank reads for its own part diverges there; a sum over what is cut is an
    all_reduce. What cannot be cut stays whole, with equal bits on all ranks. Fails, with a reason for each weight, where nothing
    can be cut. Source: Megatron-LM (arXiv 1909.08053); rules as those of shardy.

    With `sequence-parallel` what is whole between the regions that are cut (residuals, norms, dropouts) is computed by each rank for
    some rows: sums over ranks become reduce_scatter, and an all_gather stands where a cut weight reads. Scales and biases used there
    diverge. Fails where no rows can be cut. Source: Korthikanti et al. (arXiv 2205.05198, section 4.2.2).

    ```mlir
    %h = graph.matmul %x, %w1 : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
    %y = graph.matmul %h, %w2 : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
    // becomes
    %d = graph.diverge %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %h = graph.matmul %d, %w1 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %p = graph.matmul %h, %w2 : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %y = graph.all_reduce %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createShardTensors()";
  let statistics = [Statistic<"cut", "cut", "parameters cut">, Statistic<"kept", "kept", "parameters kept whole">,
                    Statistic<"rows", "rows", "operations on some rows each">];
}

def FuseHead : Pass<"fuse-head", "::mlir::ModuleOp"> {
  let summary = "a linear layer and the cross-entropy of its logits become one operation";
  let description = [{
    In: the `micro` program, or one that is evaluated, before differentiate. Out, unless under `fuse=off`: a matmul of rows with a matrix
    (and a bias) whose result goes into cross_entropy, and nowhere else, is a graph.linear_cross_entropy: its logits exist for a chunk of
    rows at a time. In between may stand what leaves the classes alone: reshapes, slices of rows (which are then taken from the layer's
    input), casts from 16 bits, a number for each class that is added (which goes to the bias) and a constant that all are multiplied by or
    divided by (so are the layer's input and its bias then, if 16 bits have it exactly). What training no longer returns (differentiate drops all but the loss) is no other use. Chunks have up to
    512 rows, on GPUs 4096. Stays where less than 8 MiB would be saved (few rows; in 16 bits few rows beside the layer's width, as sums over
    chunks are kept in fp32), where input or weight is not trained, and where the weight has more bytes than `largest-whole`, as
    zero-tile-linear cuts it.

    ```mlir
    %l = graph.matmul %x, %w {trans_rhs} : (tensor<2048x64xf32>, tensor<8192x64xf32>) -> tensor<2048x8192xf32>
    %loss, %e = graph.cross_entropy %l, %t {ignore_index = -100 : i64} : (tensor<2048x8192xf32>, tensor<2048xi64>)
        -> (tensor<f32>, tensor<2048xf32>)
    // becomes
    %loss = graph.linear_cross_entropy %x, %t, %w {chunk = 512 : i64, ignore_index = -100 : i64, trans_weight}
        : (tensor<2048x64xf32>, tensor<2048xi64>, tensor<8192x64xf32>) -> tensor<f32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createFuseHead()";
  let statistics = [Statistic<"heads", "heads", "layers and losses joined">];
}

def JoinLoss : Pass<"join-loss", "::mlir::ModuleOp"> {
  let summary = "a fused head's loss comes from where its gradient is computed";
  let description = [{
    In: a `micro` program after differentiate. Out: where the gradient that arrives at a graph.linear_cross_entropy does not depend on
    its loss (a constant, a loss scale), graph.linear_cross_entropy_grad gives the loss too, and what was computed from
    it stands behind that, in the backward: the logits are made once, and the weight is gathered once. Elsewhere they
    are made again in the backward.

    ```mlir
    %loss = graph.linear_cross_entropy %x, %t, %w {...} : ...
    graph.backward
    %l, %dx, %dw = graph.linear_cross_entropy_grad %one, %x, %t, %w {...} : ...
    graph.return %loss : tensor<f32>
    // becomes
    graph.backward
    %l, %dx, %dw = graph.linear_cross_entropy_grad %one, %x, %t, %w {...} : ...
    graph.return %l : tensor<f32>
    ```
  }];
  let statistics = [Statistic<"joined", "joined", "losses taken from the backward">];
}

def PropagateLayout : Pass<"propagate-layout", "::mlir::ModuleOp"> {
  let summary = "chains of convolutions compute on channels-last activations";
  let description = [{
    In: the `micro` program with its backward, or one that is evaluated, activations [N, C, d...]. Out, under
    `layout=auto`: chains of convolutions, norms, pools, elementwise work and their gradients have
    activations [N, d..., C], and are `channels_last` where an operation has to know; a transpose stands where a chain
    begins and ends, none inside. A chain is what is connected by activations; it is turned around as a whole, where its
    transposes move less than half of the elements that its convolutions rearrange within their steps (for the library's sake)
    when nothing is done: a convolution alone stays, and so do, on GPUs, those of more than 16 bits without TF32. Operations say
    themselves how they compute so (`Layoutable`). Sums are cut otherwise than in the model's order.

    ```mlir
    %c = graph.conv %x, %w {...} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
    %r = graph.relu %c : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    // becomes
    %t = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x8x8xf32>) -> tensor<2x8x8x3xf32>
    %c = graph.conv %t, %w {channels_last, ...} : (tensor<2x8x8x3xf32>, tensor<4x3x1x1xf32>) -> tensor<2x8x8x4xf32>
    %r = graph.relu %c : (tensor<2x8x8x4xf32>) -> tensor<2x8x8x4xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createPropagateLayout()";
  let statistics = [Statistic<"chains", "chains", "chains turned around">,
                    Statistic<"transposes", "transposes", "transposes at their borders">];
}

def ForwardOnly : Pass<"forward-only", "::mlir::ModuleOp"> {
  let summary = "a step that trains nothing: what the micro-step returns is handed over";
  let description = [{
    In: a `micro` program that returns values named by its attribute `graph.outputs`, of which one may be the loss and one its
    weight; no trainable parameter. Out: a `graph.output` behind the maker of each, nothing
    returned, an empty `update`, and the module's `graph.training` says so. Stands where differentiate and append-optimizer
    stand in training.

    ```mlir
    graph.return %y : tensor<4xf32>
    // becomes
    graph.output %y as "y" : tensor<4xf32>
    graph.return
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let statistics = [Statistic<"outputs", "outputs", "values handed over">];
}

def CheckpointActivations : Pass<"checkpoint-activations", "::mlir::ModuleOp"> {
  let summary = "keep block inputs, recompute the rest in the backward";
  let description = [{
    In: a `micro` program after differentiate. Out, under `checkpoint-activations=block`: the backward reads clones, made just
    before it needs them, of what the forward of a block computes; only what crosses the border of a block is kept. Blocks are
    found where the fewest bytes cross. The clones are the same operations on the same values: results are bit-identical,
    dropout masks included. About one more forward of arithmetic. Source: ZeRO-R (arXiv 1910.02054, section 6.1), Chen et al.
    (arXiv 1604.06174).

    Under `checkpoint-activations=selective` values are recomputed one by one, from what is kept: each time the one that costs
    the fewest floating-point operations per byte, of those that live where most bytes do. With `save` that ends when this
    many bytes fewer live at the peak, else where bytes become dear: results of large products and convolutions stay, what is
    elementwise, norms and the scores of attention go. Source: Korthikanti et al. (arXiv 2205.05198, section 5).

    ```mlir
    %h = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>     // forward
    %d = graph.mul %g, %h : ...                              // backward
    // becomes
    %r = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>     // in the backward
    %d = graph.mul %g, %r : ...
    ```
  }];
  let constructor = "::zc::createCheckpointActivations()";
  let statistics = [Statistic<"recomputed", "recomputed ops", "operations cloned into the backward">];
}

def AppendOptimizer : Pass<"append-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds the update program: unscaling, clipping and one optimizer step per trainable parameter";
  let description = [{
    In: a module after differentiate. Out: with `graph.program @update`. Parameters get what they carry as `weight_decay` and `lr_scale`.
    Where no weight decay is said it is torch's default of the rule: 0.01 for adamw, else 0. `clip-grad-norm` 0 does not clip; the norm is
    still computed. Where differentiate scaled the loss, the factor undoes that, and `graph.training` says how the run chooses the scale:
    DeepSpeed's rules and defaults (runtime/train/LossScale.h).

    ```mlir
    graph.program @update phase = update inputs = [] {
      %norm, %factor = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
      graph.update @w, %factor rule = sgd {...} : tensor<f32>
      graph.return
    }
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
  let constructor = "::zc::createAppendOptimizer()";
  let statistics = [Statistic<"updates", "updates", "parameters updated">,
                    Statistic<"undecayed", "undecayed", "parameters without weight decay">];
}

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

def Simplify : Pass<"simplify", "::mlir::ModuleOp"> {
  let summary = "folds operations and brings them into their canonical form; what nobody uses goes";
  let description = [{
    In and out: programs of one block. Does what MLIR's `canonicalize` does there, in a fraction of the time where little changes
    (dialects/graph/Rewrite.h).

    ```mlir
    %a = graph.reshape %x {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
    %b = graph.reshape %a {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>   // users take %x
    ```
  }];
}

def EliminateCommon : Pass<"eliminate-common", "::mlir::ModuleOp"> {
  let summary = "common subexpressions are computed once, what nobody uses not at all";
  let description = [{
    In and out: a program of one block. Of operations that are equal but for their location the first one stays, of those that read
    the first since something was written. Does what MLIR's `cse` does, on large programs in an eighth of the time.

    ```mlir
    %a = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>      // goes: users take %a
    ```
  }];
  let statistics = [Statistic<"eliminated", "eliminated", "operations that another one stands for">];
}

def VerifyGraph : Pass<"verify-graph", "::mlir::ModuleOp"> {
  let summary = "border check: nothing but the graph dialect";
  let description = [{
    In and out: a module of `graph` operations only. Fails, with an error at each operation of another level. Stands before
    the grad stage (after import) and before the shard stage.
  }];
}

#endif // ZC_GRAD_PASSES
