// RUN: zero-opt %s --assign-queues --plan-memory --lower-to-plan | FileCheck %s
// What a step says that its kernel moves: of a table what is picked, of operands what views see of them, what stands twice among them once.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.parameter @table : tensor<1000x8xf32> role = frozen
zero.bucket @bucket0 : f32 padded = 8000 members = [#zero.member<@table, 0, 8000>]

// CHECK-LABEL: plan.section micro
graph.program @micro phase = micro inputs = ["i", "x", "qkv"] {
^bb0(%i: tensor<2x4xi64>, %x: tensor<16x8xf32>, %qkv: tensor<1x5x24xf32>):
  %p = zero.storage @bucket0 of parameters : !zero.buffer<8000 x f32, device>
  %t = zero.view %p offset = 0 : !zero.buffer<8000 x f32, device> -> tensor<1000x8xf32>
  // Eight indices, and as many rows read and written.
  // CHECK: plan.step "gather" {{.*}}{bytes = 576 : i64
  %rows = graph.gather %t, %i {axis = 0 : i64} : (tensor<1000x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  // CHECK: plan.step "slice" {{.*}}{bytes = 128 : i64
  %s = graph.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 8>, strides = array<i64: 1, 1>} : (tensor<16x8xf32>) -> tensor<2x8xf32>
  // CHECK: plan.step "mul" {{.*}}{bytes = 1024 : i64
  %square = graph.mul %x, %x : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // Queries, keys and values are parts of one tensor of 480 bytes; results have 200.
  // CHECK: plan.step "attention" {{.*}}{bytes = 680 : i64
  %y, %l = graph.attention %qkv, %qkv, %qkv {scale = 0.5 : f64, views = #graph.views<[
      <0 + 0 [1, 2, 5, 4] by [120, 4, 24, 1]>, <1 + 8 [1, 2, 5, 4] by [120, 4, 24, 1]>, <2 + 16 [1, 2, 5, 4] by [120, 4, 24, 1]>,
      <3 + 0 [1, 2, 5, 4] by [40, 4, 8, 1]>, <4 + 0 [1, 2, 5] by [10, 5, 1]>] -> [tensor<1x5x8xf32>, tensor<1x2x5xf32>]>}
      : (tensor<1x5x24xf32>, tensor<1x5x24xf32>, tensor<1x5x24xf32>) -> (tensor<1x5x8xf32>, tensor<1x2x5xf32>)
  // All of a tensor of 512 bytes, and its first half again.
  // CHECK: plan.step "fused" {{.*}}{bytes = 1024 : i64
  %f = graph.fused %x, %x {program = array<i64: 1, 6, 0, 0, 1, 0, 2>, views = #graph.views<[
      <0 + 0 [2, 8, 8] by [64, 8, 1]>, <1 + 0 [8, 8] by [8, 1]>, <2 + 0 [2, 8, 8] by [64, 8, 1]>] -> [tensor<2x8x8xf32>]>}
      : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<2x8x8xf32>
  graph.return
}
graph.program @update phase = update inputs = [] {
  graph.return
}
