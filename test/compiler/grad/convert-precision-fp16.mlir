// RUN: zero-opt %s --convert-precision=precision=fp16 | FileCheck %s
// As in bf16, but that what is beyond f16 becomes its largest number before it is cast: a mask has no infinities.

// CHECK: graph.parameter @w : tensor<4xf16> role = trainable
graph.parameter @w : tensor<4xf32> role = trainable
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "m"] {
// CHECK: ^bb0(%[[X0:.*]]: tensor<4xf32>, %[[M:.*]]: tensor<4xi1>)
^bb0(%x: tensor<4xf32>, %m: tensor<4xi1>):
  // What comes with the data is its own affair.
  // CHECK: graph.read @w : tensor<4xf16>
  // CHECK: %[[X:.*]] = graph.cast %[[X0]] {to = f16}
  %w = graph.read @w : tensor<4xf32>
  %y = graph.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // Constants that fit are cast alone.
  // CHECK: %[[C:.*]] = graph.constant dense<[1.000000e+00, -6.550400e+04, 0.000000e+00, 6.550400e+04]> : tensor<4xf32>
  // CHECK-NEXT: graph.cast %[[C]] {to = f16}
  %c = graph.constant dense<[1.0, -65504.0, 0.0, 65504.0]> : tensor<4xf32>
  %z = graph.add %y, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[MASK:.*]] = graph.select %[[M]]
  %low = graph.constant dense<-3.40282347E+38> : tensor<4xf32>
  %zero = graph.constant dense<0.0> : tensor<4xf32>
  %mask = graph.select %m, %zero, %low : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[LEAST:.*]] = graph.constant dense<-6.550400e+04> : tensor<f32>
  // CHECK: %[[ABOVE:.*]] = graph.max %[[MASK]], %[[LEAST]]
  // CHECK: %[[MOST:.*]] = graph.constant dense<6.550400e+04> : tensor<f32>
  // CHECK: %[[INSIDE:.*]] = graph.min %[[ABOVE]], %[[MOST]]
  // CHECK: %[[NARROW:.*]] = graph.cast %[[INSIDE]] {to = f16}
  // CHECK: graph.add %{{.*}}, %[[NARROW]] : (tensor<4xf16>, tensor<4xf16>)
  %s = graph.add %z, %mask : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // What is computed of it is not.
  // CHECK: %[[HIDDEN:.*]] = graph.mul %[[X0]]
  // CHECK: %[[ABOVE:.*]] = graph.max %[[HIDDEN]],
  // CHECK: %[[INSIDE:.*]] = graph.min %[[ABOVE]],
  // CHECK: %[[NARROW:.*]] = graph.cast %[[INSIDE]] {to = f16}
  // CHECK: graph.add %{{.*}}, %[[NARROW]] : (tensor<4xf16>, tensor<4xf16>)
  %hidden = graph.mul %x, %low : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.add %s, %hidden : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = graph.reduce_sum %t {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
