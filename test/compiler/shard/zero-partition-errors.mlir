// RUN: zero-opt %s --split-input-file --verify-diagnostics --zero-partition

// expected-error @below {{zero-partition needs a zero.mesh}}
module {}

// -----

// Without zero-bucket.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  // expected-error @below {{parameter 'w' is in no bucket that trains: zero-bucket comes before}}
  graph.accumulate_grad @w, %x : tensor<8x8xf32>
  graph.return
}

// -----

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<8x8xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>] {trainable}
graph.program @update phase = update inputs = [] {
  %f = graph.constant dense<1.0> : tensor<f32>
  // expected-error @below {{its factor is not that of a graph.clip_factor}}
  graph.update @w, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
