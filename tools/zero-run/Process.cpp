#include "tools/zero-run/Process.h"

#include "base/CallMemory.h"
#include "base/SignalStack.h"
#include "base/Status.h"
#include "runtime/launch/StopSignals.h"

#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <new>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace zc::run {

static std::atomic<int> signals{0};
static std::atomic<uint64_t> allocated{0};

/// LLVM's OpenMP, which clang takes, does not know the number, and has a file by the process's number that it would
/// find.
#ifdef __clang__
static constexpr bool kSpinsByCount = false;
#else
static constexpr bool kSpinsByCount = true;
#endif

void waitBriefly(char **argv) {
  if (!kSpinsByCount || std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT"))
    return;
  // Beside other work the thread that is waited for has no core: the one that waits has it, for milliseconds at every
  // kernel.
  std::string self(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0 || length == PATH_MAX)
    return;
  self.resize(static_cast<size_t>(length));
  if (self.compare(self.rfind('/') + 1, 3, "ld-") == 0) // the loader, of which this program is an argument
    return;
  ::setenv("GOMP_SPINCOUNT", "1000", 0);
  ::execv(self.c_str(), argv); // or goes on as it is
}

/// Who started this process, asked before main. In a container a launcher may well be number 1.
static const pid_t parent = ::getppid();

void dieWithParent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // it went before the signal was asked for, and somebody else took us over
    ::_exit(int(Code::peerLost));
}

static char crashFile[PATH_MAX];

static void onCrash(int number) {
  int file = ::open(crashFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666); // or a FIFO would keep it
  if (file >= 0) {
    void *frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), file);
    ::close(file);
  }
  std::signal(number, SIG_DFL);
  ::raise(number);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static constexpr bool kSanitized = true;
#else
static constexpr bool kSanitized = false;
#endif

void traceCrashes(const std::string &file) {
  if (kSanitized) // whose own report is better
    return;
  std::strncpy(crashFile, file.c_str(), sizeof crashFile - 1);
  void *frame;
  ::backtrace(&frame, 1); // loads what it needs now, not in the handler
  static const SignalStack stack;
  struct sigaction action = {};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK; // where a stack is used up, there is no room for a handler
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    ::sigaction(number, &action, nullptr);
}

static std::atomic<int> firstSignal{0};
static unsigned graceSeconds = 0;
static std::string graceIsOver; ///< what is said then

static std::atomic<int> requests{0}; ///< to stop, but for those of a terminal that closes

/// A terminal that closes tells twice, by the shell and by the system: that is no second request.
static void onSignal(int number) {
  if (number != SIGHUP && launch::isSameRequest())
    return;
  if (number != SIGHUP && requests.fetch_add(1, std::memory_order_relaxed) > 0)
    ::_exit(128 + number);
  if (signals.fetch_add(1, std::memory_order_relaxed) > 0)
    return;
  firstSignal.store(number, std::memory_order_relaxed);
  ::alarm(graceSeconds);
}

static void onGraceIsOver(int) {
  const int code = 128 + firstSignal.load(std::memory_order_relaxed);
  if (::write(2, graceIsOver.data(), graceIsOver.size()) < 0)
    ::_exit(code); // nobody reads it
  ::_exit(code);
}

const std::atomic<int> &catchSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (int number : launch::kStopSignals)
    if (!launch::isIgnored(number)) // by nohup, or by a script's shell, which starts what it does not wait for so
      ::sigaction(number, &action, nullptr);
  return signals;
}

void setGrace(unsigned seconds) {
  graceSeconds = seconds;
  graceIsOver =
      render(makeError(Code::other, 982,
                       "told to stop, the run has not saved and ended within the " + std::to_string(seconds) +
                           " s of --grace",
                       "--grace", "checkpoints are whole: with --resume auto a training goes on from its newest")) +
      "\n";
  std::signal(SIGALRM, onGraceIsOver);
}

void leaveNoCore() {
  // Less than a page is no file, and of 1 the kernel starts no program either (fs/coredump.c), which 0 does not stop.
  const rlimit limit = {1, 1};
  ::setrlimit(RLIMIT_CORE, &limit);
}

uint64_t allocations() {
  // A preloaded counter knows C's functions, too (test/bench/CountMalloc.cpp).
  using Count = uint64_t (*)();
  static const Count all = reinterpret_cast<Count>(::dlsym(RTLD_DEFAULT, "zcCountMalloc"));
  return all ? all() : allocated.load(std::memory_order_relaxed);
}

static void *allocate(size_t size, size_t alignment) {
  if (!kSanitized && alignment == 0)
    if (void *memory = CallMemory::take(size))
      return memory;
  allocated.fetch_add(1, std::memory_order_relaxed);
  if (size == 0)
    size = 1;
  return alignment == 0 ? std::malloc(size)
                        : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void *allocateOrThrow(size_t size, size_t alignment) {
  if (void *memory = allocate(size, alignment))
    return memory;
  throw std::bad_alloc();
}

static void release(void *memory) {
  if (!CallMemory::give(memory))
    std::free(memory);
}

} // namespace zc::run

// Counted replacements, so that "a steady step allocates nothing" is a number in every run's report.
void *operator new(size_t size) { return zc::run::allocateOrThrow(size, 0); }
void *operator new[](size_t size) { return zc::run::allocateOrThrow(size, 0); }
void *operator new(size_t size, std::align_val_t at) { return zc::run::allocateOrThrow(size, size_t(at)); }
void *operator new[](size_t size, std::align_val_t at) { return zc::run::allocateOrThrow(size, size_t(at)); }
void *operator new(size_t size, const std::nothrow_t &) noexcept { return zc::run::allocate(size, 0); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return zc::run::allocate(size, 0); }
void operator delete(void *memory) noexcept { zc::run::release(memory); }
void operator delete[](void *memory) noexcept { zc::run::release(memory); }
void operator delete(void *memory, size_t) noexcept { zc::run::release(memory); }
void operator delete[](void *memory, size_t) noexcept { zc::run::release(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { zc::run::release(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { zc::run::release(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { zc::run::release(memory); }
void operator delete[](void *memory, size_t, std::align_val_t) noexcept { zc::run::release(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { zc::run::release(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { zc::run::release(memory); }
