//===- MpiGroup.cpp - the plugin's entry: starts MPI, meets the others -----------------===//
#include "runtime/mpi/Mpi.h"
#include "runtime/mpi/MpiCommunicator.h"
#include "runtime/mpi/Wait.h"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <unistd.h>

namespace zc::mpi {

namespace {

/// Calls `options.fail` unless disarmed in time: starting MPI may hang, and then nobody else can say so.
class Deadline {
public:
  Deadline(const MpiOptions &options) : options(options), thread([this] { watch(); }) {}
  ~Deadline() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      over = true;
    }
    wake.notify_all();
    thread.join();
  }
  void doing(std::string text) {
    std::lock_guard<std::mutex> lock(mutex);
    what = std::move(text);
  }

private:
  void watch() {
    std::unique_lock<std::mutex> lock(mutex);
    if (wake.wait_for(lock, std::chrono::duration<double>(options.initTimeout), [this] { return over; }))
      return;
    char host[256] = "unknown", limit[32];
    ::gethostname(host, sizeof host - 1);
    std::snprintf(limit, sizeof limit, "%g", options.initTimeout);
    options.fail(makeError(Code::peerLost, 613, "the ranks did not meet within " + std::string(limit) + " s: " + what,
                           std::string("host ") + host,
                           "see that every host can be reached, or give a longer --init-timeout"));
  }
  const MpiOptions &options;
  std::mutex mutex;
  std::condition_variable wake;
  bool over = false;
  std::string what = "MPI does not start";
  std::thread thread;
};

class MpiGroup : public RankGroup {
public:
  ~MpiGroup() override {
    if (failure())
      return; // others may be gone: MPI could wait for them
    MPI_Comm_free(&job.comm);
    MPI_Finalize();
  }
  const Mesh &mesh() const override { return job.mesh; }
  int firstRank() const override { return job.rank; }
  int count() const override { return 1; }
  std::unique_ptr<Communicator> communicator(int) override { return std::make_unique<MpiCommunicator>(job); }
  std::optional<Failure> failure() const override {
    std::lock_guard<std::mutex> lock(job.mutex);
    return job.failed;
  }
  std::vector<int> machines() const override { return seen; }
  // Not MPI_Abort, which needs a healthy MPI and whose code mpirun may lose: a rank that ends without ending MPI makes
  // the launcher end the others, with its code.
  void kill(int code) override { ::_exit(code); }

  Status connect(const MpiOptions &options, Deadline &deadline);

private:
  Status meetAll(Deadline &deadline);
  Status findMachines();
  Job job;
  std::vector<int> seen;
};

Error mpiError(const std::string &what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return makeError(Code::peerLost, 614, what + ": " + text);
}

/// A word from each rank to each: the connections exist before the first step, and who is missing has a name.
Status MpiGroup::meetAll(Deadline &deadline) {
  const size_t world = static_cast<size_t>(job.mesh.worldSize());
  std::vector<int> words(world, job.rank);
  std::vector<MPI_Request> requests(2 * world, MPI_REQUEST_NULL);
  for (int peer = 0; peer < job.mesh.worldSize(); ++peer) {
    size_t i = static_cast<size_t>(peer);
    int code = MPI_Irecv(&words[i], 1, MPI_INT, peer, 0, job.comm, &requests[i]);
    if (code == MPI_SUCCESS)
      code = MPI_Isend(&job.rank, 1, MPI_INT, peer, 0, job.comm, &requests[world + i]);
    if (code != MPI_SUCCESS)
      return mpiError("rank " + std::to_string(peer) + " cannot be reached", code);
  }
  for (Backoff backoff;; backoff.pause()) {
    int done = 0;
    int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS)
      return mpiError("the ranks cannot meet", code);
    if (done)
      return {};
    if (!backoff.isLong())
      continue;
    std::string came, missing;
    for (size_t peer = 0; peer < world; ++peer) {
      int arrived = 0;
      MPI_Request_get_status(requests[peer], &arrived, MPI_STATUS_IGNORE);
      std::string &list = arrived ? came : missing;
      list += (list.empty() ? "" : ", ") + std::to_string(peer);
    }
    deadline.doing("rank " + std::to_string(job.rank) + " has heard of ranks " + came + " and not of " + missing);
  }
}

Status MpiGroup::findMachines() {
  MPI_Comm machine = MPI_COMM_NULL;
  int code = MPI_Comm_split_type(job.comm, MPI_COMM_TYPE_SHARED, job.rank, MPI_INFO_NULL, &machine);
  if (code != MPI_SUCCESS)
    return mpiError("cannot find the ranks of this machine", code);
  int first = job.rank; // the lowest rank has the lowest key
  MPI_Bcast(&first, 1, MPI_INT, 0, machine);
  MPI_Comm_free(&machine);
  seen.resize(static_cast<size_t>(job.mesh.worldSize()));
  code = MPI_Allgather(&first, 1, MPI_INT, seen.data(), 1, MPI_INT, job.comm);
  return code == MPI_SUCCESS ? Status() : mpiError("cannot find the machines", code);
}

Status MpiGroup::connect(const MpiOptions &options, Deadline &deadline) {
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &job.comm);
  if (code != MPI_SUCCESS)
    return mpiError("cannot open a communicator", code);
  MPI_Comm_set_errhandler(job.comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(job.comm, &job.rank);
  int worldSize = 1;
  MPI_Comm_size(job.comm, &worldSize);
  job.mesh = options.meshOf ? options.meshOf(worldSize) : Mesh::ofNodes(worldSize, worldSize);
  ZC_RETURN_IF_ERROR(meetAll(deadline));
  return findMachines();
}

} // namespace

} // namespace zc::mpi

extern "C" __attribute__((visibility("default"))) zc::RankGroup *zcMpiConnect(const zc::MpiOptions &options,
                                                                              zc::Error &error) {
  using namespace zc;
  mpi::Deadline deadline(options);
  int provided = MPI_THREAD_SINGLE;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) {
    error = mpi::mpiError("MPI does not start", code);
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_SERIALIZED) {
    error = makeError(Code::unsupported, 615, "this MPI cannot be used from a thread of its own");
    return nullptr;
  }
  auto group = std::make_unique<mpi::MpiGroup>();
  Status connected = group->connect(options, deadline);
  if (connected.ok())
    return group.release();
  error = connected.error();
  group.release(); // MPI is in no state to be ended; the process will be
  return nullptr;
}
