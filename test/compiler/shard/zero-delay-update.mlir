// RUN: zero-opt %s --zero-delay-update="delay-after=3" | FileCheck %s --check-prefixes=CHECK,DEVICE
// RUN: zero-opt %s --zero-delay-update="delay-after=3" --zero-offload="offload-optimizer=host" | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: zero-opt %s --zero-delay-update --zero-offload="offload-optimizer=nvme" | FileCheck %s --check-prefix=NVME
// RUN: zero-opt %s --zero-delay-update="delay-after=3" --zero-offload="offload-optimizer=host" --zero-schedule-pipeline="prefetch=0" --zero-plan-pipeline | FileCheck %s --check-prefix=PLAN
// RUN: zero-opt %s --zero-delay-update --zero-offload="offload-optimizer=nvme" --zero-schedule-pipeline="prefetch=0" --zero-plan-pipeline | FileCheck %s --check-prefix=FIRST
// RUN: not zero-opt %s --zero-delay-update --zero-delay-update 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not zero-opt %s --zero-delay-update="delay-after=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not zero-opt %s --zero-offload="offload-optimizer=nvme" --zero-delay-update 2>&1 | FileCheck %s --check-prefix=TWICE

// TWICE: error: zero-delay-update needs the updates that zero-partition leaves, once
// NEGATIVE: delay-after: -1 is not in [0, 
// CHECK: delay_after = 3>
// NVME: delay_after = 40>
// CHECK: zero.bucket @exact {{.*}} {delayed,
// CHECK: zero.bucket @half {{.*}} {delayed,
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @a : tensor<128xf32> role = trainable
graph.parameter @b : tensor<256xbf16> role = trainable
zero.bucket @exact : f32 padded = 128 members = [#zero.member<@a, 0, 128>] {trainable, optimizer_sharded, gradients_sharded}
zero.bucket @half : bf16 padded = 256 members = [#zero.member<@b, 0, 256>] {trainable, optimizer_sharded, gradients_sharded}

graph.program @micro phase = micro inputs = ["x", "y"] {
^bb0(%x: tensor<128xf32>, %y: tensor<256xbf16>):
  %a = zero.storage @exact of gradients : !zero.buffer<64 x f32, device>
  %b = zero.storage @half of gradients : !zero.buffer<128 x bf16, device>
  %ga = zero.grad_buffer @exact : !zero.buffer<128 x f32, device>
  %gb = zero.grad_buffer @half : !zero.buffer<256 x bf16, device>
  zero.put %x into %ga offset = 0 : tensor<128xf32>, !zero.buffer<128 x f32, device>
  zero.put %y into %gb offset = 0 : tensor<256xbf16>, !zero.buffer<256 x bf16, device>
  zero.reduce_scatter %gb into %b scale = 0.5 : !zero.buffer<256 x bf16, device>, !zero.buffer<128 x bf16, device>
  zero.reduce_scatter %ga into %a scale = 0.5 : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// The weights of the step before become parameters, last bucket first; 16 bits are made where the weights are.
// CHECK-LABEL: graph.program @update
// NVME-LABEL: graph.program @update
// DEVICE: %[[WB:.*]] = zero.storage @half of master : <128 x f32, device>
// DEVICE: %[[PB:.*]] = zero.storage @half of parameters {own} : <128 x bf16, device>
// DEVICE: zero.publish %[[WB]] into %[[PB]] : <128 x f32, device>, <128 x bf16, device>
// DEVICE: %[[WA:.*]] = zero.storage @exact of master
// DEVICE: %[[PA:.*]] = zero.storage @exact of parameters {own}
// DEVICE: zero.publish %[[WA]] into %[[PA]] : <64 x f32, device>, <64 x f32, device>
// HOST: %[[WB:.*]] = zero.storage @half of master : <128 x f32, host>
// HOST: %[[PB:.*]] = zero.storage @half of parameters {own} : <128 x bf16, device>
// HOST: zero.publish %[[WB]] into %[[COPY:.*]] : <128 x f32, host>, <128 x bf16, host>
// HOST: zero.fetch %[[COPY]] into %[[PB]] : <128 x bf16, host>, <128 x bf16, device>
// HOST: %[[WA:.*]] = zero.storage @exact of master : <64 x f32, host>
// HOST: %[[PA:.*]] = zero.storage @exact of parameters {own} : <64 x f32, device>
// HOST: zero.fetch %[[WA]] into %[[PA]] : <64 x f32, host>, <64 x f32, device>
// NVME: %[[WB:.*]] = zero.storage @half of master : <128 x f32, nvme>
// NVME: zero.fetch %[[WB]] into %[[STAGED:.*]] : <128 x f32, nvme>, <128 x f32, host>
// NVME: zero.publish %[[STAGED]] into %[[COPY:.*]] : <128 x f32, host>, <128 x bf16, host>
// NVME: zero.fetch %[[COPY]] into %{{.*}} : <128 x bf16, host>, <128 x bf16, device>
// CHECK-COUNT-2: zero.all_gather
// Then the updates, which the next forward need not wait for: nothing reads what they write.
// CHECK-NOT: zero.publish
// CHECK-NOT: zero.fetch
// CHECK: zero.reduce_loss
// DEVICE: zero.update %{{.*}}, %{{.*}}, %[[MB:.*]] rule = sgd {{.*}}<128 x f32, device>) -> ()
// DEVICE: zero.update %{{.*}}, %{{.*}}, %[[MA:.*]] rule = sgd {{.*}}<64 x f32, device>) -> ()
// HOST: %[[MB:.*]] = zero.storage @half of master : <128 x f32, host>
// HOST: zero.update %{{.*}}, %{{.*}}, %[[MB]] rule
// HOST: %[[MA:.*]] = zero.storage @exact of master : <64 x f32, host>
// HOST: zero.update %{{.*}}, %{{.*}}, %[[MA]] rule
// CHECK-NOT: zero.evict
// CHECK-NOT: zero.fetch
// CHECK: graph.return
// Steps that publish are marked as such, gathers too.
// PLAN-LABEL: plan.section update
// PLAN-DAG: plan.step "cast" queue = host_compute {{.*}}publishes
// PLAN-DAG: plan.step "h2d" queue = h2d {{.*}}publishes
// PLAN-DAG: plan.step "h2d" queue = h2d {{.*}}publishes
// PLAN-DAG: plan.step "all_gather" queue = comm {{.*}}publishes
// PLAN-DAG: plan.step "all_gather" queue = comm {{.*}}publishes
// PLAN-DAG: plan.step "sgd" queue = host_compute {{.*}} {bytes = {{[0-9]+}} : i64, seconds
// PLAN-DAG: plan.step "sgd" queue = host_compute {{.*}} {bytes = {{[0-9]+}} : i64, seconds
// A queue publishes before it does anything else.
// FIRST-LABEL: plan.section update
// FIRST: plan.step "nvme_read" {{.*}}publishes
// FIRST-NOT: plan.step "nvme_read" {{.*}} {seconds
// FIRST: plan.step "nvme_read" {{.*}}publishes
// FIRST: plan.step "nvme_read" {{.*}} {seconds
graph.program @update phase = update inputs = [] {
  %ga = zero.storage @exact of gradients : !zero.buffer<64 x f32, device>
  %gb = zero.storage @half of gradients : !zero.buffer<128 x bf16, device>
  %na = zero.norm_partial %ga : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %nb = zero.norm_partial %gb after %na : (!zero.buffer<128 x bf16, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %sum = zero.all_reduce %nb : !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %sum : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  %pa = zero.storage @exact of parameters {own} : !zero.buffer<64 x f32, device>
  zero.update %ga, %f, %pa rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %wb = zero.storage @half of master : !zero.buffer<128 x f32, device>
  %pb = zero.storage @half of parameters {own} : !zero.buffer<128 x bf16, device>
  zero.update %gb, %f, %wb to %pb rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<128 x bf16, device>, !zero.buffer<1 x f32, device>, !zero.buffer<128 x f32, device>, !zero.buffer<128 x bf16, device>) -> ()
  %whole = zero.storage @exact of parameters : !zero.buffer<128 x f32, device>
  zero.all_gather %pa into %whole : !zero.buffer<64 x f32, device>, !zero.buffer<128 x f32, device>
  %wholeb = zero.storage @half of parameters : !zero.buffer<256 x bf16, device>
  zero.all_gather %pb into %wholeb : !zero.buffer<128 x bf16, device>, !zero.buffer<256 x bf16, device>
  zero.reduce_loss
  graph.return
}
