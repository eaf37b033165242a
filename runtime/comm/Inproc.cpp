#include "runtime/comm/Inproc.h"

#include "runtime/base/Futex.h"
#include "runtime/comm/Sums.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace zc {

namespace {

/// What a rank called; equal on all ranks, or the call fails on all of them.
struct Call {
  const char *kind = "";
  uint64_t bytes = 0;
  DType type = DType::u8;
  int root = 0;
  bool operator==(const Call &o) const {
    return std::strcmp(kind, o.kind) == 0 && bytes == o.bytes && type == o.type && root == o.root;
  }
};

std::string describe(int rank, const Call &call) {
  return "rank " + std::to_string(rank) + " calls " + call.kind + " of " + std::to_string(call.bytes) + " bytes of " +
         std::string(nameOf(call.type));
}

/// Where ranks meet. Each call is a sequence of phases: between two meetings ranks read each other's buffers. A rank
/// may only leave (return an error, so that its buffers go) when no peer is inside a phase; `busy` counts those.
class Group : public InprocGroup {
public:
  Group(int worldSize, int ranksPerNode)
      : worldSize(worldSize), ranksPerNode(ranksPerNode), calls(static_cast<size_t>(worldSize)),
        inputs(static_cast<size_t>(worldSize)), outputs(static_cast<size_t>(worldSize)) {}

  std::unique_ptr<Communicator> communicator(int rank) override;
  std::optional<Failure> failure() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return failed;
  }

  /// Ends this rank's phase, if it is in one, waits for all ranks, and begins the next phase if `nextPhase`.
  Status meet(int rank, bool inPhase, bool nextPhase);
  /// Ends this rank's phase without meeting anybody.
  Error quit(bool inPhase);
  void fail(int rank, const Error &cause);
  void leave(int rank);

  const int worldSize, ranksPerNode;
  // Written by their rank before it meets, read by all during the phase.
  std::vector<Call> calls;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;

private:
  void failLocked(int rank, const Error &cause);
  void signal() {
    version.fetch_add(1, std::memory_order_release);
    wakeAll(version);
  }

  mutable std::mutex mutex;
  int arrived = 0, busy = 0;
  uint64_t meetings = 0;
  std::optional<int> left;
  std::optional<Failure> failed;
  std::atomic<uint32_t> version{0}; ///< changes whenever someone may have a reason to wake up
};

Status Group::meet(int rank, bool inPhase, bool nextPhase) {
  std::unique_lock<std::mutex> lock(mutex);
  if (left && !failed)
    failLocked(*left, makeError(Code::peerLost, 601,
                                "rank " + std::to_string(*left) + " ended before rank " + std::to_string(rank) +
                                    " called " + calls[static_cast<size_t>(rank)].kind));
  if (failed) {
    lock.unlock();
    return quit(inPhase);
  }
  busy -= inPhase ? 1 : 0;
  uint64_t mine = meetings;
  if (++arrived == worldSize) {
    arrived = 0;
    busy = nextPhase ? worldSize : 0;
    ++meetings;
    signal();
    return {};
  }
  while (meetings == mine && !failed) {
    uint32_t seen = version.load(std::memory_order_acquire);
    lock.unlock();
    if (!spinUntil([&] { return version.load(std::memory_order_acquire) != seen; }))
      sleepWhile(version, seen);
    lock.lock();
  }
  if (meetings != mine)
    return {};
  lock.unlock();
  return quit(false);
}

Error Group::quit(bool inPhase) {
  std::unique_lock<std::mutex> lock(mutex);
  if (inPhase && --busy == 0)
    signal();
  while (busy > 0) { // peers in a phase never block, so this is short
    uint32_t seen = version.load(std::memory_order_acquire);
    lock.unlock();
    sleepWhile(version, seen);
    lock.lock();
  }
  Error error =
      makeError(Code::peerLost, 602, "rank " + std::to_string(failed->rank) + " failed: " + failed->error.message,
                failed->error.where);
  error.note = failed->error.note;
  return error;
}

void Group::failLocked(int rank, const Error &cause) {
  if (failed)
    return;
  failed = Failure{rank, cause};
  signal();
}

void Group::fail(int rank, const Error &cause) {
  std::lock_guard<std::mutex> lock(mutex);
  failLocked(rank, cause);
}

void Group::leave(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  left = rank;
  if (arrived > 0)
    failLocked(rank,
               makeError(Code::peerLost, 603, "rank " + std::to_string(rank) + " ended while others wait for it"));
}

class InprocCommunicator : public Communicator {
public:
  InprocCommunicator(Group &group, int self) : group(group), self(self) {}
  ~InprocCommunicator() override { group.leave(self); }
  int rank() const override { return self; }
  int worldSize() const override { return group.worldSize; }

  Status allGather(const AllGatherOptions &options) override;
  Status reduceScatter(const ReduceScatterOptions &options) override;
  Status allReduce(const AllReduceOptions &options) override;
  Status broadcast(const BroadcastOptions &options) override;
  Status barrier() override {
    ZC_RETURN_IF_ERROR(begin({"barrier"}, nullptr, nullptr));
    return end();
  }
  void abort(const Error &cause) override { group.fail(self, cause); }

private:
  /// Meets the others and checks that all called the same; after it, their buffers may be read until end().
  Status begin(const Call &call, const void *input, void *output);
  Status end() { return group.meet(self, /*inPhase=*/true, /*nextPhase=*/false); }
  Status check(DType input, DType output);
  static char *at(void *base, uint64_t bytes) { return static_cast<char *>(base) + bytes; }
  static const char *at(const void *base, uint64_t bytes) { return static_cast<const char *>(base) + bytes; }

