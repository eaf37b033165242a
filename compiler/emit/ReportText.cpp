//===- ReportText.cpp - the report as JSON and as a table ------------------------------===//

#include "compiler/emit/Report.h"
#include "runtime/base/Size.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace zc;

static llvm::json::Object tierAsJson(const planpb::TierReport &tier) {
  return llvm::json::Object{
      {"peak_bytes", tier.peak_bytes()},
      {"model_state_bytes", llvm::json::Object{{"parameters", tier.parameters()},
                                               {"gradients", tier.gradients()},
                                               {"optimizer", tier.optimizer()}}},
      {"activations", tier.activations()},
      {"buffers", tier.buffers()},
      {"padding", tier.padding()},
      {"budget", tier.budget() == 0 ? llvm::json::Value(nullptr) : llvm::json::Value(tier.budget())}};
}

static uint64_t numSteps(const planpb::Plan &plan) {
  return static_cast<uint64_t>(plan.micro().steps_size()) * microExecutions(plan) +
         static_cast<uint64_t>(plan.update().steps_size());
}

std::string zc::reportAsJson(const planpb::Plan &plan) {
  const planpb::Report &report = plan.report();
  const planpb::Traffic &traffic = report.traffic();
  llvm::json::Object object{
      {"world_size", worldSizeOf(plan)},
      {"stage", plan.zero_stage()},
      {"precision", plan.precision()},
      {"grad_accumulation", plan.accumulation()},
      {"micro_order", plan.vertical() ? "vertical" : "rolled"},
      {"forward_only", plan.forward_only()},
      {"delay_after", plan.has_delay() ? llvm::json::Value(plan.delay().after()) : llvm::json::Value(nullptr)},
      {"parameters", report.parameters()},
      {"tiers", llvm::json::Object{{"device", tierAsJson(report.device())},
                                   {"host", tierAsJson(report.host())},
                                   {"nvme", tierAsJson(report.nvme())}}},
      {"traffic", llvm::json::Object{{"gather", traffic.gather()},
                                     {"reduce_scatter", traffic.reduce_scatter()},
                                     {"all_reduce", traffic.all_reduce()},
                                     {"model", traffic.model()},
                                     {"inter_node", traffic.inter_node()},
                                     {"intra_node", traffic.intra_node()},
                                     {"h2d", traffic.h2d()},
                                     {"d2h", traffic.d2h()},
                                     {"nvme_read", traffic.nvme_read()},
                                     {"nvme_write", traffic.nvme_write()}}},
      {"flops", report.flops()},
      {"predicted_step_seconds", report.predicted_step_seconds()},
      {"plan_steps", numSteps(plan)},
      {"buckets", plan.buckets_size()}};
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::json::Value(std::move(object));
  return text;
}

/// "loss, logits", the loss first.
static std::string outputsOf(const planpb::Plan &plan) {
  std::string loss, others;
  for (const planpb::Output &output : plan.outputs())
    if (output.kind() == planpb::LOSS)
      loss = output.name();
    else if (output.kind() == planpb::VALUE)
      others += ", " + output.name();
  return loss.empty() ? others.substr(2) + " (no loss)" : loss + others;
}

std::string zc::reportAsTable(const planpb::Plan &plan) {
  const planpb::Report &report = plan.report();
  const planpb::TierReport &device = report.device();
  std::string text;
  llvm::raw_string_ostream out(text);
  auto row = [&](llvm::StringRef name, const std::string &value) {
    out << llvm::formatv("  {0,-26}{1,14}\n", name, value);
  };
  out << plan.model().name() << ": " << report.parameters()
      << (plan.forward_only() ? " parameters, ZeRO stage " : " trainable parameters, ZeRO stage ") << plan.zero_stage()
      << " on " << worldSizeOf(plan) << (worldSizeOf(plan) == 1 ? " rank, " : " ranks, ") << plan.precision() << ", ";
  if (plan.forward_only())
    out << "forward only: " << outputsOf(plan) << "\n\n";
  else
    out << plan.accumulation() << (plan.accumulation() == 1 ? " micro-step" : " micro-steps")
        << (plan.vertical() ? ", block by block" : "")
        << (plan.has_delay() ? llvm::formatv(", updates delayed after step {0}", plan.delay().after()).str() : "")
        << "\n\n";
  auto tierRows = [&](llvm::StringRef name, const planpb::TierReport &tier) {
    if (tier.peak_bytes() == 0)
      return;
    out << name << " memory per rank\n";
    row("parameters", showSize(tier.parameters()));
    row("gradients", showSize(tier.gradients()));
    row("optimizer state", showSize(tier.optimizer()));
    row("activations", showSize(tier.activations()));
    row("buffers", showSize(tier.buffers()));
    row("peak", showSize(tier.peak_bytes()));
    row("padding in model state", showSize(tier.padding()));
    if (tier.budget() != 0)
      row("budget", showSize(tier.budget()));
    out << "\n";
  };
  tierRows("device", device);
  tierRows("host", report.host());
  tierRows("nvme", report.nvme());
  out << "traffic per rank and step\n";
  row("parameters gathered", showSize(report.traffic().gather()));
  row("gradients reduce-scattered", showSize(report.traffic().reduce_scatter()));
  row("gradients all-reduced", showSize(report.traffic().all_reduce()));
  if (report.traffic().model() != 0)
    row("along the model axis", showSize(report.traffic().model()));
  row("sent inside the node", showSize(report.traffic().intra_node()));
  row("sent between nodes", showSize(report.traffic().inter_node()));
  auto link = [&](llvm::StringRef name, uint64_t bytes) {
    if (bytes != 0)
      row(name, showSize(bytes));
  };
  link("host to device", report.traffic().h2d());
  link("device to host", report.traffic().d2h());
  link("read from nvme", report.traffic().nvme_read());
  link("written to nvme", report.traffic().nvme_write());
  out << llvm::formatv("\n{0} steps, {1} buckets, {2:f2} GFLOP per rank; predicted {3:f3} s per step\n", numSteps(plan),
                       plan.buckets_size(), report.flops() / 1e9, report.predicted_step_seconds());
  uint64_t state = device.parameters() + device.gradients() + device.optimizer();
  llvm::StringRef binds = state >= device.activations() && state >= device.buffers() ? "model state"
                          : device.activations() >= device.buffers()                 ? "activations"
                                                                     : "communication and other buffers";
  out << "what binds: " << binds << "; this plan needs " << device.peak_bytes() << " bytes of device memory per rank\n";
  return text;
}
