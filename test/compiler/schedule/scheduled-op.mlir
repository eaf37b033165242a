// RUN: zero-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics --assign-queues

// Nobody guesses what executes an operation that does not say it.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{'foreign.op' op cannot be scheduled: it says neither by ScheduledOp nor by KernelOp what executes it}}
  "foreign.op"() : () -> ()
  graph.return
}

// -----

// Nor of one that the zero level replaces.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.parameter @w : tensor<4xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{'graph.accumulate_grad' op cannot be scheduled}}
  graph.accumulate_grad @w, %x : tensor<4xf32>
  graph.return
}
