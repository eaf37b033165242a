//===- LinksDouble.h - NCCL's part, over threads -------------------------------------===//
//
// Members meet on the host, and each copies what it was sent in the order of its lane. What they send each other must
// fit: another number of messages, or of bytes, is an error, where NCCL would hang. Calls are recorded.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/DeviceLinks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

namespace zc {

class LinksDouble : public DeviceLinks {
public:
  /// What one member has brought to a meeting.
  struct Brought {
    std::vector<Message> messages;
    std::shared_ptr<const Event> mark;
  };
  struct Meeting {
    explicit Meeting(size_t members) : brought(members) {}
    std::vector<Brought> brought;
    size_t arrived = 0;
  };
  struct Job {
    explicit Job(int world) : called(static_cast<size_t>(world)) {}
    std::mutex mutex;
    std::condition_variable changed;
    bool isAborted = false;
    int failsAt = -1;                                                                ///< the call of rank 2 that fails
    std::map<std::tuple<uint8_t, int, uint64_t>, std::shared_ptr<Meeting>> meetings; ///< by axes, group, number
    std::vector<std::vector<std::pair<uint8_t, size_t>>> called; ///< by rank: axes and messages of each exchange
    std::set<uint8_t> opened;
  };

  LinksDouble(Job &job, const Mesh &mesh, int rank) : job(job), mesh(mesh), rank(rank) {}

  Result<Id> makeId() override {
    Id id{};
    std::memset(id.bytes, 'i', sizeof id.bytes);
    return id;
  }
  Status open(AxisSet axes, int members, int member, const Id &id) override {
    if (members != mesh.size(axes) || member != mesh.indexOf(axes, rank) || id.bytes[127] != 'i')
      return makeError(Code::internal, 4, "opened as somebody else");
    open_.insert(axes.asBits());
    std::lock_guard<std::mutex> lock(job.mutex);
    job.opened.insert(axes.asBits());
    return {};
  }
  bool isOpen(AxisSet axes) const override { return open_.count(axes.asBits()) != 0; }

  Status exchange(AxisSet axes, Lane &lane, const std::vector<Message> &messages) override {
    const auto me = static_cast<size_t>(mesh.indexOf(axes, rank));
    std::shared_ptr<Meeting> met;
    ZC_RETURN_IF_ERROR(meet(axes, lane, messages, met));
    std::map<int, size_t> next; // message of a sender
    for (const Message &m : messages) {
      if (m.isSent)
        continue;
      const std::vector<Message> &theirs = met->brought[static_cast<size_t>(m.member)].messages;
      size_t &at = next[m.member];
      while (at < theirs.size() && !(theirs[at].isSent && theirs[at].member == static_cast<int>(me)))
        ++at;
      if (at == theirs.size() || theirs[at].bytes != m.bytes)
        return makeError(Code::internal, 5, "messages do not fit");
      ZC_RETURN_IF_ERROR(lane.copy(m.data, theirs[at++].data, m.bytes));
    }
    return meet(axes, lane, {}, met); // nobody writes again what others still read
  }
  Status allGather(AxisSet axes, Lane &lane, const void *input, void *output, uint64_t bytes) override {
    const int me = mesh.indexOf(axes, rank);
    auto part = [&](int member) { return static_cast<char *>(output) + static_cast<uint64_t>(member) * bytes; };
    std::vector<Message> messages;
    for (int member = 0; member < mesh.size(axes); ++member)
      if (member != me) {
        messages.push_back({member, true, const_cast<void *>(input), bytes});
        messages.push_back({member, false, part(member), bytes});
      }
    if (part(me) != input)
      ZC_RETURN_IF_ERROR(lane.copy(part(me), input, bytes));
    return exchange(axes, lane, messages);
  }
  void abort() override {
    std::lock_guard<std::mutex> lock(job.mutex);
    job.isAborted = true;
    job.changed.notify_all();
  }

private:
  /// On the host, and in the order of lanes.
  Status meet(AxisSet axes, Lane &lane, const std::vector<Message> &messages, std::shared_ptr<Meeting> &met) {
    auto mark = lane.mark();
    ZC_RETURN_IF_ERROR(mark.status());
    const auto me = static_cast<size_t>(mesh.indexOf(axes, rank)), members = static_cast<size_t>(mesh.size(axes));
    std::unique_lock<std::mutex> lock(job.mutex);
    auto &calls = job.called[static_cast<size_t>(rank)];
    calls.emplace_back(axes.asBits(), messages.size());
    if (rank == 2 && static_cast<int>(calls.size()) == job.failsAt)
      return makeError(Code::internal, 6, "rank 2 has had enough");
    auto &place = job.meetings[{axes.asBits(), mesh.groupOf(axes, rank), numbers[axes.asBits()]++}];
    if (!place)
      place = std::make_shared<Meeting>(members);
    met = place;
    met->brought[me] = {messages, *mark};
    ++met->arrived;
    job.changed.notify_all();
    job.changed.wait(lock, [&] { return job.isAborted || met->arrived == members; });
    if (met->arrived < members)
      return makeError(Code::peerLost, 7, "aborted");
    lock.unlock();
    for (size_t peer = 0; peer < members; ++peer)
      if (peer != me)
        ZC_RETURN_IF_ERROR(lane.follow(*met->brought[peer].mark));
    return {};
  }

  Job &job;
  const Mesh mesh;
  const int rank;
  std::set<uint8_t> open_;
  std::map<uint8_t, uint64_t> numbers; ///< of meetings, by axes
};

} // namespace zc
