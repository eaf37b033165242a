#include "base/Blocking.h"
#include "base/Failpoint.h"
#include "runtime/device/Nvme.h"
#include "runtime/io/File.h"
#include "runtime/plan/Tiers.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zc {

namespace {

// What one disk needs to be busy; larger or more gain nothing, and a piece is checked while others are on their way.
constexpr uint32_t kPieceBytes = 1 << 20;
constexpr uint32_t kDepth = 16;
constexpr uint32_t kBounceBytes = 4 << 20;
constexpr uint32_t kReadRetries = 1, kWriteRetries = 0;
constexpr uint32_t kMaxStalls = 1000; ///< interruptions in a row without a byte moved

uint64_t hashOf(const char *block) { return XXH3_64bits(block, kBlockBytes); }

/// What a failpoint makes of a completion.
int32_t injectFault(const IoRequest &request, int32_t result) {
  std::optional<FaultAction> fault = failpoint(request.isWrite ? "spill.write" : "spill.read");
  if (!fault)
    return result;
  switch (fault->kind) {
  case FaultAction::Kind::error:
    return -fault->errnum;
  case FaultAction::Kind::shorten:
    return result / 2;
  case FaultAction::Kind::flip:
    if (!request.isWrite && result > 0)
      static_cast<char *>(request.memory)[2] ^= 16;
    return result;
  }
  return result;
}

} // namespace

std::unique_ptr<NvmeChannel> NvmeChannel::open(NvmeArena &arena, const std::vector<IoRegion> &regions,
                                               std::vector<std::string> &notes) {
  std::unique_ptr<NvmeChannel> channel(new NvmeChannel(arena));
  channel->slots.resize(kDepth);
  channel->completions.resize(kDepth);
  std::string why;
  if (std::optional<FaultAction> fault = failpoint("spill.uring"))
    why = io::reasonOf(fault->errnum);
  else
    channel->engine = makeUringEngine(arena.fd.get(), kDepth, regions, why);
  auto note = [&](const std::string &text) {
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
      notes.push_back(text);
  };
  if (!channel->engine) {
    note("io_uring is refused (" + why + "): the nvme tier uses threads instead");
    channel->engine = makeThreadEngine(arena.fd.get(), kDepth);
  } else if (!why.empty()) {
    note("memory cannot be pinned for the nvme tier (" + why + "; see ulimit -l): it works, a little slower");
  }
  return channel;
}

NvmeChannel::~NvmeChannel() { std::free(bounce); }

Error NvmeChannel::failed(const Slot &slot, const std::string &why) const {
  const IoRequest &request = slot.request;
  return makeError(Code::io, 677,
                   std::string("nvme tier: cannot ") + (request.isWrite ? "write " : "read ") +
                       std::to_string(slot.size) + " bytes at byte " +
                       std::to_string(request.offset + request.bytes - slot.size) + " of its file in \"" +
                       arena.folder + "\": " + why);
}

void NvmeChannel::start(Slot &slot, Transfer &transfer, uint32_t bytes) {
  uint64_t offset = transfer.offset + transfer.next;
  char *memory = transfer.memory + transfer.next;
  if (transfer.isWrite && !arena.hashes.empty())
    for (uint32_t at = 0; at < bytes; at += kBlockBytes)
      arena.hashes[(offset + at) / kBlockBytes] = hashOf(memory + at);
  transfer.next += bytes;
  ++transfer.piecesBusy;
  slot.transfer = &transfer;
  slot.request = {transfer.isWrite, memory, bytes, offset, static_cast<uint32_t>(&slot - slots.data())};
  slot.size = bytes;
  slot.moved = slot.failures = slot.stalls = 0;
  slot.isBusy = true;
  engine->push(slot.request);
}

void NvmeChannel::fill(Slot &slot) {
  for (size_t i = 0; i < numTransfers; ++i) {
    Transfer &transfer = transferAt(i);
    if (transfer.next < transfer.bytes && transfer.failure.ok()) {
      start(slot, transfer, static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, transfer.bytes - transfer.next)));
      return;
    }
  }
}

