// RUN: zero-opt %s --plan-memory | FileCheck %s
// RUN: zero-opt %s --plan-memory=overlap=none | FileCheck %s --check-prefix=LEAST

// A copy that takes until 3 s keeps its buffer: what compute makes at 2 s goes elsewhere, what it makes at 3 s goes over it. With
// the least memory the buffer is free once the copy is ordered, and compute waits for it.
// CHECK-DAG: plan.slice @[[B:s[0-9]+]] in @device offset = 1280 bytes = 256 class = buffers
// CHECK-DAG: plan.slice @[[LATE:s[0-9]+]] in @device offset = 1280 bytes = 256 class = activations
// CHECK: zero.grad_buffer {{.*}}@[[B]] + 0
// CHECK-NOT: graph.abs {{.*}}@[[LATE]] + 0
// CHECK: graph.sqrt {{.*}}@[[LATE]] + 0
// LEAST-DAG: plan.slice @[[B:s[0-9]+]] in @device offset = 1024 bytes = 256 class = buffers
// LEAST-DAG: plan.slice @[[SOON:s[0-9]+]] in @device offset = 1024 bytes = 256 class = activations
// LEAST: graph.abs {{.*}}@[[SOON]] + 0
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, gradients_sharded, gradients_tier = #zero<tier host>}
graph.program @micro phase = micro inputs = ["x"] attributes {plan.starts = array<f64: 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0>} {
^bb0(%x: tensor<64xf32>):
  %g = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, host>
  %b = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  zero.evict %b into %g {plan.seconds = 2.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, host>
  %1 = graph.abs %x {plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  %2 = graph.sqrt %1 {plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  %3 = graph.add %1, %2 {plan.seconds = 1.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %4 = graph.add %x, %3 {plan.seconds = 1.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
