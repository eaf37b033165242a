// RUN: zero-opt %s --zero-offload="offload-optimizer=host offload-activation=host" | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme offload-param=nvme chunk=8192 gradients-on-host=10239" | FileCheck %s --check-prefixes=CHECK,NVME
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme offload-param=nvme chunk=8192 gradients-on-host=0 resident-on-host=10239" | FileCheck %s --check-prefixes=CHECK,NVME
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme offload-param=nvme chunk=8192 resident-on-host=10240" | FileCheck %s --check-prefix=ROOM
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme offload-param=nvme chunk=8192 gradients-on-host=10240" | FileCheck %s --check-prefix=WAIT
// RUN: not zero-opt %s --zero-offload="offload-optimizer=host" --zero-offload="offload-optimizer=host" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: zero-opt %s --join-update="overlap=none" -o %t
// RUN: zero-opt %s --zero-partition-activations="tensor-parallel=2 world-size=2" -o %t
// TWICE: error: is on other tiers already: zero-offload comes once
// RUN: not zero-opt %s --zero-offload="offload-optimizer=disk" 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: offload-optimizer: "disk" is not one of none, host, nvme
// HOST: zero.bucket @bucket0 {{.*}}gradients_tier = #zero<tier host>, optimizer_sharded, optimizer_tier = #zero<tier host>, parameters_sharded
// ROOM: zero.bucket @bucket0 {{.*}}optimizer_tier = #zero<tier nvme>, {{.*}}parameters_tier = #zero<tier host>
// WAIT: zero.bucket @bucket0 {{.*}}gradients_tier = #zero<tier host>, {{.*}}optimizer_tier = #zero<tier nvme>
// NVME: zero.bucket @bucket0 {{.*}}gradients_tier = #zero<tier nvme>, {{.*}}optimizer_tier = #zero<tier nvme>, {{.*}}parameters_tier = #zero<tier nvme>
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<5000xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 5120 members = [#zero.member<@w, 0, 5000>] {trainable, parameters_sharded, gradients_sharded, optimizer_sharded}

// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<5000xf32>):
  %p = zero.storage @bucket0 of parameters : !zero.buffer<2560 x f32, device>
  // Parameters from the file: two chunks, each through a slot of the staging, into the shard that is gathered.
  // NVME: %[[STORED:.*]] = zero.storage @bucket0 of parameters : <2560 x f32, nvme>
  // NVME: zero.load
  // NVME-NEXT: %[[SHARD:.*]] = zero.alloc : <2560 x f32, device>
  // NVME: %[[SLOT:.*]] = zero.part %[[SLOTS:.*]] offset = 0
  // NVME: %[[FROM:.*]] = zero.part %[[STORED]] offset = 0 : <2560 x f32, nvme> -> <2048 x f32, nvme>
  // NVME: zero.fetch %[[FROM]] into %[[SLOT]] : <2048 x f32, nvme>, <2048 x f32, host>
  // NVME: %[[TO:.*]] = zero.part %[[SHARD]] offset = 0 : <2560 x f32, device> -> <2048 x f32, device>
  // NVME: zero.fetch %[[SLOT]] into %[[TO]] : <2048 x f32, host>, <2048 x f32, device>
  // NVME: zero.fetch {{.*}} : <512 x f32, nvme>, <512 x f32, host>
  // NVME: zero.fetch {{.*}} : <512 x f32, host>, <512 x f32, device>
  // NVME: zero.gather %[[SHARD]]
  %b = zero.load {
    %gathered = zero.gather %p : !zero.buffer<2560 x f32, device> -> !zero.buffer<5120 x f32, device>
    zero.yield %gathered : !zero.buffer<5120 x f32, device>
  } : !zero.buffer<5120 x f32, device>
  %w = zero.view %b offset = 0 : !zero.buffer<5120 x f32, device> -> tensor<5000xf32>
  %y = graph.mul %x, %w : (tensor<5000xf32>, tensor<5000xf32>) -> tensor<5000xf32>
  zero.release %b : !zero.buffer<5120 x f32, device>
  // HOST: %[[Z:.*]] = graph.exp
  %z = graph.exp %y : (tensor<5000xf32>) -> tensor<5000xf32>
  // After its last use in forward the activation leaves; what backward reads is fetched just before.
  // HOST: %[[LOSS:.*]] = graph.reduce_mean %[[Z]]
  // HOST-NEXT: %[[KEPT:.*]] = zero.alloc {activation} : <5000 x f32, host>
  // HOST-NEXT: zero.evict %[[Z]] into %[[KEPT]]
  %loss = graph.reduce_mean %z {axes = array<i64: 0>} : (tensor<5000xf32>) -> tensor<f32>
  graph.backward
  // HOST: %[[LOAD:.*]] = zero.load
  // HOST-NEXT: %[[BACK:.*]] = zero.alloc {activation} : <5000 x f32, device>
  // HOST-NEXT: zero.fetch %[[KEPT]] into %[[BACK]]
  // HOST-NEXT: zero.yield %[[BACK]]
  // HOST: %[[ZB:.*]] = zero.view %[[LOAD]] offset = 0
  // HOST-NEXT: graph.abs %[[ZB]]
  %d = graph.abs %z : (tensor<5000xf32>) -> tensor<5000xf32>
  %g = zero.grad_buffer @bucket0 : !zero.buffer<5120 x f32, device>
  zero.put %d into %g offset = 0 : tensor<5000xf32>, !zero.buffer<5120 x f32, device>
  // The gradient is reduced into a shard that leaves the device and is squared as it lands.
  // CHECK: %[[R:.*]] = zero.alloc : <2560 x f32, device>
  // CHECK-NEXT: zero.reduce_scatter %{{.*}} into %[[R]] scale = 5.000000e-01
  // HOST: %[[GS:.*]] = zero.storage @bucket0 of gradients : <2560 x f32, host>
  // HOST-NEXT: zero.evict %[[R]] into %[[GS]]
  // HOST: zero.norm_partial %[[GS]] after %{{.*}} {reset}
  // NVME: zero.evict %{{.*}} into %[[L:.*]] : !zero.buffer<2048 x f32, device>, <2048 x f32, host>
  // NVME: %[[N1:.*]] = zero.norm_partial %[[L]] after %{{.*}} {reset}
  // NVME: zero.evict %[[L]] into %{{.*}} : !zero.buffer<2048 x f32, host>, <2048 x f32, nvme>
  // NVME: zero.norm_partial %{{.*}} after %[[N1]] :
  // NVME: zero.evict %{{.*}} into %{{.*}} : !zero.buffer<512 x f32, host>, <512 x f32, nvme>
  // Where the host has room for them gradients land there, and wait.
  // WAIT: %[[GS:.*]] = zero.storage @bucket0 of gradients : <2560 x f32, host>
  // WAIT-NEXT: %[[G1:.*]] = zero.part %[[GS]] offset = 0
  // WAIT-NEXT: zero.evict %{{.*}} into %[[G1]] : !zero.buffer<2048 x f32, device>, <2048 x f32, host>
  // WAIT: zero.norm_partial %[[G1]] after
  // WAIT-NOT: nvme>
  // WAIT: graph.program @update
  %gs = zero.storage @bucket0 of gradients : !zero.buffer<2560 x f32, device>
  zero.reduce_scatter %g into %gs scale = 0.5 : !zero.buffer<5120 x f32, device>, !zero.buffer<2560 x f32, device>
  zero.record_loss %loss : tensor<f32>
  graph.return %loss : tensor<f32>
}

// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  %g = zero.storage @bucket0 of gradients : !zero.buffer<2560 x f32, device>
  // CHECK: %[[LANDED:.*]] = zero.storage @bucket0 of norm : <24 x i64, host>
  // CHECK-NEXT: %[[SUM:.*]] = zero.all_reduce %[[LANDED]]
  // CHECK-NEXT: zero.clip_factor %[[SUM]]
  // Nothing is clipped: the factor is there before any gradient is.
  // CHECK-NEXT: %[[F:.*]] = zero.fill 1.000000e+00
  %a = zero.norm_partial %g : (!zero.buffer<2560 x f32, device>) -> !zero.buffer<24 x i64, device>
  %s = zero.all_reduce %a : !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %s : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  // Parameters on the device, state on the host: the master weights go up.
  // HOST: %[[M:.*]] = zero.storage @bucket0 of master : <2560 x f32, host>
  // HOST: zero.update %{{.*}}, %[[F]], %[[M]]
  // HOST: zero.fetch %[[M]] into %{{.*}} : <2560 x f32, host>, <2560 x f32, device>
  // Both in the file: weights and moment are read, updated, written, chunk by chunk; gradients only read.
  // NVME: zero.fetch {{.*}}<2048 x f32, nvme>, <2048 x f32, host>
  // NVME: zero.fetch {{.*}}<2048 x f32, nvme>, <2048 x f32, host>
  // NVME: zero.fetch {{.*}}<2048 x f32, nvme>, <2048 x f32, host>
  // NVME: zero.update %{{.*}}, %[[F]],
  // NVME: zero.evict
  // NVME: zero.evict
  // NVME-NOT: zero.evict
  // NVME: zero.update
  // Of the file it is only weights and moment that are read.
  // WAIT: %[[G:.*]] = zero.part %{{.*}} offset = 0 : <2560 x f32, host> -> <2048 x f32, host>
  // WAIT-COUNT-2: zero.fetch {{.*}}<2048 x f32, nvme>, <2048 x f32, host>
  // WAIT-NOT: zero.fetch
  // WAIT: zero.update %[[G]]
  %w = zero.storage @bucket0 of parameters : !zero.buffer<2560 x f32, device>
  %m = zero.storage @bucket0 of moment1 : !zero.buffer<2560 x f32, device>
  zero.update %g, %f, %w(%m) rule = momentum {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.5 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<2560 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<2560 x f32, device>, !zero.buffer<2560 x f32, device>) -> ()
  zero.reduce_loss
  graph.return
}
