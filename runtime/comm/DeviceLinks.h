//===- DeviceLinks.h - what devices of ranks that are processes send each other ------===//
//
// Between processes nobody reads a peer's memory: messages go from device to device, enqueued on a stream, as NCCL does
// it. Members of a group call the same in the order of the plan, so nothing meets on the host; a message is over when
// its stream is behind it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Mesh.h"
#include "runtime/comm/Lane.h"

#include <vector>

namespace zc {

/// One rank's end; a communicator of devices for each set of axes. Calls come from one thread at a time, abort() from
/// any. Errors: a peer is gone (peer lost), the library or the device refused.
class DeviceLinks {
public:
  virtual ~DeviceLinks() = default;

  /// What the members of a group know each other by: the first makes it, and tells the others.
  struct Id {
    char bytes[128];
  };
  virtual Result<Id> makeId() = 0;
  /// Meets the others of this rank's group along `axes`: waits for them, or for abort().
  virtual Status open(AxisSet axes, int members, int member, const Id &id) = 0;
  virtual bool isOpen(AxisSet axes) const = 0;

  /// To or from a member. The n-th to a member is that one's n-th from this.
  struct Message {
    int member;
    bool isSent;
    void *data; ///< not written where it is sent
    uint64_t bytes;
  };
  /// All of them at once.
  virtual Status exchange(AxisSet axes, Lane &lane, const std::vector<Message> &messages) = 0;
  /// As AllGatherOptions.
  virtual Status allGather(AxisSet axes, Lane &lane, const void *input, void *output, uint64_t bytes) = 0;

  /// Ends what is on its way, and all later calls: peers may be gone. Also within a call of the host in a stream's
  /// order (Stream::call), which may not call the device.
  virtual void abort() = 0;
};

} // namespace zc
