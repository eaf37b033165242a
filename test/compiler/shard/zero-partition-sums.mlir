// RUN: zero-opt %s --zero-partition="zero-stage=1 grad-accum-dtype=fp32" | FileCheck %s
// RUN: zero-opt %s --zero-partition="zero-stage=1" | FileCheck %s --check-prefix=SAME
// RUN: not zero-opt %s --zero-partition="grad-accum-dtype=fp8" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: fp8

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<128xbf16> role = trainable
graph.parameter @v : tensor<128xf32> role = trainable
graph.parameter @f : tensor<128xbf16> role = frozen
zero.bucket @bucket0 : bf16 padded = 128 members = [#zero.member<@w, 0, 128>] {trainable}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@v, 0, 128>] {trainable}
zero.bucket @bucket2 : bf16 padded = 128 members = [#zero.member<@f, 0, 128>]
graph.program @micro phase = micro inputs = ["x", "y"] {
^bb0(%x: tensor<128xbf16>, %y: tensor<128xf32>):
  %g = graph.exp %x : (tensor<128xbf16>) -> tensor<128xbf16>
  %h = graph.exp %y : (tensor<128xf32>) -> tensor<128xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0>} : (tensor<128xf32>) -> tensor<f32>
  graph.accumulate_grad @w, %g : tensor<128xbf16>
  graph.accumulate_grad @v, %h : tensor<128xf32>
  graph.return %loss : tensor<f32>
}
// Those of 16 bits alone have sums of another type; what is sent keeps its own.
// CHECK: zero.bucket @bucket0 : bf16 {{.*}}gradient_type = f32
// CHECK: zero.bucket @bucket1 : f32
// CHECK-NOT: gradient_type
// CHECK: %[[B:.*]] = zero.grad_buffer @bucket0 : <128 x bf16, device>
// CHECK: %[[S:.*]] = zero.storage @bucket0 of gradients {own} : <64 x f32, device>
// CHECK: zero.reduce_scatter %[[B]] into %[[S]] {{.*}} : <128 x bf16, device>, <64 x f32, device>
// SAME-NOT: gradient_type
