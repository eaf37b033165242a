// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme chunk=8192 read-ahead=8191" | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme chunk=8192 read-ahead=8192" | FileCheck %s --check-prefixes=CHECK,FOUR
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme chunk=8192 read-ahead=1MiB" | FileCheck %s --check-prefixes=CHECK,FOUR
// RUN: sed 's/max_norm = 1.0 : f64//' %s | zero-opt --zero-offload="offload-optimizer=nvme chunk=8192 read-ahead=1MiB" | FileCheck %s --check-prefixes=CHECK,THREE

// An update that waits for all gradients, of eight chunks: the weights of more of them are read before, as there is memory, but a slot is
// used twice at least. One that waits for its own gradient has its turns as those land.
zero.bucket @bucket0 : f32 padded = 16384 members = [#zero.member<@w, 0, 16384>] {trainable}
graph.parameter @w : tensor<16384xf32> role = trainable

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<16384xf32>):
  %y = graph.exp %x : (tensor<16384xf32>) -> tensor<16384xf32>
  graph.backward
  %d = graph.abs %y : (tensor<16384xf32>) -> tensor<16384xf32>
  %g = zero.grad_buffer @bucket0 : !zero.buffer<16384 x f32, device>
  zero.put %d into %g offset = 0 : tensor<16384xf32>, !zero.buffer<16384 x f32, device>
  %gs = zero.storage @bucket0 of gradients : !zero.buffer<16384 x f32, device>
  zero.reduce_scatter %g into %gs scale = 1.0 : !zero.buffer<16384 x f32, device>, !zero.buffer<16384 x f32, device>
  graph.return
}

// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  // THREE-COUNT-3: zero.alloc : <2048 x f32, host>
  // FOUR-COUNT-4: zero.alloc : <2048 x f32, host>
  // CHECK-NOT: zero.alloc : <2048 x f32, host>
  // CHECK-COUNT-8: zero.update
  %g = zero.storage @bucket0 of gradients : !zero.buffer<16384 x f32, device>
  %a = zero.norm_partial %g : (!zero.buffer<16384 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %a {max_norm = 1.0 : f64} : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  %w = zero.storage @bucket0 of parameters : !zero.buffer<16384 x f32, device>
  zero.update %g, %f, %w rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<16384 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<16384 x f32, device>) -> ()
  graph.return
}
