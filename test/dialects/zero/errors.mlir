// RUN: zero-opt %s --split-input-file --verify-diagnostics
// One case per labelled constraint; labels.test checks that none is missing.

// expected-error @below {{[execution_c1] there is no execution of stage 4 in 1 micro-steps, with updates delayed after -1 steps}}
module attributes {zero.execution = #zero.execution<stage = 4>} {}

// -----

// expected-error @below {{[mesh_c1] has axis "local" of size 0}}
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 0>]

// -----

// expected-error @below {{[mesh_c1] has axis "node" twice}}
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"node" = 2>]

// -----

// expected-error @below {{[mesh_c1] has more than 65536 ranks}}
zero.mesh axes = [#zero.axis<"node" = 4096>, #zero.axis<"local" = 8>, #zero.axis<"model" = 4, model>]

// -----

graph.parameter @w : tensor<4xf32> role = trainable
// expected-error @below {{[mesh_c2] is not the first operation of its module}}
zero.mesh axes = [#zero.axis<"local" = 2>]

// -----

zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]
// expected-error @below {{[axes_c1] names ["local", "node"], which are not axes of the mesh in its order}}
zero.bucket @bucket0 : f32 padded = 64 members = [] {axes = ["local", "node"]}

// -----

zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]
graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  // expected-error @below {{[axes_c1] names ["model"], which are not axes of the mesh in its order}}
  %c = zero.gather %b {axes = ["model"]} : !zero.buffer<64 x f32, device> -> !zero.buffer<128 x f32, device>
  graph.return
}

// -----

// expected-error @below {{[axes_c1] names axes, but there is no zero.mesh}}
zero.bucket @bucket0 : f32 padded = 64 members = [] {axes = ["local"]}

// -----

// expected-error @below {{[bucket_c1] member @w, 100 elements from 0 on, is not inside of 64}}
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@w, 0, 100>]

// -----

// expected-error @below {{[bucket_c1] padded is 100 elements, no multiple of 64 that is more than 0}}
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

// expected-error @below {{[bucket_c7] sums gradients of 'f32' in 'f32'}}
zero.bucket @bucket0 : f32 padded = 64 members = [] {gradient_type = f32, trainable}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  %c = zero.alloc : !zero.buffer<32 x bf16, device>
  // expected-error @below {{[reduce_scatter_c1] '!zero.buffer<32 x bf16, device>' is no shard of '!zero.buffer<64 x f32, device>'}}
  zero.reduce_scatter %b into %c scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<32 x bf16, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  // expected-error @below {{[bucket_c5] names @bucket1, which is no bucket}}
  %s = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : bf16 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[bucket_c6] has '!zero.buffer<64 x f32, device>' but the bucket needs '!zero.buffer<64 x bf16, device>'}}
  %b = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : bf16 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[storage_c1] '!zero.buffer<64 x bf16, device>' at element 0 is no part of the master of a bucket of 64 'f32' on device}}
  %b = zero.storage @bucket0 of master : !zero.buffer<64 x bf16, device>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = []
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[storage_c1] '!zero.buffer<64 x f32, device>' at element 1 is no part}}
  %b = zero.storage @bucket0 of parameters {offset = 1 : i64} : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

zero.bucket @bucket0 : f32 padded = 64 members = [] {parameters_tier = #zero<tier host>}
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[storage_c1] '!zero.buffer<64 x f32, device>' at element 0 is no part of the parameters of a bucket of 64 'f32' on host}}
  %b = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<48 x f32, device>
  // expected-error @below {{[gather_c1] '!zero.buffer<48 x f32, device>' is no shard of '!zero.buffer<64 x f32, device>'}}
  %c = zero.gather %b : !zero.buffer<48 x f32, device> -> !zero.buffer<64 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  %c = zero.alloc : !zero.buffer<32 x f32, host>
  // expected-error @below {{[reduce_scatter_c1] '!zero.buffer<32 x f32, host>' is no shard of '!zero.buffer<64 x f32, device>'}}
  zero.reduce_scatter %b into %c scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<32 x f32, host>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  %c = zero.alloc : !zero.buffer<32 x bf16, device>
  // expected-error @below {{[all_gather_c1] '!zero.buffer<32 x bf16, device>' is no shard of '!zero.buffer<64 x f32, device>'}}
  zero.all_gather %c into %b : !zero.buffer<32 x bf16, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, host>
  %c = zero.alloc : !zero.buffer<64 x bf16, device>
  // expected-error @below {{[publish_c1] '!zero.buffer<64 x f32, host>' does not become '!zero.buffer<64 x bf16, device>'}}
  zero.publish %b into %c : !zero.buffer<64 x f32, host>, !zero.buffer<64 x bf16, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, nvme>
  %c = zero.alloc : !zero.buffer<64 x f32, device>
  // expected-error @below {{[fetch_c1] cannot copy '!zero.buffer<64 x f32, nvme>' to '!zero.buffer<64 x f32, device>'}}
  zero.fetch %b into %c : !zero.buffer<64 x f32, nvme>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  %c = zero.alloc : !zero.buffer<32 x f32, host>
  // expected-error @below {{[evict_c1] cannot copy '!zero.buffer<64 x f32, device>' to '!zero.buffer<32 x f32, host>'}}
  zero.evict %b into %c : !zero.buffer<64 x f32, device>, !zero.buffer<32 x f32, host>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[buffer_c1] there is no buffer of -4 elements of 'f32'}}
  %b = zero.alloc : !zero.buffer<-4 x f32, host>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[buffer_c1] there is no buffer of 281474976710656 elements of 'f32'}}
  %b = zero.alloc : !zero.buffer<281474976710656 x f32, host>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[buffer_c1] there is no buffer of 4 elements of 'index'}}
  %b = zero.alloc : !zero.buffer<4 x index, host>
  graph.return
}

