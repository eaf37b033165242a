#include "runtime/train/Profile.h"

#include "base/Size.h"
#include "base/Workers.h"
#include "kernels/cpu/Registries.h"
#include "runtime/exec/Measure.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/io/OutputFile.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace zc::train {

static constexpr size_t kWorstInText = 10, kWorstOnPage = 100;
static const char kPage[] =
#include "runtime/train/Profile.html.inc"
    ;

static std::string nameOfQueue(uint32_t queue) {
  std::string name = planpb::Queue_Name(static_cast<planpb::Queue>(queue));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

/// Of a step whose plan does not say what its kernel moves.
static double bytesOfOperands(const planpb::Plan &plan, const planpb::Step &step) {
  double bytes = 0;
  for (const planpb::Operand &operand : step.operands())
    bytes += double(bytesOf(plan.types(static_cast<int>(operand.type())))) *
             (operand.access() == planpb::READ_WRITE ? 2 : 1);
  return bytes;
}

Profile::Profile(const planpb::Plan &plan, const ExecutorOptions &options, const MachineModel &limits,
                 const std::vector<TraceEvent> &events)
    : plan(plan), options(options), limits(limits) {
  if (events.empty())
    return;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<double, int64_t>> times; // seconds and runs by section and index
  int64_t begin = events.front().begin, end = events.front().end;
  firstStep = lastStep = events.front().step;
  for (const TraceEvent &event : events) {
    auto &[seconds, runs] = times[{event.section, event.index}];
    seconds += double(event.end - event.begin) * 1e-9;
    ++runs;
    begin = std::min(begin, event.begin);
    end = std::max(end, event.end);
    firstStep = std::min(firstStep, event.step);
    lastStep = std::max(lastStep, event.step);
  }
  stepSeconds = double(end - begin) * 1e-9 / double(lastStep - firstStep + 1);
  for (const auto &[place, time] : times) {
    Entry entry = entryOf(place.first, place.second);
    entry.seconds = time.first / double(time.second) * entry.executions;
    entry.limit = limitOf(entry);
    entries.push_back(std::move(entry));
  }
}

Profile::Entry Profile::entryOf(uint32_t section, uint32_t index) const {
  const planpb::Step &step = sectionOf(plan, section).steps(static_cast<int>(index));
  Entry entry;
  entry.kernel = plan.strings(static_cast<int>(step.kernel()));
  auto by = implementationOf(plan, step, isCuda(options.device) ? Target::cuda : Target::cpu, cpu::fastKernels(),
                             {options.threads, options.products.get()});
  entry.by = methodOf(by ? *by : std::nullopt);
  entry.node = plan.strings(static_cast<int>(step.node()));
  entry.operands = operandTypes(plan, step);
  entry.queue = step.queue();
  entry.section = section;
  entry.index = index;
  entry.executions = section == 0 ? double(microExecutions(plan)) : 1;
  if (step.operands_size() > 0)
    entry.type = static_cast<DType>(plan.types(static_cast<int>(step.operands(0).type())).type());
  entry.flops = step.flops() * entry.executions;
  entry.bytes = (step.bytes() > 0 ? double(step.bytes()) : bytesOfOperands(plan, step)) * entry.executions;
  return entry;
}

Status measureLimits(int threads, int ranks, MachineModel &limits) {
  std::vector<MachineModel> measured(static_cast<size_t>(ranks), limits);
  ZC_RETURN_IF_ERROR(
      forEachOf(measured.size(), ranks, [&](int, size_t rank) { return measureKernels(threads, 3, measured[rank]); }));
  for (const MachineModel::Field &field : MachineModel::kFields)
    limits.*field.rate = std::max(limits.*field.rate, measured.front().*field.rate);
  return Status::success();
}

double Profile::limitOf(const Entry &entry) const {
  bool onHost = entry.queue == planpb::HOST_COMPUTE || (entry.queue == planpb::COMPUTE && !isCuda(options.device));
  if (!onHost || limits.flopsPerSecond == 0 ||
      entry.by == nameOf(Implementation{Implementation::Kind::runtime, {}, {}}))
    return 0;
  bool isHalf = entry.type == DType::bf16 || entry.type == DType::f16;
  double rate = isHalf ? limits.halfFlopsPerSecond : limits.flopsPerSecond;
  return std::max(entry.flops / (entry.type == DType::f64 ? rate / 2 : rate), entry.bytes / limits.memoryBandwidth);
}

std::vector<Profile::Entry> Profile::kernels() const {
  std::map<std::tuple<std::string, std::string, uint32_t>, Entry> sums;
  for (const Entry &entry : entries) {
    auto [place, isNew] = sums.try_emplace({entry.kernel, entry.by, entry.queue}, entry);
    Entry &sum = place->second;
    if (isNew)
      continue;
    sum.executions += entry.executions;
    sum.seconds += entry.seconds;
    sum.flops += entry.flops;
    sum.bytes += entry.bytes;
    sum.limit += entry.limit;
  }
  std::vector<Entry> all;
  for (auto &each : sums)
    all.push_back(std::move(each.second));
  std::sort(all.begin(), all.end(), [](const Entry &a, const Entry &b) { return a.seconds > b.seconds; });
  return all;
}

std::vector<Profile::Entry> Profile::worst(size_t count) const {
  std::vector<Entry> all = entries;
  bool known = std::any_of(all.begin(), all.end(), [](const Entry &entry) { return entry.limit > 0; });
  auto cost = [&](const Entry &entry) { return known ? entry.lost() : entry.seconds; };
  std::sort(all.begin(), all.end(), [&](const Entry &a, const Entry &b) { return cost(a) > cost(b); });
  all.resize(std::min(all.size(), count));
  return all;
}

//===-- as text ---------------------------------------------------------------===//

namespace {
template <typename... Args> void add(std::string &text, const char *format, Args... args) {
  char line[512];
  std::snprintf(line, sizeof line, format, args...);
  text += line;
}

/// "87 %", or "-" where there is no limit.
std::string shareOf(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part / whole);
  return part > 0 && whole > 0 ? text : "-";
}
} // namespace

