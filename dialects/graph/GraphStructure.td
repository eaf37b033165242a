//===- GraphStructure.td - parameters, programs, training ----*- tablegen -*-===//
#ifndef ZC_GRAPH_STRUCTURE
#define ZC_GRAPH_STRUCTURE

include "dialects/graph/GraphBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

def Graph_ParameterOp : Graph_Op<"parameter", [Symbol]> {
  let summary = "a tensor that outlives the step: weight, frozen weight or buffer";
  let description = [{
    Its symbol is the ONNX initializer's name. The bytes stay where `source` says, or stand in `value` when they are
    few. `type` is the type in the step (bf16 under `--precision bf16` although the source is f32). `evidence` says why
    it is trainable or not, `tied` lists further names of the same tensor. Created by import; turned into a member of a
    `zero.bucket` by zero-bucket.

    Not both a source and a value (`parameter_c1`). The source's numbers are not negative (`parameter_c2`), its elements are integers or
    floats (`parameter_c3`), and as many bytes as the shape needs (`parameter_c4`). A value has the shape of the type (`parameter_c5`). What
    trains is float (`parameter_c6`). A part, made by zero-tile-linear, is whole rows inside what it is part of (`parameter_c7`). With `cut`
    the type is that of a rank's part, source and value are those of the whole, whose shape and type go with it (`parameter_c8`), and the
    module says how many ranks the model axis has (`parameter_c9`). Set by shard-tensors; tiles are of a rank's part. `lr_scale` and
    `weight_decay` are the parameter's own, for its update, and not negative (`parameter_c10`): of --param-groups.

    ```mlir
    graph.parameter @wte : tensor<64x32xf32> role = trainable {evidence = "metadata", source = #graph.source<"m.onnx", 128, 8192, f32>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type, Graph_RoleAttr:$role,
      OptionalAttr<Graph_SourceAttr>:$source, OptionalAttr<ElementsAttr>:$value, OptionalAttr<StrAttr>:$evidence,
      OptionalAttr<StrArrayAttr>:$tied, OptionalAttr<F64Attr>:$lr_scale, OptionalAttr<F64Attr>:$weight_decay,
      OptionalAttr<Graph_PartAttr>:$part, OptionalAttr<Graph_CutAttr>:$cut);
  let assemblyFormat = "$sym_name `:` $type `role` `=` `` $role attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of all ranks of the model axis together: what files hold.
    ::mlir::RankedTensorType getWholeType() {
      return getCutAttr() ? getCutAttr().getWhole() : ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Graph_ProgramOp : Graph_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "the micro-step, the update or the evaluation";
  let description = [{
    `micro` has one block argument per graph input, named by `input_names`, and returns the loss (tensor<f32>). `update` has none. `eval`,
    in a module that trains, is a forward-only micro-step of the same model, with the same inputs: it hands over the loss and changes
    nothing. Created by import (`micro`), append-optimizer (`update`) and the driver (`eval`, from the `micro` of a forward-only module).
    One name per argument (`program_c1`), no arguments in the update (`program_c2`), tensors of static shape (`program_c3`). `ranges`, set
    by infer-ranges: what each argument may hold, for none of them or for all (`program_c4`). Of several programs what counts is the
    phase: the symbol is free, since parameters have the model's names.

    ```mlir
    graph.program @micro phase = micro inputs = ["x"] {
    ^bb0(%x: tensor<2x4xf32>):
      %0 = graph.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
      graph.return %0 : tensor<f32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Graph_PhaseAttr:$phase, StrArrayAttr:$input_names,
      OptionalAttr<Graph_IndexRangeArray>:$input_ranges);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `phase` `=` `` $phase `inputs` `=` $input_names (`ranges` `=` $input_ranges^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// The graph.backward; null where all is forward.
    ::mlir::Operation *getBackward();
  }];
}

def Graph_ReturnOp : Graph_Op<"return", [Terminator, Pure, HasParent<"ProgramOp">]> {
  let summary = "ends a program; its operand is the loss of the micro-step";
  let description = [{
    `micro` returns the loss and then any further graph outputs, `update` nothing. differentiate drops all but the loss;
    forward-only makes `graph.output`s of all. `weighted`, set by loss-mean: the second result is the weight of the loss,
    which is then the numerator of a mean over all ranks and micro-steps (`return_c1`: both are scalars).

    ```mlir
    graph.return %loss : tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$results, UnitAttr:$weighted);
  let assemblyFormat = "(`weighted` $weighted^)? ($results^ `:` type($results))? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The loss; null in a program that returns none.
    ::mlir::Value getLoss() { return getResults().empty() ? ::mlir::Value() : getResults().front(); }
    /// What it weighs beside the losses of other ranks and micro-steps; null where all weigh the same.
    ::mlir::Value getLossWeight() { return getWeighted() ? getResults()[1] : ::mlir::Value(); }
  }];
}

def Graph_BackwardOp : Graph_Op<"backward", [HasParent<"ProgramOp">, MemoryEffects<[MemFree]>]> {
  let summary = "the border: what stands above is forward, what stands below is backward";
  let description = [{
    At most one (`backward_c1`), in the micro-step (`phase_c1`); a program without one is all forward. Placed by differentiate
    behind the operation that makes the loss; passes that treat the halves apart ask the program for it; removed by assign-queues.
    It frees nothing: the effect keeps it in its place.

    ```mlir
    graph.backward
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Graph_OutputOp : Graph_Op<"output", [MemoryEffects<[MemWrite]>]> {
  let summary = "hands a value to whoever runs the plan";
  let description = [{
    Only in the micro-step of a forward-only module, or in the evaluation of one that trains (`phase_c1`). Created by forward-only from what
    the program returns; becomes a `plan.output` and a step that stores it. `likelihood` is said of a loss only (`output_c1`): it is the
    mean negative log-likelihood of a label. `by_labels` is said of a likelihood only (`output_c1`): samples whose labels are all ignored
    change nothing of it.

    ```mlir
    graph.output %loss as "loss" {kind = #graph<output_kind loss>, likelihood} : tensor<f32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$value, StrAttr:$name,
      DefaultValuedAttr<Graph_OutputKindAttr, "::zc::graph::OutputKind::value">:$kind, UnitAttr:$likelihood,
      UnitAttr:$by_labels);
  let assemblyFormat = "$value `as` $name attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Graph_ReadOp : Graph_Op<"read",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemRead]>, Graph_FreeToRecompute]> {
  let summary = "the current value of a parameter";
  let description = [{
    One per use site is fine: differentiate sums the gradients of all reads of a parameter. Lowered by
    zero-insert-gather-release to a view of a gathered bucket.

    ```mlir
    %w = graph.read @wte : tensor<64x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}

def Graph_AssignOp : Graph_Op<"assign", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "sets a buffer (batch-norm running statistics)";
  let description = [{
    Created by import from outputs that update a stored tensor. Later reads of the same program see the old value or the
    new one by their order.

    ```mlir
    graph.assign @running_mean, %v : tensor<64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Graph_Tensor:$value);
  let assemblyFormat = "$parameter `,` $value attr-dict `:` type($value)";
}

def Graph_AccumulateGradOp : Graph_Op<"accumulate_grad",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "adds a micro-step's gradient to a parameter's gradient";
  let description = [{
    Exactly one per trainable parameter that receives a gradient. Over micro-steps and ranks the gradient is the mean.
    Created by differentiate, lowered by zero-partition.

    ```mlir
    graph.accumulate_grad @wte, %g : tensor<64x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Graph_FloatTensor:$grad);
  let assemblyFormat = "$parameter `,` $grad attr-dict `:` type($grad)";
}

def Graph_ClipFactorOp : Graph_Op<"clip_factor", [MemoryEffects<[MemRead]>]> {
  let summary = "global L2 norm of all accumulated gradients, and the factor that clips it";
  let description = [{
    `norm` is the L2 norm over all parameters, `factor` is `min(1, max_norm / (norm + 1e-6))` as in torch's
    clip_grad_norm_, or 1 without `max_norm`. Where gradients are `scaled` by `graph.loss_scale`, both are divided by it. The
    factor of gradients that are not all finite is NaN: updates then change nothing. Only in the update program.

    ```mlir
    %norm, %factor = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    ```
  }];
  let arguments = (ins OptionalAttr<F64Attr>:$max_norm, UnitAttr:$scaled);
  let results = (outs Graph_F32Tensor:$norm, Graph_F32Tensor:$factor);
  let assemblyFormat = "attr-dict `:` type($norm) `,` type($factor)";
  let hasVerifier = 1;
}

def Graph_UpdateOp : Graph_Op<"update", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, MemoryEffects<[MemWrite]>]> {
  let summary = "one optimizer step of one parameter";
  let description = [{
    torch's AdamW, Adam, SGD and SGD with momentum; nothing where the factor is NaN. `lr` comes with the run; the rest is fixed here.
    Moments and master weights are implied by the rule and the precision; the rate of the run is multiplied by `lr_scale`, 1 where it is
    absent. One per trainable parameter; lowered by zero-partition to one update per shard of a bucket, whose parameters have all of it in
    common.

    ```mlir
    graph.update @wte, %factor rule = adamw
        {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.01 : f64} : tensor<f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Graph_F32Tensor:$factor, Graph_UpdateRuleAttr:$rule,
      F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$momentum, F64Attr:$weight_decay, OptionalAttr<F64Attr>:$lr_scale);
  let assemblyFormat = "$parameter `,` $factor `rule` `=` `` $rule attr-dict `:` type($factor)";
}

def Graph_ConstantOp : Graph_Op<"constant", [Pure, ConstantLike, InferTypeOpAdaptor, Graph_Kernel, Graph_FreeToRecompute]> {
  let summary = "a small constant or a splat of any size";
  let description = [{
    A ranked tensor (`constant_c1`), dense (`constant_c2`); at most 4,194,304 elements that differ (`constant_c3`, ConstantLimit.h): larger
    ones stay in the model file as buffers.

    ```mlir
    %c = graph.constant dense<1.0> : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
  let hasVerifier = 1;
}

#endif // ZC_GRAPH_STRUCTURE
