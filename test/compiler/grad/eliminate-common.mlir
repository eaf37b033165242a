// What MLIR's own pass gives, byte for byte.
// RUN: zero-opt %s --eliminate-common | FileCheck %s
// RUN: zero-opt %s --eliminate-common --mlir-print-debuginfo > %t.ours
// RUN: zero-opt %s --cse --mlir-print-debuginfo > %t.mlirs
// RUN: cmp %t.ours %t.mlirs

// Of a model's step too.
// RUN: %python %source/test/support/make_gpt.py %t.onnx --layers 2 --hidden 32 --heads 2 --vocab 50 --seq 8 --batch 2
// RUN: zero-compile %t.onnx --compile-to import > %t.import.mlir
// RUN: zero-opt %t.import.mlir --differentiate --eliminate-common > %t.ours
// RUN: zero-opt %t.import.mlir --differentiate --cse > %t.mlirs
// RUN: cmp %t.ours %t.mlirs

graph.parameter @w : tensor<4xf32> role = buffer
graph.parameter @v : tensor<4xf32> role = buffer

// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "y"] {
^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>):
  // The first of two that are equal stays, whatever is between; so do those whose operands are equal by that.
  // CHECK-NEXT: %[[A:.*]] = graph.neg %[[X]]
  // CHECK-NEXT: %[[EA:.*]] = graph.exp %[[A]]
  %a = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %ea = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  %eb = graph.exp %b : (tensor<4xf32>) -> tensor<4xf32>
  // Other operands, their order, attributes: other operations.
  // CHECK-NEXT: graph.sub %[[EA]], %[[Y]]
  // CHECK-NEXT: graph.sub %[[Y]], %[[EA]]
  // CHECK-NEXT: graph.reshape %[[EA]] {shape = array<i64: 2, 2>}
  // CHECK-NEXT: graph.reshape %[[EA]] {shape = array<i64: 1, 4>}
  %c = graph.sub %eb, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = graph.sub %y, %ea : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = graph.reshape %ea {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %f = graph.reshape %ea {shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
  // What nobody uses goes.
  %unused = graph.cos %y : (tensor<4xf32>) -> tensor<4xf32>
  // A buffer that was read is not read again, unless something was written.
  // CHECK: %[[W:.*]] = graph.read @w
  // CHECK-NEXT: graph.read @v
  // CHECK-NEXT: graph.assign @w, %[[W]]
  // CHECK-NEXT: graph.read @w
  // CHECK-NOT: graph.read
  %w = graph.read @w : tensor<4xf32>
  %v = graph.read @v : tensor<4xf32>
  %w1 = graph.read @w : tensor<4xf32>
  graph.assign @w, %w1 : tensor<4xf32>
  %w2 = graph.read @w : tensor<4xf32>
  %w3 = graph.read @w : tensor<4xf32>
  graph.return %c, %d, %e, %f, %w, %v, %w2, %w3 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
