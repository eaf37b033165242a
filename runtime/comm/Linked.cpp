#include "runtime/comm/Linked.h"

#include "kernels/OrderedSum.h"
#include "runtime/comm/Staging.h"

namespace zc {

static uint64_t unsignedSize(DType type) { return static_cast<uint64_t>(sizeOf(type)); }

Status LinkedCollectives::exchange(AxisSet axes, Lane &lane) {
  Status status = messages.empty() ? Status() : links->exchange(axes, lane, messages);
  messages.clear();
  return status;
}

Status LinkedCollectives::allGather(const Call &call, const AllGatherOptions &options, Lane &lane) {
  if (options.bytes == 0)
    return {};
  return links->allGather(call.axes, lane, options.input, options.output, options.bytes);
}

// In each exchange a member begins with its right neighbour, so that they do not all send to one.

Status LinkedCollectives::allToAll(const Call &call, const AllToAllOptions &options, Lane &lane) {
  const int count = membersOf(call.axes), me = self(call.axes);
  auto partOf = [&](int member) { return static_cast<uint64_t>(member) * options.bytes; };
  for (int i = 1; i < count; ++i) {
    int from = (me + count - i) % count, to = (me + i) % count;
    receive(from, at(options.output, partOf(from)), options.bytes);
    send(to, at(options.input, partOf(to)), options.bytes);
  }
  ZC_RETURN_IF_ERROR(exchange(call.axes, lane));
  return options.bytes == 0 ? Status()
                            : lane.copy(at(options.output, partOf(me)), at(options.input, partOf(me)), options.bytes);
}

Status LinkedCollectives::sumPiece(AxisSet axes, const Sum &sum, uint64_t offset, uint64_t pieceElements, Lane &lane) {
  const int count = membersOf(axes), me = self(axes);
  const uint64_t size = unsignedSize(sum.ordered.inputType);
  auto firstOf = [&](int member) { return sum.startOf(static_cast<uint64_t>(member)) + offset; };
  auto lengthOf = [&](int member) {
    uint64_t end = sum.startOf(static_cast<uint64_t>(member) + 1);
    return firstOf(member) < end ? std::min(pieceElements, end - firstOf(member)) : 0;
  };
  auto stagedAt = [&](int member) { return sum.staging + static_cast<uint64_t>(member) * pieceElements * size; };
  for (int i = 1; i < count; ++i) {
    int from = (me + count - i) % count, to = (me + i) % count;
    receive(from, stagedAt(from), lengthOf(me) * size);
    send(to, sum.input + firstOf(to) * size, lengthOf(to) * size);
  }
  ZC_RETURN_IF_ERROR(exchange(axes, lane));
  if (lengthOf(me) == 0)
    return {};
  inputs.resize(static_cast<size_t>(count));
  for (int member = 0; member < count; ++member)
    inputs[static_cast<size_t>(member)] = member == me ? sum.input + firstOf(me) * size : stagedAt(member);
  OrderedSum ordered = sum.ordered;
  ordered.inputs = inputs.data();
  ordered.ranks = count;
  ordered.elements = lengthOf(me);
  ordered.output = at(sum.ordered.output, offset * unsignedSize(sum.ordered.outputType));
  return lane.sum(ordered);
}

Status LinkedCollectives::sumParts(AxisSet axes, const Sum &sum, Lane &lane) {
  // Each piece is a call of the host's: all of the staging is one. What has one member is not staged.
  const auto members = static_cast<uint64_t>(membersOf(axes));
  const uint64_t staged = sum.stagedBytes / (members * unsignedSize(sum.ordered.inputType)),
                 pieceElements = members == 1 ? sum.part : std::min(staged, sum.part);
  for (uint64_t offset = 0; offset < sum.part; offset += pieceElements)
    ZC_RETURN_IF_ERROR(sumPiece(axes, sum, offset, pieceElements, lane));
  return {};
}

Status LinkedCollectives::reduceScatter(const Call &call, const ReduceScatterOptions &options, Lane &lane) {
  Sum sum{};
  sum.ordered.output = options.output;
  sum.ordered.inputType = options.inputType;
  sum.ordered.outputType = options.outputType;
  sum.ordered.scale = options.scale;
  sum.ordered.accumulate = options.accumulate;
  sum.input = static_cast<const char *>(options.input);
  sum.part = options.elements;
  sum.elements = options.elements * static_cast<uint64_t>(membersOf(call.axes));
  sum.staging = static_cast<char *>(options.workspace);
  sum.stagedBytes = options.workspaceBytes;
  return sumParts(call.axes, sum, lane);
}

Status LinkedCollectives::allReduce(const Call &call, const AllReduceOptions &options, Lane &lane) {
  const int count = membersOf(call.axes), me = self(call.axes);
  const uint64_t size = unsignedSize(options.type), whole = options.elements * size;
  Sum sum{};
  sum.ordered.output = options.output;
  sum.ordered.inputType = sum.ordered.outputType = options.type;
  sum.ordered.scale = options.scale;
  sum.input = static_cast<const char *>(options.input);
  sum.elements = options.elements;
  sum.staging = static_cast<char *>(options.workspace);
  sum.stagedBytes = options.workspaceBytes;
  if (whole <= kSmallSum) { // everybody gets all inputs
    inputs.resize(static_cast<size_t>(count));
    for (int member = 0; member < count; ++member) {
      char *staged = sum.staging + static_cast<uint64_t>(member) * whole;
      inputs[static_cast<size_t>(member)] = member == me ? options.input : staged;
      if (member == me)
        continue;
      receive(member, staged, whole);
      send(member, options.input, whole);
    }
    ZC_RETURN_IF_ERROR(exchange(call.axes, lane));
    sum.ordered.inputs = inputs.data();
    sum.ordered.ranks = count;
    sum.ordered.elements = options.elements;
    return options.elements == 0 ? Status() : lane.sum(sum.ordered);
  }
  sum.part = (options.elements + static_cast<uint64_t>(count) - 1) / static_cast<uint64_t>(count);
  auto firstOf = [&](int member) { return sum.startOf(static_cast<uint64_t>(member)) * size; };
  sum.ordered.output = at(options.output, firstOf(me));
  // In place this is safe: of the whole, only this member's part is written, and nobody is sent that before.
  ZC_RETURN_IF_ERROR(sumParts(call.axes, sum, lane));
  for (int i = 1; i < count; ++i) {
    int from = (me + count - i) % count, to = (me + i) % count;
    receive(from, at(options.output, firstOf(from)), firstOf(from + 1) - firstOf(from));
    send(to, at(options.output, firstOf(me)), firstOf(me + 1) - firstOf(me));
  }
  return exchange(call.axes, lane);
}

} // namespace zc
