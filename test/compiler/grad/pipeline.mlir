// RUN: zero-opt %s --zero-grad-pipeline="precision=bf16 optimizer=momentum clip-grad-norm=0.5" | FileCheck %s
// RUN: zero-opt %s --zero-grad-pipeline | FileCheck %s --check-prefix=DEFAULT
// RUN: not zero-opt %s --zero-grad-pipeline="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: optimizer: "lion" is not one of adamw, adam, sgd, momentum

// The whole stage: bf16 parameters and gradients, an f32 loss, the forward of dropped outputs gone.
// CHECK: graph.parameter @w : tensor<4x4xbf16> role = trainable
graph.parameter @w : tensor<4x4xf32> role = trainable
// CHECK-LABEL: graph.program @micro
// DEFAULT-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<2x4xf32>, %t: tensor<2xi64>):
  %w = graph.read @w : tensor<4x4xf32>
  %y = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss, %lse = graph.cross_entropy %y, %t {ignore_index = -100 : i64} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  // CHECK-NOT: graph.exp
  %e = graph.exp %y : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[LOSS:.*]], %[[LSE:.*]] = graph.cross_entropy
  // CHECK: %[[D:.*]] = graph.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[LSE]]
  // CHECK: %[[G:.*]] = graph.matmul %{{.*}}, %[[D]] {trans_lhs} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xbf16>
  // CHECK: graph.accumulate_grad @w, %[[G]] : tensor<4x4xbf16>
  // CHECK: graph.return %[[LOSS]] : tensor<f32>
  // DEFAULT: graph.accumulate_grad @w, %{{.*}} : tensor<4x4xf32>
  graph.return %loss, %e : tensor<f32>, tensor<2x4xf32>
}
// CHECK: graph.program @update
// CHECK: graph.clip_factor {max_norm = 5.000000e-01 : f64}
// CHECK: graph.update @w, %{{.*}} rule = momentum {{.*}} momentum = 9.000000e-01 : f64, weight_decay = 0.000000e+00 : f64}
// DEFAULT: graph.update @w, %{{.*}} rule = adamw
