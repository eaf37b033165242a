//===- BatchSpec.h - what a plan says about data --------------------------------------------===//
#pragma once

#include "runtime/data/InputSource.h"
#include "runtime/plan/plan.pb.h"

namespace zc::train {

/// Token ids are bounded by the rows of the table that input_ids is looked up in.
data::BatchSpec batchOf(const planpb::Plan &plan);

} // namespace zc::train
