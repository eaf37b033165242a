// RUN: zero-opt %s --allow-unregistered-dialect --plan-memory --verify-diagnostics --lower-to-plan

// Without assign-queues: no step is left out in silence.
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{'foreign.op' op becomes no step: it says neither by ScheduledOp nor by KernelOp what executes it}}
  "foreign.op"() : () -> ()
  graph.return
}
graph.program @update phase = update inputs = [] {
  graph.return
}
