// RUN: zero-opt %s --split-input-file --plan-memory | FileCheck %s
// RUN: zero-opt %s --split-input-file --plan-memory="device-mem=11520" | FileCheck %s --check-prefix=FITS
// RUN: not zero-opt %s --split-input-file --plan-memory="device-mem=767" 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not zero-opt %s --split-input-file --plan-memory="host-mem=12287" 2>&1 | FileCheck %s --check-prefix=TIERS
// FITS: plan.arena
// SHORT: error: the plan needs {{[0-9]+}} bytes but --device-mem allows 767

// In place and views: %1 takes the bytes of %0, which ends there; %2 is a view of them; %x, which is needed later, keeps its
// own. Persistent slices come first.
// CHECK: plan.arena @device tier = device bytes = 1024
// CHECK: plan.slice @loss_sum in @device offset = 0 bytes = 8 class = buffers {metric = #plan.metric<loss>, persistent}
// CHECK: plan.slice @grad_norm in @device offset = 256 bytes = 4 class = buffers {metric = #plan.metric<grad_norm>, persistent}
// CHECK-DAG: plan.slice @[[X:s[0-9]+]] in @device offset = {{512|768}} bytes = 256 class = buffers
// CHECK-DAG: plan.slice @[[A:s[0-9]+]] in @device offset = {{512|768}} bytes = 256 class = activations
// CHECK-NOT: plan.slice
// CHECK: graph.program @micro
// CHECK-SAME: plan.inputs = [#plan.operand<write @[[X]] + 0
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  // CHECK: graph.exp {{.*}}@[[A]] + 0
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.abs {{.*}}@[[A]] + 0
  %1 = graph.abs %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.reshape {{.*}}@[[A]] + 0 : tensor<64xf32>
  %2 = graph.reshape %1 {shape = array<i64: 64>} : (tensor<8x8xf32>) -> tensor<64xf32>
  // CHECK: graph.mul {{.*}}@[[A]] + 0
  %3 = graph.reshape %x {shape = array<i64: 64>} : (tensor<8x8xf32>) -> tensor<64xf32>
  %4 = graph.mul %2, %3 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %5 = graph.mul %4, %3 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  graph.return
}

// -----

// Gradients are computed where they belong in their bucket, also behind a view; a second put of the same value has to copy, and
// so has one whose producer stands before the bucket. Without accumulation an uncut bucket's buffer is its gradient storage.
// CHECK: zero.bucket @bucket0 {{.*}}plan.gradients = @[[G:.*]], plan.parameters = @[[P:.*]],
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 512 members = [#zero.member<@a, 0, 64>, #zero.member<@b, 64, 64>, #zero.member<@c, 128, 64>] {trainable, optimizer_sharded}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@d, 0, 64>] {trainable, gradients_sharded, optimizer_sharded}
// CHECK: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  // CHECK: graph.neg {{.*}}@[[E:s[0-9]+]] + 0
  %e = graph.neg %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: zero.grad_buffer @bucket0 {{.*}}@[[G]] + 0
  %g = zero.grad_buffer @bucket0 : !zero.buffer<512 x f32, device>
  // CHECK: graph.exp {{.*}}@[[G]] + 256
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.reshape {{.*}}@[[G]] + 256
  %1 = graph.reshape %0 {shape = array<i64: 64>} : (tensor<8x8xf32>) -> tensor<64xf32>
  zero.put %1 into %g offset = 64 : tensor<64xf32>, !zero.buffer<512 x f32, device>
  zero.put %1 into %g offset = 0 : tensor<64xf32>, !zero.buffer<512 x f32, device>
  zero.put %e into %g offset = 128 : tensor<8x8xf32>, !zero.buffer<512 x f32, device>
  %go = zero.storage @bucket0 of gradients {own} : !zero.buffer<256 x f32, device>
  // CHECK: zero.storage @bucket0 of gradients {{.*}}@[[G]] + 0 strides = {{\[0, 1024\]}}
  zero.reduce_scatter %g into %go scale = 0.5 : !zero.buffer<512 x f32, device>, !zero.buffer<256 x f32, device>
  // Cut gradients: the whole bucket is temporary.
  // CHECK: zero.grad_buffer @bucket1 {{.*}}@[[T:s[0-9]+]] + 0
  %h = zero.grad_buffer @bucket1 : !zero.buffer<128 x f32, device>
  %ho = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  zero.reduce_scatter %h into %ho scale = 0.5 : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

// In a bucket of its own a gradient is computed in place of what it is computed over; beside another one that is another slice.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@a, 0, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@b, 0, 64>, #zero.member<@c, 64, 64>] {trainable}
// CHECK: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  // CHECK: zero.grad_buffer @bucket0 {{.*}}@[[G:.*gradients]] + 0
  %g = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  // CHECK: zero.grad_buffer @bucket1 {{.*}}@[[H:.*gradients]] + 0
  %h = zero.grad_buffer @bucket1 : !zero.buffer<128 x f32, device>
  // CHECK: graph.exp {{.*}}@[[G]] + 0
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.abs {{.*}}@[[G]] + 0
  %1 = graph.abs %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.tanh {{.*}}@{{s[0-9]+}} + 0
  %2 = graph.tanh %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: graph.abs {{.*}}@[[H]] + 0
  %3 = graph.abs %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  zero.put %1 into %g offset = 0 : tensor<8x8xf32>, !zero.buffer<64 x f32, device>
  zero.put %3 into %h offset = 0 : tensor<8x8xf32>, !zero.buffer<128 x f32, device>
  zero.put %x into %h offset = 64 : tensor<8x8xf32>, !zero.buffer<128 x f32, device>
  %go = zero.storage @bucket0 of gradients {own} : !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g into %go scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %ho = zero.storage @bucket1 of gradients {own} : !zero.buffer<128 x f32, device>
  zero.reduce_scatter %h into %ho scale = 1.0 : !zero.buffer<128 x f32, device>, !zero.buffer<128 x f32, device>
  graph.return
}