  Group &group;
  const int self;
};

Status InprocCommunicator::begin(const Call &call, const void *input, void *output) {
  size_t me = static_cast<size_t>(self);
  group.calls[me] = call;
  group.inputs[me] = input;
  group.outputs[me] = output;
  ZC_RETURN_IF_ERROR(group.meet(self, /*inPhase=*/false, /*nextPhase=*/true));
  for (int peer = 1; peer < group.worldSize; ++peer) {
    const Call &other = group.calls[static_cast<size_t>(peer)];
    if (other == group.calls[0])
      continue;
    group.fail(self, makeError(Code::peerLost, 604,
                               "collectives differ: " + describe(0, group.calls[0]) + ", " + describe(peer, other)));
    return group.quit(/*inPhase=*/true);
  }
  return {};
}

Status InprocCommunicator::check(DType input, DType output) {
  if (isSummable(input, output))
    return {};
  Error error =
      makeError(Code::unsupported, 605,
                "sums of " + std::string(nameOf(input)) + " to " + std::string(nameOf(output)) + " are not supported");
  group.fail(self, error);
  return error;
}

Status InprocCommunicator::allGather(const AllGatherOptions &options) {
  ZC_RETURN_IF_ERROR(begin({"all_gather", options.bytes}, options.input, nullptr));
  // Each rank starts with its right neighbour, so that they do not all read from one.
  for (int i = 1; i <= group.worldSize; ++i) {
    int peer = (self + i) % group.worldSize;
    char *part = at(options.output, static_cast<uint64_t>(peer) * options.bytes);
    if (const void *input = group.inputs[static_cast<size_t>(peer)]; input != part && options.bytes > 0)
      std::memcpy(part, input, options.bytes);
  }
  ZC_RETURN_IF_ERROR(end());
  count(options.traffic, options.bytes * static_cast<uint64_t>(group.worldSize), options.bytes, group.ranksPerNode);
  return {};
}

Status InprocCommunicator::reduceScatter(const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(check(options.inputType, options.outputType));
  uint64_t part = options.elements * static_cast<uint64_t>(sizeOf(options.inputType));
  ZC_RETURN_IF_ERROR(begin({"reduce_scatter", part, options.inputType}, options.input, nullptr));
  OrderedSum sum;
  sum.inputs = group.inputs.data();
  sum.ranks = group.worldSize;
  sum.skip = static_cast<uint64_t>(self) * options.elements;
  sum.output = options.output;
  sum.elements = options.elements;
  sum.inputType = options.inputType;
  sum.outputType = options.outputType;
  sum.scale = options.scale;
  sum.accumulate = options.accumulate;
  orderedSum(sum);
  ZC_RETURN_IF_ERROR(end());
  count(options.traffic, part * static_cast<uint64_t>(group.worldSize), part, group.ranksPerNode);
  return {};
}

Status InprocCommunicator::allReduce(const AllReduceOptions &options) {
  ZC_RETURN_IF_ERROR(check(options.type, options.type));
  uint64_t world = static_cast<uint64_t>(group.worldSize), size = static_cast<uint64_t>(sizeOf(options.type));
  ZC_RETURN_IF_ERROR(begin({"all_reduce", options.elements * size, options.type}, options.input, options.output));
  // Rank r sums the r-th part. In place this is safe: only rank r reads the r-th part of anybody's input.
  uint64_t part = (options.elements + world - 1) / world;
  auto startOf = [&](uint64_t rank) { return std::min(rank * part, options.elements); };
  uint64_t first = startOf(static_cast<uint64_t>(self));
  OrderedSum sum;
  sum.inputs = group.inputs.data();
  sum.ranks = group.worldSize;
  sum.skip = first;
  sum.output = at(options.output, first * size);
  sum.elements = startOf(static_cast<uint64_t>(self) + 1) - first;
  sum.inputType = sum.outputType = options.type;
  sum.scale = options.scale;
  orderedSum(sum);
  ZC_RETURN_IF_ERROR(group.meet(self, /*inPhase=*/true, /*nextPhase=*/true));
  for (uint64_t peer = 0; peer < world; ++peer) {
    uint64_t start = startOf(peer) * size, bytes = startOf(peer + 1) * size - start;
    if (peer != static_cast<uint64_t>(self) && bytes > 0)
      std::memcpy(at(options.output, start), at(group.outputs[peer], start), bytes);
  }
  ZC_RETURN_IF_ERROR(end());
  // As a reduce-scatter and a gather.
  count(options.traffic, 2 * options.elements * size, 2 * part * size, group.ranksPerNode);
  return {};
}

Status InprocCommunicator::broadcast(const BroadcastOptions &options) {
  ZC_RETURN_IF_ERROR(begin({"broadcast", options.bytes, DType::u8, options.root}, options.data, nullptr));
  if (const void *data = group.inputs[static_cast<size_t>(options.root)]; data != options.data && options.bytes > 0)
    std::memcpy(options.data, data, options.bytes);
  return end();
}

std::unique_ptr<Communicator> Group::communicator(int rank) {
  return std::make_unique<InprocCommunicator>(*this, rank);
}

} // namespace

std::unique_ptr<InprocGroup> InprocGroup::create(int worldSize, int ranksPerNode) {
  return std::make_unique<Group>(worldSize, ranksPerNode);
}

} // namespace zc
