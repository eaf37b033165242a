// RUN: zero-opt %s --split-input-file --zero-quantize-gradients | FileCheck %s
// RUN: zero-opt %s --split-input-file --zero-quantize-gradients="quantize-gradients=int8 quantize-block=64 quantize-error-feedback" | FileCheck %s --check-prefix=EF

// Two nodes of four: what one rank and its peers on the other node will own leaves together. 64 elements of a slice take 32
// bytes and a scale; after the first hop a rank has the sums of its node for two of them.
// CHECK-LABEL: graph.program @micro
// EF-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 4>]
zero.bucket @bucket0 : f32 padded = 512 members = [] {trainable, gradients_sharded}
graph.program @micro phase = micro inputs = [] {
  %g = zero.grad_buffer @bucket0 : !zero.buffer<512 x f32, device>
  %s = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  // CHECK: %[[G:.*]] = zero.grad_buffer
  // CHECK: %[[S:.*]] = zero.storage @bucket0 of gradients
  // CHECK-NEXT: %[[Q:.*]] = zero.quantize %[[G]] {bits = 4 : i64, block = 128 : i64, columns = 4 : i64, rows = 2 : i64} : ({{.*}}) -> !zero.buffer<288 x ui8, device>
  // CHECK-NEXT: %[[A:.*]] = zero.all_to_all %[[Q]] {axes = ["local"]}
  // CHECK-NEXT: %[[R:.*]] = zero.dequantize_sum_quantize %[[A]] {bits = 4 : i64, block = 128 : i64, elements = 64 : i64, pieces = 2 : i64, sources = 4 : i64} : ({{.*}}) -> !zero.buffer<72 x ui8, device>
  // CHECK-NEXT: %[[B:.*]] = zero.all_to_all %[[R]] {axes = ["node"]}
  // CHECK-NEXT: zero.dequantize_sum %[[B]] into %[[S]] scale = 1.250000e-01 {accumulate, bits = 4 : i64, block = 128 : i64, sources = 2 : i64}
  // CHECK-NOT: zero.reduce_scatter
  // What is lost is kept: of the bucket, and of this rank's two sums.
  // EF: %[[E1:.*]] = zero.storage @bucket0 of residual1 : <512 x f32, device>
  // EF-NEXT: zero.quantize %{{.*}} feedback %[[E1]] {beta = 8.000000e-01 : f64, bits = 8 : i64, block = 64 : i64
  // EF: %[[E2:.*]] = zero.storage @bucket0 of residual2 : <128 x f32, device>
  // EF-NEXT: zero.dequantize_sum_quantize %{{.*}} feedback %[[E2]]
  zero.reduce_scatter %g into %s scale = 1.25e-01 {accumulate} : !zero.buffer<512 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

// One axis: one hop.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : bf16 padded = 128 members = [] {trainable, gradients_sharded}
graph.program @micro phase = micro inputs = [] {
  %g = zero.grad_buffer @bucket0 : !zero.buffer<128 x bf16, device>
  %s = zero.storage @bucket0 of gradients : !zero.buffer<64 x bf16, device>
  // CHECK: zero.quantize {{.*}}columns = 2 : i64, rows = 1 : i64
  // CHECK-NEXT: %[[A:.*]] = zero.all_to_all %{{.*}} : <72 x ui8, device>
  // CHECK-NEXT: zero.dequantize_sum %[[A]]
  zero.reduce_scatter %g into %s scale = 5.0e-01 : !zero.buffer<128 x bf16, device>, !zero.buffer<64 x bf16, device>
  graph.return
}

// -----

// One rank sends nothing.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable}
graph.program @micro phase = micro inputs = [] {
  %g = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  %s = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  // CHECK: zero.reduce_scatter
  zero.reduce_scatter %g into %s scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}
