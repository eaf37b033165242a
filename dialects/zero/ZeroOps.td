//===- ZeroOps.td - the step over a mesh of ranks, with placement ----*- tablegen -*-===//
#ifndef ZC_ZERO_OPS
#define ZC_ZERO_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/graph/GraphDialect.td"
include "dialects/zero/ZeroEnums.td"
include "dialects/zero/ZeroInterfaces.td"

def Zero_Dialect : Dialect {
  let name = "zero";
  let cppNamespace = "::zc::zero";
  let summary = "the same step over a mesh of ranks, with placement";
  let description = [{
    A *bucket* is the unit of partitioning (ZeRO, arXiv 1910.02054, section 5): parameters in order of first use, laid out flat and
    contiguous, padded to a multiple of shards x 64 elements and cut into equal shards over axes of the mesh. A parameter inside a gathered
    bucket is a view at an offset; gradients are written straight into the flat gradient bucket; the optimizer runs once per shard. Tensor
    operations stay those of the graph dialect.

    Bytes are values: a tensor lies on the device, a buffer on the tier of its type. What a bucket keeps over steps is a
    buffer too (`zero.storage`), so that whatever computes, moves or sums bytes takes them from anywhere.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def Zero_BufferType : TypeDef<Zero_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a flat run of elements on a tier";
  let description = [{
    `!zero.buffer<8192 x f32, device>`: all elements of a bucket, on the tier where they are. As many as a tensor may have, integers or
    floats (`buffer_c1`).
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "int64_t":$numElements, "::mlir::Type":$elementType, EnumParameter<Zero_Tier>:$tier);
  let assemblyFormat = "`<` $numElements `x` $elementType `,` $tier `>`";
}

def Zero_MemberAttr : AttrDef<Zero_Dialect, "Member"> {
  let mnemonic = "member";
  let summary = "a parameter's place in its bucket, in elements";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$parameter, "int64_t":$offset, "int64_t":$numElements);
  let assemblyFormat = "`<` $parameter `,` $offset `,` $numElements `>`";
}
def Zero_MemberArray : TypedArrayAttrBase<Zero_MemberAttr, "members of a bucket">;

def Zero_ExecutionAttr : AttrDef<Zero_Dialect, "Execution"> {
  let mnemonic = "execution";
  let summary = "how a step is spread over ranks and time";
  let description = [{
    `zero.execution` of a module, set by zero-partition; Execution.h has it as a value. `vertical`: the micro program has the
    operations of all micro-steps (zero-vertical). `delay_after`: ordinary steps before updates are delayed by one, -1 for all
    (zero-delay-update). Stages are 0 to 3, there is at least one micro-step, no step has a negative number (`execution_c1`). Example:
    `#zero.execution<stage = 3, accumulation = 2>`.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "int64_t":$stage, DefaultValuedParameter<"int64_t", "1">:$accumulation,
      OptionalParameter<"::mlir::UnitAttr">:$vertical, DefaultValuedParameter<"int64_t", "-1">:$delay_after);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Zero_TierAttr : EnumAttr<Zero_Dialect, Zero_Tier, "tier">;
def Zero_AxisKindOrData : EnumParameter<Zero_AxisKind> { let defaultValue = "::zc::zero::AxisKind::data"; }
def Zero_MeshAxisAttr : AttrDef<Zero_Dialect, "MeshAxis"> {
  let mnemonic = "axis";
  let summary = "an axis of the mesh: its name, ranks along it, and whether these have other data";
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$size,
      Zero_AxisKindOrData:$kind);
  let assemblyFormat = "`<` $name `=` $size (`,` $kind^)? `>`";
}
def Zero_MeshAxisArray : TypedArrayAttrBase<Zero_MeshAxisAttr, "axes of the mesh">;
/// Names of axes of the mesh, in its order (`axes_c1`): a group has the ranks that differ along these only. None are given: the
/// data axes.
def Zero_Axes : OptionalAttr<StrArrayAttr>;
def Zero_StorageAttr : EnumAttr<Zero_Dialect, Zero_Storage, "storage">;

class Zero_Op<string mnemonic, list<Trait> traits = []> : Op<Zero_Dialect, mnemonic, traits>;

/// Stands in a program: says how it is executed, and by `methods` what is not as of most.
class Zero_ScheduledOp<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Zero_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<ScheduledOp, methods>])>;

/// Runs along axes of the mesh, which exist (`axes_c1`).
class Zero_OpAlongAxes<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Zero_ScheduledOp<mnemonic, methods, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>])>;

