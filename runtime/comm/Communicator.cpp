#include "runtime/comm/Communicator.h"

#include "runtime/base/Failpoint.h"
#include "runtime/comm/Sums.h"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace zc {

/// By Collective: name and failpoint.
static constexpr struct {
  std::string_view name;
  const char *site;
} kKinds[] = {{"all_gather", "coll.allgather"}, {"reduce_scatter", "coll.reducescatter"},
              {"all_reduce", "coll.allreduce"}, {"all_to_all", "coll.alltoall"},
              {"broadcast", "coll.broadcast"},  {"send", "coll.send"},
              {"barrier", "coll.barrier"}};

TrafficClass trafficClassFromName(std::string_view name) {
  if (name == "gather")
    return TrafficClass::gather;
  if (name == "reduce_scatter")
    return TrafficClass::reduceScatter;
  if (name == "all_reduce")
    return TrafficClass::allReduce;
  return name == "hop" ? TrafficClass::hop : TrafficClass::none;
}

Error echoOf(int rank, const Error &cause) {
  Error error =
      makeError(Code::peerLost, 602, "rank " + std::to_string(rank) + " failed: " + cause.message, cause.where);
  error.note = cause.note;
  return error;
}

Error differError(int rank, const Call &call, int otherRank, const Call &other) {
  return makeError(Code::peerLost, 604,
                   "collectives differ: " + describe(rank, call) + ", " + describe(otherRank, other));
}

std::string_view nameOf(Collective kind) { return kKinds[static_cast<size_t>(kind)].name; }

std::string describe(int rank, const Call &call) {
  std::string text = "rank " + std::to_string(rank) + " calls " + std::string(nameOf(call.kind)) + " of " +
                     std::to_string(call.bytes) + " bytes of " + std::string(nameOf(call.type));
  return call.axis == Axis::all ? text : text + " along " + std::string(nameOf(call.axis));
}

static int64_t now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t(1000000000) + time.tv_nsec;
}

template <typename Run> Status Communicator::carryOut(const Call &call, const Run &run) {
  if (auto fault = failpoint(kKinds[static_cast<size_t>(call.kind)].site)) {
    Error error = makeError(Code::peerLost, 606, std::string(nameOf(call.kind)) + " was told to fail", "ZERO_FAULT");
    if (fault->kind == FaultAction::Kind::error)
      error.message += std::string(": ") + std::strerror(fault->errnum);
    else if (fault->kind == FaultAction::Kind::shorten) { // a rank that is out of step with the others
      Call other = call;
      other.bytes += 1;
      return run(other);
    }
    abort(error);
    return error;
  }
  int64_t begin = now();
  if (flight)
    flight->begin(call, std::max<int64_t>(0, faultStep()));
  Status status = run(call);
  if (flight && status.ok()) // what failed stays visible as not over
    flight->end();
  elapsed += now() - begin;
  return status;
}

Status Communicator::allGather(const AllGatherOptions &options) {
  Call call{Collective::allGather, options.axis, DType::u8, 0, options.bytes};
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) { return runAllGather(call, options); }));
  count(options.traffic, options.axis, options.bytes * members(options.axis), options.bytes);
  return {};
}

Status Communicator::reduceScatter(const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.inputType, options.outputType));
  uint64_t part = options.elements * static_cast<uint64_t>(sizeOf(options.inputType));
  Call call{Collective::reduceScatter, options.axis, options.inputType, 0, part};
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) { return runReduceScatter(call, options); }));
  count(options.traffic, options.axis, part * members(options.axis), part);
  return {};
}

Status Communicator::allReduce(const AllReduceOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.type, options.type));
  uint64_t size = static_cast<uint64_t>(sizeOf(options.type)), whole = options.elements * size;
  Call call{Collective::allReduce, options.axis, options.type, 0, whole};
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) { return runAllReduce(call, options); }));
  // As a reduce-scatter and a gather.
  uint64_t part = (options.elements + members(options.axis) - 1) / members(options.axis) * size;
  count(options.traffic, options.axis, 2 * whole, 2 * part);
  return {};
}

Status Communicator::allToAll(const AllToAllOptions &options) {
  Call call{Collective::allToAll, options.axis, DType::u8, 0, options.bytes};
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) { return runAllToAll(call, options); }));
  count(options.traffic, options.axis, options.bytes * members(options.axis), options.bytes);
  return {};
}

Status Communicator::broadcast(const BroadcastOptions &options) {
  Call call{Collective::broadcast, options.axis, DType::u8, options.root, options.bytes};
  return carryOut(call, [&](const Call &call) { return runBroadcast(call, options); });
}

Status Communicator::sendToFirst(const SendOptions &options) {
  Call call{Collective::send, options.axis, DType::u8, options.from, options.bytes};
  return carryOut(call, [&](const Call &call) { return runSend(call, options); });
}

Status Communicator::barrier() {
  return carryOut(Call(), [&](const Call &call) { return runBarrier(call); });
}

Status Communicator::checkSum(DType input, DType output) {
  if (isSummable(input, output))
    return {};
  Error error =
      makeError(Code::unsupported, 605,
                "sums of " + std::string(nameOf(input)) + " to " + std::string(nameOf(output)) + " are not supported");
  abort(error);
  return error;
}

void Communicator::count(TrafficClass kind, Axis axis, uint64_t bufferBytes, uint64_t sentBytesPerPeer) {
  if (kind == TrafficClass::none)
    return;
  if (ranks.worldSize == 1) // nothing is sent, whatever the plan calls
    return;
  if (kind == TrafficClass::gather)
    counters.gather += bufferBytes;
  else if (kind == TrafficClass::reduceScatter)
    counters.reduceScatter += bufferBytes;
  else if (kind == TrafficClass::allReduce)
    counters.allReduce += bufferBytes;
  int near = axis == Axis::node ? 0 : ranks.ranksPerNode - 1;
  counters.intraNode += sentBytesPerPeer * static_cast<uint64_t>(near);
  counters.interNode += sentBytesPerPeer * static_cast<uint64_t>(ranks.size(axis) - 1 - near);
}

} // namespace zc
