#include "runtime/comm/Inproc.h"

#include "base/Futex.h"
#include "base/LostDevice.h"
#include "kernels/OrderedSum.h"
#include "runtime/comm/Staging.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace zc {

namespace {

/// Where the members of a group meet. Each call is a sequence of phases: between two meetings they read each other's
/// buffers. A member may only leave (return an error, so that its buffers go) when no peer is inside a phase; `busy`
/// counts those.
struct Place {
  explicit Place(size_t members)
      : calls(members), inputs(members), outputs(members), marks{Marks(members), Marks(members)} {}
  int size() const { return static_cast<int>(calls.size()); }
  void signal() {
    version.fetch_add(1, std::memory_order_release);
    wakeAll(version);
  }

  // By member; written by it before it meets, read by all during the phase.
  std::vector<Call> calls;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  /// What each has enqueued; null where the host does it all. Of one meeting and the next in turn: they are still read
  /// when a meeting is over, but not when the next one is. Written under the group's mutex, since who fails reads them
  /// when others have not met yet.
  using Mark = std::shared_ptr<const Event>;
  using Marks = std::vector<Mark>;
  std::array<Marks, 2> marks;
  // Under the group's mutex.
  int arrived = 0, busy = 0;
  uint64_t meetings = 0;
  std::atomic<uint32_t> version{0}; ///< changes whenever someone may have a reason to wake up
};

/// All ranks, the places where they meet, and the first failure, which is everybody's.
class Group : public RankGroup {
public:
  explicit Group(const Mesh &mesh) : ranks(mesh), left(static_cast<size_t>(mesh.worldSize())), quiet(left) {}
  const Mesh &mesh() const override { return ranks; }
  int firstRank() const override { return 0; }
  int count() const override { return ranks.worldSize(); }
  void kill(int) override {}
  std::unique_ptr<Communicator> communicator(int rank) override;
  std::optional<Failure> failure() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return failed;
  }

  /// Where `rank` meets the others of its group; made when its first member comes.
  Place &placeOf(AxisSet axes, int rank);
  /// Leaves the rank's mark for its meeting `number`, ends its phase, if it is in one, waits for all members, and
  /// begins the next phase if `nextPhase`.
  Status meet(Place &place, AxisSet axes, int rank, uint32_t number, Place::Mark mark, bool inPhase, bool nextPhase);
  /// Ends this rank's phase without meeting anybody.
  Error quit(Place &place, bool inPhase);
  void leaveMark(Place &place, AxisSet axes, int rank, uint32_t number, Place::Mark mark) {
    std::lock_guard<std::mutex> lock(mutex);
    markOf(place, axes, rank, number) = std::move(mark);
  }
  /// Of a meeting that came to nothing.
  Place::Marks marksOf(const Place &place, uint32_t number) const {
    std::lock_guard<std::mutex> lock(mutex);
    return place.marks[number % 2];
  }
  void fail(int rank, const Error &cause);
  void leave(int rank);
  void awaitQuiet(int rank);
  void whenLost(int rank, const void *who, std::function<void(const Error &)> end);

private:
  /// Of the ranks that are neither quiet nor have left.
  void endWaits();
  Place::Mark &markOf(Place &place, AxisSet axes, int rank, uint32_t number) const {
    return place.marks[number % 2][static_cast<size_t>(ranks.indexOf(axes, rank))];
  }
  void failLocked(int rank, const Error &cause);
  /// A member of `rank`'s group that has left.
  std::optional<int> leaver(AxisSet axes, int rank) const;

  mutable std::mutex mutex;
  const Mesh ranks;
  std::map<uint8_t, std::deque<Place>> places; ///< by axes, then by group
  std::vector<bool> left, quiet;               ///< by rank
  std::condition_variable nowQuiet;            ///< one more has left or is quiet
  std::optional<Failure> failed;
  std::mutex endsMutex; // of `ends`, and of calls of them; before `mutex`
  std::map<std::pair<int, const void *>, std::function<void(const Error &)>> ends; ///< by rank and who waits
};

Place &Group::placeOf(AxisSet axes, int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  std::deque<Place> &groups = places[axes.asBits()];
  while (static_cast<int>(groups.size()) < ranks.groups(axes))
    groups.emplace_back(static_cast<size_t>(ranks.size(axes)));
  return groups[static_cast<size_t>(ranks.groupOf(axes, rank))];
}