// -----

// The end of it is no number.
graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, host>
  // expected-error @below {{[part_c1] '!zero.buffer<32 x f32, host>' at element 9223372036854775807 does not lie in '!zero.buffer<64 x f32, host>'}}
  %c = zero.part %b offset = 9223372036854775807 : !zero.buffer<64 x f32, host> -> !zero.buffer<32 x f32, host>
  graph.return
}

// -----

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
// expected-error @below {{[bucket_c1] 64 elements are not 2 shards of a multiple of 64}}
zero.bucket @bucket0 : f32 padded = 64 members = []

// -----

// expected-error @below {{[bucket_c1] member @w, 9223372036854775807 elements from 64 on, is not inside of 128}}
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 64, 9223372036854775807>]

// -----

zero.mesh axes = [#zero.axis<"local" = 1>, #zero.axis<"model" = 3, model>]
graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, host>
  // expected-error @below {{[part_c1] 3 parts of '!zero.buffer<32 x f32, host>' from element 0 on do not lie in '!zero.buffer<64 x f32, host>'}}
  %c = zero.part %b offset = 0 {axes = ["model"]} : !zero.buffer<64 x f32, host> -> !zero.buffer<32 x f32, host>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, host>
  // expected-error @below {{[part_c1] '!zero.buffer<32 x f32, host>' at element 40 does not lie in '!zero.buffer<64 x f32, host>'}}
  %c = zero.part %b offset = 40 : !zero.buffer<64 x f32, host> -> !zero.buffer<32 x f32, host>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  // expected-error @below {{[view_c1] 'tensor<8x8xf32>' at element 1 does not lie in '!zero.buffer<64 x f32, device>'}}
  %w = zero.view %b offset = 1 : !zero.buffer<64 x f32, device> -> tensor<8x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["d"] {
^bb0(%d: tensor<4xbf16>):
  %b = zero.alloc : !zero.buffer<64 x f32, device>
  // expected-error @below {{[put_c1] 'tensor<4xbf16>' at element 0 does not lie in '!zero.buffer<64 x f32, device>'}}
  zero.put %d into %b offset = 0 : tensor<4xbf16>, !zero.buffer<64 x f32, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %b = zero.alloc : !zero.buffer<64 x f32, host>
  // expected-error @below {{[norm_partial_c1] needs accumulators of type '!zero.buffer<24 x i64, host>'}}
  %a = zero.norm_partial %b : (!zero.buffer<64 x f32, host>) -> !zero.buffer<24 x i64, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %b = zero.alloc : !zero.buffer<24 x i64, host>
  // expected-error @below {{[clip_factor_c1] needs results of type '!zero.buffer<1 x f32, host>'}}
  %n, %f = zero.clip_factor %b : !zero.buffer<24 x i64, host> -> !zero.buffer<1 x f32, host>, !zero.buffer<1 x f32, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %b = zero.alloc : !zero.buffer<24 x i64, host>
  %w = zero.alloc : !zero.buffer<1 x f64, device>
  // expected-error @below {{[clip_factor_c2] needs a weight of type '!zero.buffer<1 x f64, host>' and the number of its terms}}
  %n, %f = zero.clip_factor %b over %w : !zero.buffer<1 x f64, device> {terms = 2 : i64} : !zero.buffer<24 x i64, host> -> !zero.buffer<1 x f32, host>, !zero.buffer<1 x f32, host>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  // expected-error @below {{[reduce_loss_c1] needs a result of type '!zero.buffer<1 x f64, device>'}}
  %w = zero.reduce_loss -> !zero.buffer<1 x f32, device>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %g = zero.alloc : !zero.buffer<64 x bf16, host>
  %f = zero.alloc : !zero.buffer<1 x f32, host>
  %w = zero.alloc : !zero.buffer<64 x f32, host>
  // expected-error @below {{[update_c1] adamw takes 2 moments; all but the factor as many elements, all on one tier}}
  zero.update %g, %f, %w(%w) rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x bf16, host>, !zero.buffer<1 x f32, host>, !zero.buffer<64 x f32, host>, !zero.buffer<64 x f32, host>) -> ()
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<512 x f32, device>
  // expected-error @below {{[quantize_c1] '!zero.buffer<512 x ui8, device>' is not '!zero.buffer<512 x f32, device>' in 1 x 2 pieces of 8 bits with a scale per 256 elements}}
  %q = zero.quantize %b {bits = 8 : i64, block = 256 : i64, rows = 1 : i64, columns = 2 : i64} : (!zero.buffer<512 x f32, device>) -> !zero.buffer<512 x ui8, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<512 x f32, device>
  // expected-error @below {{[quantize_c1]}}
  %q = zero.quantize %b {bits = 8 : i64, block = 256 : i64, rows = 2 : i64, columns = 0 : i64} : (!zero.buffer<512 x f32, device>) -> !zero.buffer<520 x ui8, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<256 x f32, device>
  %e = zero.alloc : !zero.buffer<256 x bf16, device>
  // expected-error @below {{[quantize_c2] has a residual of '!zero.buffer<256 x bf16, device>' for '!zero.buffer<256 x f32, device>'}}
  %q = zero.quantize %b feedback %e {bits = 8 : i64, block = 256 : i64, rows = 1 : i64, columns = 1 : i64} : (!zero.buffer<256 x f32, device>, !zero.buffer<256 x bf16, device>) -> !zero.buffer<260 x ui8, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %q = zero.alloc : !zero.buffer<260 x ui8, device>
  // expected-error @below {{[dequantize_c1] '!zero.buffer<260 x ui8, device>' is not '!zero.buffer<256 x f32, device>' in 1 x 1 pieces of 4 bits with a scale per 256 elements}}
  %b = zero.dequantize %q {bits = 4 : i64, block = 256 : i64, rows = 1 : i64, columns = 1 : i64} : !zero.buffer<260 x ui8, device> -> !zero.buffer<256 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %q = zero.alloc : !zero.buffer<520 x ui8, device>
  // expected-error @below {{[dequantize_sum_quantize_c1] does not sum 3 times 1 pieces of 256 elements in '!zero.buffer<520 x ui8, device>' to '!zero.buffer<260 x ui8, device>'}}
  %r = zero.dequantize_sum_quantize %q {bits = 8 : i64, block = 256 : i64, sources = 3 : i64, pieces = 1 : i64, elements = 256 : i64} : (!zero.buffer<520 x ui8, device>) -> !zero.buffer<260 x ui8, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %q = zero.alloc : !zero.buffer<520 x ui8, device>
  %s = zero.alloc : !zero.buffer<128 x f32, device>
  // expected-error @below {{[dequantize_sum_c1] does not sum 2 pieces in '!zero.buffer<520 x ui8, device>' to '!zero.buffer<128 x f32, device>'}}
  zero.dequantize_sum %q into %s scale = 1.0 {bits = 8 : i64, block = 256 : i64, sources = 2 : i64} : !zero.buffer<520 x ui8, device>, !zero.buffer<128 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<512 x f32, device>
  // expected-error @below {{[own_part_c1] '!zero.buffer<200 x f32, device>' is no part of '!zero.buffer<512 x f32, device>'}}
  %p = zero.own_part %b : !zero.buffer<512 x f32, device> -> !zero.buffer<200 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %b = zero.alloc : !zero.buffer<512 x f32, device>
  // expected-error @below {{[reorder_c1] cannot cut '!zero.buffer<512 x f32, device>' into 3 x 2 pieces}}
  zero.reorder %b into %b rows = 3 columns = 2 : !zero.buffer<512 x f32, device>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[load_c1] takes no arguments and yields what it results in, a buffer on the device first}}
  %b = zero.load {
    %h = zero.alloc : !zero.buffer<64 x f32, host>
    zero.yield %h : !zero.buffer<64 x f32, host>
  } : !zero.buffer<64 x f32, host>
  graph.return
}
