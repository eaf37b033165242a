// RUN: zero-opt %s --expand-dropout | FileCheck %s
// RUN: zero-opt %s --expand-dropout="kernels-of=cuda" | FileCheck %s --check-prefix=CUDA

// Of 16 bits it stays on a GPU.
// CUDA-COUNT-2: graph.dropout
// CUDA: graph.attention {{.*}}dropout{{.*}} : (tensor<2x4x3x8xbf16>

// What drops becomes plain operations that draw the same numbers: heads repeated, a bool mask, keys that come later.
// CHECK-LABEL: graph.program @micro
// CHECK: %[[K:.*]] = graph.reshape %{{.*}} {shape = array<i64: 2, 4, 5, 8>}
// CHECK: %[[S:.*]] = graph.matmul %{{.*}}, %[[K]] {trans_rhs}
// CHECK: %[[SCALED:.*]] = graph.mul %[[S]]
// CHECK: %[[MASKED:.*]] = graph.select %{{.*}}, %[[SCALED]]
// CHECK: %[[CAUSAL:.*]] = graph.select %{{.*}}, %{{.*}}, %[[MASKED]]
// CHECK: %[[P:.*]] = graph.softmax %[[CAUSAL]] {axis = 3 : i64, zero_masked}
// CHECK: %[[D:.*]], %{{.*}} = graph.dropout %[[P]] {id = 5 : i64, ratio = 1.000000e-01 : f64}
// CHECK: %[[Y:.*]] = graph.matmul %[[D]]
// Scores are capped before, a window hides what is before it, too.
// CHECK: %[[BENT:.*]] = graph.tanh
// CHECK: %[[CAPPED:.*]] = graph.mul %[[BENT]]
// CHECK: %[[NONE:.*]] = graph.or
// CHECK: %[[SEEN:.*]] = graph.select %[[NONE]], %{{.*}}, %[[CAPPED]]
// CHECK: graph.softmax %[[SEEN]]
// CHECK: %[[KEPT:.*]], %{{.*}} = graph.attention
// CHECK: graph.return %[[Y]], %{{.*}}, %[[KEPT]]
graph.program @micro phase = micro inputs = ["q", "k", "mask"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %mask: tensor<2x1x1x5xi1>):
  %y, %l = graph.attention %q, %k, %k, %mask {scale = 0.5 : f64, causal, dropout = 0.1 : f64, dropout_id = 5 : i64} : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x1x1x5xi1>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  %w, %m = graph.attention %q, %k, %k {scale = 0.5 : f64, softcap = 20.0 : f64, window = 2 : i64, dropout = 0.1 : f64, dropout_id = 6 : i64} : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  %z, %n = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  graph.return %y, %w, %z : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>
}
graph.program @eval phase = eval inputs = ["q"] {
^bb0(%q: tensor<2x4x3x8xbf16>):
  %y, %l = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 0.1 : f64, dropout_id = 7 : i64} : (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x4x3xf32>)
  graph.return %y : tensor<2x4x3x8xbf16>
}
