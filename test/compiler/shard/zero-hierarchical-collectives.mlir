// RUN: zero-opt %s --split-input-file --zero-hierarchical-collectives | FileCheck %s

// Three nodes of two. A gather runs between nodes, then inside: pieces arrive by local index, then by node. A reduce-scatter
// runs inside, then between nodes; the scale belongs to the last hop.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 3>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 384 members = [] {trainable, parameters_sharded, gradients_sharded}
graph.program @micro phase = micro inputs = [] {
  // CHECK: %[[S:.*]] = zero.storage @bucket0 of parameters
  %s = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  // CHECK-NEXT: %[[LOAD:.*]] = zero.load
  // CHECK-NEXT: %[[N:.*]] = zero.gather %[[S]] {axes = ["node"]} : <64 x f32, device> -> <192 x f32, device>
  // CHECK-NEXT: %[[L:.*]] = zero.gather %[[N]] {axes = ["local"]} : <192 x f32, device> -> <384 x f32, device>
  // CHECK-NEXT: %[[B:.*]] = zero.alloc
  // CHECK-NEXT: zero.reorder %[[L]] into %[[B]] rows = 2 columns = 3
  %b = zero.load {
    %gathered = zero.gather %s : !zero.buffer<64 x f32, device> -> !zero.buffer<384 x f32, device>
    zero.yield %gathered : !zero.buffer<384 x f32, device>
  } : !zero.buffer<384 x f32, device>
  // CHECK-NEXT: zero.yield %[[B]]
  // CHECK: zero.view %[[LOAD]]
  %w = zero.view %b offset = 0 : !zero.buffer<384 x f32, device> -> tensor<384xf32>
  // CHECK-NEXT: zero.release %[[LOAD]]
  zero.release %b : !zero.buffer<384 x f32, device>
  // CHECK: %[[G:.*]] = zero.grad_buffer
  %g = zero.grad_buffer @bucket0 : !zero.buffer<384 x f32, device>
  %d = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  // CHECK: zero.reorder %[[G]] into %[[O:.*]] rows = 3 columns = 2
  // CHECK: zero.reduce_scatter %[[O]] into %[[P:.*]] scale = 1.000000e+00 {axes = ["local"]} : <384 x f32, device>, <192 x f32, device>
  // CHECK-NEXT: zero.reduce_scatter %[[P]] into %{{.*}} scale = 1.250000e-01 {accumulate, axes = ["node"]} : <192 x f32, device>, <64 x f32, device>
  zero.reduce_scatter %g into %d scale = 1.25e-01 {accumulate} : !zero.buffer<384 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

// Dequantization puts the pieces in their places: nothing is reordered. A buffer that is completed in place is.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 256 members = [] {parameters_sharded}
zero.bucket @bucket1 : f32 padded = 256 members = []
graph.program @micro phase = micro inputs = [] {
  // CHECK-NOT: zero.reorder
  // CHECK: zero.dequantize {{.*}}columns = 2 : i64, rows = 2 : i64
  %q = zero.alloc : !zero.buffer<68 x ui8, device>
  %b = zero.load {
    %g = zero.gather %q : !zero.buffer<68 x ui8, device> -> !zero.buffer<272 x ui8, device>
    %d = zero.dequantize %g {bits = 8 : i64, block = 64 : i64, rows = 1 : i64, columns = 4 : i64} : !zero.buffer<272 x ui8, device> -> !zero.buffer<256 x f32, device>
    zero.yield %d : !zero.buffer<256 x f32, device>
  } : !zero.buffer<256 x f32, device>
  %own = zero.storage @bucket1 of parameters {own} : !zero.buffer<64 x f32, device>
  // CHECK: %[[W:.*]] = zero.storage @bucket1 of parameters : <256 x f32, device>
  %whole = zero.storage @bucket1 of parameters : !zero.buffer<256 x f32, device>
  // CHECK: zero.gather {{.*}}axes = ["node"]
  // CHECK-NEXT: zero.gather {{.*}}axes = ["local"]
  // CHECK-NEXT: zero.reorder %{{.*}} into %[[W]]
  zero.all_gather %own into %whole : !zero.buffer<64 x f32, device>, !zero.buffer<256 x f32, device>
  graph.return
}

// -----

// One axis: nothing to do.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 128 members = [] {parameters_sharded}
graph.program @micro phase = micro inputs = [] {
  %s = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  // CHECK: zero.gather %{{.*}} : <64 x f32, device> -> <128 x f32, device>
  %b = zero.load {
    %gathered = zero.gather %s : !zero.buffer<64 x f32, device> -> !zero.buffer<128 x f32, device>
    zero.yield %gathered : !zero.buffer<128 x f32, device>
  } : !zero.buffer<128 x f32, device>
  graph.return
}
