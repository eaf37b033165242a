#include "runtime/mpi/MpiCommunicator.h"

#include "kernels/OrderedSum.h"
#include "runtime/comm/Staging.h"
#include "runtime/mpi/Wait.h"

#include <algorithm>
#include <cstring>

namespace zc::mpi {

static constexpr int kMeetTag = 1, kDataTag = 2, kGatherTag = 3;
/// A message's bytes are an int.
static constexpr uint64_t kMaxMessage = uint64_t(1) << 30;
static constexpr size_t kDepth = kStagedPieces;

void Job::fail(const Error &cause) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!failed)
    failed = RankGroup::Failure{rank, cause};
  hasFailed.store(true, std::memory_order_release);
}

MpiCommunicator::MpiCommunicator(Job &job)
    : Communicator(job.mesh, job.rank), job(job), calls(static_cast<size_t>(job.mesh.worldSize())),
      inputs(static_cast<size_t>(job.mesh.worldSize())) {
  requests.reserve(2 * calls.size() + 64);
  peers.reserve(requests.capacity());
}

void MpiCommunicator::send(int rank, const void *data, uint64_t bytes, int tag) {
  auto *from = static_cast<const char *>(data);
  for (uint64_t done = 0; done < bytes && postError == MPI_SUCCESS; done += kMaxMessage) {
    requests.emplace_back();
    peers.push_back(rank);
    postError = MPI_Isend(from + done, static_cast<int>(std::min(kMaxMessage, bytes - done)), MPI_BYTE, rank, tag,
                          job.comm, &requests.back());
  }
}

void MpiCommunicator::receive(int rank, void *data, uint64_t bytes, int tag) {
  auto *to = static_cast<char *>(data);
  for (uint64_t done = 0; done < bytes && postError == MPI_SUCCESS; done += kMaxMessage) {
    requests.emplace_back();
    peers.push_back(rank);
    postError = MPI_Irecv(to + done, static_cast<int>(std::min(kMaxMessage, bytes - done)), MPI_BYTE, rank, tag,
                          job.comm, &requests.back());
  }
}

Error MpiCommunicator::lost(int code) {
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  Error error = makeError(Code::peerLost, 612, "a message failed, a peer is gone: " + std::string(text));
  job.fail(error);
  return error;
}

Status MpiCommunicator::wait() {
  if (postError != MPI_SUCCESS)
    return lost(postError);
  Status status = wait(requests.data(), peers.data(), requests.size());
  requests.clear();
  peers.clear();
  return status;
}

Status MpiCommunicator::wait(MPI_Request *first, const int *peers, size_t count) {
  for (Backoff backoff;; backoff.pause()) {
    int done = 0;
    int code = MPI_Testall(static_cast<int>(count), first, &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS)
      return lost(code);
    if (done)
      return {};
    if (job.hasFailed.load(std::memory_order_acquire)) {
      std::lock_guard<std::mutex> lock(job.mutex);
      return echoOf(job.failed->rank, job.failed->error);
    }
    if (flight && backoff.isLong())
      noteMissing(first, peers, count);
  }
}