std::string Profile::text() const {
  std::string text;
  if (entries.empty())
    return text;
  std::map<uint32_t, double> busy;
  for (const Entry &entry : entries)
    busy[entry.queue] += entry.seconds;
  add(text, "steps %lld to %lld of a rank, %s: %.1f ms a step; busy:", static_cast<long long>(firstStep),
      static_cast<long long>(lastStep), counted(options.threads, "thread").c_str(), stepSeconds * 1e3);
  for (auto [queue, seconds] : busy)
    text += (queue == busy.begin()->first ? " " : ", ") + nameOfQueue(queue) + " " + shareOf(seconds, stepSeconds);
  if (limits.flopsPerSecond > 0)
    add(text,
        "\nhere a rank computes at most %.1f GF/s (fp32), %.1f GF/s (bf16), and moves %.1f GB/s, the better of before "
        "and after the run",
        limits.flopsPerSecond / 1e9, limits.halfFlopsPerSecond / 1e9, limits.memoryBandwidth / 1e9);
  add(text, "\n%-24s %-36s %-12s %7s %9s %6s %8s %8s %8s\n", "kernel", "by", "queue", "times", "ms", "share", "GF/s",
      "GB/s", "of limit");
  for (const Entry &entry : kernels())
    add(text, "%-24s %-36s %-12s %7.0f %9.2f %6s %8.1f %8.1f %8s\n", entry.kernel.c_str(), entry.by.c_str(),
        nameOfQueue(entry.queue).c_str(), entry.executions, entry.seconds * 1e3,
        shareOf(entry.seconds, stepSeconds).c_str(), entry.flops / entry.seconds / 1e9,
        entry.bytes / entry.seconds / 1e9, shareOf(entry.limit, entry.seconds).c_str());
  text += "where most time is lost against the limit:\n";
  for (const Entry &entry : worst(kWorstInText))
    add(text, "%9.2f ms %8s of limit  %s %s  %s\n", entry.seconds * 1e3, shareOf(entry.limit, entry.seconds).c_str(),
        entry.kernel.c_str(), entry.operands.c_str(), escapeName(entry.node).c_str());
  return text;
}

//===-- as a page -------------------------------------------------------------===//

std::string Profile::json() const {
  using nlohmann::json;
  auto object = [](const Entry &entry, bool isStep) {
    json result = {{"kernel", entry.kernel},    {"by", entry.by},           {"queue", nameOfQueue(entry.queue)},
                   {"times", entry.executions}, {"seconds", entry.seconds}, {"flops", entry.flops},
                   {"bytes", entry.bytes},      {"limit", entry.limit}};
    if (isStep) {
      result["node"] = entry.node;
      result["operands"] = entry.operands;
      result["section"] = entry.section == 0 ? "micro" : "update";
      result["index"] = entry.index;
    }
    return result;
  };
  json all = {{"name", plan.model().name()},
              {"precision", plan.precision()},
              {"first_step", firstStep},
              {"last_step", lastStep},
              {"threads", options.threads},
              {"step_seconds", stepSeconds},
              {"flops_per_second", limits.flopsPerSecond},
              {"half_flops_per_second", limits.halfFlopsPerSecond},
              {"memory_bandwidth", limits.memoryBandwidth},
              {"kernels", json::array()},
              {"steps", json::array()}};
  for (const Entry &entry : kernels())
    all["kernels"].push_back(object(entry, false));
  for (const Entry &entry : worst(kWorstOnPage))
    all["steps"].push_back(object(entry, true));
  return all.dump(-1, ' ', true, json::error_handler_t::replace);
}

Status Profile::writePage(const std::string &path) const {
  if (entries.empty())
    return Status::success();
  std::string json = this->json(), page = kPage;
  // Names come from the model: none may end the script block they stand in.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;)
    json.replace(at, 1, "\\u003c");
  const std::string_view mark = "@PROFILE@";
  return io::replaceFile(path, page.replace(page.find(mark), mark.size(), json));
}

} // namespace zc::train
