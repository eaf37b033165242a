// RUN: zero-opt %s --repeat-keys="model-ranks=4" | FileCheck %s
// RUN: zero-opt %s --repeat-keys="model-ranks=2" | FileCheck %s --check-prefix=TWO

// Two heads of keys for four ranks; as many as there are ranks stay, and so does a single one.
// CHECK-LABEL: graph.program @micro
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x8x3x4xf32>, %[[K:.*]]: tensor<2x2x5x4xf32>, %[[ONE:.*]]: tensor<2x1x5x4xf32>)
// CHECK: %[[APART:.*]] = graph.reshape %[[K]] {shape = array<i64: 2, 2, 1, 5, 4>}
// CHECK: %[[MORE:.*]] = graph.expand %[[APART]] {{.*}} -> tensor<2x2x2x5x4xf32>
// CHECK: %[[KEYS:.*]] = graph.reshape %[[MORE]] {shape = array<i64: 2, 4, 5, 4>}
// CHECK: %[[VALUES:.*]] = graph.reshape %{{.*}} {shape = array<i64: 2, 4, 5, 4>}
// CHECK: graph.attention %[[Q]], %[[KEYS]], %[[VALUES]]
// CHECK: graph.attention %[[Q]], %[[ONE]], %[[ONE]]
// TWO-NOT: graph.expand
graph.program @micro phase = micro inputs = ["q", "k", "one"] {
^bb0(%q: tensor<2x8x3x4xf32>, %k: tensor<2x2x5x4xf32>, %one: tensor<2x1x5x4xf32>):
  %y, %l = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<2x8x3x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> (tensor<2x8x3x4xf32>, tensor<2x8x3xf32>)
  %z, %n = graph.attention %q, %one, %one {scale = 0.5 : f64} : (tensor<2x8x3x4xf32>, tensor<2x1x5x4xf32>, tensor<2x1x5x4xf32>) -> (tensor<2x8x3x4xf32>, tensor<2x8x3xf32>)
  graph.return %y, %z : tensor<2x8x3x4xf32>, tensor<2x8x3x4xf32>
}
