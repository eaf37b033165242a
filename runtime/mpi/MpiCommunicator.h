//===- MpiCommunicator.h - collectives as messages between processes ------------------===//
//
// Every collective begins with a meeting: each member tells each other one what it calls, so that a difference is an
// error on all of them and not a hang, and nothing is sent before it is expected. Sums are an all-to-all, in pieces,
// and orderedSum, as everywhere: the same bits as inproc.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <mutex>

namespace zc::mpi {

/// What the communicator and its group share: the process's place in the job, and its failure.
struct Job {
  MPI_Comm comm = MPI_COMM_NULL;
  Mesh mesh;
  int rank = 0;
  mutable std::mutex mutex; // of `failed`
  std::optional<RankGroup::Failure> failed;
  std::atomic<bool> hasFailed{false};

  void fail(const Error &cause);
};

class MpiCommunicator : public Communicator {
public:
  explicit MpiCommunicator(Job &job);
  bool stagesSums() const override { return true; }

private:
  void runAbort(const Error &cause) override { job.fail(cause); }
  Status runAllGather(const Call &call, const AllGatherOptions &options) override;
  Status runReduceScatter(const Call &call, const ReduceScatterOptions &options) override;
  Status runAllReduce(const Call &call, const AllReduceOptions &options) override;
  Status runAllToAll(const Call &call, const AllToAllOptions &options) override;
  Status runBroadcast(const Call &call, const BroadcastOptions &options) override;
  Status runBarrier(const Call &call) override { return meet(call); }

  /// A sum over members of their inputs; member q gets elements [startOf(q), startOf(q + 1)), at `output`.
  struct Sum {
    const char *input = nullptr;
    char *output = nullptr;
    uint64_t elements = 0; ///< of the whole
    uint64_t part = 0;     ///< of a member's part; the last ones may be shorter
    DType inputType = DType::f32, outputType = DType::f32;
    double scale = 1;
    bool accumulate = false;
    char *staging = nullptr;
    uint64_t startOf(uint64_t member) const { return std::min(member * part, elements); }
  };
  /// One piece of each member's part on its way.
  struct Piece {
    uint64_t offset = 0; ///< elements from the part's start
    size_t slot = 0;     ///< of the staging
  };
  Status sumParts(AxisSet axes, const Sum &sum);
  static char *stagedAt(const Sum &sum, const Piece &piece, uint64_t pieceElements, int count, int member);
  void postPiece(AxisSet axes, const Sum &sum, const Piece &piece, uint64_t pieceElements);
  void addPiece(AxisSet axes, const Sum &sum, const Piece &piece, uint64_t pieceElements);
  /// A sum small enough that everybody gets all inputs.
  Status sumSmall(const Call &call, const AllReduceOptions &options);

  /// All members have come and call the same.
  Status meet(const Call &call);
  void send(int rank, const void *data, uint64_t bytes, int tag);
  void receive(int rank, void *data, uint64_t bytes, int tag);
  /// Until all requests are done; they are forgotten then.
  Status wait();
  Status wait(MPI_Request *first, const int *peers, size_t count);
  void noteMissing(MPI_Request *first, const int *peers, size_t count);
  Error lost(int code);

  int members(AxisSet axes) const { return mesh().size(axes); }
  int me(AxisSet axes) const { return mesh().indexOf(axes, job.rank); }
  int rankOf(AxisSet axes, int member) const { return mesh().rankOf(axes, mesh().groupOf(axes, job.rank), member); }

  Job &job;
  std::vector<MPI_Request> requests, pieceRequests;
  std::vector<int> peers, piecePeers; ///< whose word each request waits for
  std::vector<Call> calls;            ///< of the members
  std::vector<const void *> inputs;
  int postError = MPI_SUCCESS;
};

} // namespace zc::mpi
