// RUN: zero-opt %s --split-input-file --verify-plan --verify-diagnostics

plan.section micro {
}

// -----

// expected-error @below {{'zero.mesh' op does not belong to a plan}}
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
