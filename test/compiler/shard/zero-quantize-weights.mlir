// RUN: zero-opt %s --split-input-file --zero-quantize-weights | FileCheck %s
// RUN: not zero-opt %s --split-input-file --zero-quantize-weights="quantize-block=3" 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not zero-opt %s --split-input-file --zero-quantize-weights="quantize-weights=int5" 2>&1 | FileCheck %s --check-prefix=BITS
// BLOCK: quantize-block: 3 elements per scale: an even number is wanted
// BITS: quantize-weights: "int5" is not one of none, int8

// Values and scales of a shard travel as one run of bytes: 320 of int8, and the scale of one block.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : bf16 padded = 640 members = [] {parameters_sharded}
graph.program @micro phase = micro inputs = [] {
  // CHECK-NEXT: %[[S:.*]] = zero.storage @bucket0 of parameters
  %s = zero.storage @bucket0 of parameters : !zero.buffer<320 x bf16, device>
  // CHECK-NEXT: %[[L:.*]] = zero.load
  // CHECK-NEXT: %[[Q:.*]] = zero.quantize %[[S]] {bits = 8 : i64, block = 512 : i64, columns = 1 : i64, rows = 1 : i64} : (!zero.buffer<320 x bf16, device>) -> !zero.buffer<324 x ui8, device>
  // CHECK-NEXT: %[[G:.*]] = zero.gather %[[Q]] : <324 x ui8, device> -> <648 x ui8, device>
  // CHECK-NEXT: %[[B:.*]] = zero.dequantize %[[G]] {bits = 8 : i64, block = 512 : i64, columns = 2 : i64, rows = 1 : i64} : <648 x ui8, device> -> <640 x bf16, device>
  %b = zero.load {
    %gathered = zero.gather %s : !zero.buffer<320 x bf16, device> -> !zero.buffer<640 x bf16, device>
    zero.yield %gathered : !zero.buffer<640 x bf16, device>
  } : !zero.buffer<640 x bf16, device>
  // CHECK-NEXT: zero.yield %[[B]]
  // CHECK: zero.view %[[L]]
  %w = zero.view %b offset = 0 : !zero.buffer<640 x bf16, device> -> tensor<640xbf16>
  // CHECK-NEXT: zero.release %[[L]]
  zero.release %b : !zero.buffer<640 x bf16, device>
  graph.return
}

// -----

// On every rank whole: nothing is gathered, nothing is quantized.
// CHECK-LABEL: graph.program @micro
// CHECK-NOT: zero.quantize
zero.bucket @bucket0 : f32 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  %s = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %w = zero.view %s offset = 0 : !zero.buffer<64 x f32, device> -> tensor<64xf32>
  graph.return
}