Status NvmeChannel::checkBlocks(const Slot &slot) const {
  if (slot.request.isWrite || arena.hashes.empty())
    return {};
  // The request is what was left of the piece.
  uint64_t offset = slot.request.offset + slot.request.bytes - slot.size;
  const char *memory = static_cast<const char *>(slot.request.memory) + slot.request.bytes - slot.size;
  for (uint32_t at = 0; at < slot.size; at += kBlockBytes)
    if (hashOf(memory + at) != arena.hashes[(offset + at) / kBlockBytes])
      return makeError(Code::corrupt, 678,
                       "nvme tier: the block at byte " + std::to_string(offset + at) + " of its file in \"" +
                           arena.folder + "\" is not what was written there",
                       {}, "the disk or the memory is failing; continue from a checkpoint on another machine");
  return {};
}

Status NvmeChannel::advance(Slot &slot, int64_t result, bool &finished) {
  IoRequest &request = slot.request;
  finished = false;
  if (result == -EINTR || result == -EAGAIN) {
    if (++slot.stalls > kMaxStalls)
      return failed(slot, "interrupted again and again");
  } else if (result < 0) {
    if (++slot.failures > (request.isWrite ? kWriteRetries : kReadRetries))
      return failed(slot, io::reasonOf(static_cast<int>(-result)));
  } else {
    if (result == 0)
      return failed(slot, request.isWrite ? "nothing was written" : "the file ends inside a block");
    if (result > request.bytes)
      return makeError(Code::internal, 679, "nvme tier: more bytes moved than asked for");
    // Direct I/O goes on at a block.
    auto whole = static_cast<uint32_t>(result) / kBlockBytes * kBlockBytes;
    slot.stalls = whole > 0 ? 0 : slot.stalls + 1;
    if (slot.stalls > kMaxStalls)
      return failed(slot, "less than a block moves at a time");
    slot.moved += whole;
    if (slot.moved == slot.size) {
      finished = true;
      return checkBlocks(slot);
    }
    request.memory = static_cast<char *>(request.memory) + whole;
    request.offset += whole;
    request.bytes -= whole;
  }
  engine->push(request);
  return {};
}

Status NvmeChannel::breakOff(Error error) {
  engine->stop(); // or our caller's memory would change behind its back
  for (Slot &slot : slots)
    slot.isBusy = false;
  numTransfers = 0;
  broken = error;
  return error;
}

bool NvmeChannel::accepts(bool isWrite, uint64_t offset, const void *memory, uint64_t bytes) const {
  if (numTransfers == kMostTransfers)
    return false;
  // What a transfer stores to: the file, or memory.
  auto begin = isWrite ? offset : reinterpret_cast<uintptr_t>(memory);
  for (size_t i = 0; i < numTransfers; ++i) {
    const Transfer &other = transferAt(i);
    auto otherBegin = other.isWrite ? other.offset : reinterpret_cast<uintptr_t>(other.memory);
    if (other.isWrite != isWrite || (begin < otherBegin + other.bytes && otherBegin < begin + bytes))
      return false;
  }
  return true;
}

void NvmeChannel::begin(bool isWrite, uint64_t offset, void *memory, uint64_t bytes) {
  if (broken)
    return;
  begunBeside += numTransfers > 0;
  Transfer &transfer = transferAt(numTransfers++);
  transfer = Transfer();
  transfer.isWrite = isWrite;
  transfer.offset = offset;
  transfer.memory = static_cast<char *>(memory);
  transfer.bytes = bytes;
  for (Slot &slot : slots)
    if (!slot.isBusy)
      fill(slot);
}

bool NvmeChannel::isOldestDone() const { return numTransfers == 0 || transferAt(0).isThrough(); }

Status NvmeChannel::complete(const IoCompletion &completion) {
  if (completion.tag >= slots.size() || !slots[completion.tag].isBusy)
    return breakOff(makeError(Code::internal, 681, "nvme tier: a completion of no request"));
  Slot &slot = slots[completion.tag];
  bool finished = false;
  Status status = advance(slot, injectFault(slot.request, completion.result), finished);
  if (!finished && status.ok())
    return {};
  if (!status.ok() && slot.transfer->failure.ok())
    slot.transfer->failure = status;
  slot.isBusy = false;
  --slot.transfer->piecesBusy;
  fill(slot); // at once, so that the disk has work while others are hashed
  return {};
}