std::optional<int> Group::leaver(AxisSet axes, int rank) const {
  for (int i = 0; i < ranks.size(axes); ++i)
    if (int peer = ranks.rankOf(axes, ranks.groupOf(axes, rank), i); left[static_cast<size_t>(peer)])
      return peer;
  return std::nullopt;
}

Status Group::meet(Place &place, AxisSet axes, int rank, uint32_t number, Place::Mark mark, bool inPhase,
                   bool nextPhase) {
  std::unique_lock<std::mutex> lock(mutex);
  markOf(place, axes, rank, number) = std::move(mark);
  if (std::optional<int> gone = failed ? std::nullopt : leaver(axes, rank))
    failLocked(*gone,
               makeError(Code::peerLost, 601,
                         "rank " + std::to_string(*gone) + " ended before rank " + std::to_string(rank) + " called " +
                             std::string(nameOf(place.calls[static_cast<size_t>(ranks.indexOf(axes, rank))].kind))));
  if (failed) {
    lock.unlock();
    return quit(place, inPhase);
  }
  place.busy -= inPhase ? 1 : 0;
  uint64_t mine = place.meetings;
  if (++place.arrived == place.size()) {
    place.arrived = 0;
    place.busy = nextPhase ? place.size() : 0;
    ++place.meetings;
    place.signal();
    return {};
  }
  while (place.meetings == mine && !failed) {
    uint32_t seen = place.version.load(std::memory_order_acquire);
    lock.unlock();
    if (!spinUntil([&] { return place.version.load(std::memory_order_acquire) != seen; }))
      sleepWhile(place.version, seen);
    lock.lock();
  }
  if (place.meetings != mine)
    return {};
  lock.unlock();
  return quit(place, false);
}

Error Group::quit(Place &place, bool inPhase) {
  std::unique_lock<std::mutex> lock(mutex);
  if (inPhase && --place.busy == 0)
    place.signal();
  while (place.busy > 0) { // peers in a phase never block, so this is short
    uint32_t seen = place.version.load(std::memory_order_acquire);
    lock.unlock();
    sleepWhile(place.version, seen);
    lock.lock();
  }
  return echoOf(failed->rank, failed->error);
}

void Group::failLocked(int rank, const Error &cause) {
  if (failed)
    return;
  failed = Failure{rank, cause};
  for (auto &[axes, groups] : places)
    for (Place &place : groups)
      place.signal();
}

void Group::fail(int rank, const Error &cause) {
  std::lock_guard<std::mutex> lock(mutex);
  failLocked(rank, cause);
}

void Group::leave(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  left[static_cast<size_t>(rank)] = true;
  nowQuiet.notify_all();
  for (auto &[axes, groups] : places)
    if (groups[static_cast<size_t>(ranks.groupOf(AxisSet::fromBits(axes), rank))].arrived > 0)
      failLocked(rank,
                 makeError(Code::peerLost, 603, "rank " + std::to_string(rank) + " ended while others wait for it"));
}

void Group::awaitQuiet(int rank) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!failed)
    return;
  quiet[static_cast<size_t>(rank)] = true;
  nowQuiet.notify_all();
  auto areQuiet = [&] {
    for (size_t peer = 0; peer < left.size(); ++peer)
      if (!left[peer] && !quiet[peer])
        return false;
    return true;
  };
  if (failed->error.code == Code::peerLost && !nowQuiet.wait_for(lock, kLostDevicePatience, areQuiet)) {
    lock.unlock();
    endWaits();
    lock.lock();
  }
  nowQuiet.wait(lock, areQuiet);
}

void Group::endWaits() {
  std::lock_guard<std::mutex> calling(endsMutex);
  for (const auto &[who, end] : ends) {
    std::unique_lock<std::mutex> lock(mutex);
    const auto rank = static_cast<size_t>(who.first);
    const bool isOver = left[rank] || quiet[rank];
    const Error echo = echoOf(failed->rank, failed->error);
    lock.unlock();
    if (!isOver)
      end(echo);
  }
}

void Group::whenLost(int rank, const void *who, std::function<void(const Error &)> end) {
  std::lock_guard<std::mutex> lock(endsMutex);
  if (end)
    ends[{rank, who}] = std::move(end);
  else
    ends.erase({rank, who});
}

