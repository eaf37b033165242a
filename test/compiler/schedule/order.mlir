// RUN: zero-opt %s --order | FileCheck %s

// Compute keeps its order (3 x 2 s) while comm runs beside it: the gather waits for the place it stands at (2 s), takes 3 s,
// and holds up its user until 5 s. The buffer ends after its last user. The micro-step of 9 s runs twice, the update takes 1 s.
// CHECK: module attributes {zc.accumulation = 2 : i64, zc.predicted_seconds = 1.900000e+01 : f64}
module attributes {zc.accumulation = 2 : i64} {
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, parameters_sharded}
zero.bucket @bucket1 : f32 padded = 64 members = [] {trainable}
// CHECK-LABEL: graph.program @micro
// CHECK: graph.exp
// CHECK-NEXT: zero.gather
// CHECK-NEXT: graph.abs
// CHECK-NEXT: zero.view
// CHECK-NEXT: graph.mul
// CHECK-NEXT: zero.release
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.return
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %0 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  %b = zero.gather @bucket0 {plan.queue = #plan<queue comm>, plan.seconds = 3.0} : !zero.buffer<64 x f32, device>
  %1 = graph.abs %0 {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  %v = zero.view %b offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device> -> tensor<64xf32>
  %2 = graph.mul %1, %v {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  zero.release %b {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %3 = graph.neg %2 {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
// In the update storage is touched in the order written: the gather of bucket1 may go ahead, that of bucket0 may not.
// CHECK-LABEL: graph.program @update
// CHECK: zero.all_gather @bucket1
// CHECK: zero.update @bucket0
// CHECK: zero.all_gather @bucket0
graph.program @update phase = update inputs = [] {
  %s = zero.norm_partial @bucket0() {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : () -> tensor<24xi64>
  %n, %f = zero.clip_factor %s {plan.queue = #plan<queue compute>, plan.seconds = 0.5} : tensor<24xi64> -> tensor<f32>, tensor<f32>
  zero.update @bucket0, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, plan.queue = #plan<queue compute>, plan.seconds = 0.25} : tensor<f32>
  zero.all_gather @bucket0 of "parameters" {plan.queue = #plan<queue comm>, plan.seconds = 0.25}
  zero.all_gather @bucket1 of "parameters" {plan.queue = #plan<queue comm>, plan.seconds = 0.25}
  graph.return
}
}
