// RUN: zero-opt %s --verify-graph --verify-diagnostics --allow-unregistered-dialect

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{'other.op' op is of another level: only graph operations and kernels belong here}}
  "other.op"() : () -> ()
  graph.return
}