/// Whose message is the first that has not come or gone.
void MpiCommunicator::noteMissing(MPI_Request *first, const int *peers, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    int done = 0;
    if (MPI_Request_get_status(first[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
      return flight->waitFor(peers[i]);
  }
}

Status MpiCommunicator::meet(const Call &call) {
  const AxisSet axes = call.axes;
  calls[static_cast<size_t>(me(axes))] = call;
  for (int peer = 0; peer < members(axes); ++peer)
    if (peer != me(axes))
      receive(rankOf(axes, peer), &calls[static_cast<size_t>(peer)], sizeof(Call), kMeetTag);
  for (int peer = 0; peer < members(axes); ++peer)
    if (peer != me(axes))
      send(rankOf(axes, peer), &calls[static_cast<size_t>(me(axes))], sizeof(Call), kMeetTag);
  ZC_RETURN_IF_ERROR(wait());
  for (int peer = 1; peer < members(axes); ++peer)
    if (const Call &other = calls[static_cast<size_t>(peer)]; !(other == calls[0])) {
      Error error = differError(mesh(), rankOf(axes, 0), calls[0], rankOf(axes, peer), other);
      job.fail(error);
      return error;
    }
  return {};
}

static void copy(void *to, const void *from, uint64_t bytes) {
  if (to != from && bytes > 0)
    std::memcpy(to, from, bytes);
}

// In each exchange a member begins with its right neighbour, so that they do not all send to one.

Status MpiCommunicator::runAllGather(const Call &call, const AllGatherOptions &options) {
  ZC_RETURN_IF_ERROR(meet(call));
  const AxisSet axes = call.axes;
  const int count = members(axes), self = me(axes);
  for (int i = 1; i < count; ++i) {
    int from = (self + count - i) % count;
    receive(rankOf(axes, from), at(options.output, static_cast<uint64_t>(from) * options.bytes), options.bytes,
            kDataTag);
  }
  for (int i = 1; i < count; ++i)
    send(rankOf(axes, (self + i) % count), options.input, options.bytes, kDataTag);
  copy(at(options.output, static_cast<uint64_t>(self) * options.bytes), options.input, options.bytes);
  return wait();
}

Status MpiCommunicator::runAllToAll(const Call &call, const AllToAllOptions &options) {
  ZC_RETURN_IF_ERROR(meet(call));
  const AxisSet axes = call.axes;
  const int count = members(axes), self = me(axes);
  auto partOf = [&](int member) { return static_cast<uint64_t>(member) * options.bytes; };
  for (int i = 1; i < count; ++i) {
    int from = (self + count - i) % count;
    receive(rankOf(axes, from), at(options.output, partOf(from)), options.bytes, kDataTag);
  }
  for (int i = 1; i < count; ++i) {
    int to = (self + i) % count;
    send(rankOf(axes, to), at(options.input, partOf(to)), options.bytes, kDataTag);
  }
  copy(at(options.output, partOf(self)), at(options.input, partOf(self)), options.bytes);
  return wait();
}

/// Where `member`'s piece of this member's part arrives.
char *MpiCommunicator::stagedAt(const Sum &sum, const Piece &piece, uint64_t pieceElements, int count, int member) {
  uint64_t index = piece.slot * static_cast<uint64_t>(count) + static_cast<uint64_t>(member);
  return sum.staging + index * pieceElements * static_cast<uint64_t>(sizeOf(sum.inputType));
}

void MpiCommunicator::postPiece(AxisSet axes, const Sum &sum, const Piece &piece, uint64_t pieceElements) {
  const int count = members(axes), self = me(axes);
  const uint64_t size = static_cast<uint64_t>(sizeOf(sum.inputType));
  auto lengthFor = [&](int member) {
    uint64_t begin = sum.startOf(static_cast<uint64_t>(member)) + piece.offset;
    uint64_t end = sum.startOf(static_cast<uint64_t>(member) + 1);
    return begin < end ? std::min(pieceElements, end - begin) : 0;
  };
  for (int i = 1; i < count; ++i) {
    int from = (self + count - i) % count;
    receive(rankOf(axes, from), stagedAt(sum, piece, pieceElements, count, from), lengthFor(self) * size, kDataTag);
  }
  for (int i = 1; i < count; ++i) {
    int to = (self + i) % count;
    send(rankOf(axes, to), sum.input + (sum.startOf(static_cast<uint64_t>(to)) + piece.offset) * size,
         lengthFor(to) * size, kDataTag);
  }
}

void MpiCommunicator::addPiece(AxisSet axes, const Sum &sum, const Piece &piece, uint64_t pieceElements) {
  const int count = members(axes), self = me(axes);
  const uint64_t size = static_cast<uint64_t>(sizeOf(sum.inputType));
  const uint64_t first = sum.startOf(static_cast<uint64_t>(self)) + piece.offset;
  const uint64_t end = sum.startOf(static_cast<uint64_t>(self) + 1);
  if (first >= end)
    return;
  for (int member = 0; member < count; ++member)
    inputs[static_cast<size_t>(member)] =
        member == self ? sum.input + first * size : stagedAt(sum, piece, pieceElements, count, member);
  OrderedSum ordered;
  ordered.inputs = inputs.data();
  ordered.ranks = count;
  ordered.output = sum.output + piece.offset * static_cast<uint64_t>(sizeOf(sum.outputType));
  ordered.elements = std::min(pieceElements, end - first);
  ordered.inputType = sum.inputType;
  ordered.outputType = sum.outputType;
  ordered.scale = sum.scale;
  ordered.accumulate = sum.accumulate;
  orderedSum(ordered);
}

Status MpiCommunicator::sumParts(AxisSet axes, const Sum &sum) {
  const uint64_t size = static_cast<uint64_t>(sizeOf(sum.inputType));
  const uint64_t count = static_cast<uint64_t>(members(axes));
  const uint64_t pieceElements = stagedElements(count, sum.part, size);
  const uint64_t pieces = (sum.part + pieceElements - 1) / pieceElements;
  // Each slot's requests have places of their own, so that the others stay where they are while one is waited for.
  const size_t perSlot = 2 * (static_cast<size_t>(count) - 1);
  std::vector<MPI_Request> &slots = pieceRequests;
  slots.assign(kDepth * perSlot, MPI_REQUEST_NULL);
  piecePeers.assign(kDepth * perSlot, 0);
  for (uint64_t k = 0; k < pieces + kDepth - 1; ++k) {
    if (k < pieces) {
      postPiece(axes, sum, {k * pieceElements, k % kDepth}, pieceElements);
      if (postError != MPI_SUCCESS)
        return lost(postError);
      auto place = static_cast<ptrdiff_t>(k % kDepth * perSlot);
      std::copy(requests.begin(), requests.end(), slots.begin() + place);
      std::copy(peers.begin(), peers.end(), piecePeers.begin() + place);
      requests.clear();
      peers.clear();
    }
    if (k + 1 >= kDepth) {
      Piece oldest = {(k + 1 - kDepth) * pieceElements, (k + 1) % kDepth};
      ZC_RETURN_IF_ERROR(
          wait(slots.data() + oldest.slot * perSlot, piecePeers.data() + oldest.slot * perSlot, perSlot));
      addPiece(axes, sum, oldest, pieceElements);
    }
  }
  return {};
}

Status MpiCommunicator::runReduceScatter(const Call &call, const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(meet(call));
  Sum sum;
  sum.input = static_cast<const char *>(options.input);
  sum.output = static_cast<char *>(options.output);
  sum.part = options.elements;
  sum.elements = options.elements * static_cast<uint64_t>(members(call.axes));
  sum.inputType = options.inputType;
  sum.outputType = options.outputType;
  sum.scale = options.scale;
  sum.accumulate = options.accumulate;
  sum.staging = static_cast<char *>(options.workspace);
  return sumParts(call.axes, sum);
}

Status MpiCommunicator::sumSmall(const Call &call, const AllReduceOptions &options) {
  const AxisSet axes = call.axes;
  const int count = members(axes), self = me(axes);
  const uint64_t bytes = options.elements * static_cast<uint64_t>(sizeOf(options.type));
  // In place is safe: nothing is written before all is sent.
  inputs[static_cast<size_t>(self)] = options.input;
  for (int member = 0; member < count; ++member) {
    if (member == self)
      continue;
    char *staged = at(options.workspace, static_cast<uint64_t>(member) * bytes);
    inputs[static_cast<size_t>(member)] = staged;
    receive(rankOf(axes, member), staged, bytes, kDataTag);
  }
  for (int member = 0; member < count; ++member)
    if (member != self)
      send(rankOf(axes, member), options.input, bytes, kDataTag);
  ZC_RETURN_IF_ERROR(wait());
  OrderedSum sum;
  sum.inputs = inputs.data();
  sum.ranks = count;
  sum.output = options.output;
  sum.elements = options.elements;
  sum.inputType = sum.outputType = options.type;
  sum.scale = options.scale;
  orderedSum(sum);
  return {};
}

Status MpiCommunicator::runAllReduce(const Call &call, const AllReduceOptions &options) {
  ZC_RETURN_IF_ERROR(meet(call));
  const AxisSet axes = call.axes;
  const uint64_t size = static_cast<uint64_t>(sizeOf(options.type)), count = static_cast<uint64_t>(members(axes));
  if (options.elements * size <= kSmallSum)
    return sumSmall(call, options);
  const uint64_t self = static_cast<uint64_t>(me(axes));
  Sum sum;
  sum.input = static_cast<const char *>(options.input);
  sum.elements = options.elements;
  sum.part = (options.elements + count - 1) / count;
  sum.output = at(options.output, sum.startOf(self) * size);
  sum.inputType = sum.outputType = options.type;
  sum.scale = options.scale;
  sum.staging = static_cast<char *>(options.workspace);
  // In place this is safe: of the whole, only this member's part is written, and nobody is sent that.
  ZC_RETURN_IF_ERROR(sumParts(axes, sum));
  auto bytesOf = [&](uint64_t member) { return (sum.startOf(member + 1) - sum.startOf(member)) * size; };
  for (uint64_t i = 1; i < count; ++i) {
    uint64_t from = (self + count - i) % count;
    receive(rankOf(axes, static_cast<int>(from)), at(options.output, sum.startOf(from) * size), bytesOf(from),
            kGatherTag);
  }
  for (uint64_t i = 1; i < count; ++i)
    send(rankOf(axes, static_cast<int>((self + i) % count)), sum.output, bytesOf(self), kGatherTag);
  return wait();
}

Status MpiCommunicator::runBroadcast(const Call &call, const BroadcastOptions &options) {
  ZC_RETURN_IF_ERROR(meet(call));
  if (me(call.axes) != options.root) {
    receive(rankOf(call.axes, options.root), options.data, options.bytes, kDataTag);
    return wait();
  }
  for (int member = 0; member < members(call.axes); ++member)
    if (member != options.root)
      send(rankOf(call.axes, member), options.data, options.bytes, kDataTag);
  return wait();
}

} // namespace zc::mpi
