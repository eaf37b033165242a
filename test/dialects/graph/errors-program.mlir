// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of parameters, programs and constants. One case per labelled constraint; labels.test checks that none is missing. MLIR's verifier
// adds its own line to those that are found while inferring result types.

// expected-error @below {{[parameter_c1] has both a source and a value}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", 0, 8, f32>, value = dense<1.0> : tensor<2xf32>}

// -----

// expected-error @below {{[parameter_c2] source offset -8 or size 8 is negative}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", -8, 8, f32>}

// -----

// expected-error @below {{[parameter_c3] source elements are 'index', neither integers nor floats}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", 0, 8, index>}

// -----

// The type in the step may be narrower than that of the source.
// expected-error @below {{[parameter_c4] source has 4 bytes, 'tensor<2xbf16>' needs 8}}
graph.parameter @p : tensor<2xbf16> role = frozen {source = #graph.source<"m", 0, 4, f32>}

// -----

// expected-error @below {{[parameter_c5] value 'tensor<3xf32>' has another shape than 'tensor<2xf32>'}}
graph.parameter @p : tensor<2xf32> role = frozen {value = dense<1.0> : tensor<3xf32>}

// -----

// expected-error @below {{[parameter_c6] is trainable but has elements of 'i64'}}
graph.parameter @p : tensor<2xi64> role = trainable

// -----

// expected-error @below {{[parameter_c10] has a number of its own for the update that is negative or infinite: -1.000000e+00 : f64}}
graph.parameter @p : tensor<2xf32> role = trainable {lr_scale = -1.0 : f64}

// -----

// expected-error @below {{[program_c1] has 1 arguments but 0 input names}}
graph.program @micro phase = micro inputs = [] {
^bb0(%x: tensor<2xf32>):
  graph.return
}

// -----

// expected-error @below {{[program_c2] the update takes no inputs but has 1}}
graph.program @update phase = update inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  graph.return
}

// -----

// expected-error @below {{[program_c4] has 1 arguments but 2 ranges}}
graph.program @micro phase = micro inputs = ["x"] ranges = [#graph.index_range<limit = 4>, #graph.index_range<>] {
^bb0(%x: tensor<4xi64>):
  graph.return
}

// -----

// expected-error @below {{[program_c3] input 0 has type 'tensor<?xf32>', no tensor of static shape}}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<?xf32>):
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[phase_c1] stands outside a program of phase 'update'}}
  %norm, %factor = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %c = graph.constant dense<1.0> : tensor<2xf32>
  // expected-error @below {{[phase_c1] stands outside a program of phase 'micro'}}
  graph.output %c as "c" : tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<f32>):
  // expected-error @below {{[output_c1] is a likelihood, but of kind 'value'}}
  graph.output %x as "x" {likelihood} : tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<f32>):
  // expected-error @below {{[return_c1] is weighted, but does not begin with a scalar loss and its weight}}
  graph.return weighted %x : tensor<f32>
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[symbol_c1] there is no graph.parameter 'p'}}
  %0 = graph.read @p : tensor<2xf32>
  graph.return
}

// -----

// expected-note @below {{the parameter is declared here}}
graph.parameter @p : tensor<2xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[symbol_c2] type 'tensor<3xf32>' is not that of parameter 'p', 'tensor<2xf32>'}}
  %0 = graph.read @p : tensor<3xf32>
  graph.return
}

// -----

// expected-note @below {{the parameter is declared here}}
graph.parameter @p : tensor<2xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  // expected-error @below {{[symbol_c3] parameter 'p' is trainable, not buffer}}
  graph.assign @p, %x : tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[constant_c1] value is no ranked tensor}}
  %0 = graph.constant dense<0> : vector<2xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[constant_c2] value is not dense}}
  %0 = graph.constant sparse<[[0]], [1.0]> : tensor<2xf32>
  graph.return
}

// -----

// expected-error @below {{[parameter_c7] is no rows of 'tensor<4x8xf32>' from element 24 on: 'tensor<2x8xf32>'}}
graph.parameter @p : tensor<2x8xf32> role = frozen {part = #graph.part<"w", 24, tensor<4x8xf32>>}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-note @below {{which is here}}
  graph.backward
  // expected-error @below {{[backward_c1] stands behind another}}
  graph.backward
  graph.return
}
