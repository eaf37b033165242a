//===- Report.h - what a plan costs, before it runs -------------------------------===//
#pragma once

#include "compiler/options/Budgets.h"
#include "runtime/plan/plan.pb.h"

#include <string>

namespace zc {

/// Fills `plan.report`: bytes per tier and class, traffic and predicted seconds per rank and step. Parameters and flops
/// are there already. Model-state bytes less padding equal the formulas of ZeRO (arXiv 1910.02054, section 5) for the
/// plan's stage and precision.
void fillReport(planpb::Plan &plan, const Budgets &budgets);

/// One JSON object; docs/cli.md lists its keys.
std::string reportAsJson(const planpb::Plan &plan);
/// The same as a table for people, with what binds.
std::string reportAsTable(const planpb::Plan &plan);

} // namespace zc
