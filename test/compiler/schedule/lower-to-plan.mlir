// RUN: zero-opt %s --assign-queues --plan-memory --lower-to-plan --verify-plan --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: echo "module {}" | not zero-opt --lower-to-plan 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not zero-opt %s --lower-to-plan 2>&1 | FileCheck %s --check-prefix=UNPLACED
// RUN: echo 'graph.program @update phase = update inputs = [] { graph.return }' | not zero-opt --lower-to-plan 2>&1 | FileCheck %s --check-prefix=UNPLACED
// NONE: error: lower-to-plan needs a micro and an update program
// UNPLACED: error: lower-to-plan needs what plan-memory leaves: the place of each value

module attributes {zero.execution = #zero.execution<stage = 3, accumulation = 2>} {
// CHECK-DAG: plan.mesh axes = [#plan.axis<"node" = 1>, #plan.axis<"local" = 2>]
// CHECK-DAG: plan.input "x" : tensor<64xf32>
// CHECK-DAG: plan.bucket @bucket0 : f32 padded = 128 used = 64 {{.*}}parameters = @bucket0.parameters, parameters_sharded, trainable}
// CHECK-DAG: plan.parameter @w : tensor<64xf32> role = trainable {bucket = @bucket0, offset = 0 : i64}
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<64xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>] {trainable, parameters_sharded, gradients_sharded, optimizer_sharded}

// Waits stand only between queues, where bytes are shared, and where no other wait implies them: the gather waits for the last
// update (that the product before is over, the reduce-scatter before it has waited for), the input for the reduce-scatter of the
// micro-step before, which stages what peers send over its bytes, the product for the gather, the reduce-scatter for the product.
// CHECK: plan.section micro
// CHECK-NEXT: plan.step "load_input" queue = compute inputs = 0 operands = [#plan.operand<write @[[X:.*]] + 0 : tensor<64xf32>>] attributes = {input = 0 : i64} waits = [#plan.wait<micro comm 1 ago 1>]
// CHECK-NEXT: plan.step "all_gather" queue = comm inputs = 1 operands = [#plan.operand<read @bucket0.parameters + 0 : tensor<64xf32>>, #plan.operand<write @[[B:.*]] + 0 : tensor<128xf32>>] attributes = {traffic = "gather"} waits = [#plan.wait<update compute 2 ago 1>]
// CHECK-NEXT: plan.step "fill_gaps" queue = compute {{.*}} attributes = {gaps = array<i64: 64, 64>} waits = []
// CHECK-NEXT: plan.step "mul" queue = compute inputs = 2 {{.*}}read @[[X]] + {{.*}}read @[[B]] + 0 {{.*}}write @[[G:.*]] + 0 {{.*}} waits = [#plan.wait<micro comm 0 ago 0>{{.*}} loc("product")
// CHECK-NEXT: plan.step "reduce_scatter" queue = comm {{.*}}read @[[G]] + {{.*}}read_write @bucket0.gradients + 0 : tensor<64xf32>>] attributes = {accumulate = 1 : i64, scale = 5.000000e-01 : f64, traffic = "reduce_scatter"} waits = [#plan.wait<micro compute 2 ago 0>{{.*}}workspace = #plan.operand<write @{{s[0-9]+}} + 0 : tensor<1536xui8>>} loc(
// CHECK-NEXT: {{^ *}}} loc
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %p = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %gs = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %b = zero.gather %p : !zero.buffer<64 x f32, device> -> !zero.buffer<128 x f32, device>
  %w = zero.view %b offset = 0 : !zero.buffer<128 x f32, device> -> tensor<64xf32>
  %g = zero.grad_buffer @bucket0 : !zero.buffer<128 x f32, device>
  %d = graph.mul %x, %w : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> loc("product")
  zero.release %b : !zero.buffer<128 x f32, device>
  zero.put %d into %g offset = 0 : tensor<64xf32>, !zero.buffer<128 x f32, device>
  zero.reduce_scatter %g into %gs scale = 0.5 {accumulate} : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// CHECK: plan.section update
// CHECK-NEXT: plan.step "norm_partial" {{.*}}#plan.wait<micro comm 1 ago 0>
// CHECK-NEXT: plan.step "norm_finish"
// CHECK-NEXT: plan.step "sgd" queue = compute inputs = 2 operands = [#plan.operand<read @bucket0.gradients + 0 : tensor<64xf32>>, {{.*}}#plan.operand<read_write @bucket0.parameters + 0 : tensor<64xf32>>] 
// CHECK-NEXT: plan.step "all_reduce" queue = comm {{.*}}read_write @loss_sum
graph.program @update phase = update inputs = [] {
  %p = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %g = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %a = zero.norm_partial %g : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %a : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g, %f, %p rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  zero.reduce_loss
  graph.return
}
}
