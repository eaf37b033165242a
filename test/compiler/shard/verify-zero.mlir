// RUN: zero-opt %s --split-input-file --verify-zero --verify-diagnostics

graph.parameter @w : tensor<4xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{'graph.read' op belongs to the graph level; the zero level has buckets instead}}
  %w = graph.read @w : tensor<4xf32>
  graph.return
}

// -----

graph.parameter @w : tensor<4xf32> role = trainable
graph.program @micro phase = micro inputs = ["g"] {
^bb0(%g: tensor<4xf32>):
  // expected-error @below {{'graph.accumulate_grad' op belongs to the graph level}}
  graph.accumulate_grad @w, %g : tensor<4xf32>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  // expected-error @below {{'graph.clip_factor' op belongs to the graph level}}
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.return
}

// -----

graph.parameter @w : tensor<4xf32> role = trainable
graph.program @update phase = update inputs = [] {
  %f = graph.constant dense<1.0> : tensor<f32>
  // expected-error @below {{'graph.update' op belongs to the graph level}}
  graph.update @w, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}

// -----

// Buffers are read and assigned at every level.
graph.parameter @s : tensor<4xf32> role = buffer
graph.program @micro phase = micro inputs = [] {
  %s = graph.read @s : tensor<4xf32>
  graph.assign @s, %s : tensor<4xf32>
  graph.return
}