/// Names a bucket: there is one of that name (`bucket_c5`).
class Zero_OpOnBucket<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Zero_ScheduledOp<mnemonic, methods, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>])>;

/// Bytes: a tensor, on the device, or a buffer.
def Zero_Value : AnyTypeOf<[Graph_Tensor, Zero_BufferType], "a tensor or a buffer">;

def Zero_MeshOp : Zero_Op<"mesh"> {
  let summary = "the ranks, along named axes, outermost first";
  let description = [{
    Ranks count through the last axis first. Those with one coordinate on axis `node` are on one machine, `local` counts a node's
    data-parallel ranks; on an axis of kind `model` ranks share the work on the same samples. Names are words and distinct, sizes at
    least 1, at most 8 axes and 65536 ranks (`mesh_c1`). It is the first operation of its module (`mesh_c2`). Created by zero-bucket, kept to the
    plan.

    ```mlir
    zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 4>, #zero.axis<"model" = 2, model>]
    ```
  }];
  let arguments = (ins Zero_MeshAxisArray:$axes);
  let assemblyFormat = "`axes` `=` $axes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = "::zc::Mesh getMesh();";
}

def Zero_BucketOp : Zero_Op<"bucket", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "parameters laid out flat, cut into equal shards";
  let description = [{
    `padded` elements in all, cut into equal shards over `axes` of the mesh, of a multiple of 64 each (`bucket_c1`); members start at
    multiples of 64 (`bucket_c2`), ascending and disjoint (`bucket_c3`). Elements are floats (`bucket_c4`). Three flags say what is cut, set
    by zero-partition; three tiers where it lives, set by zero-offload. Parameters of a `resident` bucket, set by zero-residency, are
    neither cut nor moved. The update of a `delayed` one, set by zero-delay-update, works on fp32 weights of its own that become the
    parameters a step later (`zero.publish`). Gradients of 16 bits that are summed over ranks and micro-steps to an fp32 sum have
    `gradient_type` f32 (`bucket_c7`), set by zero-partition. Members of a `cut` one are all cut over the mesh's axes of kind model, whose
    ranks have other elements of them; of the rest these ranks have the same. Created by zero-bucket, turned into a plan bucket by
    lower-to-plan.

    ```mlir
    zero.bucket @bucket0 : f32 padded = 256 members = [#zero.member<@w, 0, 100>] {axes = ["node", "local"], trainable}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, I64Attr:$padded, Zero_MemberArray:$members,
      UnitAttr:$trainable, UnitAttr:$cut, UnitAttr:$resident, UnitAttr:$delayed, UnitAttr:$parameters_sharded, UnitAttr:$gradients_sharded,
      UnitAttr:$optimizer_sharded, OptionalAttr<TypeAttr>:$gradient_type, Zero_Axes:$axes,
      DefaultValuedAttr<Zero_TierAttr, "::zc::zero::Tier::device">:$parameters_tier,
      DefaultValuedAttr<Zero_TierAttr, "::zc::zero::Tier::device">:$gradients_tier,
      DefaultValuedAttr<Zero_TierAttr, "::zc::zero::Tier::device">:$optimizer_tier);
  let assemblyFormat = "$sym_name `:` $type `padded` `=` $padded `members` `=` $members attr-dict";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::Type":$type, "int64_t":$padded,
      "::mlir::ArrayAttr":$members, "bool":$trainable, "bool":$cut, "::mlir::ArrayAttr":$axes)>];
  let extraClassDeclaration = [{
    /// Elements of parameters, without padding.
    int64_t getUsed();
    /// The gaps between and after members, as [offset, count, ...] in elements.
    ::llvm::SmallVector<int64_t> getGaps();
    /// Has fp32 weights beside the parameters: these are of another type, or on another tier than the optimizer, or
    /// follow a step later.
    bool hasMaster();
    bool isSharded(Storage what);
    Tier getTier(Storage what);
    /// Type of its elements: the bucket's for parameters, and for gradients unless they have their own; f32 for optimizer state, i64 for
    /// the norm.
    ::mlir::Type getStoredType(Storage what);
  }];
}

//===-- bytes ---------------------------------------------------------------===//

def Zero_StorageOp : Zero_OpOnBucket<"storage", ["getResultPlace"], [Pure]> {
  let summary = "what this rank keeps of a bucket over steps; no bytes move";
  let description = [{
    From element `offset` on, of all the rank keeps; or, with `own`, of this rank's shard of what every rank keeps whole.
    Element type and tier are those of the storage, and the elements lie inside it (`storage_c1`).

    ```mlir
    %p = zero.storage @bucket0 of parameters : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Zero_StorageAttr:$what, UnitAttr:$own,
      DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Zero_BufferType:$result);
  let assemblyFormat = "$bucket `of` `` $what attr-dict `:` type($result)";
}

