#include "runtime/exec/DeviceJob.h"

#include "base/Blocking.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"

#include <cstring>
#include <map>

namespace zc {

namespace {

/// A device's name, as it travels; empty: there is none.
struct DeviceName {
  char text[64];
  operator std::string() const { return text; }
};

std::string listed(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > kShown ? text + " and " + std::to_string(ranks.size() - kShown) + " others" : text;
}

} // namespace

std::string describeKinds(const std::vector<std::string> &names) {
  std::map<std::string, std::vector<int>> ranks;
  for (size_t rank = 0; rank < names.size(); ++rank)
    ranks[names[rank]].push_back(static_cast<int>(rank));
  std::string text;
  for (const auto &[name, those] : ranks)
    text += (text.empty() ? "" : "; ") + listed(those) + (those.size() == 1 ? " has" : " have") + " \"" + name + "\"";
  return ranks.size() < 2
             ? std::string()
             : text + ": the slowest kind sets the pace, and only runs on the same devices give the same bits";
}

Result<std::string> agreeOnDevices(Communicator &communicator, const Result<std::unique_ptr<Device>> &own) {
  if (communicator.worldSize() == 1)
    return own.ok() ? Result<std::string>(std::string()) : own.error();
  DeviceName mine{};
  if (own.ok())
    std::strncpy(mine.text, (*own)->name().c_str(), sizeof mine.text - 1);
  std::vector<DeviceName> names(static_cast<size_t>(communicator.worldSize()));
  names[static_cast<size_t>(communicator.rank())] = mine;
  ZC_RETURN_IF_ERROR(communicator.allGather({&mine, names.data(), sizeof mine, TrafficClass::none, AxisSet::all()}));
  std::vector<int> without, with;
  for (int rank = 0; rank < communicator.worldSize(); ++rank)
    (names[static_cast<size_t>(rank)].text[0] ? with : without).push_back(rank);
  if (without.empty())
    return describeKinds({names.begin(), names.end()});
  if (with.empty())
    return own.error();
  Error error = makeError(Code::mismatch, 660,
                          listed(without) + (without.size() == 1 ? " has" : " have") + " no device that can be used, " +
                              listed(with) + (with.size() == 1 ? " has" : " have") + " \"" +
                              names[static_cast<size_t>(with.front())].text + "\"",
                          "--device", "see zero-run doctor on that machine, or leave it out of the job");
  if (!own.ok())
    error.note = own.error().message;
  return error;
}

Status linkDevices(Communicator &communicator, Device &device, const planpb::Plan &plan) {
  if (communicator.worldSize() == 1 || (communicator.takesLanes() && !communicator.links()))
    return {};
  if (!communicator.links()) {
    Result<std::unique_ptr<DeviceLinks>> links = device.makeLinks();
    ZC_RETURN_IF_ERROR(links.status());
    if (!*links)
      return {};
    communicator.link(std::move(*links));
  }
  DeviceLinks &links = *communicator.links();
  const Mesh &mesh = communicator.mesh();
  std::map<uint8_t, AxisSet> wanted; // in one order on all ranks
  for (uint32_t section : {0u, 1u})
    for (const planpb::Step &step : sectionOf(plan, section).steps())
      if (AxisSet axes = axesOf(step) & mesh.all(); step.queue() == planpb::COMM && mesh.size(axes) > 1)
        wanted.emplace(axes.asBits(), axes);
  for (const auto &[bits, axes] : wanted) {
    if (links.isOpen(axes))
      continue;
    int member = mesh.indexOf(axes, communicator.rank());
    DeviceLinks::Id id{};
    if (member == 0) {
      Result<DeviceLinks::Id> made = links.makeId();
      ZC_RETURN_IF_ERROR(made.status());
      id = *made;
    }
    ZC_RETURN_IF_ERROR(communicator.broadcast({&id, sizeof id, /*root=*/0, axes}));
    std::vector<int> met;
    for (int each = 0; each < mesh.size(axes); ++each)
      met.push_back(mesh.rankOf(axes, mesh.groupOf(axes, communicator.rank()), each));
    // No library says who has not come, nor ends of itself.
    Blocking here("meeting the GPUs of", listed(met) + ", along " + mesh.nameOf(axes));
    ZC_RETURN_IF_ERROR(links.open(axes, mesh.size(axes), member, id));
  }
  return {};
}

} // namespace zc
