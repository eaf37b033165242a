// What MLIR's own pass gives, byte for byte, of a module that both change in many ways.
// RUN: zero-opt %s --simplify | FileCheck %s
// RUN: zero-opt %s --simplify --mlir-print-debuginfo > %t.ours
// RUN: zero-opt %s --canonicalize="top-down=false region-simplify=disabled" --mlir-print-debuginfo > %t.mlirs
// RUN: cmp %t.ours %t.mlirs

// Of a model's step too, where the exporter's arithmetic on shapes, views and dead derivatives are.
// RUN: zero-compile %source/test/models/gpt2/ts17.onnx --compile-to import > %t.import.mlir
// RUN: zero-opt %t.import.mlir --differentiate --simplify --mlir-print-debuginfo > %t.ours
// RUN: zero-opt %t.import.mlir --differentiate --canonicalize="top-down=false region-simplify=disabled" --mlir-print-debuginfo > %t.mlirs
// RUN: cmp %t.ours %t.mlirs

// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // Constants go to the front, each once.
  // CHECK: %[[TWO:.*]] = graph.constant dense<2.0{{.*}}> : tensor<4xf32>
  // CHECK-NOT: graph.constant
  // CHECK: %[[P:.*]] = graph.mul %{{.*}}, %[[TWO]]
  // CHECK-NEXT: %[[Q:.*]] = graph.add %[[P]], %[[TWO]]
  %a = graph.constant dense<2.0> : tensor<4xf32>
  %p = graph.mul %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.constant dense<2.0> : tensor<4xf32>
  %q = graph.add %p, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // A chain of views that leads back is none, and what made it is dead: one after the other, from the last.
  %r = graph.reshape %q {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %s = graph.reshape %r {shape = array<i64: 4, 1>} : (tensor<2x2xf32>) -> tensor<4x1xf32>
  %t = graph.reshape %s {shape = array<i64: 4>} : (tensor<4x1xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[E:.*]] = graph.exp %[[Q]]
  %e = graph.exp %t : (tensor<4xf32>) -> tensor<4xf32>
  %dead = graph.exp %s : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %deader = graph.cos %dead : (tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK-NEXT: graph.return %[[E]]
  graph.return %e : tensor<4xf32>
}
