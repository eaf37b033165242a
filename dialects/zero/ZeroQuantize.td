//===- ZeroQuantize.td - fewer and closer bytes: ZeRO++ and the mesh ---*- tablegen -*-===//
//
// Included by ZeroOps.td. Source: ZeRO++ (arXiv 2306.10209, section 3).
//
//===----------------------------------------------------------------------===//
#ifndef ZC_ZERO_QUANTIZE
#define ZC_ZERO_QUANTIZE

/// Pieces of equal size as bytes: values of `bits` bits and an fp32 scale per `block` elements (kernels/Quantized.h).
class Zero_OpOnPieces<string mnemonic, list<string> methods = []> : Zero_ScheduledOp<mnemonic, methods> {
  let hasVerifier = 1;
}

def Zero_QuantizeOp : Zero_OpOnPieces<"quantize", ["fillsDevice"]> {
  let summary = "a buffer as quantized pieces, reordered";
  let description = [{
    The buffer is `rows` x `columns` equal pieces; piece (c, r) of the result is piece (r, c) of the buffer, so one row keeps their
    order. The result holds exactly their bytes (`quantize_c1`). What quantization loses is added to `residual`, as `beta` says, and
    comes back with the next quantization (LoCo, arXiv 2407.04480); it is of the input's type (`quantize_c2`). Created by
    zero-quantize-weights and zero-quantize-gradients.

    ```mlir
    %q = zero.quantize %s {bits = 8 : i64, block = 256 : i64, rows = 1 : i64, columns = 1 : i64}
        : (!zero.buffer<256 x f32, device>) -> !zero.buffer<260 x ui8, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input,
      Arg<Optional<Zero_BufferType>, "", [MemRead, MemWrite]>:$residual, I64Attr:$bits, I64Attr:$block,
      I64Attr:$rows, I64Attr:$columns, DefaultValuedAttr<F64Attr, "0.0">:$beta);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$input (`feedback` $residual^)? attr-dict `:` functional-type(operands, $result)";
}

def Zero_DequantizeOp : Zero_OpOnPieces<"dequantize"> {
  let summary = "quantized pieces as a buffer, each in its place";
  let description = [{
    The result is `rows` x `columns` equal pieces; piece (r, c) of it is piece (c, r) of the input, which holds exactly their
    bytes (`dequantize_c1`). The rows are nodes where pieces were gathered between nodes first, else there is one. Created by
    zero-quantize-weights.

    ```mlir
    %b = zero.dequantize %q {bits = 8 : i64, block = 256 : i64, rows = 1 : i64, columns = 2 : i64}
        : !zero.buffer<520 x ui8, device> -> !zero.buffer<512 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input, I64Attr:$bits, I64Attr:$block,
      I64Attr:$rows, I64Attr:$columns);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Zero_DequantizeSumQuantizeOp : Zero_OpOnPieces<"dequantize_sum_quantize"> {
  let summary = "the sum of what several ranks sent, quantized again";
  let description = [{
    The input is `sources` runs of `pieces` pieces of `elements` elements; they are summed piece by piece in fp32, in order, and
    the sums are the quantized pieces of the result (`dequantize_sum_quantize_c1`). `residual` as of zero.quantize, over the
    sums. Between the two hops of zero-quantize-gradients.

    ```mlir
    %r = zero.dequantize_sum_quantize %q {bits = 8 : i64, block = 256 : i64, sources = 2 : i64, pieces = 1 : i64, elements = 256 : i64}
        : (!zero.buffer<520 x ui8, device>) -> !zero.buffer<260 x ui8, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input,
      Arg<Optional<Zero_BufferType>, "", [MemRead, MemWrite]>:$residual, I64Attr:$bits, I64Attr:$block, I64Attr:$sources,
      I64Attr:$pieces, I64Attr:$elements, DefaultValuedAttr<F64Attr, "0.0">:$beta);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$input (`feedback` $residual^)? attr-dict `:` functional-type(operands, $result)";
}

def Zero_DequantizeSumOp : Zero_OpOnPieces<"dequantize_sum"> {
  let summary = "the sum of what several ranks sent, into a gradient shard";
  let description = [{
    The input is `sources` pieces of the shard's elements (`dequantize_sum_c1`), summed in fp32, in order, times `scale`,
    rounded to the element type; with `accumulate` added to what earlier micro-steps of the step left in the shard. The last
    step of zero-quantize-gradients.

    ```mlir
    zero.dequantize_sum %q into %s scale = 2.5e-01 {bits = 8 : i64, block = 256 : i64, sources = 2 : i64}
        : !zero.buffer<520 x ui8, device>, !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input, Arg<Zero_BufferType, "", [MemWrite]>:$shard,
      F64Attr:$scale, I64Attr:$bits, I64Attr:$block, I64Attr:$sources, UnitAttr:$accumulate);
  let assemblyFormat = "$input `into` $shard `scale` `=` $scale attr-dict `:` type($input) `,` type($shard)";
}

def Zero_AllToAllOp : Zero_OpAlongAxes<"all_to_all", [], [SameOperandsAndResultType]> {
  let summary = "part p of the buffer goes to member p of the group along `axes`; part p of the result comes from it";
  let description = [{
    ```mlir
    %r = zero.all_to_all %q {axes = ["local"]} : !zero.buffer<520 x ui8, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input, Zero_Axes:$axes);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Zero_OwnPartOp : Zero_OpAlongAxes<"own_part"> {
  let summary = "a copy of this rank's part of a buffer cut over `axes`";
  let description = [{
    The secondary shard of zero-hierarchical. The buffer is a whole number of parts of the same type on the same tier
    (`own_part_c1`).

    ```mlir
    %p = zero.own_part %b {axes = ["local"]} : !zero.buffer<512 x f32, device> -> !zero.buffer<256 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input, Zero_Axes:$axes);
  let results = (outs Res<Zero_BufferType, "", [MemAlloc, MemWrite]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Zero_ReorderOp : Zero_ScheduledOp<"reorder", [], [SameTypeOperands]> {
  let summary = "rows x columns equal pieces become columns x rows";
  let description = [{
    Piece (c, r) of the target is piece (r, c) of the input; the buffers are a whole number of pieces (`reorder_c1`). Around
    collectives that run along one axis of the mesh after the other (zero-hierarchical-collectives).

    ```mlir
    zero.reorder %b into %t rows = 2 columns = 4 : !zero.buffer<512 x f32, device>
    ```
  }];
  let arguments = (ins Arg<Zero_BufferType, "", [MemRead]>:$input, Arg<Zero_BufferType, "", [MemWrite]>:$target,
      I64Attr:$rows, I64Attr:$columns);
  let assemblyFormat = "$input `into` $target `rows` `=` $rows `columns` `=` $columns attr-dict `:` type($input)";
  let hasVerifier = 1;
}

#endif // ZC_ZERO_QUANTIZE
