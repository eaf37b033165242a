// RUN: zero-opt %s --order | FileCheck %s
// RUN: sed 's/seconds = 10.0/seconds = 0.1/' %s | zero-opt --plan-memory | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/seconds = 10.0/seconds = 0.1/' %s | zero-opt --plan-memory=overlap=planned | FileCheck %s --check-prefix=PLANNED

// Three pieces of 256 bytes leave the device, ten seconds each, for a second of compute. Two may wait for their turn: compute behind
// the third waits for the end of the first, at 11 s.
// CHECK: graph.program @micro {{.*}}plan.starts = array<f64: 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 1.000000e+00, 1.000000e+00, 2.000000e+00, 1.100000e+01, 1.100000e+01, 2.100000e+01>
// CHECK: graph.exp
// CHECK: graph.abs
// CHECK: graph.sqrt
// CHECK: graph.neg

// Where copies are expected to take a tenth of a second and are slower, what leaves keeps its bytes (of exp: s1) until two more pieces
// have to leave: sqrt (s3), which could have them, goes elsewhere, neg (s4) goes there.
// KEPT: plan.slice @s1 in @device offset = 1536
// KEPT: plan.slice @s3 in @device offset = 2048
// KEPT: plan.slice @s4 in @device offset = 1536
// PLANNED: plan.slice @s1 in @device offset = 1536
// PLANNED: plan.slice @s3 in @device offset = 1536
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>}
zero.bucket @bucket1 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>}
zero.bucket @bucket2 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>}
graph.program @micro phase = micro inputs = ["x"] attributes {plan.starts = array<f64: 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0>} {
^bb0(%x: tensor<64xf32>):
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, host>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, host>
  %g2 = zero.storage @bucket2 of gradients : !zero.buffer<64 x f32, host>
  %0 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.evict %0 into %g0 {plan.queue = #plan<queue d2h>, plan.seconds = 10.0} : tensor<64xf32>, !zero.buffer<64 x f32, host>
  %1 = graph.abs %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.evict %1 into %g1 {plan.queue = #plan<queue d2h>, plan.seconds = 10.0} : tensor<64xf32>, !zero.buffer<64 x f32, host>
  %2 = graph.sqrt %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.evict %2 into %g2 {plan.queue = #plan<queue d2h>, plan.seconds = 10.0} : tensor<64xf32>, !zero.buffer<64 x f32, host>
  %3 = graph.neg %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
