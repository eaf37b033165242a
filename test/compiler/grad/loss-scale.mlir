// RUN: zero-opt %s --differentiate=precision=fp16 --append-optimizer="optimizer=sgd clip-grad-norm=2" | FileCheck %s
// RUN: zero-opt %s --differentiate=precision=fp16 --append-optimizer="loss-scale=100.1" | FileCheck %s --check-prefix=FIXED
// RUN: zero-opt %s --differentiate=precision=fp16 --append-optimizer="initial-loss-scale=8 min-loss-scale=2 loss-scale-window=3 loss-scale-hysteresis=4 consecutive-hysteresis=true" | FileCheck %s --check-prefix=RULE
// RUN: not zero-opt %s --differentiate=precision=fp16 --append-optimizer="initial-loss-scale=0.5" 2>&1 | FileCheck %s --check-prefix=INITIAL
// RUN: not zero-opt %s --append-optimizer="min-loss-scale=0" 2>&1 | FileCheck %s --check-prefix=MINIMUM
// The gradient of the loss is the run's scale; clip_factor undoes it, and the module says how the run finds it.

// INITIAL: initial-loss-scale: it is below --min-loss-scale
// MINIMUM: min-loss-scale: 0 is not in [
// CHECK: loss_scale = <initial = 6.553600e+04 : f64, minimum = 1.000000e+00 : f64, window = 1000, hysteresis = 2>
// FIXED: loss_scale = <initial = 100.099{{[0-9]*}} : f64, minimum = 100.099{{[0-9]*}} : f64, window = 0, hysteresis = 2>
// RULE: loss_scale = <initial = 8.000000e+00 : f64, minimum = 2.000000e+00 : f64, window = 3, hysteresis = 4, consecutive = unit>
graph.parameter @w : tensor<4xf16> role = trainable
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf16>):
  %w = graph.read @w : tensor<4xf16>
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum
  %y = graph.mul %x, %w : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  %wide = graph.cast %y {to = f32} : (tensor<4xf16>) -> tensor<4xf32>
  %loss = graph.reduce_sum %wide {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  // CHECK-NEXT: graph.backward
  // CHECK-NEXT: %[[SCALE:.*]] = graph.loss_scale {type = tensor<f32>} : () -> tensor<f32>
  // CHECK-NEXT: graph.reshape %[[SCALE]]
  // CHECK: graph.accumulate_grad @w, %{{.*}} : tensor<4xf16>
  // CHECK-NEXT: graph.return %[[LOSS]]
  graph.return %loss : tensor<f32>
}
// CHECK-LABEL: graph.program @update
// CHECK-NEXT: graph.clip_factor {max_norm = 2.000000e+00 : f64, scaled}
// FIXED: graph.clip_factor {scaled}
