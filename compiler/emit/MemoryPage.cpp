//===- MemoryPage.cpp - the page's numbers ------------------------------------------------===//

#include "compiler/emit/MemoryPage.h"
#include "compiler/emit/Occupancy.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <algorithm>

using namespace zc;
using llvm::json::Array;
using llvm::json::Object;

static constexpr size_t kMostLive = 40; // slices that the page lists
static const char kPage[] =
#include "compiler/emit/MemoryPage.html.inc"
    ;

namespace {

/// One tier's part of the page.
class TierPage {
public:
  TierPage(const planpb::Plan &plan, uint32_t arena)
      : plan(plan), arena(arena), sections{&plan.micro(), &plan.update()},
        occupancy{occupancyOf(plan, plan.micro(), arena), occupancyOf(plan, plan.update(), arena)} {
    for (int s : {0, 1}) {
      int at = occupancy[s].peak();
      if (at >= 0 && (index < 0 || sumOf(bytesAt(s, at)) > sumOf(bytesAt(section, index)))) {
        section = s;
        index = at;
      }
    }
  }

  Object object() const {
    const planpb::Arena &described = plan.arenas(static_cast<int>(arena));
    const planpb::Report &report = plan.report();
    const planpb::TierReport &tier = described.tier() == planpb::DEVICE ? report.device()
                                     : described.tier() == planpb::HOST ? report.host()
                                                                        : report.nvme();
    Object page{{"name", llvm::StringRef(planpb::Tier_Name(described.tier())).lower()},
                {"arena_bytes", described.bytes()},
                {"budget", tier.budget()},
                {"changes", changes()},
                {"peak", Object{{"section", section}, {"index", index}, {"bytes", sumOf(bytesAt(section, index))}}}};
    addLive(page);
    return page;
  }
  /// Has something to show.
  explicit operator bool() const { return index >= 0; }

private:
  const ClassBytes &bytesAt(int s, int step) const { return occupancy[s].steps[static_cast<size_t>(step)]; }

  /// [section, step, bytes by class...] wherever they change.
  Array changes() const {
    Array all;
    for (int s : {0, 1})
      for (size_t i = 0; i < occupancy[s].steps.size(); ++i) {
        const ClassBytes &bytes = occupancy[s].steps[i];
        if (i > 0 && bytes == occupancy[s].steps[i - 1])
          continue;
        Array change{s, static_cast<int64_t>(i)};
        for (uint64_t each : bytes)
          change.push_back(each);
        all.push_back(std::move(change));
      }
    return all;
  }

  void addLive(Object &page) const {
    std::vector<int> live;
    for (int s = 0; s < plan.slices_size(); ++s) {
      const Extent &extent = occupancy[section].extents[static_cast<size_t>(s)];
      bool used = plan.slices(s).persistent() || (extent.first >= 0 && extent.first <= index && index <= extent.last);
      if (used && plan.slices(s).arena() == arena && plan.slices(s).bytes() > 0)
        live.push_back(s);
    }
    std::stable_sort(live.begin(), live.end(),
                     [&](int a, int b) { return plan.slices(a).bytes() > plan.slices(b).bytes(); });
    Array listed;
    uint64_t smaller = 0;
    for (size_t i = 0; i < live.size(); ++i)
      if (i < kMostLive)
        listed.push_back(sliceAsJson(live[i]));
      else
        smaller += plan.slices(live[i]).bytes();
    page["smaller"] = Object{{"count", static_cast<int64_t>(live.size() - listed.size())}, {"bytes", smaller}};
    page["live"] = std::move(listed);
  }

  /// "wte.weight and 51 more": what lies in the bucket that slice `index` is of; empty where it is of none.
  std::string parametersOf(int index) const {
    std::string first;
    int64_t more = 0;
    for (const planpb::Parameter &parameter : plan.parameters()) {
      if (parameter.bucket() < 0)
        continue;
      const planpb::Bucket &bucket = plan.buckets(parameter.bucket());
      if (!llvm::is_contained({bucket.parameter_slice(), bucket.gradient_slice(), bucket.master_slice(),
                               bucket.moment1_slice(), bucket.moment2_slice()},
                              index))
        continue;
      more += first.empty() ? 0 : 1;
      first = first.empty() ? parameter.name() : first;
    }
    return more == 0 ? first : first + " and " + std::to_string(more) + " more";
  }

  Object sliceAsJson(int index) const {
    const planpb::Slice &slice = plan.slices(index);
    Object described{{"name", llvm::json::fixUTF8(slice.name())},
                     {"class", static_cast<int>(slice.klass())},
                     {"bytes", slice.bytes()}};
    if (std::string holds = parametersOf(index); !holds.empty())
      described["holds"] = llvm::json::fixUTF8(holds);
    if (slice.persistent())
      return described;
    const Extent &extent = occupancy[section].extents[static_cast<size_t>(index)];
    described["node"] = sections[section]->steps(extent.first).node();
    described["kernel"] = sections[section]->steps(extent.first).kernel();
    described["first"] = extent.first;
    described["last"] = extent.last;
    return described;
  }

  const planpb::Plan &plan;
  uint32_t arena;
  const planpb::Section *sections[2];
  Occupancy occupancy[2];
  int section = 0, index = -1; ///< of the peak
};

} // namespace

static Object sectionAsJson(const planpb::Section &section, const char *name) {
  Array steps;
  for (const planpb::Step &step : section.steps())
    steps.push_back(Array{step.kernel(), step.node(), static_cast<int>(step.queue())});
  return Object{{"name", name}, {"steps", std::move(steps)}};
}

std::string zc::memoryPage(const planpb::Plan &plan) {
  Array tiers, strings, queues;
  for (int arena = 0; arena < plan.arenas_size(); ++arena)
    if (TierPage tier(plan, static_cast<uint32_t>(arena)); tier)
      tiers.push_back(tier.object());
  for (const std::string &string : plan.strings())
    strings.push_back(llvm::json::fixUTF8(string));
  for (int queue = 0; planpb::Queue_IsValid(queue); ++queue)
    queues.push_back(llvm::StringRef(planpb::Queue_Name(static_cast<planpb::Queue>(queue))).lower());
  Object all{{"name", llvm::json::fixUTF8(plan.model().name())},
             {"stage", plan.zero_stage()},
             {"world_size", worldSizeOf(plan)},
             {"precision", plan.precision()},
             {"accumulation", microExecutions(plan)},
             {"sections", Array{sectionAsJson(plan.micro(), "micro"), sectionAsJson(plan.update(), "update")}},
             {"strings", std::move(strings)},
             {"queues", std::move(queues)},
             {"tiers", std::move(tiers)}};
  std::string json, page = kPage;
  llvm::raw_string_ostream(json) << llvm::json::Value(std::move(all));
  // Names come from the model: none may end the script block they stand in.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;)
    json.replace(at, 1, "\\u003c");
  const std::string_view mark = "@PLAN@";
  return page.replace(page.find(mark), mark.size(), json);
}
