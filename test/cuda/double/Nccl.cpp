// NCCL's double: communicators of processes of one machine, which meet and send over sockets, in a stream's order.
// None of them blocks the caller: what is asked of one is in progress until its ranks have met, and for a moment at
// its first messages. Where a peer is gone, messages stay on their way until the communicator is aborted.
#include "test/cuda/double/Double.h"

#include <nccl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace zc::doubled;

namespace {

struct Message {
  bool isSent;
  int peer;
  char *data;
  uint64_t bytes;
};

/// A connected socket, closed with it.
struct Socket {
  explicit Socket(int descriptor = -1) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  int descriptor;
};

/// Messages to one peer, or from it, one after the other; each is its size and its bytes.
class Way {
public:
  Way(int socket, bool isSent) : socket(socket), isSent(isSent) {}
  void add(const Message &message) { messages.push_back(message); }
  bool isOver() const { return at == messages.size(); }
  pollfd poll() const { return {socket, static_cast<short>(isSent ? POLLOUT : POLLIN), 0}; }

  /// As far as it goes without waiting; false: the peer is gone.
  bool advance() {
    while (!isOver()) {
      const Message &message = messages[at];
      if (done == 0 && isSent)
        size = message.bytes;
      const bool inSize = done < sizeof size;
      char *from = inSize ? reinterpret_cast<char *>(&size) + done : message.data + (done - sizeof size);
      const uint64_t rest = (inSize ? 0 : message.bytes) + sizeof size - done;
      const ssize_t moved = rest == 0 ? 0
                            : isSent  ? ::send(socket, from, rest, MSG_DONTWAIT | MSG_NOSIGNAL)
                                      : ::recv(socket, from, rest, MSG_DONTWAIT);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
      if (rest > 0 && moved <= 0)
        return false;
      done += static_cast<uint64_t>(moved);
      if (inSize && done == sizeof size && size != message.bytes)
        undefined("ncclRecv",
                  "of " + std::to_string(message.bytes) + " bytes where " + std::to_string(size) + " are sent");
      if (done == sizeof size + message.bytes) {
        done = 0;
        ++at;
      }
    }
    return true;
  }

private:
  const int socket;
  const bool isSent;
  std::vector<Message> messages;
  size_t at = 0;
  uint64_t done = 0, size = 0; ///< of messages[at]: bytes of size and data that went; its size
};

} // namespace

struct ncclComm {
  ncclComm(Gpu &gpu, const std::string &name, int ranks, int rank)
      : gpu(gpu), name(name), rank(rank), peers(static_cast<size_t>(ranks)) {}

  int size() const { return static_cast<int>(peers.size()); }
  bool isOver() const { return isAborted || gpu.lost != cudaSuccess; }
  void meet();
  void carryOut(const std::vector<Message> &messages);

  Gpu &gpu;
  const std::string name;
  const int rank;
  std::vector<Socket> peers; ///< by rank; this rank's is none
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> isAborted{false};
  std::atomic<int> carried{0};  ///< kernels at work
  std::atomic<int> underWay{0}; ///< groups of messages that are enqueued and not over
  std::atomic<int> polls{0};    ///< that say "in progress" before the first messages are enqueued
  bool hasSent = false;
  CUstream_st *last = nullptr; ///< stream that messages were enqueued in
  std::thread meeting;

private:
  struct Hello {
    int rank, gpu;
  };
  Socket listen() const;
  Socket connectTo(int peer) const;
  bool exchange(const Socket &socket, bool isSent, void *data, uint64_t bytes) const;
  ncclResult_t greet(Socket socket);
  void waitForAbort() const {
    while (!isOver())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

/// In Linux's names without files, which go with their socket.
static std::pair<sockaddr_un, socklen_t> addressOf(const std::string &name, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string whole = name + "/" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, whole.data(), whole.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + whole.size())};
}

