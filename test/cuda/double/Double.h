//===- Double.h - CUDA's runtime without a GPU: what its parts share -------------------------===//
//
// The functions of CUDA that runtime/cuda and kernels/cuda call, on a host. Streams are threads that work late and in
// order; what a GPU's driver refuses is refused with its code, and what it leaves undefined ends the program. Either
// way a line on stderr that begins with kSays says which rule was broken: a sound program prints none. What may happen
// to a sound program (no memory, a GPU that is lost) is only an error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/device/SerialThread.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

namespace zc::doubled {

constexpr const char *kSays = "CUDA's double: ";

/// What a test asks for, in ZC_CUDA_DOUBLE:
/// "gpus=2,kinds=2,driver=11080,memory=1048576,context=65536,others=65536,nvml=0,pins=0,waits=0,peers=0,lost=100,lostin=100,lostas=719,unpassed=1,stuck=100,mute=1,image=0,cudnn=5,aligned=16,epilogues=16".
struct Options {
  int64_t gpus = 1;
  int64_t kinds = 1;                 ///< of GPUs, in turn
  int64_t driver = CUDART_VERSION;   ///< the CUDA that it knows; 0: there is none
  int64_t memory = int64_t(2) << 30; ///< bytes of each
  int64_t context = 0;               ///< bytes of each that a context needs
  int64_t others = 0;                ///< bytes of GPU 0 that other processes take when this one first asks for some
  bool nvml = true;                  ///< there is NVML
  bool pins = true;                  ///< memory of the host can be registered
  bool waits = true;                 ///< streams can wait for words
  bool peers = true;                 ///< GPUs reach each other's memory
  int64_t nograph = 0;               ///< there is no memory to: begin one (1), end it, make it, bring it to the GPU (4)
  int64_t lost = 0;                  ///< GPU 0 is, at the kernel of this number; 0: never
  int64_t lostIn = 0;                ///< GPU 0 is, while its kernel of this number is launched, which is refused
  int lostAs = cudaErrorECCUncorrectable; ///< what every call says then
  bool unpassed = false;                  ///< who waits for what GPU 0 recorded waits for ever then
  int64_t stuck = 0;                      ///< GPU 0's kernel of this number never ends
  bool mute = false;                      ///< ranks never meet by NCCL
  int64_t stray = 0;                      ///< GPU 0's kernel of this number writes before what it is told of
  int64_t capability = 90;                ///< of computing, 10 major + minor
  bool code = true;                       ///< the build has some for these GPUs
  bool image = true;                      ///< the driver takes what NVRTC compiles
  int cudnn = 4;                          ///< exit code of what cuDNN fails with; 4: it is not there
  uint32_t aligned = 1;                   ///< cuBLASLt multiplies at multiples of so many bytes alone
  uint32_t epilogues = 1;                 ///< the same of products with an epilogue
};
/// Bytes that the threads of a block may share: an H100's.
constexpr int kMostShared = 227 * 1024;
const Options &options();

/// The steps of making a graph, as `nograph` counts them.
enum class GraphStep { begin = 1, end, instantiate, upload };

// Every function of CUDA's ends by one of these.

/// This thread's last error, which is `status`.
cudaError_t ended(cudaError_t status);
/// As ended, of a call that no sound program makes.
cudaError_t wrong(cudaError_t status, const char *call, const std::string &why);
/// Of what CUDA leaves undefined.
[[noreturn]] void undefined(const char *call, const std::string &why);

/// While a library with a runtime of its own is called, or the driver: what fails there is no error of this thread's.
class Apart {
public:
  Apart();
  ~Apart();

private:
  const cudaError_t before;
};

/// Signals, which are for the program's own threads, are blocked until `unblock`: threads that begin meanwhile get
/// none.
class SignalsBlocked {
public:
  SignalsBlocked();
  void unblock();

private:
  sigset_t before;
};

/// A thread of CUDA's.
class Worker : SignalsBlocked, public zc::SerialThread {
public:
  explicit Worker(bool isLate);
};

struct Gpu {
  explicit Gpu(int ordinal) : ordinal(ordinal) {}
  const int ordinal;
  std::atomic<int> lost{cudaSuccess};  ///< why every call fails from now on
  std::atomic<int64_t> kernels{0};     ///< that were begun
  std::atomic<int64_t> allocated{0};   ///< bytes
  std::shared_mutex atWork;            ///< shared by what touches memory: when a GPU is lost, nothing goes on
  std::set<int> peers;                 ///< whose memory it reaches; guarded by the world's mutex
  Worker callbacks{false};             ///< CUDA may call the host from one thread for all streams
  std::unique_ptr<CUstream_st> legacy; ///< the stream of cudaMemset and cudaMemcpy
};

/// GPU `ordinal`, which there is.
Gpu &gpuOf(int ordinal);
/// This thread's.
Gpu &currentGpu();

/// What every call begins with: why it fails at once. A call of the host in a stream's order may make none.
cudaError_t entered(const char *call);
/// Marks this thread as one that calls the host.
void enterCallback(bool isIn);
/// A call that may not be made while this thread captures a stream, or another does without leave of its own: it spoils
/// the capture.
cudaError_t refusedByCapture(const char *call);

// Memory.

enum class Place { device, pinned, pageable };
struct Range {
  Place place = Place::pageable;
  int gpu = 0; ///< of the device's
};
/// Where bytes lie that a call is given; ends the program where they lie partly outside of an allocation.
Range rangeOf(const char *call, const void *bytes, uint64_t count);
/// What a kernel of `gpu` is told, `count` bytes: no word of it is an address on a GPU that this one does not reach,
/// nor, of a sum over ranks, of memory that could not be pinned. Returns the first address on the GPU itself; null:
/// none.
char *checkArguments(const Gpu &gpu, const char *what, const void *arguments, size_t count);

/// Of each launch, NCCL's too: whether the GPU is lost in it.
bool isLostIn(Gpu &gpu);
/// Runs a kernel when the stream is there. `call`: the name of its body's type; `shared`: bytes that a block's threads
/// share; `arguments`: the `bytes` bytes that it is told.
cudaError_t launchOnHost(const char *call, unsigned blocks, unsigned threads, size_t shared, const void *arguments,
                         size_t bytes, std::function<void()> kernel, cudaStream_t stream);

/// Of a stream, by a thread.
struct Capture {
  std::thread::id thread;
  bool isGlobal = false, isSpoiled = false;
  std::vector<std::function<void()>> work;
};

} // namespace zc::doubled

