// RUN: zero-opt %s --append-optimizer="optimizer=adamw lr=6e-4 betas=0.9,0.75 clip-grad-norm=1" | FileCheck %s
// RUN: zero-opt %s --append-optimizer="optimizer=sgd weight-decay=0.5" | FileCheck %s --check-prefix=SGD
// RUN: not zero-opt %s --append-optimizer="betas=1.5,0.9" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not zero-opt %s --append-optimizer --append-optimizer 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not zero-opt %s --append-optimizer="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=RULE

// BETA: betas: "1.5,0.9" is not B1,B2 with both in [0, 1)
// TWICE: error: 'graph.program' op is there already: append-optimizer runs once
// RULE: optimizer: "lion" is not one of adamw, adam, sgd, momentum

// CHECK: module {
graph.parameter @w : tensor<4xf32> role = trainable
graph.parameter @h.bias : tensor<4xf32> role = trainable {weight_decay = 0.0 : f64}
graph.parameter @own : tensor<4xf32> role = trainable {lr_scale = 0.5 : f64, weight_decay = 0.25 : f64}
graph.parameter @fixed : tensor<4xf32> role = frozen
graph.program @micro phase = micro inputs = [] {
  graph.return
}
// CHECK-LABEL: graph.program @update phase = update inputs = [] {
// CHECK-NEXT: %{{.*}}, %[[F:.*]] = graph.clip_factor {max_norm = 1.000000e+00 : f64}
// CHECK-NEXT: graph.update @w, %[[F]] rule = adamw {beta1 = 9.000000e-01 : f64, beta2 = 7.500000e-01 : f64, eps = 1.000000e-08 : f64, momentum = {{.*}}, weight_decay = 1.000000e-02 : f64}
// CHECK-NEXT: graph.update @h.bias, {{.*}} weight_decay = 0.000000e+00
// CHECK-NEXT: graph.update @own, {{.*}} {{.*}}lr_scale = 5.000000e-01 : f64, {{.*}}weight_decay = 2.500000e-01
// CHECK-NEXT: graph.return

// SGD: module {
// SGD-LABEL: graph.program @update
// SGD-NEXT: graph.clip_factor : tensor<f32>
// SGD-NEXT: graph.update @w, {{.*}} rule = sgd {{.*}} weight_decay = 5.000000e-01
// SGD: graph.update @own, {{.*}} weight_decay = 2.500000e-01
