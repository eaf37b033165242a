// RUN: zero-opt %s --split-input-file --zero-shard-pipeline="world-size=2 tensor-parallel=2" --overlap-tensor-parallel="overlap-tensor-parallel=halves" | FileCheck %s
// RUN: zero-opt %s --split-input-file --zero-shard-pipeline="world-size=2 tensor-parallel=2" --overlap-tensor-parallel | FileCheck %s --check-prefix=OFF
// RUN: zero-opt %s --split-input-file --zero-shard-pipeline="world-size=2 tensor-parallel=2" --zero-schedule-pipeline="overlap-tensor-parallel=halves" --zero-plan-pipeline --verify-plan | FileCheck %s --check-prefix=PLAN

// Halves of the rows: the first is summed while the second is multiplied. Both read where the activation is computed from now on, and
// their sums are where the whole is; whoever read these reads there.
// CHECK-LABEL: graph.parameter @summed
// CHECK: %[[G:.*]] = graph.gelu
// CHECK-NEXT: zero.put %[[G]] into %[[H:.*]] offset = 0
// CHECK: %[[A:.*]] = zero.view %[[H]] offset = 0 : {{.*}} -> tensor<4x16xf32>
// CHECK: %[[P:.*]] = graph.matmul %[[A]], %[[W:.*]] : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
// CHECK: %[[PS:.*]] = graph.all_reduce %[[P]]
// CHECK: %[[B:.*]] = zero.view %[[H]] offset = 64 : {{.*}} -> tensor<4x16xf32>
// CHECK: %[[Q:.*]] = graph.matmul %[[B]], %[[W]]
// CHECK: %[[QS:.*]] = graph.all_reduce %[[Q]]
// CHECK: zero.put %[[PS]] into %[[Y:.*]] offset = 0
// CHECK: zero.put %[[QS]] into %[[Y]] offset = 128
// CHECK: %[[V:.*]] = zero.view %[[Y]] offset = 0 : {{.*}} -> tensor<2x4x32xf32>
// CHECK: graph.reshape %[[V]]
// CHECK-NOT: graph.all_reduce
// CHECK: graph.return
// OFF-NOT: zero.put {{.*}} : tensor<4x32xf32>
// OFF: graph.all_reduce {{.*}} : (tensor<2x4x32xf32>)

// No step copies anything; the second product waits for nothing, the sum of the first only for the first.
// PLAN-LABEL: plan.section @micro
// PLAN-NOT: plan.step "copy"
// PLAN: plan.step "matmul" {{.*}} waits = []
// PLAN: plan.step "all_reduce" queue = comm {{.*}} waits = [#plan.wait<@micro compute 2 ago 0>]
// PLAN: plan.step "matmul" {{.*}}<read @{{.*}} + 256 : tensor<4x16xf32>>, {{.*}} waits = []
// PLAN: plan.step "all_reduce" queue = comm
// PLAN-NOT: plan.step "copy"
// PLAN: plan.section @update
module attributes {graph.model_ranks = 2 : i64, plan.machine = #plan.machine<flops_per_second = 1.0e+09, comm_bandwidth = 1.0e+08, step_overhead = 1.0e-09>} {
  graph.parameter @summed : tensor<16x32xf32> role = trainable {cut = #graph.cut<0, 1, tensor<32x32xf32>>, value = dense<1.0> : tensor<32x32xf32>}
  graph.program @micro phase = micro inputs = ["x"] {
  ^bb0(%x: tensor<2x4x16xf32>):
    %w = graph.read @summed : tensor<16x32xf32>
    %g = graph.gelu %x : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %p = graph.matmul %g, %w : (tensor<2x4x16xf32>, tensor<16x32xf32>) -> tensor<2x4x32xf32>
    %y = graph.all_reduce %p : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %f = graph.reshape %y {shape = array<i64: 8, 32>} : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %loss = graph.reduce_mean %f {axes = array<i64: 0, 1>} : (tensor<8x32xf32>) -> tensor<f32>
    %h = graph.reshape %g {shape = array<i64: 8, 16>} : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %gw = graph.matmul %h, %f {trans_lhs} : (tensor<8x16xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    graph.accumulate_grad @summed, %gw : tensor<16x32xf32>
    graph.return %loss : tensor<f32>
  }
  graph.program @update phase = update inputs = [] {
    %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    graph.update @summed, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.return
  }
}

// -----

// What stands beside the sum already hides it: it stays whole.
// CHECK-LABEL: graph.parameter @beside
// CHECK: graph.all_reduce {{.*}} : (tensor<8x32xf32>)
// CHECK-NOT: graph.all_reduce
// CHECK: graph.return
module attributes {graph.model_ranks = 2 : i64, plan.machine = #plan.machine<flops_per_second = 1.0e+09, comm_bandwidth = 1.0e+12, step_overhead = 1.0e-09>} {
  graph.parameter @beside : tensor<16x32xf32> role = trainable {cut = #graph.cut<0, 1, tensor<32x32xf32>>, value = dense<1.0> : tensor<32x32xf32>}
  graph.program @micro phase = micro inputs = ["x", "o"] {
  ^bb0(%x: tensor<8x16xf32>, %o: tensor<8x32xf32>):
    %w = graph.read @beside : tensor<16x32xf32>
    %g = graph.gelu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %p = graph.matmul %g, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %y = graph.all_reduce %p : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %gw = graph.matmul %g, %o {trans_lhs} : (tensor<8x16xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    graph.accumulate_grad @beside, %gw : tensor<16x32xf32>
    %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<8x32xf32>) -> tensor<f32>
    graph.return %loss : tensor<f32>
  }
  graph.program @update phase = update inputs = [] {
    %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    graph.update @beside, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.return
  }
}
