// RUN: zero-opt %s --split-input-file --zero-insert-gather-release | FileCheck %s

// Cut: one gather in forward and one in backward, each just before the first use and released after the last; views of
// parameters are made anew in each half. What backward does not use is not viewed there. A buffer is read in place.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.parameter @v : tensor<64xf32> role = trainable
graph.parameter @s : tensor<64xf32> role = buffer
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>, #zero.member<@v, 64, 64>] {trainable, parameters_sharded}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %w = graph.read @w : tensor<8x8xf32>
  %v = graph.read @v : tensor<64xf32>
  // CHECK: %[[S:.*]] = graph.read @s
  %s = graph.read @s : tensor<64xf32>
  %flat = graph.reshape %w {shape = array<i64: 64>} : (tensor<8x8xf32>) -> tensor<64xf32>
  // CHECK-NEXT: graph.exp
  %a = graph.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: %[[P:.*]] = zero.storage @bucket0 of parameters : <64 x f32, device>
  // CHECK-NEXT: %[[B:.*]] = zero.load
  // CHECK-NEXT: %[[G:.*]] = zero.gather %[[P]] : <64 x f32, device> -> <128 x f32, device>
  // CHECK-NEXT: zero.yield %[[G]]
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[W:.*]] = zero.view %[[B]] offset = 0
  // CHECK-NEXT: %[[V:.*]] = zero.view %[[B]] offset = 64
  // CHECK-NEXT: %[[FLAT:.*]] = graph.reshape %[[W]]
  // CHECK-NEXT: %[[M:.*]] = graph.mul %{{.*}}, %[[FLAT]]
  %b = graph.mul %a, %flat : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: graph.mul %[[M]], %[[S]]
  %c = graph.mul %b, %s : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: graph.mul %{{.*}}, %[[V]]
  // CHECK-NEXT: zero.release %[[B]]
  %d = graph.mul %c, %v : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: graph.reduce_mean
  %loss = graph.reduce_mean %d {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  // CHECK-NEXT: graph.backward
  graph.backward
  // CHECK-NEXT: graph.abs
  %e = graph.abs %d : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: %[[P2:.*]] = zero.storage @bucket0 of parameters
  // CHECK-NEXT: %[[B2:.*]] = zero.load
  // CHECK-NEXT: %[[G2:.*]] = zero.gather %[[P2]]
  // CHECK-NEXT: zero.yield %[[G2]]
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[W2:.*]] = zero.view %[[B2]] offset = 0
  // CHECK-NEXT: %[[FLAT2:.*]] = graph.reshape %[[W2]]
  // CHECK-NEXT: graph.mul %{{.*}}, %[[FLAT2]]
  // CHECK-NEXT: zero.release %[[B2]]
  %g = graph.mul %e, %flat : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // CHECK-NEXT: graph.return
  graph.return %loss : tensor<f32>
}

// -----

// Whole on every rank: read where it is, nothing to release.
// CHECK-LABEL: graph.program @micro
graph.parameter @w : tensor<64xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@w, 0, 64>] {trainable}
graph.program @micro phase = micro inputs = [] {
  // CHECK-NEXT: %[[B:.*]] = zero.storage @bucket0 of parameters : <64 x f32, device>
  // CHECK-NEXT: %[[W:.*]] = zero.view %[[B]] offset = 0
  // CHECK-NEXT: graph.reduce_mean %[[W]]
  // CHECK-NEXT: graph.return
  %w = graph.read @w : tensor<64xf32>
  %loss = graph.reduce_mean %w {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// The evaluation beside training gathers for itself.
// CHECK-LABEL: graph.program @micro
// CHECK-COUNT-1: zero.gather
// CHECK-LABEL: graph.program @eval
// CHECK: zero.gather
// CHECK: zero.release
// CHECK: graph.output
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<64xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>] {trainable, parameters_sharded}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %w = graph.read @w : tensor<64xf32>
  %a = graph.mul %x, %w : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
graph.program @eval phase = eval inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %w = graph.read @w : tensor<64xf32>
  %a = graph.mul %x, %w : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  graph.output %a as "a" {kind = #graph<output_kind value>} : tensor<64xf32>
  graph.return
}
