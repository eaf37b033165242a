//===- Linked.h - collectives over devices that are linked --------------------------===//
//
// Sums are what each member gets from the others, in pieces, and orderedSum, as everywhere: the same bits as inproc and
// MPI. Pieces stand in the caller's workspace (Staging.h); the next one comes when the last is summed, by the stream's
// order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/Call.h"
#include "runtime/comm/CollectiveOptions.h"
#include "runtime/comm/DeviceLinks.h"

#include <algorithm>

namespace zc {

class LinkedCollectives {
public:
  LinkedCollectives(std::unique_ptr<DeviceLinks> links, const Mesh &mesh, int rank)
      : links(std::move(links)), mesh(mesh), rank(rank) {}

  Status allGather(const Call &call, const AllGatherOptions &options, Lane &lane);
  Status reduceScatter(const Call &call, const ReduceScatterOptions &options, Lane &lane);
  Status allReduce(const Call &call, const AllReduceOptions &options, Lane &lane);
  Status allToAll(const Call &call, const AllToAllOptions &options, Lane &lane);

  const std::unique_ptr<DeviceLinks> links;

private:
  /// Member k sums elements [startOf(k), startOf(k + 1)) of all inputs.
  struct Sum {
    OrderedSum ordered; ///< but for inputs, elements and output, which is of this member's first element
    const char *input;
    uint64_t part, elements;
    char *staging;
    uint64_t stagedBytes;
    uint64_t startOf(uint64_t member) const { return std::min(member * part, elements); }
  };
  Status sumParts(AxisSet axes, const Sum &sum, Lane &lane);
  Status sumPiece(AxisSet axes, const Sum &sum, uint64_t offset, uint64_t pieceElements, Lane &lane);

  int membersOf(AxisSet axes) const { return mesh.size(axes); }
  int self(AxisSet axes) const { return mesh.indexOf(axes, rank); }
  void send(int member, const void *data, uint64_t bytes) {
    if (bytes > 0)
      messages.push_back({member, true, const_cast<void *>(data), bytes});
  }
  void receive(int member, void *data, uint64_t bytes) {
    if (bytes > 0)
      messages.push_back({member, false, data, bytes});
  }
  Status exchange(AxisSet axes, Lane &lane);

  const Mesh mesh;
  const int rank;
  std::vector<DeviceLinks::Message> messages; ///< that exchange() takes
  std::vector<const void *> inputs;
};

} // namespace zc
