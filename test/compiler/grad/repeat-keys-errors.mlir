// RUN: zero-opt %s --repeat-keys="model-ranks=4" --split-input-file --verify-diagnostics

// Whether it drops or not.
graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<2x2x3x4xf32>):
  // expected-error @below {{an attention of 2 heads is not shared by 4 ranks: --tensor-parallel of at most 2}}
  %y, %l = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 0.1 : f64, dropout_id = 1 : i64} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3xf32>)
  graph.return %y : tensor<2x2x3x4xf32>
}
