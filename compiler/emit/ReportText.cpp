//===- ReportText.cpp - the report as JSON and as a table ------------------------------===//

#include "base/Size.h"
#include "compiler/emit/Report.h"
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

static void writeHead(llvm::raw_ostream &out, const planpb::Plan &plan) {
  out << plan.model().name() << ": " << plan.report().parameters()
      << (plan.forward_only() ? " parameters, ZeRO stage " : " trainable parameters, ZeRO stage ") << plan.zero_stage()
      << " on " << worldSizeOf(plan) << (worldSizeOf(plan) == 1 ? " rank, " : " ranks, ") << plan.precision() << ", ";
  if (plan.forward_only())
    out << "forward only: " << outputsOf(plan) << "\n\n";
  else
    out << plan.accumulation() << (plan.accumulation() == 1 ? " micro-step" : " micro-steps")
        << (plan.vertical() ? ", block by block" : "")
        << (plan.has_delay() ? llvm::formatv(", updates delayed after step {0}", plan.delay().after()).str() : "")
        << "\n\n";
}

static void writeSize(llvm::raw_ostream &out, llvm::StringRef name, uint64_t bytes) {
  out << llvm::formatv("  {0,-26}{1,14}\n", name, showSize(bytes));
}

static void writeUnlessZero(llvm::raw_ostream &out, llvm::StringRef name, uint64_t bytes) {
  if (bytes != 0)
    writeSize(out, name, bytes);
}

static void writeTier(llvm::raw_ostream &out, llvm::StringRef name, const planpb::TierReport &tier) {
  if (tier.peak_bytes() == 0)
    return;
  out << name << " memory per rank\n";
  writeSize(out, "parameters", tier.parameters());
  writeSize(out, "gradients", tier.gradients());
  writeSize(out, "optimizer state", tier.optimizer());
  writeSize(out, "activations", tier.activations());
  writeSize(out, "buffers", tier.buffers());
  writeSize(out, "peak", tier.peak_bytes());
  writeSize(out, "padding in model state", tier.padding());
  writeUnlessZero(out, "budget", tier.budget());
  out << "\n";
}

static void writeTraffic(llvm::raw_ostream &out, const planpb::Traffic &traffic) {
  out << "traffic per rank and step\n";
  writeSize(out, "parameters gathered", traffic.gather());
  writeSize(out, "gradients reduce-scattered", traffic.reduce_scatter());
  writeSize(out, "gradients all-reduced", traffic.all_reduce());
  writeUnlessZero(out, "along the model axis", traffic.model());
  writeSize(out, "sent inside the node", traffic.intra_node());
  writeSize(out, "sent between nodes", traffic.inter_node());
  writeUnlessZero(out, "host to device", traffic.h2d());
  writeUnlessZero(out, "device to host", traffic.d2h());
  writeUnlessZero(out, "read from nvme", traffic.nvme_read());
  writeUnlessZero(out, "written to nvme", traffic.nvme_write());
}

std::string zc::reportAsTable(const planpb::Plan &plan) {
  const planpb::Report &report = plan.report();
  const planpb::TierReport &device = report.device();
  std::string text;
  llvm::raw_string_ostream out(text);
  writeHead(out, plan);
  writeTier(out, "device", device);
  writeTier(out, "host", report.host());
  writeTier(out, "nvme", report.nvme());
  writeTraffic(out, report.traffic());
  out << llvm::formatv("\n{0}, {1}, {2:f2} GFLOP per rank; predicted {3:f3} s per step\n",
                       counted(int64_t(numSteps(plan)), "step"), counted(plan.buckets_size(), "bucket"),
                       report.flops() / 1e9, report.predicted_step_seconds());
  uint64_t state = device.parameters() + device.gradients() + device.optimizer();
  llvm::StringRef binds = state >= device.activations() && state >= device.buffers() ? "model state"
                          : device.activations() >= device.buffers()                 ? "activations"
                                                                     : "communication and other buffers";
  out << "what binds: " << binds << "; this plan needs " << device.peak_bytes() << " bytes of device memory per rank\n";
  return text;
}
