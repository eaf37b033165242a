// RUN: zero-opt %s --zero-shard-pipeline="world-size=4 tensor-parallel=2 zero-stage=3" --zero-schedule-pipeline --zero-plan-pipeline --verify-plan | FileCheck %s

// A linear whose columns two ranks share: its input diverges, and what they make is gathered. Buckets of parts and of
// whole parameters are apart; the plan says of which whole a part is. What ranks of the model axis exchange goes along it.
// CHECK: plan.mesh axes = [#plan.axis<"node" = 1>, #plan.axis<"local" = 2>, #plan.axis<"model" = 2, model>]
// CHECK: plan.parameter @w : tensor<8x16xf32> {{.*}}cut = #graph.cut<1, 1, tensor<8x32xf32>>
// CHECK: plan.step "copy" {{.*}}#plan.operand<read {{.*}} strides = {{\[0, 0, 8\]}} : tensor<1xi64>>
// CHECK: plan.step "all_gather" queue = comm inputs = 1 {{.*}}attributes = {traffic = "gather"}{{.*}}axes = ["model"]
// CHECK: plan.step "all_reduce" queue = comm inputs = 1 {{.*}}attributes = {traffic = "all_reduce"}{{.*}}axes = ["model"]
// Of the bias, which both have, each rank squares its half of the shard; of the weight, all of its own.
// CHECK-DAG: plan.step "norm_partial" {{.*}} strides = {{\[0, 0, 256\]}} : tensor<64xf32>>
// CHECK-DAG: plan.step "norm_partial" {{.*}} : tensor<64xf32>>
module attributes {graph.model_ranks = 2 : i64} {
  graph.parameter @w : tensor<8x16xf32> role = trainable {cut = #graph.cut<1, 1, tensor<8x32xf32>>, value = dense<1.0> : tensor<8x32xf32>}
  graph.parameter @b : tensor<8xf32> role = trainable {value = dense<0.0> : tensor<8xf32>}
  graph.program @micro phase = micro inputs = ["x"] {
  ^bb0(%x: tensor<4x8xf32>):
    %w = graph.read @w : tensor<8x16xf32>
    %b = graph.read @b : tensor<8xf32>
    %s = graph.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %d = graph.diverge %s : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %p = graph.matmul %d, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %o = graph.rank_offset {type = tensor<i64>, stride = 16 : i64} : () -> tensor<i64>
    %f = graph.cast %o {to = f32} : (tensor<i64>) -> tensor<f32>
    %q = graph.add %p, %f : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %y = graph.all_gather %q {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x16xf32>) -> tensor<4x32xf32>
    %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<4x32xf32>) -> tensor<f32>
    %gp = graph.all_slice %y {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x32xf32>) -> tensor<4x16xf32>
    %gw = graph.matmul %d, %gp {trans_lhs} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %gd = graph.matmul %gp, %w {trans_rhs} : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
    %gs = graph.all_reduce %gd : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %gb = graph.reduce_sum %gs {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
    graph.accumulate_grad @w, %gw : tensor<8x16xf32>
    graph.accumulate_grad @b, %gb : tensor<8xf32>
    graph.return %loss : tensor<f32>
  }
  graph.program @update phase = update inputs = [] {
    %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
    graph.update @w, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.update @b, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
    graph.return
  }
}
