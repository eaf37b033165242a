//===- Passes.td - from the forward graph to a training step ----*- tablegen -*-===//
#ifndef ZC_GRAD_PASSES
#define ZC_GRAD_PASSES

include "compiler/grad/FusionPasses.td"
include "mlir/Pass/PassBase.td"

def ConvertPrecision : Pass<"convert-precision", "::mlir::ModuleOp"> {
  let summary = "computes the micro-step in bf16 or f16 where f32 is not needed";
  let description = [{
    In: the f32 `micro` program of import. Out: the same program with trainable and frozen parameters and what is
    computed from them in bf16 (or f16, for which read bf16). Three classes of f32 values, with a cast at each border:

    - given: depends on no parameter (inputs, RoPE tables, masks, buffers). Stays f32 until it meets what is narrow: positions and
      counts need more than eight bits. What of it is computed or constant and beyond f16's range becomes the largest number of
      f16; constants that are finite and beyond bf16's the largest of bf16.
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
    the same numbers. Under `kernels-of=cuda` those of 16 bits stay, which tensor cores compute in one operation.

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

def InferRanges : Pass<"infer-ranges", "::mlir::ModuleOp"> {
  let summary = "what inputs may hold whose elements are positions in a table or labels";
  let description = [{
    In: programs before differentiate, which has other operations take labels. Out: an input has the `ranges` of all operations that take
    its elements, or most of them if they are labels, for positions (`Indexing`), also after they were moved, sliced or padded. The plan says
    so of its inputs, and a run refuses data that is something else before its first step.

    ```mlir
    graph.program @micro phase = micro inputs = ["ids"] {
    ^bb0(%i: tensor<4xi64>):
      %w = graph.read @w : tensor<8x2xf32>
      %y = graph.gather %w, %i {axis = 0 : i64} : (tensor<8x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
    // becomes
    graph.program @micro phase = micro inputs = ["ids"] ranges = [#graph.index_range<lowest = -8, limit = 8>] {
    ```
  }];
  let statistics = [Statistic<"known", "known", "inputs with a range">];
}

def RepeatKeys : Pass<"repeat-keys", "::mlir::ModuleOp"> {
  let summary = "grouped queries: heads of keys and values, fewer than there are ranks, are repeated, one for each rank";
  let description = [{
    In: a forward program. Out, under `model-ranks` that the heads of keys divide and that divide those of queries: attention with as many
    heads of keys and values as there are ranks, so that shard-tensors can give each rank the one of its queries. The gradients of
    repeated heads are summed. A single head (multi-query attention) is what all ranks have and stays. Fails where attention has several heads, but fewer than there are ranks.

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
    input), casts from 16 bits, a number for each class that is added (which goes to the bias), a constant that all are multiplied by or
    divided by (so are the layer's input and its bias then, if 16 bits have it exactly) and a cap, tanh(x / c) c (Gemma 2), behind
    which nothing is added. A log-softmax of logits that is read for nothing but one label of each row, and sums or means over all classes, plain
    or times a row of weights (losses with class weights, smoothed labels or masks, as import and exporters write them), makes of its layer a
    graph.linear_log_softmax in the same way, with two numbers of each row as results. What training no longer returns (differentiate drops all but the loss) is no other use. Chunks have up to
    512 rows, on GPUs 4096. Stays where logits that are left out take less than 8 MiB (few rows; in 16 bits few rows beside the layer's width, as sums over
    chunks are kept in fp32), where the layer's input, or a part of the layer, is not trained (of a layer that is frozen as a whole only the input gets a gradient), and where the weight has more bytes than `largest-whole`, as
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
    In: a `micro` program after differentiate. Out: where the gradient that arrives at a graph.linear_cross_entropy, or graph.linear_log_softmax, does not depend on
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
    In: a module after differentiate. Out: with a `graph.program` of phase `update`. Parameters get what they carry as `weight_decay` and `lr_scale`.
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
