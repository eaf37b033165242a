// NCCL's communicators, one for each set of axes. They do not block: a call that is not over at once is asked after, so
// that a peer that is gone is an error, and abort() ends it.
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/HostMemory.h"
#include "runtime/cuda/Library.h"

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace zc::cuda {

namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(DeviceLinks::Id), "an id of NCCL's");

/// The functions that are used, by their own declarations.
struct Nccl {
  Library library = ncclLibrary();
  decltype(&ncclGetUniqueId) getUniqueId;
  decltype(&ncclCommInitRankConfig) initRankConfig;
  decltype(&ncclCommGetAsyncError) getAsyncError;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclGroupStart) groupStart;
  decltype(&ncclGroupEnd) groupEnd;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclAllGather) allGather;
  decltype(&ncclGetErrorString) errorString;
  decltype(&ncclGetLastError) lastError;

  Nccl() {
    library.take(getUniqueId, "ncclGetUniqueId");
    library.take(initRankConfig, "ncclCommInitRankConfig");
    library.take(getAsyncError, "ncclCommGetAsyncError");
    library.take(abort, "ncclCommAbort");
    library.take(groupStart, "ncclGroupStart");
    library.take(groupEnd, "ncclGroupEnd");
    library.take(send, "ncclSend");
    library.take(receive, "ncclRecv");
    library.take(allGather, "ncclAllGather");
    library.take(errorString, "ncclGetErrorString");
    library.take(lastError, "ncclGetLastError");
  }
  static const Nccl &instance() {
    static const Nccl nccl;
    return nccl;
  }
};

/// Memory of a GPU in the place of the host's that could not be pinned, which no kernel of NCCL's reaches. As much as
/// the largest call asked for.
class Detour {
public:
  ~Detour() {
    if (memory)
      (void)cudaFree(memory);
  }

  /// Where `bytes` more of this call go. Valid until the next `begin`.
  void *take(uint64_t bytes) {
    void *place = static_cast<char *>(memory) + used;
    used += roundedUp(bytes);
    return place;
  }
  /// A call begins, in which so much is taken, and those before are over. Errors: it is not to be had.
  Status begin(uint64_t bytes) {
    used = 0;
    if (bytes <= size)
      return {};
    if (memory)
      ZC_CUDA(cudaFree(std::exchange(memory, nullptr)), "free memory");
    size = 0;
    ZC_CUDA(cudaMalloc(&memory, bytes),
            "allocate " + std::to_string(bytes) + " bytes for messages of memory that could not be pinned");
    size = bytes;
    return {};
  }
  static uint64_t roundedUp(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

private:
  void *memory = nullptr;
  uint64_t size = 0, used = 0;
};

class NcclLinks : public DeviceLinks {
public:
  explicit NcclLinks(int ordinal) : ordinal(ordinal) {}
  ~NcclLinks() override { // nothing is on its way by now; a peer that is gone would keep ncclCommDestroy
    abort();
    for (std::thread &ending : endings)
      ending.join();
    (void)cudaSetDevice(ordinal); // whose memory this is, and the detour
    if (greetings)
      (void)cudaStreamSynchronize(greetings); // messages that were ended are not over yet
    for (void *place : greeted)
      (void)cudaFree(place);
    if (greetings)
      (void)cudaStreamDestroy(greetings);
  }

  Result<Id> makeId() override {
    ncclUniqueId made;
    if (ncclResult_t status = nccl.getUniqueId(&made); status != ncclSuccess)
      return refused(status, "make an id", nullptr);
    Id id;
    std::memcpy(id.bytes, made.internal, sizeof id.bytes);
    return id;
  }

