//===- ZeroOps.td - the step over a mesh of ranks, with placement ----*- tablegen -*-===//
#ifndef ZC_ZERO_OPS
#define ZC_ZERO_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/graph/GraphDialect.td"
include "dialects/zero/ZeroEnums.td"

def Zero_Dialect : Dialect {
  let name = "zero";
  let cppNamespace = "::zc::zero";
  let summary = "the same step over a mesh of ranks, with placement";
  let description = [{
    A *bucket* is the unit of partitioning (ZeRO, arXiv 1910.02054, section 5): parameters in order of first use, laid out
    flat and contiguous, padded to a multiple of ranks x 64 elements and cut into equal shards. A parameter inside a gathered
    bucket is a view at an offset; gradients are written straight into the flat gradient bucket; the optimizer runs once
    per shard. Tensor operations stay those of the graph dialect.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

def Zero_BufferType : TypeDef<Zero_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a flat run of elements on a tier";
  let description = "`!zero.buffer<8192 x f32, device>`: all elements of a bucket, on the tier where they are.";
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

class Zero_Op<string mnemonic, list<Trait> traits = []> : Op<Zero_Dialect, mnemonic, traits>;

/// Names a bucket. There is a bucket of that name (`bucket_c5`), and buffers of the operation have its element type and its
/// padded number of elements (`bucket_c6`).
class Zero_OpOnBucket<string mnemonic, list<Trait> traits = []>
    : Zero_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>])>;

def Zero_MeshOp : Zero_Op<"mesh", [Symbol]> {
  let summary = "the ranks: node x local";
  let description = [{
    Created by zero-bucket, kept to the plan. At least one node and one rank per node (`mesh_c1`).

    ```mlir
    zero.mesh @mesh node = 2 local = 4
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$node, I64Attr:$local);
  let assemblyFormat = "$sym_name `node` `=` $node `local` `=` $local attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = "int64_t getWorldSize() { return getNode() * getLocal(); }";
}

def Zero_BucketOp : Zero_Op<"bucket", [Symbol]> {
  let summary = "parameters laid out flat, cut into equal shards";
  let description = [{
    `padded` elements in all, a multiple of world size x 64 (`bucket_c1`); members start at multiples of 64
    (`bucket_c2`), ascending and disjoint (`bucket_c3`). Elements are floats (`bucket_c4`). The three flags say what is cut:
    set by zero-partition.
    Created by zero-bucket, turned into a plan bucket by lower-to-plan.

    ```mlir
    zero.bucket @bucket0 : f32 padded = 256 members = [#zero.member<@w, 0, 100>] {trainable}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, I64Attr:$padded, Zero_MemberArray:$members,
      UnitAttr:$trainable, UnitAttr:$parameters_sharded, UnitAttr:$gradients_sharded, UnitAttr:$optimizer_sharded);
  let assemblyFormat = "$sym_name `:` $type `padded` `=` $padded `members` `=` $members attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Elements of parameters, without padding.
    int64_t getUsed();
    /// The gaps between and after members, as [offset, count, ...] in elements.
    ::llvm::SmallVector<int64_t> getGaps();
  }];
}

//===-- parameters in the micro-step ----------------------------------------===//

def Zero_GatherOp : Zero_OpOnBucket<"gather", [MemoryEffects<[MemRead, MemAlloc]>]> {
  let summary = "all ranks' shards of a bucket, put together in a temporary buffer (all-gather)";
  let description = [{
    Ends with the `zero.release` of its result. Created by zero-insert-gather-release when parameters are sharded.

    ```mlir
    %b = zero.gather @bucket0 : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Zero_BufferType:$result);
  let assemblyFormat = "$bucket attr-dict `:` type($result)";
}

def Zero_ResidentOp : Zero_OpOnBucket<"resident", [MemoryEffects<[MemRead]>]> {
  let summary = "a bucket's parameters where every rank keeps all of them";
  let description = [{
    ```mlir
    %b = zero.resident @bucket0 : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Zero_BufferType:$result);
  let assemblyFormat = "$bucket attr-dict `:` type($result)";
}

def Zero_ViewOp : Zero_Op<"view", [Pure]> {
  let summary = "a parameter inside a bucket: the elements from `offset` on";
  let description = [{
    No bytes move. Its users must stand before the release of the buffer. It lies inside the buffer and has its element
    type (`view_c1`).

    ```mlir
    %w = zero.view %b offset = 0 : !zero.buffer<256 x f32, device> -> tensor<10x10xf32>
    ```
  }];
  let arguments = (ins Zero_BufferType:$buffer, I64Attr:$offset);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$buffer `offset` `=` $offset attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Zero_ReleaseOp : Zero_Op<"release", [MemoryEffects<[MemFree]>]> {
  let summary = "ends the lifetime of a gathered buffer";
  let description = [{
    ```mlir
    zero.release %b : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Zero_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

//===-- gradients in the micro-step -----------------------------------------===//

def Zero_GradBufferOp : Zero_OpOnBucket<"grad_buffer", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "opens a bucket's gradient for this micro-step; its padding is zero";
  let description = [{
    Created by zero-partition before the first gradient of the bucket; ends with the bucket's `zero.reduce_scatter`. At
    stages 0 and 1 without accumulation it is the bucket's gradient storage itself.

    ```mlir
    %g = zero.grad_buffer @bucket0 : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Zero_BufferType:$result);
  let assemblyFormat = "$bucket attr-dict `:` type($result)";
}

def Zero_PutOp : Zero_Op<"put", [MemoryEffects<[MemWrite]>]> {
  let summary = "a parameter's gradient, in its place in the bucket";
  let description = [{
    plan-memory lets the producer of the tensor write there, so that normally nothing is copied. The place lies inside the
    buffer, which has the tensor's element type (`put_c1`).

    ```mlir
    zero.put %d into %g offset = 0 : tensor<10x10xf32>, !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Graph_Tensor:$tensor, Zero_BufferType:$buffer, I64Attr:$offset);
  let assemblyFormat = "$tensor `into` $buffer `offset` `=` $offset attr-dict `:` type($tensor) `,` type($buffer)";
  let hasVerifier = 1;
}

def Zero_ReduceScatterOp : Zero_OpOnBucket<"reduce_scatter", [MemoryEffects<[MemRead, MemWrite, MemFree]>]> {
  let summary = "sums a gradient bucket over ranks into the bucket's gradient, each rank its shard";
  let description = [{
    The sum runs in rank order in fp32, times `scale` (1 / (ranks x micro-steps)), added to what earlier micro-steps of
    the step left. All stages reduce in every micro-step, in the same order: that is what makes them bit-identical.

    ```mlir
    zero.reduce_scatter %g, @bucket0 scale = 2.5e-01 : !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Zero_BufferType:$buffer, FlatSymbolRefAttr:$bucket, F64Attr:$scale);
  let assemblyFormat = "$buffer `,` $bucket `scale` `=` $scale attr-dict `:` type($buffer)";
}

def Zero_RecordLossOp : Zero_Op<"record_loss", [MemoryEffects<[MemWrite]>]> {
  let summary = "adds the micro-step's loss to the step's sum";
  let description = [{
    ```mlir
    zero.record_loss %loss : tensor<f32>
    ```
  }];
  let arguments = (ins Graph_F32Tensor:$loss);
  let assemblyFormat = "$loss attr-dict `:` type($loss)";
}

//===-- the update ------------------------------------------------------------===//

def Zero_AllGatherOp : Zero_OpOnBucket<"all_gather", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "completes a bucket's replicated parameters or gradients from the ranks' shards, in place";
  let description = [{
    Of parameters after the update (stages 1 and 2), of gradients before it (stage 0); of nothing else (`all_gather_c1`).

    ```mlir
    zero.all_gather @bucket0 of "parameters"
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, StrAttr:$what);
  let assemblyFormat = "$bucket `of` $what attr-dict";
  let hasVerifier = 1;
}

def Zero_NormPartialOp : Zero_OpOnBucket<"norm_partial", [MemoryEffects<[MemRead]>]> {
  let summary = "this rank's share of the sum of squares of a bucket's gradient, exactly, added to `previous`";
  let description = [{
    The accumulator is 24 limbs of fixed point (kernels/README.md), so that the sum does not depend on cuts or order.

    ```mlir
    %a = zero.norm_partial @bucket0() : () -> tensor<24xi64>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Optional<Graph_Tensor>:$previous);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$bucket `(` $previous `)` attr-dict `:` functional-type($previous, $result)";
}

def Zero_AllReduceOp : Zero_Op<"all_reduce", [Pure, SameOperandsAndResultType]> {
  let summary = "sum over ranks, in rank order";
  let description = [{
    ```mlir
    %s = zero.all_reduce %a : tensor<24xi64>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Zero_ClipFactorOp : Zero_Op<"clip_factor", [MemoryEffects<[MemWrite]>]> {
  let summary = "norm and clipping factor from the summed accumulator; the norm is recorded as a metric";
  let description = [{
    As graph.clip_factor; `max_norm` absent means factor 1.

    ```mlir
    %n, %f = zero.clip_factor %s {max_norm = 1.0 : f64} : tensor<24xi64> -> tensor<f32>, tensor<f32>
    ```
  }];
  let arguments = (ins Graph_Tensor:$sum, OptionalAttr<F64Attr>:$max_norm);
  let results = (outs Graph_F32Tensor:$norm, Graph_F32Tensor:$factor);
  let assemblyFormat = "$sum attr-dict `:` type($sum) `->` type($norm) `,` type($factor)";
}

def Zero_UpdateOp : Zero_OpOnBucket<"update", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the optimizer, once, over what this rank updates of a bucket";
  let description = [{
    The whole bucket at stage 0, the rank's shard after it. Rules and attributes as graph.update.

    ```mlir
    zero.update @bucket0, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.01 : f64} : tensor<f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Graph_F32Tensor:$factor, Graph_OptimizerKind:$rule,
      F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$momentum, F64Attr:$weight_decay);
  let assemblyFormat = "$bucket `,` $factor `rule` `=` `` $rule attr-dict `:` type($factor)";
}

def Zero_ReduceLossOp : Zero_Op<"reduce_loss", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "sums the step's loss over ranks";
  let description = [{
    ```mlir
    zero.reduce_loss
    ```
  }];
  let arguments = (ins);
  let assemblyFormat = "attr-dict";
}

#endif // ZC_ZERO_OPS