class InprocCommunicator : public Communicator {
public:
  InprocCommunicator(Group &group, int rank) : Communicator(group.mesh(), rank), group(group) {}
  ~InprocCommunicator() override { group.leave(rank()); }
  bool stagesSums() const override { return false; }
  bool takesLanes() const override { return true; }
  void awaitQuiet() override { group.awaitQuiet(rank()); }
  void whenLost(const void *who, std::function<void(const Error &)> end) override {
    group.whenLost(rank(), who, std::move(end));
  }

private:
  void runAbort(const Error &cause) override { group.fail(rank(), cause); }
  Status runAllGather(const Call &call, const AllGatherOptions &options) override;
  Status runReduceScatter(const Call &call, const ReduceScatterOptions &options) override;
  Status runAllReduce(const Call &call, const AllReduceOptions &options) override;
  Status runAllToAll(const Call &call, const AllToAllOptions &options) override;
  Status runBroadcast(const Call &call, const BroadcastOptions &options) override;
  Status runBarrier(const Call &call) override {
    ZC_RETURN_IF_ERROR(begin(call, nullptr, nullptr));
    return end(call);
  }

  /// Meets the others and checks that all called the same; after it, their buffers may be read until end().
  Status begin(const Call &call, const void *input, void *output);
  Status end(const Call &call) { return meet(call, /*inPhase=*/true, /*nextPhase=*/false); }
  /// Meets the others, on the host and in the order of lanes.
  Status meet(const Call &call, bool inPhase, bool nextPhase);
  /// Bytes of this call, on the host or in the lane's order.
  Status copy(void *to, const void *from, uint64_t bytes) {
    if (to == from || bytes == 0)
      return {};
    if (lane)
      return lane->copy(to, from, bytes);
    std::memcpy(to, from, bytes);
    return {};
  }
  Status add(const OrderedSum &sum) {
    if (lane)
      return sum.elements > 0 ? lane->sum(sum) : Status();
    orderedSum(sum);
    return {};
  }
  uint32_t &numMet(const Call &call) { return met[call.axes.asBits()]; }
  /// The lane's later work comes after what the others have enqueued.
  Status followOthers(const Call &call, const Place::Marks &marks) {
    for (size_t peer = 0; peer < marks.size(); ++peer)
      if (peer != me(call) && marks[peer])
        ZC_RETURN_IF_ERROR(lane->follow(*marks[peer]));
    return {};
  }
  /// Nobody is in the phase any more, but what peers enqueued in it still reads this rank's memory. That stays until
  /// this lane's stream is through.
  void followFailed(const Call &call, uint32_t number) { (void)followOthers(call, group.marksOf(place(call), number)); }
  /// Ends a call whose work inside a phase was refused by the lane's device, for all.
  Status giveUp(const Call &call, const Status &why) {
    const uint32_t number = numMet(call);
    group.fail(rank(), why.error());
    if (auto mark = lane->mark()) // of what was enqueued before
      group.leaveMark(place(call), call.axes, rank(), number, *mark);
    (void)group.quit(place(call), /*inPhase=*/true);
    followFailed(call, number);
    return why;
  }
  template <typename Work> Status inPhase(const Call &call, const Work &work) {
    Status status = work();
    return status.ok() ? status : giveUp(call, status);
  }
  Place &place(const Call &call) {
    Place *&known = places[call.axes.asBits()];
    if (!known)
      known = &group.placeOf(call.axes, rank());
    return *known;
  }
  size_t me(const Call &call) const { return static_cast<size_t>(mesh().indexOf(call.axes, rank())); }

  Group &group;
  std::array<Place *, 1 << Mesh::kMaxAxes> places{}; ///< of this rank, by axes
  std::array<uint32_t, 1 << Mesh::kMaxAxes> met{};   ///< meetings there
};

Status InprocCommunicator::begin(const Call &call, const void *input, void *output) {
  Place &here = place(call);
  const size_t self = me(call);
  here.calls[self] = call;
  here.inputs[self] = input;
  here.outputs[self] = output;
  ZC_RETURN_IF_ERROR(meet(call, /*inPhase=*/false, /*nextPhase=*/true));
  int number = mesh().groupOf(call.axes, rank());
  for (int peer = 1; peer < here.size(); ++peer) {
    const Call &other = here.calls[static_cast<size_t>(peer)];
    if (other == here.calls[0])
      continue;
    group.fail(rank(), differError(mesh(), mesh().rankOf(call.axes, number, 0), here.calls[0],
                                   mesh().rankOf(call.axes, number, peer), other));
    return group.quit(here, /*inPhase=*/true);
  }
  return {};
}

