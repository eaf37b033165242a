#include "runtime/train/Report.h"

#include "base/Descriptor.h"
#include "base/Failpoint.h"
#include "base/Size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace zc::train {

using Json = nlohmann::ordered_json;

static const char *tierName(planpb::Tier tier) {
  static constexpr const char *kNames[] = {"device", "host", "nvme"};
  return tier >= 0 && tier <= planpb::NVME ? kNames[tier] : "other";
}

static Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// The most bytes of memory this program has had; 0 where the system does not say. Not getrusage's, which begins with
/// what the process had before it became this program: torch's, where Python starts it. Asked after every step, in
/// which nothing is allocated.
static uint64_t peakResident() {
  const uint64_t more = failpoint("memory.resident") ? uint64_t(1) << 40 : 0;
  std::array<char, 4096> text;
  const Descriptor file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  if (!file.isOpen())
    return 0;
  const ssize_t bytes = ::read(file.get(), text.data(), text.size() - 1);
  text[size_t(std::max<ssize_t>(bytes, 0))] = 0;
  const char *line = std::strstr(text.data(), "\nVmHWM:");
  return line ? std::strtoull(line + std::strlen("\nVmHWM:"), nullptr, 10) * 1024 + more : 0;
}

bool MemoryWatch::forgetPeak() {
  const Descriptor file(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  return file.isOpen() && ::write(file.get(), "5", 1) == 1; // Linux: VmHWM begins anew
}

MemoryWatch::MemoryWatch(const planpb::Plan &plan, int ranks) {
  constexpr uint64_t kLarge = uint64_t(4) << 30;
  uint64_t all = 0;
  for (const planpb::Arena &arena : plan.arenas()) {
    all += arena.bytes();
    ofRank += (ofRank.empty() ? "" : ", ") + showSize(arena.bytes()) + " " + tierName(arena.tier());
    if (arena.tier() != planpb::NVME)
      planned += arena.bytes() * uint64_t(ranks);
  }
  ofRank = all < kLarge ? "" : "before the first step each rank's memory is filled: " + ofRank;
}

std::string MemoryWatch::look() {
  // The program, its libraries and their buffers; a sanitizer's shadow of all that.
#ifdef __SANITIZE_ADDRESS__
  constexpr double kAround = 1e9;
#else
  constexpr double kAround = 100e6;
#endif
  uint64_t resident = hasWarned ? 0 : peakResident();
  if (double(resident) <= 1.05 * double(planned) + kAround)
    return {};
  hasWarned = true;
  return "the process took " + std::to_string(resident) + " bytes of memory; its arenas were planned to take " +
         std::to_string(planned);
}

void MemoryWatch::fill(JobReport &report) const {
  report.plannedMemory = planned;
  report.residentMemory = peakResident();
}

/// What all reports say of steps, memory and links.
static void addCommon(Json &all, const JobReport &report) {
  Json peak = Json::object();
  for (const ArenaUse &arena : report.arenas)
    peak[tierName(arena.tier)] = {{"planned", arena.planned}, {"measured", arena.resident}};
  double perSecond = report.seconds > 0 ? 1 / report.seconds : 0;
  all["steps"] = report.steps;
  all["seconds"] = report.seconds;
  all["samples_per_second"] = double(report.samples) * perSecond;
  if (report.tokens > 0)
    all["tokens_per_second"] = double(report.tokens) * perSecond;
  all["peak_bytes"] = peak;
  all["planned_memory"] = report.plannedMemory;
  all["resident_memory"] = report.residentMemory;
  const Traffic &traffic = report.traffic;
  all["traffic"] = {{"gather", traffic.gather},
                    {"reduce_scatter", traffic.reduceScatter},
                    {"all_reduce", traffic.allReduce},
                    {"model", traffic.model},
                    {"inter_node", traffic.interNode},
                    {"intra_node", traffic.intraNode},
                    {"h2d", traffic.h2d},
                    {"d2h", traffic.d2h},
                    {"nvme_read", traffic.nvmeRead},
                    {"nvme_write", traffic.nvmeWrite}};
  if (report.issueSeconds)
    all["issue_seconds"] = *report.issueSeconds;
  if (report.steadyAllocations)
    all["steady_allocations"] = *report.steadyAllocations;
}

static std::string text(const Json &all) { return all.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string toJson(const RunReport &report) {
  Json all = {{"loss", number(report.last.loss)},
              {"grad_norm", report.last.gradNorm ? number(*report.last.gradNorm) : Json(nullptr)},
              {"step", report.last.step}};
  if (const auto &evaluations = report.evaluations) {
    all["val_loss"] = number(evaluations->loss);
    all["best_val_loss"] = number(evaluations->best);
    all["best_step"] = evaluations->bestStep;
    all["stopped_early"] = report.stoppedEarly;
  }
  addCommon(all, report);
  all["out"] = report.out;
  if (!report.final.empty())
    all["final"] = report.final;
  return text(all);
}

std::string toJson(const EvalReport &report) {
  auto orNull = [](const std::string &name) { return name.empty() ? Json(nullptr) : Json(name); };
  Json all;
  all["loss"] = report.loss ? number(*report.loss) : Json(nullptr);
  if (report.loss && report.isLikelihood)
    all["perplexity"] = number(std::exp(*report.loss));
  all["samples"] = report.samples - report.leftOut;
  all["left_out"] = report.leftOut;
  all["batches"] = report.batches;
  addCommon(all, report);
  all["outputs"] = orNull(report.outputs);
  all["out"] = orNull(report.out);
  return text(all);
}

} // namespace zc::train
