//===- PlanOps.td - what each rank executes ----*- tablegen -*-===//
#ifndef ZC_PLAN_OPS
#define ZC_PLAN_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "dialects/graph/GraphDialect.td"
include "dialects/plan/PlanEnums.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::zc::plan";
  let summary = "what each rank executes: queues, arenas, slices, steps";
  let description = [{
    One to one with the plan file (runtime/plan/plan.proto), whose comments are the specification of each field. One plan
    serves all ranks: what depends on the rank are the strides of operands. A step's location is the ONNX node it serves.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def Plan_TierAttr : EnumAttr<Plan_Dialect, Plan_Tier, "tier">;
def Plan_QueueAttr : EnumAttr<Plan_Dialect, Plan_Queue, "queue">;
def Plan_ClassAttr : EnumAttr<Plan_Dialect, Plan_Class, "class">;
def Plan_MetricAttr : EnumAttr<Plan_Dialect, Plan_Metric, "metric"> { let assemblyFormat = "`<` $value `>`"; }
def Plan_SectionAttr : EnumAttr<Plan_Dialect, Plan_Section, "section">;

class Plan_Attr<string name, string mnemonic_> : AttrDef<Plan_Dialect, name> { let mnemonic = mnemonic_; }

def Plan_ExecutionAttr : Plan_Attr<"Execution", "execution"> {
  let summary = "numbers of a plan that are no operations: how steps repeat, and what the report says of them";
  let description = [{
    `plan.execution` of a module, set by lower-to-plan; Execution.h has it as a value. Stage to `delay_after` (-1: no update is
    delayed) as in the plan file, `flops` of a step. Budgets are bytes of each tier, 0 for none: only a plan that was read from its
    file has them here. Example: `#plan.execution<zero_stage = 3, accumulation = 2>`.
  }];
  let parameters = (ins "int64_t":$zero_stage, DefaultValuedParameter<"int64_t", "1">:$accumulation,
      OptionalParameter<"::mlir::UnitAttr">:$vertical, DefaultValuedParameter<"int64_t", "-1">:$delay_after,
      OptionalParameter<"::mlir::FloatAttr">:$flops, DefaultValuedParameter<"int64_t", "0">:$device_budget,
      DefaultValuedParameter<"int64_t", "0">:$host_budget, DefaultValuedParameter<"int64_t", "0">:$nvme_budget);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Plan_MachineAttr : Plan_Attr<"Machine", "machine"> {
  let summary = "rates of the machine that a module is planned for";
  let description = [{
    `plan.machine` of a module, set while importing from `--machine`; fields as in a machine file (runtime/plan/Machine.h), none
    negative; those that are not said have their defaults. Example: `#plan.machine<flops_per_second = 1.0e+12, comm_bandwidth = 4.0e+09>`.
  }];
  let parameters = (ins "::zc::MachineModel":$rates);
  let hasCustomAssemblyFormat = 1;
}

def Plan_OperandAttr : Plan_Attr<"Operand", "operand"> {
  let summary = "a tensor in a slice: byte offset, plus the rank's coordinate on each axis of the mesh times a stride";
  let parameters = (ins EnumParameter<Plan_Access>:$access, "::mlir::FlatSymbolRefAttr":$slice, "int64_t":$offset,
      OptionalArrayRefParameter<"int64_t">:$strides, "::mlir::RankedTensorType":$type);
  let assemblyFormat = "`<` $access $slice `+` $offset (`strides` `=` `[` $strides^ `]`)? `:` $type `>`";
}
def Plan_OperandArray : TypedArrayAttrBase<Plan_OperandAttr, "operands of a step">;

def Plan_WaitAttr : Plan_Attr<"Wait", "wait"> {
  let summary = "step `ordinal` of a queue's part of a section, `distance` executions ago";
  let parameters = (ins EnumParameter<Plan_Section>:$section, EnumParameter<Plan_Queue>:$queue, "int64_t":$ordinal,
      "int64_t":$distance);
  let assemblyFormat = "`<` $section $queue $ordinal `ago` $distance `>`";
}
def Plan_WaitArray : TypedArrayAttrBase<Plan_WaitAttr, "waits of a step">;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_AxisKindOrData : EnumParameter<Plan_AxisKind> { let defaultValue = "::zc::plan::AxisKind::data"; }
def Plan_MeshAxisAttr : Plan_Attr<"MeshAxis", "axis"> {
  let summary = "an axis of the mesh, as in plan.proto";
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size,
      Plan_AxisKindOrData:$kind);
  let assemblyFormat = "`<` $name `=` $size (`,` $kind^)? `>`";
}
def Plan_MeshAxisArray : TypedArrayAttrBase<Plan_MeshAxisAttr, "axes of the mesh">;

def Plan_MeshOp : Plan_Op<"mesh"> {
  let summary = "the ranks, along named axes, outermost first";
  let description = [{
    ```mlir
    plan.mesh axes = [#plan.axis<"node" = 2>, #plan.axis<"local" = 4>, #plan.axis<"model" = 2, model>]
    ```
  }];
  let arguments = (ins Plan_MeshAxisArray:$axes);
  let assemblyFormat = "`axes` `=` $axes attr-dict";
}

def Plan_ShareOp : Plan_Op<"share"> {
  let summary = "of a rank's threads, how many a queue's kernels run on, in thousandths; queues without one run on all";
  let description = [{
    Made by lower-to-plan; in the order of queues.

    ```mlir
    plan.share queue = host_compute thousandths = 125
    ```
  }];
  let arguments = (ins Plan_QueueAttr:$queue, ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<1000>]>:$thousandths);
  let assemblyFormat = "`queue` `=` `` $queue `thousandths` `=` $thousandths attr-dict";
}

def Plan_ArenaOp : Plan_Op<"arena", [Symbol]> {
  let summary = "one contiguous allocation per rank on a tier";
  let description = [{
    Of no negative size (`arena_c1`).

    ```mlir
    plan.arena @device tier = device bytes = 4096
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_TierAttr:$tier, I64Attr:$bytes);
  let assemblyFormat = "$sym_name `tier` `=` `` $tier `bytes` `=` $bytes attr-dict";
  let hasVerifier = 1;
}

def Plan_SliceOp : Plan_Op<"slice", [Symbol]> {
  let summary = "a range of an arena";
  let description = [{
    Starts at a multiple of 256, not before the arena (`slice_c1`), of no negative size (`slice_c2`). Persistent slices outlive the step.

    ```mlir
    plan.slice @s0 in @device offset = 0 bytes = 1024 class = activations
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$arena, I64Attr:$offset, I64Attr:$bytes,
      Plan_ClassAttr:$klass, UnitAttr:$persistent, OptionalAttr<Plan_MetricAttr>:$metric);
  let assemblyFormat = "$sym_name `in` $arena `offset` `=` $offset `bytes` `=` $bytes `class` `=` `` $klass attr-dict";
  let hasVerifier = 1;
}

def Plan_InputOp : Plan_Op<"input"> {
  let summary = "a graph input, loaded for each micro-step by a load_input step";
  let description = [{
    ```mlir
    plan.input "x" : tensor<2x4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<Graph_Tensor>:$type, OptionalAttr<Graph_IndexRangeAttr>:$range);
  let assemblyFormat = "$name `:` $type attr-dict";
}

def Plan_OutputOp : Plan_Op<"output"> {
  let summary = "an output of a forward-only plan, or of the evaluation, handed over by a store_output step";
  let description = [{
    ```mlir
    plan.output "loss" : tensor<f32> kind = loss {likelihood}
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<Graph_Tensor>:$type, Graph_OutputKindAttr:$kind, UnitAttr:$likelihood,
      UnitAttr:$by_labels);
  let assemblyFormat = "$name `:` $type `kind` `=` `` $kind attr-dict";
}

def Plan_ParameterOp : Plan_Op<"parameter", [Symbol]> {
  let summary = "a tensor that outlives the step, in a bucket at an offset in elements, or in a slice of its own";
  let description = [{
    ```mlir
    plan.parameter @w : tensor<10x10xf32> role = trainable
        {bucket = @bucket0, offset = 0 : i64, source = #graph.source<"m.onnx", 128, 400, f32>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type, Graph_RoleAttr:$role,
      OptionalAttr<FlatSymbolRefAttr>:$bucket, OptionalAttr<I64Attr>:$offset, OptionalAttr<FlatSymbolRefAttr>:$slice,
      OptionalAttr<Graph_SourceAttr>:$source, OptionalAttr<ElementsAttr>:$value, OptionalAttr<StrArrayAttr>:$tied,
      OptionalAttr<Graph_PartAttr>:$part, OptionalAttr<Graph_CutAttr>:$cut, OptionalAttr<F64Attr>:$lr_scale,
      OptionalAttr<F64Attr>:$weight_decay);
  let assemblyFormat = "$sym_name `:` $type `role` `=` $role attr-dict";
}

def Plan_BucketOp : Plan_Op<"bucket", [Symbol]> {
  let summary = "a bucket and the slices of its parameters, gradients and optimizer state";
  let description = [{
    `used` elements of `padded` hold parameters (`bucket_c1`). Gradients are kept in `gradient_type`, where it is another. It is cut over
    `axes` of the mesh; none: over no axis.

    ```mlir
    plan.bucket @bucket0 : f32 padded = 256 used = 100 {parameters = @s0, parameters_sharded}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, I64Attr:$padded, I64Attr:$used,
      OptionalAttr<FlatSymbolRefAttr>:$parameters, OptionalAttr<FlatSymbolRefAttr>:$gradients,
      OptionalAttr<FlatSymbolRefAttr>:$master, OptionalAttr<FlatSymbolRefAttr>:$moment1,
      OptionalAttr<FlatSymbolRefAttr>:$moment2, OptionalAttr<FlatSymbolRefAttr>:$residual1,
      OptionalAttr<FlatSymbolRefAttr>:$residual2, UnitAttr:$trainable, UnitAttr:$parameters_sharded,
      UnitAttr:$gradients_sharded, UnitAttr:$optimizer_sharded, OptionalAttr<TypeAttr>:$gradient_type,
      OptionalAttr<StrArrayAttr>:$axes);
  let assemblyFormat = "$sym_name `:` $type `padded` `=` $padded `used` `=` $used attr-dict";
  let hasVerifier = 1;
}

def Plan_SectionOp : Plan_Op<"section", [SingleBlock, NoTerminator]> {
  let summary = "steps executed together, in plan order on the sync device";
  let description = [{
    `micro` runs once per accumulation micro-step, `update` once per step, `eval`, which need not be there, between steps when
    it is asked for.

    ```mlir
    plan.section update {
    }
    ```
  }];
  let arguments = (ins Plan_SectionAttr:$section);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`` $section attr-dict-with-keyword $body";
}

def Plan_StepOp : Plan_Op<"step", [HasParent<"SectionOp">]> {
  let summary = "one unit of work on a queue";
  let description = [{
    The first `inputs` operands are the kernel's inputs (`step_c1`). Attributes are the kernel's. `seconds` is how long the
    cost model takes it to last, `flops` what it computes, `bytes` what it reads and writes. `publishes`: of a delayed update,
    as in plan.proto. `workspace`: bytes that the kernel works in besides its operands. `kept`: bytes in
    which it has what it makes of input `kept_input` from one micro-step to the next. `axes`: names of those that a
    collective runs along; none: all.

    ```mlir
    plan.section micro {
      plan.step "relu" queue = compute inputs = 1
          operands = [#plan.operand<read @s0 + 0 strides = [0, 16] : tensor<4xf32>>, #plan.operand<write @s1 + 0 : tensor<4xf32>>]
          attributes = {} waits = [#plan.wait<micro comm 0 ago 1>]
    }
    ```
  }];
  let arguments = (ins StrAttr:$kernel, Plan_QueueAttr:$queue, I64Attr:$inputs, Plan_OperandArray:$operands,
      DictionaryAttr:$attrs, Plan_WaitArray:$waits, OptionalAttr<F64Attr>:$seconds, OptionalAttr<F64Attr>:$flops,
      OptionalAttr<I64Attr>:$bytes, UnitAttr:$publishes,
      OptionalAttr<Plan_OperandAttr>:$workspace, OptionalAttr<Plan_OperandAttr>:$kept, OptionalAttr<I64Attr>:$kept_input,
      OptionalAttr<StrArrayAttr>:$axes);
  let assemblyFormat = [{
    $kernel `queue` `=` `` $queue `inputs` `=` $inputs `operands` `=` $operands `attributes` `=` $attrs `waits` `=` $waits attr-dict
  }];
  let hasVerifier = 1;
}

#endif // ZC_PLAN_OPS
