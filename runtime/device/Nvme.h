//===- Nvme.h - the NVMe tier of a rank: one file ------------------------------===//
//
// The arena is a file without a name (O_TMPFILE, or unlinked at once): nobody else can open it and nothing remains of
// it however the process ends. Its space is taken when it is made. It is never memory-mapped: a file that is cut or a
// disk that fails is an error, not a signal.
//
// Every block has a checksum in memory, computed when it is written and compared when it is read (about one part in 500
// of the tier; DeepSpeed and others would train on with what a failing disk returns).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Descriptor.h"
#include "base/Status.h"
#include "runtime/device/IoEngine.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace zc {

struct NvmeOptions {
  std::string folder; ///< --nvme-dir
  bool checksums = true;
};

class NvmeArena {
public:
  /// What can be said before anything is made; `bytes` of each of `ranks` that share the folder. Errors: no folder
  /// given (usage); one that is missing, not ours, or on a disk without that much space (io).
  static Status check(const NvmeOptions &options, uint64_t bytes, uint64_t ranks = 1);
  /// Zeroed, as memory from the system. What the user should know goes to `notes`.
  /// Errors: those of check; a folder that cannot be written, no space (io, with both numbers).
  static Result<std::unique_ptr<NvmeArena>> create(const NvmeOptions &options, uint64_t bytes,
                                                   std::vector<std::string> &notes);

  uint64_t bytes() const { return size; } ///< whole blocks
  uint64_t allocatedBytes() const;        ///< of the disk

private:
  friend class NvmeChannel;
  NvmeArena() = default;
  Status makeFile(const std::string &folder, std::vector<std::string> &notes);
  Status takeSpace();

  Descriptor fd;
  uint64_t size = 0;
  std::string folder;
  std::vector<uint64_t> hashes; ///< XXH3-64 of each block; empty without checksums
};

/// One user's way to the arena: a queue's thread has its own. Results are checked here: short transfers are resumed,
/// interrupted ones repeated, a read that failed is tried once more, checksums compared.
///
/// Several transfers may be under way, so that a disk goes on with the next while the last pieces of one come back;
/// they are taken away in the order in which they began.
class NvmeChannel {
public:
  /// `regions`: memory that transfers will lie in, pinned if the system lets us. `notes` as NvmeArena::create.
  static std::unique_ptr<NvmeChannel> open(NvmeArena &arena, const std::vector<IoRegion> &regions,
                                           std::vector<std::string> &notes);
  ~NvmeChannel();

  /// Whole blocks between the arena at byte `offset` and block-aligned memory; nothing is allocated.
  /// Errors: io, naming the tier and the bytes; corrupt for a block that is not what was written.
  Status read(uint64_t offset, void *memory, uint64_t bytes) { return transfer(false, offset, memory, bytes); }
  Status write(uint64_t offset, const void *memory, uint64_t bytes) {
    return transfer(true, offset, const_cast<void *>(memory), bytes);
  }

  static constexpr size_t kMostTransfers = 8;
  bool isIdle() const { return numTransfers == 0; }
  /// May this one begin now? There is room, and none under way stores to what it stores to.
  bool accepts(bool isWrite, uint64_t offset, const void *memory, uint64_t bytes) const;
  /// Starts what was accepted.
  void begin(bool isWrite, uint64_t offset, void *memory, uint64_t bytes);
  /// For tests: how many began while another was under way.
  uint64_t numBegunBeside() const { return begunBeside; }
  /// Is the oldest through?
  bool isOldestDone() const;
  /// Waits until a piece of those under way has come back, and starts others. Errors: the engine's.
  Status progress();
  /// Waits for the oldest and takes it away. Errors as `read`; afterwards nothing is under way.
  Status finish();

  /// Any bytes, through a buffer that is made when first needed. Errors: as `read`; no memory for it (budget).
  Status readBytes(uint64_t offset, void *memory, uint64_t bytes);
  Status writeBytes(uint64_t offset, const void *memory, uint64_t bytes);

private:
  /// Cut into pieces, of which [0, next) have been started.
  struct Transfer {
    bool isWrite = false;
    uint64_t offset = 0;
    char *memory = nullptr;
    uint64_t bytes = 0, next = 0;
    uint32_t piecesBusy = 0;
    Status failure;
    bool isThrough() const { return piecesBusy == 0 && (next >= bytes || !failure.ok()); }
  };
  /// A piece on its way.
  struct Slot {
    Transfer *transfer = nullptr;
    IoRequest request;
    uint32_t size = 0, moved = 0; ///< of the piece
    uint32_t failures = 0, stalls = 0;
    bool isBusy = false;
  };
  NvmeChannel(NvmeArena &arena) : arena(arena) {}
  Status transfer(bool isWrite, uint64_t offset, void *memory, uint64_t bytes);
  Transfer &transferAt(size_t index) { return transfers[(firstTransfer + index) % kMostTransfers]; }
  const Transfer &transferAt(size_t index) const { return transfers[(firstTransfer + index) % kMostTransfers]; }
  /// Starts the next piece of the oldest transfer that has one, if any has.
  void fill(Slot &slot);
  Status complete(const IoCompletion &completion);
  void start(Slot &slot, Transfer &transfer, uint32_t bytes);
  /// Looks at a completion; `finished` when the piece is there.
  Status advance(Slot &slot, int64_t result, bool &finished);
  Status checkBlocks(const Slot &slot) const;
  Error failed(const Slot &slot, const std::string &why) const;
  /// The engine is of no more use, and nothing is under way when this returns.
  Status breakOff(Error error);
  /// For bytes that are no whole blocks, allocated once. Errors: no memory (budget).
  Result<char *> bounceBuffer();

  NvmeArena &arena;
  std::unique_ptr<IoEngine> engine;
  std::array<Transfer, kMostTransfers> transfers; ///< a ring of those under way
  size_t firstTransfer = 0, numTransfers = 0;
  uint64_t begunBeside = 0;
  std::vector<Slot> slots;
  std::vector<IoCompletion> completions;
  void *bounce = nullptr;
  std::optional<Error> broken; ///< what every call returns since then
};

} // namespace zc