Socket ncclComm::listen() const {
  Socket made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto [address, length] = addressOf(name, rank);
  if (made.descriptor < 0 || ::bind(made.descriptor, reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      ::listen(made.descriptor, size()) != 0)
    return Socket();
  return made;
}

/// Once it listens.
Socket ncclComm::connectTo(int peer) const {
  auto [address, length] = addressOf(name, peer);
  while (!isOver()) {
    Socket made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(made.descriptor, reinterpret_cast<sockaddr *>(&address), length) == 0)
      return made;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Socket();
}

bool ncclComm::exchange(const Socket &socket, bool isSent, void *data, uint64_t bytes) const {
  Way way(socket.descriptor, isSent);
  way.add({isSent, 0, static_cast<char *>(data), bytes});
  while (!isOver() && !way.isOver()) {
    pollfd waits = way.poll();
    if (::poll(&waits, 1, /*timeout=*/10) > 0 && !way.advance())
      return false;
  }
  return way.isOver();
}

ncclResult_t ncclComm::greet(Socket socket) {
  Hello mine{rank, gpu.ordinal}, theirs{};
  if (!exchange(socket, true, &mine, sizeof mine) || !exchange(socket, false, &theirs, sizeof theirs))
    return ncclRemoteError;
  peers[static_cast<size_t>(theirs.rank)] = std::move(socket);
  return theirs.gpu == mine.gpu ? ncclInvalidUsage : ncclSuccess; // two ranks on one GPU
}

/// Each pair of ranks: the lower one listens.
void ncclComm::meet() {
  if (options().mute) // as where a way between two machines lets nothing through
    return waitForAbort();
  Socket listening = listen();
  ncclResult_t found = listening.descriptor < 0 ? ncclSystemError : ncclSuccess;
  auto note = [&](ncclResult_t one) { found = found == ncclSuccess ? one : found; };
  for (int peer = 0; peer < rank && !isOver(); ++peer)
    if (Socket made = connectTo(peer); made.descriptor >= 0)
      note(greet(std::move(made)));
  for (int left = size() - rank - 1; left > 0 && found != ncclSystemError && !isOver();) {
    pollfd waits{listening.descriptor, POLLIN, 0};
    if (::poll(&waits, 1, /*timeout=*/10) <= 0)
      continue;
    note(greet(Socket(::accept4(listening.descriptor, nullptr, nullptr, SOCK_CLOEXEC))));
    --left;
  }
  state = isAborted ? ncclInternalError : found;
}

/// All at once.
void ncclComm::carryOut(const std::vector<Message> &messages) {
  struct AtWork {
    std::atomic<int> &count;
    explicit AtWork(std::atomic<int> &count) : count(count) { ++count; }
    ~AtWork() { --count; }
  } const atWork(carried);
  std::map<std::pair<int, bool>, Way> ways;
  std::vector<const Message *> own[2]; // from this rank to itself
  for (const Message &message : messages)
    if (message.peer == rank)
      own[message.isSent].push_back(&message);
    else
      ways.try_emplace({message.peer, message.isSent}, peers[static_cast<size_t>(message.peer)].descriptor,
                       message.isSent)
          .first->second.add(message);
  for (size_t i = 0; i < own[0].size(); ++i)
    std::memmove(own[0][i]->data, own[1][i]->data, own[0][i]->bytes);
  while (!isOver()) {
    std::vector<pollfd> waits;
    for (const auto &[key, way] : ways)
      if (!way.isOver())
        waits.push_back(way.poll());
    if (waits.empty())
      return;
    (void)::poll(waits.data(), waits.size(), /*timeout=*/10);
    for (auto &[key, way] : ways)
      if (!way.advance()) {
        state = ncclRemoteError;
        return waitForAbort();
      }
  }
}

namespace {

/// Those that are: work in streams may outlive an abort.
class Communicators {
public:
  static Communicators &instance() {
    static Communicators &all = *new Communicators; // as long as threads may be at work
    return all;
  }
  ncclComm_t add(std::shared_ptr<ncclComm> made) {
    std::lock_guard<std::mutex> lock(mutex);
    all[made.get()] = made;
    return made.get();
  }
  std::shared_ptr<ncclComm> find(ncclComm_t handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = all.find(handle);
    return found == all.end() ? nullptr : found->second;
  }
  /// Has a communicator of the GPU that nobody ends kernels at work there?
  bool areAtWork(const Gpu &gpu) {
    std::lock_guard<std::mutex> lock(mutex);
    return std::any_of(all.begin(), all.end(), [&](const auto &each) {
      return &each.second->gpu == &gpu && !each.second->isOver() && each.second->carried > 0;
    });
  }
  std::shared_ptr<ncclComm> take(ncclComm_t handle) {
    std::shared_ptr<ncclComm> found = find(handle);
    std::lock_guard<std::mutex> lock(mutex);
    all.erase(handle);
    return found;
  }

private:
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> all;
};

ncclResult_t refused(ncclResult_t status, const char *call, const std::string &why) {
  (void)wrong(cudaErrorInvalidValue, call, why);
  return status;
}

/// What is enqueued when the group ends.
struct Part {
  std::shared_ptr<ncclComm> communicator;
  CUstream_st *stream;
  std::vector<Message> messages;
};
thread_local int groups = 0;
thread_local std::vector<Part> parts;
thread_local ncclResult_t groupStatus = ncclSuccess;

ncclResult_t enqueue(Part &part) {
  ncclComm &comm = *part.communicator;
  auto toItself = [&](bool isSent) {
    return std::count_if(part.messages.begin(), part.messages.end(),
                         [&](const Message &m) { return m.peer == comm.rank && m.isSent == isSent; });
  };
  if (toItself(true) != toItself(false))
    return refused(ncclInvalidUsage, "ncclGroupEnd", "a rank sends itself what it does not receive");
  // NCCL would make this stream wait for that one, but says so nowhere.
  if (CUstream_st *last = std::exchange(comm.last, part.stream);
      last && last != part.stream && !comm.isOver() && comm.underWay > 0)
    undefined("ncclGroupEnd", "of a communicator whose messages in another stream may be on their way");
  const std::chrono::milliseconds connecting(comm.hasSent ? 0 : 100); // for whoever asks, and in the stream
  if (!std::exchange(comm.hasSent, true)) {
    comm.polls = 2;
    comm.state = ncclInProgress;
  }
  if (isLostIn(comm.gpu))
    return ncclUnhandledCudaError;
  ++comm.underWay;
  cudaError_t status =
      part.stream->add("ncclGroupEnd", [communicator = part.communicator, messages = part.messages, connecting] {
        std::this_thread::sleep_for(connecting);
        communicator->carryOut(messages);
        --communicator->underWay;
      });
  if (status != cudaSuccess)
    --comm.underWay;
  return status == cudaSuccess ? comm.state.load() : ncclUnhandledCudaError;
}

ncclResult_t noted(const char *call, ncclComm_t handle, cudaStream_t onStream, std::vector<Message> messages) {
  const Apart apart;
  if (entered(call) != cudaSuccess)
    return ncclUnhandledCudaError;
  std::shared_ptr<ncclComm> comm = Communicators::instance().find(handle);
  if (!comm)
    return refused(ncclInvalidArgument, call, "of a communicator that is not, or not any more");
  if (comm->state == ncclInProgress)
    return refused(ncclInvalidUsage, call, "of a communicator whose last call is in progress");
  if (comm->state != ncclSuccess)
    return comm->state;
  cudaError_t status;
  CUstream_st *stream = streamOf(call, onStream, true, status);
  if (!stream || &stream->gpu != &comm->gpu)
    return refused(ncclInvalidUsage, call, "on a stream that is not on the communicator's GPU");
  for (const Message &message : messages) {
    if (message.peer < 0 || message.peer >= comm->size())
      return refused(ncclInvalidArgument, call, "with a peer that is none");
    if (message.bytes > 0 && rangeOf(call, message.data, message.bytes).place == Place::pageable)
      return refused(ncclInvalidArgument, call, "of memory that no GPU reaches");
  }
  for (Part &part : parts)
    if (part.communicator == comm && part.stream == stream) {
      part.messages.insert(part.messages.end(), messages.begin(), messages.end());
      return ncclSuccess;
    }
  parts.push_back({comm, stream, std::move(messages)});
  return ncclSuccess;
}

uint64_t sizeOf(const char *call, ncclDataType_t type) {
  if (type != ncclUint8)
    undefined(call, "the double sends bytes only");
  return 1;
}

/// A call by itself is a group.
template <typename Call> ncclResult_t inGroup(const Call &call) {
  (void)ncclGroupStart();
  ncclResult_t status = call();
  if (status != ncclSuccess && groupStatus == ncclSuccess)
    groupStatus = status;
  ncclResult_t ended = ncclGroupEnd();
  return status == ncclSuccess ? ended : status;
}

} // namespace

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static std::atomic<int> made{0};
  std::memset(id, 0, sizeof *id);
  const std::string name = "zc-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(++made) + "-" +
                           std::to_string(std::random_device()());
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  const char *call = "ncclCommInitRankConfig";
  const Apart apart;
  if (entered(call) != cudaSuccess)
    return ncclUnhandledCudaError;
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  if (!config || config->size != fresh.size || config->magic != fresh.magic || config->version != fresh.version)
    return refused(ncclInvalidArgument, call, "with a configuration that was not initialized");
  if (config->blocking != 0)
    undefined(call, "the double has no communicators that block");
  if (rank < 0 || rank >= ranks || !std::memchr(id.internal, 0, sizeof id.internal))
    return refused(ncclInvalidArgument, call, "of a rank or an id that is none");
  auto made = std::make_shared<ncclComm>(currentGpu(), id.internal, ranks, rank);
  made->meeting = std::thread([comm = made.get()] { comm->meet(); });
  *handle = Communicators::instance().add(std::move(made));
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *status) {
  std::shared_ptr<ncclComm> comm = Communicators::instance().find(handle);
  if (!comm)
    return refused(ncclInvalidArgument, "ncclCommGetAsyncError", "of a communicator that is not, or not any more");
  if (comm->polls > 0 && --comm->polls == 0) {
    ncclResult_t connecting = ncclInProgress;
    comm->state.compare_exchange_strong(connecting, ncclSuccess);
  }
  *status = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Apart apart;
  if (entered("ncclCommAbort") == cudaErrorNotPermitted)
    return ncclUnhandledCudaError;
  std::shared_ptr<ncclComm> comm = Communicators::instance().take(handle);
  if (!comm)
    return refused(ncclInvalidArgument, "ncclCommAbort", "of a communicator that is not, or not any more");
  comm->isAborted = true;
  comm->meeting.join();
  // Its memory is freed, for which CUDA waits for all that is at work.
  constexpr int kPatience = 2000;
  for (int waited = 0; Communicators::instance().areAtWork(comm->gpu); ++waited) {
    if (waited == kPatience)
      return refused(ncclInternalError, "ncclCommAbort", "waits for kernels of a communicator that nobody ends");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groups == 0)
    return refused(ncclInvalidUsage, "ncclGroupEnd", "of no group");
  if (--groups > 0)
    return ncclSuccess;
  ncclResult_t status = std::exchange(groupStatus, ncclSuccess);
  for (Part &part : std::exchange(parts, {}))
    if (status == ncclSuccess || status == ncclInProgress)
      if (ncclResult_t one = enqueue(part); one != ncclSuccess)
        status = one;
  return status;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const uint64_t bytes = count * sizeOf("ncclSend", type);
  return inGroup([&] {
    return noted("ncclSend", comm, stream, {{true, peer, const_cast<char *>(static_cast<const char *>(data)), bytes}});
  });
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const uint64_t bytes = count * sizeOf("ncclRecv", type);
  return inGroup([&] { return noted("ncclRecv", comm, stream, {{false, peer, static_cast<char *>(data), bytes}}); });
}

ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t type, ncclComm_t handle,
                           cudaStream_t stream) {
  const uint64_t bytes = count * sizeOf("ncclAllGather", type);
  std::shared_ptr<ncclComm> comm = Communicators::instance().find(handle);
  std::vector<Message> messages;
  for (int peer = 0; comm && peer < comm->size(); ++peer) {
    messages.push_back({true, peer, const_cast<char *>(static_cast<const char *>(input)), bytes});
    messages.push_back({false, peer, static_cast<char *>(output) + static_cast<uint64_t>(peer) * bytes, bytes});
  }
  return inGroup([&] { return noted("ncclAllGather", handle, stream, messages); });
}

const char *ncclGetErrorString(ncclResult_t status) {
  switch (status) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "operation in progress";
  default:
    return "unknown result code";
  }
}

const char *ncclGetLastError(ncclComm_t handle) {
  std::shared_ptr<ncclComm> comm = Communicators::instance().find(handle);
  return comm && comm->state == ncclInvalidUsage ? "two ranks have the same GPU" : "";
}