// -----

// Storage: parameters whole, gradients and optimizer state cut; bf16 keeps fp32 master weights.
// CHECK-DAG: plan.slice @bucket0.parameters in @device {{.*}} bytes = 256 class = parameters {persistent}
// CHECK-DAG: plan.slice @bucket0.gradients in @device {{.*}} bytes = 128 class = gradients {persistent}
// CHECK-DAG: plan.slice @bucket0.master in @device {{.*}} bytes = 256 class = optimizer {persistent}
// CHECK-DAG: plan.slice @bucket0.moment1 in @device {{.*}} bytes = 256 class = optimizer {persistent}
// CHECK-DAG: plan.slice @buffer.mean in @device {{.*}} bytes = 16 class = buffers {persistent}
// CHECK-NOT: moment2
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @mean : tensor<4xf32> role = buffer
zero.bucket @bucket0 : bf16 padded = 128 members = [] {trainable, gradients_sharded, optimizer_sharded}
// CHECK: graph.program @update
graph.program @update phase = update inputs = [] {
  // The accumulator of the norm is one slice; the norm itself has its place in the metrics.
  // CHECK: zero.norm_partial {{.*}}@[[N:s[0-9]+]] + 0
  %g = zero.storage @bucket0 of gradients : !zero.buffer<64 x bf16, device>
  %w = zero.storage @bucket0 of master : !zero.buffer<64 x f32, device>
  %m = zero.storage @bucket0 of moment1 : !zero.buffer<64 x f32, device>
  %c = zero.storage @bucket0 of parameters {own} : !zero.buffer<64 x bf16, device>
  %p = zero.norm_partial %g : (!zero.buffer<64 x bf16, device>) -> !zero.buffer<24 x i64, device>
  // CHECK: zero.all_reduce {{.*}}@[[N]] + 0
  %s = zero.all_reduce %p : !zero.buffer<24 x i64, device>
  // CHECK: zero.clip_factor {{.*}}write @grad_norm + 0
  %n, %f = zero.clip_factor %s : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g, %f, %w(%m) to %c rule = momentum {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.5 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x bf16, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>, !zero.buffer<64 x bf16, device>) -> ()
  graph.return
}

// -----

