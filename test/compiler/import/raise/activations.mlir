// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// CHECK-LABEL: inputs = ["silu"]
// CHECK: %[[Y:.*]] = graph.silu %{{.*}}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["silu"] {
^bb0(%x: tensor<4xf32>):
  %s = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}

// -----

// x / sqrt(2), erf, + 1, times x, times 0.5
// CHECK-LABEL: inputs = ["erf"]
// CHECK: %[[Y:.*]] = graph.gelu %{{[a-z0-9]+}} :
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["erf"] {
^bb0(%x: tensor<4xf32>):
  %root = graph.constant dense<1.41421354> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %d = graph.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.erf %d : (tensor<4xf32>) -> tensor<4xf32>
  %a = graph.add %e, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %m = graph.mul %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %m, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}

// -----

// With a power, 0.5 x first.
// CHECK-LABEL: inputs = ["tanh"]
// CHECK: %[[Y:.*]] = graph.gelu %{{.*}} {tanh}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["tanh"] {
^bb0(%x: tensor<4xf32>):
  %one = graph.constant dense<1.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %c = graph.constant dense<4.471500e-02> : tensor<f32>
  %k = graph.constant dense<0.797884583> : tensor<f32>
  %h = graph.mul %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = graph.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = graph.mul %p, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = graph.add %x, %q : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = graph.mul %s, %k : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = graph.tanh %u : (tensor<4xf32>) -> tensor<4xf32>
  %a = graph.add %t, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = graph.mul %h, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}

// -----

// Another constant is another function.
// CHECK-LABEL: inputs = ["almost"]
// CHECK-NOT: graph.gelu
// CHECK: graph.return
graph.program @micro phase = micro inputs = ["almost"] {
^bb0(%x: tensor<4xf32>):
  %root = graph.constant dense<1.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %d = graph.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.erf %d : (tensor<4xf32>) -> tensor<4xf32>
  %a = graph.add %e, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %m = graph.mul %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %m, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}

// -----

// log p, log(1 - p) and log(-p + 1) of a sigmoid p.
// CHECK-LABEL: inputs = ["log_sigmoid"]
// CHECK: ^bb0(%[[X:.*]]: tensor<4xf32>):
// CHECK: %[[MINUS:.*]] = graph.neg %[[X]]
// CHECK: %[[A:.*]] = graph.softplus %[[MINUS]]
// CHECK: %[[LOGP:.*]] = graph.neg %[[A]]
// CHECK: %[[B:.*]] = graph.softplus %[[X]]
// CHECK: %[[LOGQ:.*]] = graph.neg %[[B]]
// CHECK: %[[C:.*]] = graph.softplus %[[X]]
// CHECK: %[[AGAIN:.*]] = graph.neg %[[C]]
// CHECK: graph.return %[[LOGP]], %[[LOGQ]], %[[AGAIN]]
graph.program @micro phase = micro inputs = ["log_sigmoid"] {
^bb0(%x: tensor<4xf32>):
  %one = graph.constant dense<1.0> : tensor<f32>
  %p = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %logp = graph.log %p : (tensor<4xf32>) -> tensor<4xf32>
  %q = graph.sub %one, %p : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %logq = graph.log %q : (tensor<4xf32>) -> tensor<4xf32>
  %minus = graph.neg %p : (tensor<4xf32>) -> tensor<4xf32>
  %r = graph.add %minus, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %again = graph.log %r : (tensor<4xf32>) -> tensor<4xf32>
  graph.return %logp, %logq, %again : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The logarithm of a binary cross-entropy is that of the sigmoid as it is rounded, not below -100; its derivative is finite at 0.
// CHECK-LABEL: inputs = ["floored_log"]
// CHECK-NOT: graph.softplus
// CHECK: %[[P:.*]] = graph.sigmoid
// CHECK: %[[FIXED:.*]] = graph.bitcast %[[P]]
// CHECK: %[[D:.*]] = graph.sub %[[P]], %[[FIXED]]
// CHECK: %[[M:.*]] = graph.max %[[FIXED]]
// CHECK: %[[S:.*]] = graph.div %[[D]], %[[M]]
// CHECK: %[[L:.*]] = graph.log %[[FIXED]]
// CHECK: %[[F:.*]] = graph.max %[[L]]
// CHECK: %[[Y:.*]] = graph.add %[[S]], %[[F]]
// CHECK: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["floored_log"] {
^bb0(%x: tensor<4xf32>):
  %floor = graph.constant dense<-100.0> : tensor<f32>
  %p = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %log = graph.log %p : (tensor<4xf32>) -> tensor<4xf32>
  %y = graph.max %log, %floor : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}

// -----

// The same as clamp is imported.
// CHECK-LABEL: inputs = ["clamped_log"]
// CHECK-NOT: graph.softplus
// CHECK: %[[P:.*]] = graph.sigmoid
// CHECK: %[[FIXED:.*]] = graph.bitcast %[[P]]
// CHECK: %[[L:.*]] = graph.log %[[FIXED]]
// CHECK: %[[F:.*]] = graph.max %[[L]]
// CHECK: %[[Y:.*]] = graph.add %{{.*}}, %[[F]]
// CHECK: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["clamped_log"] {
^bb0(%x: tensor<4xf32>):
  %floor = graph.constant dense<-100.0> : tensor<f32>
  %p = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %log = graph.log %p : (tensor<4xf32>) -> tensor<4xf32>
  %below = graph.less %log, %floor : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %y = graph.select %below, %floor, %log : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  graph.return %y : tensor<4xf32>
}
