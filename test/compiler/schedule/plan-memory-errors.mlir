// RUN: zero-opt %s --split-input-file --verify-diagnostics --plan-memory

// Of the graph level: nothing says where the parameter is.
graph.parameter @w : tensor<64xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{plan-memory needs the zero level: what is read here has no place of its own}}
  %w = graph.read @w : tensor<64xf32>
  %0 = graph.neg %w : (tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
