// RUN: zero-opt %s --split-input-file --split-dropout | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-dropout --fuse-elementwise | FileCheck %s --check-prefix=FUSED
// RUN: zero-opt %s --split-input-file --split-dropout="fuse=off" | FileCheck %s --check-prefix=NONE
// NONE-NOT: graph.dropout_mask

// A residual: one program of mask, sum and, forward, the scale.
// CHECK-LABEL: graph.program @residual
// FUSED-LABEL: graph.program @residual
graph.program @residual phase = micro inputs = ["x", "r"] {
^bb0(%x: tensor<4x8xbf16>, %r: tensor<4x8xbf16>):
  // CHECK: %[[M:.*]] = graph.dropout_mask {id = 3 : i64, ratio = 1.000000e-01 : f64, shape = array<i64: 4, 8>}
  // CHECK: %[[Y:.*]] = graph.dropout_grad %arg0, %[[M]] {ratio = 1.000000e-01 : f64}
  // CHECK: graph.add %arg1, %[[Y]]
  // CHECK: graph.dropout_grad %{{.*}}, %[[M]]
  // FUSED: %[[M:.*]] = graph.dropout_mask
  // FUSED: graph.fused %arg0, %[[M]], %arg1 {program = array<i64: 3, 1, 0, 1066285284, 39, 1, 0, 1, 3, 4, 1, 2, 4, 0, 5>}
  %0:2 = graph.dropout %x {ratio = 0.1 : f64, id = 3 : i64} : (tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xi1>)
  %1 = graph.add %r, %0#0 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  graph.output %1 as "y" : tensor<4x8xbf16>
  %2 = graph.softmax %1 {axis = 1 : i64} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %3 = graph.dropout_grad %2, %0#1 {ratio = 0.1 : f64} : (tensor<4x8xbf16>, tensor<4x8xi1>) -> tensor<4x8xbf16>
  graph.output %3 as "d" : tensor<4x8xbf16>
  graph.return
}

// -----

// A rank's part.
// CHECK-LABEL: graph.program @part
graph.program @part phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // CHECK: %[[G:.*]] = graph.gelu
  // CHECK: %[[M:.*]] = graph.dropout_mask {id = 3 : i64, ratio = 5.000000e-01 : f64, run = 2 : i64, shape = array<i64: 4>, stride = 4 : i64}
  // CHECK: graph.dropout_grad %[[G]], %[[M]]
  %g = graph.gelu %x : (tensor<4xf32>) -> tensor<4xf32>
  %0:2 = graph.dropout %g {ratio = 0.5 : f64, id = 3 : i64, run = 2 : i64, stride = 4 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  graph.output %0#0 as "y" : tensor<4xf32>
  graph.return
}

// -----

// Nothing fuses with these: what stands between products, f64, another shape.
// CHECK-LABEL: graph.program @alone
// CHECK-NOT: graph.dropout_mask
graph.program @alone phase = micro inputs = ["x", "d", "v"] {
^bb0(%x: tensor<4x4xf32>, %d: tensor<4xf64>, %v: tensor<4xf32>):
  %0:2 = graph.dropout %x {ratio = 0.5 : f64, id = 1 : i64} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi1>)
  %1 = graph.matmul %0#0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2:2 = graph.dropout %d {ratio = 0.5 : f64, id = 2 : i64} : (tensor<4xf64>) -> (tensor<4xf64>, tensor<4xi1>)
  %3 = graph.exp %2#0 : (tensor<4xf64>) -> tensor<4xf64>
  %4:2 = graph.dropout %v {ratio = 0.5 : f64, id = 3 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %5 = graph.add %1, %4#0 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  graph.output %3 as "e" : tensor<4xf64>
  graph.output %5 as "y" : tensor<4x4xf32>
  graph.return
}
