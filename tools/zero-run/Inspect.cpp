#include "base/Names.h"
#include "base/Size.h"
#include "runtime/exec/ProductFile.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/io/Hash.h"
#include "runtime/io/OutputFile.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Files.h"
#include "tools/zero-run/Progress.h"
#include "tools/zero-run/Ranks.h"

#include <cinttypes>
#include <cstdio>
#include <google/protobuf/text_format.h>
#include <map>

namespace zc::run {

namespace {

void line(std::string &out, const char *name, const std::string &value) {
  char text[24];
  std::snprintf(text, sizeof text, "%-16s", name);
  out += text + value + "\n";
}

std::string bytes(uint64_t count) { return showSize(count) + (count < 1024 ? "" : " (" + std::to_string(count) + ")"); }

std::string steps(const planpb::Section &section) {
  std::map<int, int> counts;
  for (const planpb::Step &step : section.steps())
    ++counts[step.queue()];
  std::string text = counted(section.steps_size(), "step");
  for (auto [queue, count] : counts)
    text += ", " + planpb::Queue_Name(planpb::Queue(queue)) + " " + std::to_string(count);
  return text;
}

/// "8 (4 per node)", and the mesh where that does not say it all.
std::string worldSize(const Mesh &mesh) {
  std::string text = std::to_string(mesh.worldSize()) + " (" + std::to_string(mesh.ranksPerNode()) + " per node)";
  if (mesh.dataDegree() == mesh.worldSize())
    return text;
  text += ", " + std::to_string(mesh.dataDegree()) + " data-parallel:";
  for (const MeshAxis &axis : mesh.axes())
    text += " " + axis.name + " " + std::to_string(axis.size);
  return text;
}

/// "D2H 0.1 %, HOST_COMPUTE 12.5 %, all for the others".
std::string threadShares(const planpb::Plan &plan) {
  std::string text;
  for (const planpb::ThreadShare &share : plan.thread_shares()) {
    char percent[32];
    std::snprintf(percent, sizeof percent, " %g %%, ", share.thousandths() / 10.0);
    text += planpb::Queue_Name(share.queue()) + percent;
  }
  return text + (text.empty() ? "all for each queue" : "all for the others");
}

std::string kindText(const planpb::Output &output) {
  switch (output.kind()) {
  case planpb::LOSS:
    return output.likelihood() ? ", the loss, a likelihood" : ", the loss";
  case planpb::LOSS_WEIGHT:
    return ", the loss's weight";
  default:
    return "";
  }
}

std::string summary(const planpb::Plan &plan) {
  std::string out;
  line(out, "model", escapeName(plan.model().path()));
  line(out, "producer", escapeName(plan.producer()) + ", plan hash " + io::hexOf(planHash(plan)));
  if (!plan.command().empty())
    line(out, "command", escapeName(plan.command()) + " -o PLAN");
  line(out, "world size", worldSize(meshOf(plan)));
  line(out, "zero stage",
       std::to_string(plan.zero_stage()) + ", " + plan.precision() + (plan.tf32() ? ", products in tf32" : ""));
  if (plan.target() == planpb::CUDA)
    line(out, "target", "cuda");
  if (plan.forward_only())
    line(out, "kind", "forward only, for zero-run eval");
  line(out, "accumulation", std::to_string(plan.accumulation()) + (plan.vertical() ? ", block by block" : ""));
  if (plan.has_delay())
    line(out, "delay", "of the update by a step, after step " + std::to_string(plan.delay().after()));
  if (plan.has_loss_scale()) {
    char scale[128];
    std::snprintf(scale, sizeof scale, "%g, at least %g, window %" PRIu64 ", hysteresis %" PRIu64,
                  plan.loss_scale().initial(), plan.loss_scale().minimum(), plan.loss_scale().window(),
                  plan.loss_scale().hysteresis());
    line(out, "loss scale", scale);
  }
  char optimizer[128];
  std::snprintf(optimizer, sizeof optimizer, " lr %g, weight decay %g, clipping %g", plan.optimizer().lr(),
                plan.optimizer().weight_decay(), plan.optimizer().max_norm());
  line(out, "optimizer", escapeName(plan.optimizer().rule()) + optimizer);
  line(out, "parameters",
       std::to_string(plan.report().parameters()) + (plan.forward_only() ? " in " : " trainable in ") +
           counted(plan.parameters_size(), "tensor") + ", " + counted(plan.buckets_size(), "bucket"));
  for (const planpb::Arena &arena : plan.arenas())
    line(out, ("arena " + planpb::Tier_Name(arena.tier())).c_str(), bytes(arena.bytes()) + " per rank");
  const planpb::Traffic &traffic = plan.report().traffic();
  line(out, "traffic",
       "gather " + bytes(traffic.gather()) + ", reduce-scatter " + bytes(traffic.reduce_scatter()) + ", all-reduce " +
           bytes(traffic.all_reduce()) +
           (traffic.model() > 0 ? ", along the model axis " + bytes(traffic.model()) : "") + " per rank and step");
  line(out, "threads", threadShares(plan));
  line(out, plan.vertical() ? "micro-steps" : "micro-step", steps(plan.micro()));
  line(out, "update", steps(plan.update()));
  if (plan.has_eval())
    line(out, "evaluation", steps(plan.eval()));
  for (const planpb::Input &input : plan.inputs())
    line(out, "input", escapeName(input.name()) + " " + typeText(plan, input.type()));
  for (const planpb::Output &output : plan.outputs())
    line(out, "output", escapeName(output.name()) + " " + typeText(plan, output.type()) + kindText(output));
  return out;
}

std::string lineOf(const planpb::Plan &plan, uint32_t section, const planpb::Step &step, const std::string &by) {
  char head[160];
  std::snprintf(head, sizeof head, "%-6s %-12s %-24s %-36s",
                section == 0              ? "micro"
                : section == kEvalSection ? "eval"
                                          : "update",
                planpb::Queue_Name(step.queue()).c_str(), plan.strings(int(step.kernel())).c_str(), by.c_str());
  return std::string(head) + operandTypes(plan, step) + "  " + escapeName(plan.strings(int(step.node()))) + "\n";
}

/// A line per kernel and implementation with the number of steps, or one per step; then how many each computes. Errors:
/// unsupported (steps that nobody computes), after all lines.
Status printKernels(const planpb::Plan &plan, Target target, const KernelSettings &settings, bool eachStep) {
  KernelRegistry host;
  registerCpuKernels(host);
  std::map<std::pair<std::string, std::string>, int> lines; // kernel, implementation
  std::map<std::string, int> counts;
  const std::string nobody = nameOf(std::nullopt);
  for (uint32_t section : {0u, 1u, kEvalSection}) {
    std::string out;
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      auto by = implementationOf(plan, step, target, host, settings);
      if (!by)
        return by.error();
      ++lines[{plan.strings(int(step.kernel())), methodOf(*by)}];
      ++counts[nameOf(*by)];
      if (eachStep)
        out += lineOf(plan, section, step, methodOf(*by));
    }
    ZC_RETURN_IF_ERROR(io::writeToStdout(out));
  }
  std::string text;
  for (const auto &[line, steps] : lines) {
    char head[160];
    std::snprintf(head, sizeof head, "%-24s %-36s %d\n", line.first.c_str(), line.second.c_str(), steps);
    text += eachStep ? "" : head;
  }
  text += std::string(nameOf(target)) + ":";
  for (const auto &[name, count] : counts)
    if (name != nobody)
      text += " " + name + " " + std::to_string(count) + ",";
  ZC_RETURN_IF_ERROR(io::writeToStdout(text + " without an implementation " + std::to_string(counts[nobody]) + "\n"));
  return checkImplementations(plan, target, host);
}

} // namespace

Status inspectCommand(const Flags &flags) {
  auto plan = openPlan(flags.run.plan);
  if (!plan)
    return plan.error();
  ZC_RETURN_IF_ERROR(verifyWithPrograms(*plan));
  if (flags.kernels) {
    const bool onGpu = flags.run.device ? isCuda(*flags.run.device) : plan->target() == planpb::CUDA;
    const int threads = threadsOf(flags, *plan);
    auto products = productsInUse(flags.run.products, productsOf(*plan, threads));
    ZC_RETURN_IF_ERROR(products.status());
    if (!products->note.empty())
      print(2, "warning: " + products->note + "\n");
    const KernelSettings settings{threads, products->table.get()};
    return printKernels(*plan, onGpu ? Target::cuda : Target::cpu, settings, flags.wholeText);
  }
  if (!flags.wholeText)
    return io::writeToStdout(summary(*plan));
  std::string text;
  google::protobuf::TextFormat::PrintToString(*plan, &text);
  return io::writeToStdout(text);
}

} // namespace zc::run
