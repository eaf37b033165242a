// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

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

// -----

// What a condition hides before it and after it: rows without a key are zeros, either way round.
// CHECK-LABEL: inputs = ["hidden", "c"]
// CHECK: %[[INF:.*]] = graph.constant dense<0xFF800000> : tensor<f32>
// CHECK: %[[K:.*]] = graph.select %arg1, %arg0, %[[INF]]
// CHECK: %[[P:.*]] = graph.softmax %[[K]] {axis = 1 : i64, zero_masked}
// CHECK: %[[D:.*]] = graph.select %arg1, %{{.*}}, %[[P]]
// CHECK: %[[R:.*]] = graph.softmax %[[D]] {axis = 1 : i64, zero_masked}
// CHECK: graph.return %[[R]]
graph.program @micro phase = micro inputs = ["hidden", "c"] {
^bb0(%x: tensor<2x3xf32>, %c: tensor<2x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %a = graph.select %c, %x, %low : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %p = graph.softmax %a {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = graph.select %c, %p, %zero : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = graph.select %c, %low, %y : (tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %q = graph.softmax %b {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = graph.select %c, %zero, %q : (tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return %z : tensor<2x3xf32>
}

// -----

// Another condition, or the other way round.
// CHECK-LABEL: inputs = ["shown", "c", "d"]
// CHECK-NOT: zero_masked
// CHECK: graph.return
graph.program @micro phase = micro inputs = ["shown", "c", "d"] {
^bb0(%x: tensor<2x3xf32>, %c: tensor<2x3xi1>, %d: tensor<2x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %a = graph.select %c, %x, %low : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %p = graph.softmax %a {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = graph.select %d, %p, %zero : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = graph.select %c, %y, %low : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %q = graph.softmax %b {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = graph.select %c, %zero, %q : (tensor<2x3xi1>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return %z : tensor<2x3xf32>
}
