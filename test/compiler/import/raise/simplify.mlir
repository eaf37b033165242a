// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// x and true is x.
// CHECK-LABEL: inputs = ["x"]
// CHECK: ^bb0(%[[X:.*]]: tensor<3xi1>)
// CHECK-NEXT: graph.return %[[X]]
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xi1>):
  %true = graph.constant dense<true> : tensor<3xi1>
  %y = graph.and %x, %true : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  graph.return %y : tensor<3xi1>
}

// -----

// Of numbers it is each bit: no constant of them is true.
// CHECK-LABEL: inputs = ["bits"]
// CHECK: %[[ONE:.*]] = graph.constant dense<1> : tensor<3xi64>
// CHECK-NEXT: %[[Y:.*]] = graph.and %{{.*}}, %[[ONE]]
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["bits"] {
^bb0(%bits: tensor<3xi64>):
  %one = graph.constant dense<1> : tensor<3xi64>
  %y = graph.and %bits, %one : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  graph.return %y : tensor<3xi64>
}

// -----

// A mask that splits another dimension stays where it is.
// CHECK-LABEL: inputs = ["inner", "m"]
// CHECK: graph.reshape
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.reshape
graph.program @micro phase = micro inputs = ["inner", "m"] {
^bb0(%x: tensor<4x6x3xf32>, %m: tensor<1x2x1x3xf32>):
  %w = graph.reshape %x {shape = array<i64: 4, 2, 3, 3>} : (tensor<4x6x3xf32>) -> tensor<4x2x3x3xf32>
  %a = graph.add %w, %m : (tensor<4x2x3x3xf32>, tensor<1x2x1x3xf32>) -> tensor<4x2x3x3xf32>
  %j = graph.reshape %a {shape = array<i64: 4, 6, 3>} : (tensor<4x2x3x3xf32>) -> tensor<4x6x3xf32>
  graph.return %j : tensor<4x6x3xf32>
}