Status NvmeChannel::progress() {
  Blocking here("waiting for the disk of the nvme tier in", arena.folder);
  std::optional<FaultAction> fault = failpoint("spill.engine");
  int count = fault ? -fault->errnum : engine->reap(completions.data());
  if (count < 0)
    return breakOff(
        makeError(Code::io, 680, std::string("nvme tier: ") + engine->name() + ": " + io::reasonOf(-count)));
  for (int i = 0; i < count; ++i)
    ZC_RETURN_IF_ERROR(complete(completions[static_cast<size_t>(i)]));
  return {};
}

Status NvmeChannel::finish() {
  while (!broken && !isOldestDone())
    ZC_RETURN_IF_ERROR(progress());
  if (broken)
    return *broken;
  if (numTransfers == 0)
    return {};
  Status result = transferAt(0).failure;
  // After a failure what is under way must still come back, the others' pieces as well: the kernel may be writing to
  // our memory.
  for (size_t i = 1; !result.ok() && i < numTransfers; ++i) {
    transferAt(i).bytes = transferAt(i).next;
    while (transferAt(i).piecesBusy > 0)
      ZC_RETURN_IF_ERROR(progress());
  }
  numTransfers = result.ok() ? numTransfers - 1 : 0;
  firstTransfer = (firstTransfer + 1) % kMostTransfers;
  return result;
}

Status NvmeChannel::transfer(bool isWrite, uint64_t offset, void *memory, uint64_t bytes) {
  begin(isWrite, offset, memory, bytes);
  return finish();
}

Result<char *> NvmeChannel::bounceBuffer() {
  if (!bounce && (failpoint("spill.bounce") || ::posix_memalign(&bounce, kBlockBytes, kBounceBytes) != 0)) {
    bounce = nullptr; // whatever the call left there
    return makeError(Code::budget, 682,
                     "out of memory for the " + std::to_string(kBounceBytes) +
                         " bytes that parts of the nvme tier's blocks go through");
  }
  return static_cast<char *>(bounce);
}

Status NvmeChannel::readBytes(uint64_t offset, void *memory, uint64_t bytes) {
  Result<char *> bounced = bounceBuffer();
  ZC_RETURN_IF_ERROR(bounced.status());
  char *buffer = *bounced;
  for (uint64_t done = 0; done < bytes;) {
    uint64_t first = (offset + done) / kBlockBytes * kBlockBytes, skip = offset + done - first;
    uint64_t now = std::min(bytes - done, kBounceBytes - skip);
    ZC_RETURN_IF_ERROR(read(first, buffer, toBlocks(skip + now)));
    std::memcpy(static_cast<char *>(memory) + done, buffer + skip, now);
    done += now;
  }
  return {};
}

Status NvmeChannel::writeBytes(uint64_t offset, const void *memory, uint64_t bytes) {
  Result<char *> bounced = bounceBuffer();
  ZC_RETURN_IF_ERROR(bounced.status());
  char *buffer = *bounced;
  for (uint64_t done = 0; done < bytes;) {
    uint64_t first = (offset + done) / kBlockBytes * kBlockBytes, skip = offset + done - first;
    uint64_t now = std::min(bytes - done, kBounceBytes - skip), end = toBlocks(skip + now);
    // The rest of the first and last block stays as it is.
    if (skip != 0)
      ZC_RETURN_IF_ERROR(read(first, buffer, kBlockBytes));
    if (skip + now != end && (skip == 0 || end > kBlockBytes))
      ZC_RETURN_IF_ERROR(read(first + end - kBlockBytes, buffer + end - kBlockBytes, kBlockBytes));
    std::memcpy(buffer + skip, static_cast<const char *>(memory) + done, now);
    ZC_RETURN_IF_ERROR(write(first, buffer, end));
    done += now;
  }
  return {};
}

} // namespace zc