def Zero_AllocOp : Zero_ScheduledOp<"alloc", ["getResultPlace"], [MemoryEffects<[MemAlloc]>]> {
  let summary = "a temporary buffer; lives from its first to its last use";
  let description = [{
    `activation`: the report counts it as one.

    ```mlir
    %b = zero.alloc : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins UnitAttr:$activation);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Zero_PartOp : Zero_OpAlongAxes<"part", ["getResultPlace"], [Pure]> {
  let summary = "a run of a buffer's elements, from `offset` on; no bytes move";
  let description = [{
    It lies inside the buffer and has its element type and tier (`part_c1`). With `axes` there is one for each rank along them, one
    after the other, of which this is the rank's own.

    ```mlir
    %p = zero.part %b offset = 64 : !zero.buffer<256 x f32, host> -> !zero.buffer<128 x f32, host>
    ```
  }];
  let arguments = (ins Zero_BufferType:$buffer, I64Attr:$offset, Zero_Axes:$axes);
  let results = (outs Zero_BufferType:$result);
  let assemblyFormat = "$buffer `offset` `=` $offset attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Zero_FillOp : Zero_ScheduledOp<"fill"> {
  let summary = "a buffer of one value";
  let description = [{
    ```mlir
    %f = zero.fill 1.0 : !zero.buffer<1 x f32, host>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Zero_FetchOp : Zero_ScheduledOp<"fetch", ["fillsDevice"]> {
  let summary = "copies bytes one tier up: from nvme to host, from host to device";
  let description = [{
    As many elements of the same type, the tier just above (`fetch_c1`).
    Source: ZeRO-Infinity (arXiv 2104.07857, section 5.1.2).

    ```mlir
    zero.fetch %h into %d : !zero.buffer<256 x f32, host>, !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$source, Arg<Zero_BufferType, "", [MemWrite]>:$target);
  let assemblyFormat = "$source `into` $target attr-dict `:` type($source) `,` type($target)";
  let hasVerifier = 1;
}

def Zero_EvictOp : Zero_ScheduledOp<"evict", ["getEvicted"]> {
  let summary = "copies bytes one tier down: from device to host, from host to nvme";
  let description = [{
    As many elements of the same type, the tier just below (`evict_c1`).

    ```mlir
    zero.evict %d into %h : tensor<10x10xf32>, !zero.buffer<100 x f32, host>
    ```
  }];
  let arguments = (ins Arg<Zero_Value, "", [MemRead]>:$source, Arg<Zero_BufferType, "", [MemWrite]>:$target);
  let assemblyFormat = "$source `into` $target attr-dict `:` type($source) `,` type($target)";
  let hasVerifier = 1;
}

//===-- what is brought to the device just before its use --------------------===//

def Zero_LoadOp : Zero_Op<"load", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "all that brings one buffer to the device, just before its first use";
  let description = [{
    The body says what that takes, in order: fetches from other tiers, quantization and gathers, dequantization and reordering. It
    yields the buffer, which is on the device (`load_c1`), and behind it what later loads take from this one instead of their own
    source (a secondary shard, zero-hierarchical). The body stands for its place only: what it has is what the program would have
    there. Passes of the shard stage rewrite it; prefetch moves it as a whole and puts what it has into its place, and none is left
    then. Created by zero-insert-gather-release and zero-offload.

    ```mlir
    %b = zero.load {
      %g = zero.gather %s : !zero.buffer<128 x f32, device> -> !zero.buffer<256 x f32, device>
      zero.yield %g : !zero.buffer<256 x f32, device>
    } : !zero.buffer<256 x f32, device>
    ```
  }];
  let results = (outs Variadic<Zero_BufferType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict `:` type($results)";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::function_ref<::mlir::Value(::mlir::OpBuilder &)>":$body)>];
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    ::mlir::Operation *getYield() { return getBlock().getTerminator(); }
    /// What views look into.
    ::mlir::Value getBuffer() { return getResult(0); }
    /// The storage that it begins with, or null.
    StorageOp getSource();
    /// Yields `value`, of the body, too: another load in the place of this one, which is erased.
    LoadOp yielding(::mlir::Value value);
  }];
}

def Zero_YieldOp : Zero_Op<"yield", [Pure, Terminator, HasParent<"LoadOp">]> {
  let summary = "what a load brings";
  let description = [{
    ```mlir
    %b = zero.load {
      %d = zero.alloc : !zero.buffer<256 x f32, device>
      zero.fetch %h into %d : !zero.buffer<256 x f32, host>, !zero.buffer<256 x f32, device>
      zero.yield %d : !zero.buffer<256 x f32, device>
    } : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Variadic<Zero_BufferType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

//===-- parameters in the micro-step ----------------------------------------===//

def Zero_GatherOp : Zero_OpAlongAxes<"gather", ["fillsDevice"]> {
  let summary = "the shards of a buffer of all ranks along `axes`, put together in a temporary one (all-gather)";
  let description = [{
    The result is a whole number of shards of the same type on the same tier (`gather_c1`). Created by zero-insert-gather-release, in
    a `zero.load`, when parameters are sharded.

    ```mlir
    %b = zero.gather %s : !zero.buffer<128 x f32, device> -> !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$shard, Zero_Axes:$axes);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$shard attr-dict `:` type($shard) `->` type($result)";
  let hasVerifier = 1;
}

def Zero_ViewOp : Zero_ScheduledOp<"view", ["getResultPlace"], [Pure]> {
  let summary = "a parameter inside a bucket: the elements from `offset` on";
  let description = [{
    No bytes move. Its users must stand before the release of the buffer. It lies inside the buffer, which is on the device, and
    has its element type (`view_c1`).

    ```mlir
    %w = zero.view %b offset = 0 : !zero.buffer<256 x f32, device> -> tensor<10x10xf32>
    ```
  }];
  let arguments = (ins Zero_BufferType:$buffer, I64Attr:$offset);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$buffer `offset` `=` $offset attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Zero_ReleaseOp : Zero_ScheduledOp<"release"> {
  let summary = "ends the lifetime of a gathered or fetched buffer";
  let description = [{
    ```mlir
    zero.release %b : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemFree]>:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

//===-- gradients in the micro-step -----------------------------------------===//

def Zero_GradBufferOp : Zero_OpOnBucket<"grad_buffer", ["getResultPlace"]> {
  let summary = "opens a bucket's gradient for this micro-step; its padding is zero";
  let description = [{
    As the bucket: its element type and padded number of elements, on the device (`bucket_c6`). Created by zero-partition before
    the first gradient of the bucket, or, of a bucket of one, before what that is computed over; ends with the bucket's `zero.reduce_scatter`. At stages 0 and 1 without accumulation it is
    the bucket's gradient storage itself, where that is of its type.

    ```mlir
    %g = zero.grad_buffer @bucket0 : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$bucket attr-dict `:` type($result)";
}

def Zero_PutOp : Zero_ScheduledOp<"put"> {
  let summary = "a parameter's gradient, in its place in the bucket";
  let description = [{
    plan-memory lets the producer of the tensor write there, so that normally nothing is copied. The place lies inside the
    buffer, which has the tensor's element type (`put_c1`).

    ```mlir
    zero.put %d into %g offset = 0 : tensor<10x10xf32>, !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Graph_Tensor:$tensor, Arg<Zero_BufferType, "", [MemWrite]>:$buffer, I64Attr:$offset);
  let assemblyFormat = "$tensor `into` $buffer `offset` `=` $offset attr-dict `:` type($tensor) `,` type($buffer)";
  let hasVerifier = 1;
}

def Zero_ReduceScatterOp : Zero_OpAlongAxes<"reduce_scatter", ["getWorkspace"]> {
  let summary = "sums a buffer over ranks, each rank its shard";
  let description = [{
    The sum runs in rank order in fp32, times `scale` (1 / (data-parallel degree x micro-steps)), rounded to the element type; with
    `accumulate` added to what earlier micro-steps of the step left in `shard`. All stages reduce in every micro-step, in the same order:
    that is what makes them bit-identical. The buffer is a whole number of shards on the same tier, of the same type or, of 16 bits, of f32
    ones: their sums are not rounded (`reduce_scatter_c1`).

    ```mlir
    zero.reduce_scatter %g into %s scale = 2.5e-01 : !zero.buffer<256 x f32, device>, !zero.buffer<128 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead, MemFree]>:$buffer, Arg<Zero_BufferType, "", [MemWrite]>:$shard,
      F64Attr:$scale, UnitAttr:$accumulate, Zero_Axes:$axes);
  let assemblyFormat = "$buffer `into` $shard `scale` `=` $scale attr-dict `:` type($buffer) `,` type($shard)";
  let hasVerifier = 1;
}

def Zero_AccumulateOp : Zero_ScheduledOp<"accumulate", ["dependsOnMicroStep"], [SameTypeOperands]> {
  let summary = "adds a micro-step's reduced gradient to what earlier ones of the step left";
  let description = [{
    In the first micro-step of a step it is copied. Where gradients do not live on the
    device; elsewhere `zero.reduce_scatter` does it, with the same bits.

    ```mlir
    zero.accumulate %g into %s : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$source, Arg<Zero_BufferType, "", [MemRead, MemWrite]>:$target);
  let assemblyFormat = "$source `into` $target attr-dict `:` type($source)";
}

def Zero_RecordLossOp : Zero_ScheduledOp<"record_loss", ["getAssignedState", "dependsOnMicroStep"], [MemoryEffects<[MemWrite]>]> {
  let summary = "adds the micro-step's loss, and its weight where it has one, to the step's sums";
  let description = [{
    ```mlir
    zero.record_loss %loss : tensor<f32>
    ```
  }];
  let arguments = (ins Graph_F32Tensor:$loss, Optional<Graph_F32Tensor>:$weight);
  let assemblyFormat = "$loss (`weighing` $weight^)? attr-dict `:` type(operands)";
}

include "dialects/zero/ZeroUpdate.td"
include "dialects/zero/ZeroQuantize.td"

#endif // ZC_ZERO_OPS