/// Work in a stream's order. While the stream is captured it is noted instead.
struct CUstream_st {
  explicit CUstream_st(zc::doubled::Gpu &gpu) : gpu(gpu) {}
  /// Not done any more once the GPU is lost, unless it `isDoneAnyway`.
  cudaError_t add(const char *call, std::function<void()> work, bool isDoneAnyway = false);
  /// Of work that touches memory.
  cudaError_t addTouching(const char *call, std::function<void()> work);

  zc::doubled::Gpu &gpu;
  std::optional<zc::doubled::Capture> capture;
  zc::doubled::Worker worker{true};
};

namespace zc::doubled {

/// A stream that there is; null where `status` says why not. `isLaunched`: on the current GPU only.
CUstream_st *streamOf(const char *call, cudaStream_t stream, bool isLaunched, cudaError_t &status);

} // namespace zc::doubled

#define ZC_DOUBLE(call)                                                                                                \
  if (cudaError_t zcEntered = ::zc::doubled::entered(call); zcEntered != cudaSuccess)                                  \
  return zcEntered
#define ZC_DOUBLE_UNCAPTURED(call)                                                                                     \
  ZC_DOUBLE(call);                                                                                                     \
  if (cudaError_t zcCaptured = ::zc::doubled::refusedByCapture(call); zcCaptured != cudaSuccess)                       \
  return zcCaptured
