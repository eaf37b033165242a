//===- ZeroUpdate.td - the update of a step -------------------------*- tablegen -*-===//
//
// Included by ZeroOps.td.
//
//===----------------------------------------------------------------------===//
#ifndef ZC_ZERO_UPDATE
#define ZC_ZERO_UPDATE

def Zero_AllGatherOp : Zero_ScheduledOp<"all_gather"> {
  let summary = "completes a buffer that every rank keeps whole from the ranks' own parts, in place";
  let description = [{
    Of parameters after the update (stages 1 and 2), of gradients before it (stage 0). `own` is this rank's part of
    `whole` (`all_gather_c1`).

    ```mlir
    zero.all_gather %o into %w : !zero.buffer<128 x f32, device>, !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$own, Arg<Zero_BufferType, "", [MemWrite]>:$whole);
  let assemblyFormat = "$own `into` $whole attr-dict `:` type($own) `,` type($whole)";
  let hasVerifier = 1;
}

def Zero_PublishOp : Zero_ScheduledOp<"publish"> {
  let summary = "the weights that the update made become parameters: a copy on one tier, in the parameters' type";
  let description = [{
    As many elements on the same tier, from f32 to any float (`publish_c1`). Created by zero-delay-update, before the update that
    overwrites the weights: what is published has the gradients up to the step before.
    Source: ZeRO-Offload (arXiv 2101.06840, section 5.2).

    ```mlir
    zero.publish %w into %p : !zero.buffer<256 x f32, host>, !zero.buffer<256 x bf16, host>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$source, Arg<Zero_BufferType, "", [MemWrite]>:$target);
  let assemblyFormat = "$source `into` $target attr-dict `:` type($source) `,` type($target)";
  let hasVerifier = 1;
}

def Zero_NormPartialOp : Zero_ScheduledOp<"norm_partial", ["getOverwritten"]> {
  let summary = "the sum of squares of a buffer, exactly, added to `previous`";
  let description = [{
    The accumulator is 24 limbs of fixed point (kernels/README.md), so that the sum does not depend on cuts or order. It lies on the
    gradient's tier (`norm_partial_c1`). With `reset` the bytes of `previous` are taken, but the sum starts from zero.

    ```mlir
    %a = zero.norm_partial %g : (!zero.buffer<256 x f32, device>) -> !zero.buffer<24 x i64, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$gradient,
      Arg<Optional<Zero_BufferType>, "", [MemRead, MemWrite]>:$previous, UnitAttr:$reset);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$gradient (`after` $previous^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Zero_AllReduceOp : Zero_OpAlongAxes<"all_reduce", ["getOverwritten", "getWorkspace"], [SameOperandsAndResultType]> {
  let summary = "sum over the ranks along `axes`, in rank order, in place";
  let description = [{
    ```mlir
    %s = zero.all_reduce %a : !zero.buffer<24 x i64, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead, MemWrite]>:$input, Zero_Axes:$axes);
  let results = (outs Res<Zero_BufferType, "", [MemWrite]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Zero_ClipFactorOp : Zero_ScheduledOp<"clip_factor", ["getResultPlace"]> {
  let summary = "norm and clipping factor from the summed accumulator; the norm is recorded as a metric";
  let description = [{
    As graph.clip_factor; `max_norm` absent means factor 1. Results of one f32 on the sum's tier (`clip_factor_c1`). `weight`
    is the sum of `terms` losses' weights, one f64 on that tier (`clip_factor_c2`): the gradients are numerators, so the norm is
    divided by the mean weight, and so is the factor; `scaled` ones also by the loss scale.

    ```mlir
    %n, %f = zero.clip_factor %s {max_norm = 1.0 : f64}
        : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$sum, Arg<Optional<Zero_BufferType>, "", [MemRead]>:$weight,
      OptionalAttr<F64Attr>:$max_norm, OptionalAttr<I64Attr>:$terms, UnitAttr:$scaled);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$norm,
      Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$factor);
  let assemblyFormat = "$sum (`over` $weight^ `:` type($weight))? attr-dict `:` type($sum) `->` type($norm) `,` type($factor)";
  let hasVerifier = 1;
}

def Zero_UpdateOp : Zero_ScheduledOp<"update", [], [AttrSizedOperandSegments]> {
  let summary = "the optimizer, once, over a run of a bucket's elements";
  let description = [{
    Rules and attributes as graph.update. `weights` and the rule's `moments` (two for adam and adamw, one for momentum) are fp32 and written
    in place, unless the factor is NaN; `copy` takes the weights in the parameters' type, where they are another buffer. All have as many
    elements and lie on one tier, the factor's (`update_c1`).

    ```mlir
    zero.update %g, %f, %w(%m, %v) rule = adamw
        {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.01 : f64}
        : (!zero.buffer<256 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<256 x f32, device>,
           !zero.buffer<256 x f32, device>, !zero.buffer<256 x f32, device>) -> ()
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$gradient, Arg<Zero_BufferType, "", [MemRead]>:$factor,
      Arg<Zero_BufferType, "", [MemRead, MemWrite]>:$weights,
      Arg<Variadic<Zero_BufferType>, "", [MemRead, MemWrite]>:$moments,
      Arg<Optional<Zero_BufferType>, "", [MemWrite]>:$copy, Graph_UpdateRuleAttr:$rule, F64Attr:$beta1, F64Attr:$beta2,
      F64Attr:$eps, F64Attr:$momentum, F64Attr:$weight_decay, OptionalAttr<F64Attr>:$lr_scale);
  let assemblyFormat = [{$gradient `,` $factor `,` $weights (`(` $moments^ `)`)? (`to` $copy^)? `rule` `=` `` $rule attr-dict `:`
    functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Zero_ReduceLossOp : Zero_ScheduledOp<"reduce_loss", ["getResultPlace", "getAssignedState", "getWorkspace"],
    [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "sums the step's loss over ranks, and the weight of the losses where they have one";
  let description = [{
    The result is that weight, one f64 on the device (`reduce_loss_c1`).

    ```mlir
    zero.reduce_loss
    ```
  }];
  let arguments = (ins);
  let results = (outs Optional<Zero_BufferType>:$weight);
  let assemblyFormat = "(`->` type($weight)^)? attr-dict";
  let hasVerifier = 1;
}

#endif // ZC_ZERO_UPDATE