  Status open(AxisSet axes, int members, int member, const Id &id) override {
    ZC_CUDA(cudaSetDevice(ordinal), "take the GPU");
    ncclUniqueId theirs;
    std::memcpy(theirs.internal, id.bytes, sizeof theirs.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    std::unique_lock<std::mutex> lock(mutex);
    if (isAborted)
      return aborted();
    this->members[axes.asBits()] = static_cast<uint64_t>(members);
    ncclComm_t &communicator = communicators[axes.asBits()];
    endings.emplace_back([this, &communicator] { endWhenAborted(communicator); });
    ncclResult_t status = nccl.initRankConfig(&communicator, members, theirs, member, &config);
    lock.unlock();
    ZC_RETURN_IF_ERROR(settle(status, communicator, "meet the other ranks' GPUs"));
    return connect(communicator, members, member);
  }
  bool isOpen(AxisSet axes) const override { return communicators.count(axes.asBits()) != 0; }

  Status exchange(AxisSet axes, Lane &lane, const std::vector<Message> &messages) override {
    GpuStream &stream = static_cast<GpuLane &>(lane).stream;
    std::vector<Message> reached = messages;
    ZC_RETURN_IF_ERROR(leaveHost(stream, reached));
    ZC_RETURN_IF_ERROR(enqueue(axes, stream, "exchange messages", [&](ncclComm_t communicator) {
      ncclResult_t status = nccl.groupStart();
      for (const Message &m : reached) {
        ncclResult_t one = m.isSent ? nccl.send(m.data, m.bytes, ncclUint8, m.member, communicator, stream.stream)
                                    : nccl.receive(m.data, m.bytes, ncclUint8, m.member, communicator, stream.stream);
        if (status == ncclSuccess && one != ncclInProgress)
          status = one;
      }
      ncclResult_t ended = nccl.groupEnd(); // of what was begun, whatever went wrong
      return status == ncclSuccess ? ended : status;
    }));
    return returnToHost(stream, messages, reached);
  }

  Status allGather(AxisSet axes, Lane &lane, const void *input, void *output, uint64_t bytes) override {
    GpuStream &stream = static_cast<GpuLane &>(lane).stream;
    const std::vector<Message> messages = {{0, true, const_cast<void *>(input), bytes},
                                           {0, false, output, members.at(axes.asBits()) * bytes}};
    std::vector<Message> reached = messages;
    ZC_RETURN_IF_ERROR(leaveHost(stream, reached));
    ZC_RETURN_IF_ERROR(enqueue(axes, stream, "gather", [&](ncclComm_t communicator) {
      return nccl.allGather(reached[0].data, reached[1].data, bytes, ncclUint8, communicator, stream.stream);
    }));
    return returnToHost(stream, messages, reached);
  }

  void abort() override {
    std::lock_guard<std::mutex> lock(mutex);
    isAborted = true;
    aborting.notify_all();
  }

private:
  /// By threads: NCCL calls CUDA, which who fails in a call of the host in a stream's order may not, nor may an error
  /// of starting one leave it. By one for each communicator: NCCL frees memory then, for which CUDA waits for all
  /// kernels, those of the others too, and these end when their communicator is ended.
  void endWhenAborted(const ncclComm_t &communicator) {
    std::unique_lock<std::mutex> lock(mutex);
    aborting.wait(lock, [this] { return isAborted; });
    const ncclComm_t ended = communicator;
    lock.unlock();
    if (ended)
      (void)nccl.abort(ended);
  }

  /// A byte to and from every other member, and a gather: NCCL connects with the first message, and takes memory then,
  /// which is to be there before the plan's is taken. Over when this returns: the plan's messages go through other
  /// streams, in whose order these are not.
  Status connect(ncclComm_t communicator, int members, int self) {
    if (!greetings)
      ZC_CUDA(cudaStreamCreateWithFlags(&greetings, cudaStreamNonBlocking), "make a stream");
    void *place = nullptr;
    ZC_CUDA(cudaMalloc(&place, 3 * static_cast<size_t>(members)), "allocate memory to meet in");
    greeted.push_back(place);
    auto *sent = static_cast<char *>(place), *received = sent + members, *gathered = received + members;
    auto call = [&](const auto &function) -> Status {
      std::unique_lock<std::mutex> lock(mutex);
      if (isAborted)
        return aborted();
      ncclResult_t status = function();
      lock.unlock();
      return settle(status, communicator, "connect with the other ranks' GPUs", greetings);
    };
    ZC_RETURN_IF_ERROR(call([&] {
      ncclResult_t status = nccl.groupStart();
      for (int peer = 0; peer < members; ++peer)
        for (bool isSent : {true, false}) {
          if (peer == self)
            continue;
          ncclResult_t one = isSent ? nccl.send(sent + peer, 1, ncclUint8, peer, communicator, greetings)
                                    : nccl.receive(received + peer, 1, ncclUint8, peer, communicator, greetings);
          if (status == ncclSuccess && one != ncclInProgress)
            status = one;
        }
      ncclResult_t ended = nccl.groupEnd();
      return status == ncclSuccess ? ended : status;
    }));
    return call([&] { return nccl.allGather(sent + self, gathered, 1, ncclUint8, communicator, greetings); });
  }

  /// What lies where no kernel reaches it is sent from, and received at, other places.
  Status leaveHost(GpuStream &stream, std::vector<Message> &messages) {
    const HostMemory &host = HostMemory::instance();
    auto isApart = [&](const Message &m) { return m.bytes > 0 && host.isUnpinned(m.data); };
    uint64_t bytes = 0;
    for (const Message &m : messages)
      bytes += isApart(m) ? Detour::roundedUp(m.bytes) : 0;
    if (bytes == 0)
      return {};
    ZC_CUDA(stream.gpu.use(), "take the GPU");
    ZC_CUDA(cudaStreamSynchronize(stream.stream), "finish a stream's work");
    ZC_RETURN_IF_ERROR(detour.begin(bytes));
    for (Message &m : messages)
      if (isApart(m)) {
        void *place = detour.take(m.bytes);
        if (m.isSent)
          ZC_RETURN_IF_ERROR(stream.copy(place, m.data, m.bytes));
        m.data = place;
      }
    return {};
  }
  /// What was received there; once it is there.
  static Status returnToHost(GpuStream &stream, const std::vector<Message> &messages,
                             const std::vector<Message> &reached) {
    for (size_t i = 0; i < messages.size(); ++i)
      if (!messages[i].isSent && messages[i].data != reached[i].data)
        ZC_RETURN_IF_ERROR(stream.copy(messages[i].data, reached[i].data, messages[i].bytes));
    return {};
  }

  template <typename Call> Status enqueue(AxisSet axes, GpuStream &stream, const char *what, const Call &call) {
    ZC_CUDA(stream.gpu.use(), "take the GPU");
    std::unique_lock<std::mutex> lock(mutex);
    if (isAborted)
      return aborted();
    ncclComm_t communicator = communicators.at(axes.asBits());
    ncclResult_t status = call(communicator);
    lock.unlock();
    ZC_RETURN_IF_ERROR(settle(status, communicator, what));
    return stream.settle(what);
  }

  /// Waits until a call is enqueued, which is at most a matter of connecting; mostly of less than a sleep takes. With a
  /// stream: until its work is over, too.
  Status settle(ncclResult_t status, ncclComm_t communicator, const char *what, cudaStream_t until = nullptr) {
    constexpr auto kAwake = std::chrono::microseconds(200), kMost = std::chrono::microseconds(1000);
    const auto began = std::chrono::steady_clock::now();
    for (auto pause = std::chrono::microseconds(1);;) {
      cudaError_t done = status == ncclSuccess && until ? cudaStreamQuery(until) : cudaSuccess;
      if (done != cudaErrorNotReady)
        ZC_CUDA(done, what);
      else
        (void)cudaGetLastError(); // whoever asks for errors next is not told of this one
      if (status != ncclInProgress && done == cudaSuccess)
        break;
      if (std::chrono::steady_clock::now() - began < kAwake) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, kMost);
      }
      std::lock_guard<std::mutex> lock(mutex);
      if (isAborted)
        return aborted();
      if (ncclResult_t asked = nccl.getAsyncError(communicator, &status); asked != ncclSuccess)
        status = asked;
    }
    if (isOfPeers(status))
      letThemSpeak();
    return status == ncclSuccess ? Status() : refused(status, what, communicator);
  }
  static bool isOfPeers(ncclResult_t status) { return status == ncclRemoteError || status == ncclSystemError; }
  /// A peer that failed says why, and with its exit code the launcher ends the job: whoever only misses it and is
  /// quicker would take both away.
  void letThemSpeak() {
    constexpr auto kPause = std::chrono::milliseconds(10), kMost = std::chrono::milliseconds(2000);
    for (auto waited = kPause; waited <= kMost; waited += kPause) {
      std::this_thread::sleep_for(kPause);
      std::lock_guard<std::mutex> lock(mutex);
      if (isAborted)
        return;
    }
  }
  Error refused(ncclResult_t status, const char *what, ncclComm_t communicator) const {
    if (status == ncclUnhandledCudaError)
      if (std::optional<Error> found = failedOnGpu("NCCL", what))
        return *found;
    bool isPeer = isOfPeers(status);
    bool isUsage = status == ncclInvalidUsage; // two ranks on one GPU, which only NCCL sees
    Error error = makeError(isPeer    ? Code::peerLost
                            : isUsage ? Code::usage
                                      : Code::internal,
                            640, std::string("NCCL cannot ") + what + ": " + nccl.errorString(status), {},
                            isUsage ? "start a rank per GPU, or all ranks of a machine in one process (zero-run -n)"
                                    : "NCCL_DEBUG=WARN says more");
    if (const char *last = nccl.lastError(communicator))
      error.note = last;
    return error;
  }
  static Error aborted() {
    return makeError(Code::peerLost, 641, "messages between GPUs were ended: the job has failed");
  }

  const int ordinal;
  const Nccl &nccl = Nccl::instance();
  std::mutex mutex; // of what follows, and of NCCL's calls against abort()
  std::condition_variable aborting;
  bool isAborted = false;
  std::map<uint8_t, ncclComm_t> communicators; ///< by axes; none is called once isAborted, but to end it
  std::map<uint8_t, uint64_t> members;         ///< of these
  Detour detour;
  cudaStream_t greetings = nullptr;
  std::vector<void *> greeted; ///< memory that it works in, of each communicator
  std::vector<std::thread> endings;
};

} // namespace

const Status &ncclStatus() { return Nccl::instance().library.status(); }

Result<std::unique_ptr<DeviceLinks>> makeNcclLinks(GpuState &gpu) {
  ZC_RETURN_IF_ERROR(Status(ncclStatus()));
  return std::unique_ptr<DeviceLinks>(std::make_unique<NcclLinks>(gpu.ordinal));
}

} // namespace zc::cuda
