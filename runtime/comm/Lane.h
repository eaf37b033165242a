//===- Lane.h - collectives in the order of a device's stream ----------------------===//
//
// The ranks of one process read each other's memory. Where that is a device's, a collective is not over when its call
// returns: the members meet on the host, and what each of them copies and sums comes in the order of its own stream.
// What a meeting is on the host, a mark that the others follow is on the device. Marks are made before members meet and
// followed after, so whatever a stream waits for was enqueued already: streams that share a queue of the hardware
// cannot block each other.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "kernels/OrderedSum.h"

#include <cstdint>
#include <memory>

namespace zc {

class Event; // runtime/device/Stream.h

/// One rank's stream of collectives, used by the thread that calls them. Errors: the device refused.
class Lane {
public:
  virtual ~Lane() = default;
  /// `from` may be a peer's; they do not overlap.
  virtual Status copy(void *to, const void *from, uint64_t bytes) = 0;
  /// As orderedSum; inputs may be peers'.
  virtual Status sum(const OrderedSum &sum) = 0;
  /// A place behind what was enqueued so far. It may move on when two later ones are made: a peer that follows it late
  /// waits a little longer.
  virtual Result<std::shared_ptr<const Event>> mark() = 0;
  /// Later work comes after a peer's mark.
  virtual Status follow(const Event &mark) = 0;
};

} // namespace zc