Status InprocCommunicator::meet(const Call &call, bool inPhase, bool nextPhase) {
  Place::Mark mine;
  if (lane) {
    auto mark = lane->mark();
    if (!mark)
      return inPhase ? giveUp(call, mark.status()) : mark.status();
    mine = *mark;
  }
  const uint32_t number = numMet(call)++;
  Status status = group.meet(place(call), call.axes, rank(), number, std::move(mine), inPhase, nextPhase);
  if (!lane)
    return status;
  if (!status.ok()) {
    followFailed(call, number);
    return status;
  }
  auto follow = [&] { return followOthers(call, place(call).marks[number % 2]); };
  return nextPhase ? this->inPhase(call, follow) : follow();
}

Status InprocCommunicator::runAllGather(const Call &call, const AllGatherOptions &options) {
  ZC_RETURN_IF_ERROR(begin(call, options.input, nullptr));
  Place &here = place(call);
  ZC_RETURN_IF_ERROR(inPhase(call, [&]() -> Status {
    // Each member starts with its right neighbour, so that they do not all read from one.
    for (size_t i = 1, members = here.calls.size(); i <= members; ++i) {
      size_t peer = (me(call) + i) % members;
      ZC_RETURN_IF_ERROR(copy(at(options.output, peer * options.bytes), here.inputs[peer], options.bytes));
    }
    return {};
  }));
  return end(call);
}

Status InprocCommunicator::runAllToAll(const Call &call, const AllToAllOptions &options) {
  ZC_RETURN_IF_ERROR(begin(call, options.input, nullptr));
  Place &here = place(call);
  ZC_RETURN_IF_ERROR(inPhase(call, [&]() -> Status {
    for (size_t i = 1, members = here.calls.size(); i <= members; ++i) {
      size_t peer = (me(call) + i) % members;
      ZC_RETURN_IF_ERROR(copy(at(options.output, peer * options.bytes), at(here.inputs[peer], me(call) * options.bytes),
                              options.bytes));
    }
    return {};
  }));
  return end(call);
}

Status InprocCommunicator::runReduceScatter(const Call &call, const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(begin(call, options.input, nullptr));
  Place &here = place(call);
  OrderedSum sum;
  sum.inputs = here.inputs.data();
  sum.ranks = here.size();
  sum.skip = me(call) * options.elements;
  sum.output = options.output;
  sum.elements = options.elements;
  sum.inputType = options.inputType;
  sum.outputType = options.outputType;
  sum.scale = options.scale;
  sum.accumulate = options.accumulate;
  ZC_RETURN_IF_ERROR(inPhase(call, [&] { return add(sum); }));
  return end(call);
}

Status InprocCommunicator::runAllReduce(const Call &call, const AllReduceOptions &options) {
  uint64_t size = static_cast<uint64_t>(sizeOf(options.type));
  ZC_RETURN_IF_ERROR(begin(call, options.input, options.output));
  Place &here = place(call);
  // Member q sums the q-th part. In place this is safe: only it reads the q-th part of anybody's input.
  uint64_t members = here.calls.size(), part = (options.elements + members - 1) / members;
  auto startOf = [&](uint64_t member) { return std::min(member * part, options.elements); };
  uint64_t first = startOf(me(call));
  OrderedSum sum;
  sum.inputs = here.inputs.data();
  sum.ranks = here.size();
  sum.skip = first;
  sum.output = at(options.output, first * size);
  sum.elements = startOf(me(call) + 1) - first;
  sum.inputType = sum.outputType = options.type;
  sum.scale = options.scale;
  ZC_RETURN_IF_ERROR(inPhase(call, [&] { return add(sum); }));
  ZC_RETURN_IF_ERROR(meet(call, /*inPhase=*/true, /*nextPhase=*/true));
  ZC_RETURN_IF_ERROR(inPhase(call, [&]() -> Status {
    for (uint64_t peer = 0; peer < members; ++peer) {
      uint64_t start = startOf(peer) * size;
      ZC_RETURN_IF_ERROR(
          copy(at(options.output, start), at(here.outputs[peer], start), startOf(peer + 1) * size - start));
    }
    return {};
  }));
  return end(call);
}

Status InprocCommunicator::runBroadcast(const Call &call, const BroadcastOptions &options) {
  ZC_RETURN_IF_ERROR(begin(call, options.data, nullptr));
  ZC_RETURN_IF_ERROR(inPhase(
      call, [&] { return copy(options.data, place(call).inputs[static_cast<size_t>(options.root)], options.bytes); }));
  return end(call);
}

std::unique_ptr<Communicator> Group::communicator(int rank) {
  return std::make_unique<InprocCommunicator>(*this, rank);
}

} // namespace

std::unique_ptr<RankGroup> makeInprocGroup(const Mesh &mesh) { return std::make_unique<Group>(mesh); }

} // namespace zc