// Each tier has its arena; on host and nvme slices keep to blocks of 4096 bytes. What is marked is counted as an activation,
// the staging copy of storage as a buffer; the norm is where the factor is computed.
// TIERS: error: the plan needs 12288 bytes but --host-mem allows 12287
// CHECK-DAG: plan.arena @device tier = device bytes = 5120
// CHECK-DAG: plan.arena @host tier = host bytes = 12288
// CHECK-DAG: plan.arena @nvme tier = nvme bytes = 8192
// CHECK-DAG: plan.slice @bucket0.moment1 in @nvme offset = 0 bytes = 4352 class = optimizer {persistent}
// CHECK-DAG: plan.slice @bucket0.gradients in @host offset = 0 bytes = 4352 class = gradients {persistent}
// CHECK-DAG: plan.slice @[[E:s[0-9]+]] in @host offset = 8192 bytes = 256 class = activations
zero.bucket @bucket0 : f32 padded = 1088 members = [] {trainable, gradients_tier = #zero<tier host>, optimizer_tier = #zero<tier nvme>}
// CHECK: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  // CHECK: zero.storage {{.*}}@bucket0.moment1 + 4096
  %s = zero.storage @bucket0 of moment1 {offset = 1024 : i64} : !zero.buffer<64 x f32, nvme>
  // CHECK: zero.alloc {{.*}}@[[E]] + 0
  %h = zero.alloc {activation} : !zero.buffer<64 x f32, host>
  zero.evict %x into %h : tensor<64xf32>, !zero.buffer<64 x f32, host>
  %d = zero.alloc : !zero.buffer<64 x f32, device>
  zero.fetch %h into %d : !zero.buffer<64 x f32, host>, !zero.buffer<64 x f32, device>
  // CHECK: zero.part {{.*}} + 64 :
  %t = zero.alloc : !zero.buffer<80 x f32, host>
  %p = zero.part %t offset = 16 : !zero.buffer<80 x f32, host> -> !zero.buffer<64 x f32, host>
  zero.fetch %s into %p : !zero.buffer<64 x f32, nvme>, !zero.buffer<64 x f32, host>
  graph.return
}

// -----

// Gradients that the micro program makes and uses up are its own: bucket 1's take the bytes of bucket 0's. What another program
// uses lasts, and so does what only the update knows.
// CHECK-DAG: plan.slice @bucket2.gradients in @device {{.*}} bytes = 256 class = gradients {persistent}
// CHECK-DAG: plan.slice @bucket3.gradients in @device {{.*}} bytes = 256 class = gradients {persistent}
// CHECK-DAG: plan.slice @bucket0.gradients in @device offset = [[AT:[0-9]+]] bytes = 256 class = gradients{{$}}
// CHECK-DAG: plan.slice @bucket1.gradients in @device offset = [[AT]] bytes = 256 class = gradients{{$}}
// CHECK: zero.bucket @bucket0 {{.*}}plan.gradients = @bucket0.gradients
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@a, 0, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 64 members = [#zero.member<@b, 0, 64>] {trainable}
zero.bucket @bucket2 : f32 padded = 64 members = [#zero.member<@c, 0, 64>] {trainable}
zero.bucket @bucket3 : f32 padded = 64 members = [#zero.member<@d, 0, 64>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %s0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %s1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %s3 = zero.storage @bucket3 of gradients : !zero.buffer<64 x f32, device>
  %p0 = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %p1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %p3 = zero.storage @bucket3 of parameters : !zero.buffer<64 x f32, device>
  %one = zero.fill 1.0 : !zero.buffer<1 x f32, device>
  %g0 = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  %0 = graph.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %0 into %g0 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.update %s0, %one, %p0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %g1 = zero.grad_buffer @bucket1 : !zero.buffer<64 x f32, device>
  %1 = graph.neg %x : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %1 into %g1 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.update %s1, %one, %p1 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %g2 = zero.grad_buffer @bucket2 : !zero.buffer<64 x f32, device>
  %2 = graph.abs %x : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %2 into %g2 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.update %s3, %one, %p3 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  graph.return
}
graph.program @update phase = update inputs = [] {
  graph.return
}
