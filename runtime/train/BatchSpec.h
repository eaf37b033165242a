//===- BatchSpec.h - what a plan says about data --------------------------------------------===//
#pragma once

#include "runtime/data/InputSource.h"
#include "runtime/plan/plan.pb.h"

namespace zc::train {

/// Of a plan that was verified.
data::BatchSpec batchOf(const planpb::Plan &plan);

} // namespace zc::train
