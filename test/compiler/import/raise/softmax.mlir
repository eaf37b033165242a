// RUN: zero-opt %s --raise-composites | FileCheck %s

// CHECK: %[[Y:.*]] = graph.softmax %{{.*}} {axis = 1 : i64, zero_masked}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  %zero = graph.constant dense<0.0> : tensor<f32>
  %s = graph.softmax %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %n = graph.is_nan %s : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %y = graph.select %n, %zero, %s : (tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return %y : tensor<2x3xf32>
}
