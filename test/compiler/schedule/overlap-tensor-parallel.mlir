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
// PLAN-LABEL: plan.section micro
// PLAN-NOT: plan.step "copy"
// PLAN: plan.step "matmul" {{.*}} waits = []
// PLAN: plan.step "all_reduce" queue = comm {{.*}} waits = [#plan.wait<micro compute 2 ago 0>]
// PLAN: plan.step "matmul" {{.*}}<read @{{.*}} + 256 : tensor<4x16xf32>>, {{.*}} waits = []
// PLAN: plan.step "all_reduce" queue = comm
// PLAN-NOT: plan.step "copy"
// PLAN: plan.section update
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

// -----

// Of a sum of which each rank keeps its rows (--sequence-parallel), a half has half of each rank's rows: a product for each of these runs.
// CHECK-LABEL: graph.parameter @scattered
// CHECK: zero.put %{{.*}} into %[[H:.*]] offset = 0
// CHECK: %[[A0:.*]] = zero.view %[[H]] offset = 0 : {{.*}} -> tensor<2x16xf32>
// CHECK: %[[P0:.*]] = graph.matmul %[[A0]], %[[W:.*]] : (tensor<2x16xf32>, tensor<16x32xf32>) -> tensor<2x32xf32>
// CHECK: zero.put %[[P0]] into %[[I:.*]] offset = 0
// CHECK: %[[A1:.*]] = zero.view %[[H]] offset = 64
// CHECK: %[[P1:.*]] = graph.matmul %[[A1]], %[[W]]
// CHECK: zero.put %[[P1]] into %[[I]] offset = 64
// CHECK: %[[FIRST:.*]] = zero.view %[[I]] offset = 0 : {{.*}} -> tensor<4x32xf32>
// CHECK: %[[S:.*]] = graph.reduce_scatter %[[FIRST]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x32xf32>) -> tensor<2x32xf32>
// CHECK: zero.view %[[H]] offset = 32
// CHECK: zero.view %[[H]] offset = 96
// CHECK: %[[T:.*]] = graph.reduce_scatter
// CHECK: zero.put %[[S]] into %[[Y:.*]] offset = 0
// CHECK: zero.put %[[T]] into %[[Y]] offset = 64
// CHECK: zero.view %[[Y]] offset = 0 : {{.*}} -> tensor<4x32xf32>
// CHECK: graph.return
// PLAN-LABEL: plan.section micro
// PLAN-NOT: plan.step "copy"
// PLAN: plan.step "matmul"
// PLAN: plan.step "matmul"
// PLAN: plan.step "reduce_scatter" queue = comm
// PLAN: plan.step "matmul" {{.*}} waits = []
// PLAN: plan.step "matmul" {{.*}} waits = []
// PLAN: plan.step "reduce_scatter" queue = comm
// PLAN-NOT: plan.step "copy"
// PLAN: plan.section update
module attributes {graph.model_ranks = 2 : i64, plan.machine = #plan.machine<flops_per_second = 1.0e+09, comm_bandwidth = 1.0e+08, step_overhead = 1.0e-09>} {
  graph.parameter @scattered : tensor<16x32xf32> role = trainable {cut = #graph.cut<0, 1, tensor<32x32xf32>>, value = dense<1.0> : tensor<32x32xf32>}
  graph.program @micro phase = micro inputs = ["x"] {
  ^bb0(%x: tensor<8x16xf32>):
    %w = graph.read @scattered : tensor<16x32xf32>
    %g = graph.gelu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %p = graph.matmul %g, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %y = graph.reduce_scatter %p {dim = 0 : i64, ranks = 2 : i64} : (tensor<8x32xf32>) -> tensor<4x32xf32>
    %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<f32>
    %f = graph.all_gather %y {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x32xf32>) -> tensor<8x32xf32>
    %gw = graph.matmul %g, %f {trans_lhs} : (tensor<8x16xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    graph.accumulate_grad @scattered, %gw : tensor<16x32xf32>
    graph.return %loss : tensor<f32>
  }
  graph.program @update phase = update inputs = [] {
    %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    graph.update @scattered, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.return
  }
}

// -----

// Rows along the sequence, of several samples: a half has all ranks' rows of half of the samples, one run.
// CHECK-LABEL: graph.parameter @sequences
// CHECK: %[[P:.*]] = graph.matmul %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
// CHECK: %[[R:.*]] = graph.reshape %[[P]] {{.*}} -> tensor<2x2x64xf32>
// CHECK: %[[T:.*]] = graph.transpose %[[R]]
// CHECK: graph.reduce_scatter %[[T]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<2x2x64xf32>) -> tensor<1x2x64xf32>
// CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
// CHECK: graph.reduce_scatter {{.*}} -> tensor<1x2x64xf32>
// CHECK-NOT: graph.reduce_scatter
// CHECK: zero.put %{{.*}} into %[[Y:.*]] offset = 0
// CHECK: zero.put %{{.*}} into %[[Y]] offset = 128
// CHECK: graph.return
module attributes {graph.model_ranks = 2 : i64, plan.machine = #plan.machine<flops_per_second = 1.0e+09, comm_bandwidth = 1.0e+08, step_overhead = 1.0e-09>} {
  graph.parameter @sequences : tensor<16x32xf32> role = trainable {cut = #graph.cut<0, 1, tensor<32x32xf32>>, value = dense<1.0> : tensor<32x32xf32>}
  graph.program @micro phase = micro inputs = ["x"] {
  ^bb0(%x: tensor<4x4x16xf32>):
    %w = graph.read @sequences : tensor<16x32xf32>
    %g = graph.gelu %x : (tensor<4x4x16xf32>) -> tensor<4x4x16xf32>
    %p = graph.matmul %g, %w : (tensor<4x4x16xf32>, tensor<16x32xf32>) -> tensor<4x4x32xf32>
    %y = graph.reduce_scatter %p {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x4x32xf32>) -> tensor<4x2x32xf32>
    %loss = graph.reduce_mean %y {axes = array<i64: 0, 1, 2>} : (tensor<4x2x32xf32>) -> tensor<f32>
    %f = graph.all_gather %y {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x2x32xf32>) -> tensor<4x4x32xf32>
    %h = graph.reshape %g {shape = array<i64: 16, 16>} : (tensor<4x4x16xf32>) -> tensor<16x16xf32>
    %k = graph.reshape %f {shape = array<i64: 16, 32>} : (tensor<4x4x32xf32>) -> tensor<16x32xf32>
    %gw = graph.matmul %h, %k {trans_lhs} : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    graph.accumulate_grad @sequences, %gw : tensor<16x32xf32>
    graph.return %loss : tensor<f32>
  }
  graph.program @update phase = update inputs = [] {
    %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    graph.update @sequences, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.return
  }
}
