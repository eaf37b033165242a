// RUN: zero-opt %s --split-input-file --verify-diagnostics
// One case per labelled constraint; labels.test checks that none is missing.

// expected-error @below {{[mesh_c1] needs at least one node and one rank per node, got 2 x 0}}
zero.mesh @mesh node = 2 local = 0

// -----

// expected-error @below {{[bucket_c1] members end at 100 but padded is 64 elements}}
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@w, 0, 100>]

// -----

// expected-error @below {{[bucket_c1] members end at 10 but padded is 100 elements}}
zero.bucket @bucket0 : f32 padded = 100 members = [#zero.member<@w, 0, 10>]

// -----

// expected-error @below {{[bucket_c2] member @w starts at 32, not a multiple of 64}}
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 32, 10>]

// -----

// expected-error @below {{[bucket_c3] member @v starts at 64, inside the one before, which ends at 65}}
zero.bucket @bucket0 : f32 padded = 256 members = [#zero.member<@w, 0, 65>, #zero.member<@v, 64, 1>]

// -----

// expected-error @below {{[bucket_c4] holds 'i32', which is no float}}
zero.bucket @bucket0 : i32 padded = 64 members = []

// -----

graph.program @update phase = update inputs = [] {
  // expected-error @below {{[bucket_c5] names @bucket1, which is no bucket}}
  zero.all_gather @bucket1 of "parameters"
  graph.return
}

// -----

zero.bucket @bucket0 : bf16 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[bucket_c6] has '!zero.buffer<64 x f32, device>' but the bucket 64 elements of 'bf16'}}
  %b = zero.gather @bucket0 : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = []
zero.bucket @bucket1 : f32 padded = 128 members = []
graph.program @micro phase = micro inputs = [] {
  %b = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  // expected-error @below {{[bucket_c6] has '!zero.buffer<64 x f32, device>' but the bucket 128 elements of 'f32'}}
  zero.reduce_scatter %b, @bucket1 scale = 1.0 : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  %b = zero.resident @bucket0 : !zero.buffer<64 x f32, device>
  // expected-error @below {{[view_c1] 'tensor<8x8xf32>' at element 1 does not lie in '!zero.buffer<64 x f32, device>'}}
  %w = zero.view %b offset = 1 : !zero.buffer<64 x f32, device> -> tensor<8x8xf32>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = []
graph.program @micro phase = micro inputs = ["d"] {
^bb0(%d: tensor<4xbf16>):
  %b = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  // expected-error @below {{[put_c1] 'tensor<4xbf16>' at element 0 does not lie in '!zero.buffer<64 x f32, device>'}}
  zero.put %d into %b offset = 0 : tensor<4xbf16>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = []
graph.program @update phase = update inputs = [] {
  // expected-error @below {{[all_gather_c1] gathers "parameters" or "gradients", not "moments"}}
  zero.all_gather @bucket0 of "moments"
  graph.return
}
