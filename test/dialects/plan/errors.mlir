// RUN: zero-opt %s --split-input-file --verify-diagnostics
// One case per labelled constraint; labels.test checks that none is missing.

// expected-error @below {{[arena_c1] has -1 bytes}}
plan.arena @device tier = device bytes = -1

// -----

// expected-error @below {{attribute 'thousandths' failed to satisfy constraint}}
plan.share queue = host_compute thousandths = 1001

// -----

plan.arena @device tier = device bytes = 4096
// expected-error @below {{[slice_c1] offset 128 is not a multiple of 256}}
plan.slice @s0 in @device offset = 128 bytes = 4 class = buffers

// -----

plan.arena @device tier = device bytes = 4096
// expected-error @below {{[slice_c1] offset -256 is not a multiple of 256}}
plan.slice @s0 in @device offset = -256 bytes = 4 class = buffers

// -----

plan.arena @device tier = device bytes = 4096
// expected-error @below {{[slice_c2] has -4 bytes}}
plan.slice @s0 in @device offset = 0 bytes = -4 class = buffers

// -----

// expected-error @below {{[bucket_c1] uses 65 of 64 elements}}
plan.bucket @bucket0 : f32 padded = 64 used = 65

// -----

plan.section micro {
  // expected-error @below {{[step_c1] has 1 inputs among 0 operands}}
  plan.step "relu" queue = compute inputs = 1 operands = [] attributes = {} waits = []
}

// -----

// expected-error @below {{a machine has no rate 'speed'}}
module attributes {plan.machine = #plan.machine<speed = 1.0e+12>} {}

// -----

// expected-error @below {{'comm_bandwidth' is -1}}
module attributes {plan.machine = #plan.machine<flops_per_second = 1.0e+12, comm_bandwidth = -1.0>} {}
