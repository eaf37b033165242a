#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>
#include <vector>

namespace zc::test::fibers {

namespace {

constexpr int kMostThreads = 1024;
constexpr size_t kStack = size_t{256} << 10, kLeft = 48;

enum class At { running, warp, block, end };

struct Fiber {
  ucontext_t context;
  At at = At::running;
  unsigned exchanges = 0; ///< that were begun
  alignas(16) char left[2][kLeft];
};

class Block {
public:
  Block() : fibers(kMostThreads) {
    stacks = static_cast<char *>(mmap(nullptr, kMostThreads * kStack, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks == MAP_FAILED)
      end("no memory for stacks");
  }
  ~Block() { munmap(stacks, kMostThreads * kStack); }

  void run(int count, void *bytes, const std::function<void()> &what) {
    threads = count;
    body = &what;
    shared = bytes;
    for (int t = 0; t < threads; ++t)
      begin(t);
    order.resize(static_cast<size_t>(threads / 32));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), drawn);
    next = 0;
    std::fill(begun.begin(), begun.end(), 0);
    while (step() || openBarrier()) {
    }
  }
  /// Of the running fiber: to whoever is next.
  void leave(At at) {
    fibers[static_cast<size_t>(current)].at = at;
    swapcontext(&fibers[static_cast<size_t>(current)].context, &outside);
  }

  /// Of the running fiber: true once for each exchange of its warp.
  bool isFirst() {
    unsigned &known = begun[static_cast<size_t>(current / 32)];
    return std::exchange(known, fibers[static_cast<size_t>(current)].exchanges) !=
           fibers[static_cast<size_t>(current)].exchanges;
  }

  int current = 0;
  std::vector<Fiber> fibers;
  void *shared = nullptr;
  std::mt19937 drawn;

private:
  [[noreturn]] static void end(const char *why) {
    std::fprintf(stderr, "fibers: %s\n", why);
    std::abort();
  }
  static void enter();
  void begin(int t) {
    Fiber &fiber = fibers[static_cast<size_t>(t)];
    fiber.at = At::running;
    fiber.exchanges = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + static_cast<size_t>(t) * kStack;
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Block::enter, 0);
  }

  /// Lets one lane run of the first warp that has one. False: all wait or are done.
  bool step() {
    for (; next < order.size(); ++next) {
      const int warp = order[next], turn = static_cast<int>(drawn() % 32);
      for (int i = 0; i < 32; ++i) {
        const int t = warp * 32 + (i + turn) % 32;
        if (fibers[static_cast<size_t>(t)].at != At::running)
          continue;
        current = t;
        swapcontext(&outside, &fibers[static_cast<size_t>(t)].context);
        openWarp(warp);
        return true;
      }
    }
    return false;
  }
  /// Once all of its lanes are there.
  void openWarp(int warp) {
    Fiber *first = &fibers[static_cast<size_t>(warp) * 32];
    for (int lane = 0; lane < 32; ++lane)
      if (first[lane].at != At::warp)
        return;
    for (int lane = 0; lane < 32; ++lane)
      first[lane].at = At::running;
  }
  /// False: the block is done.
  bool openBarrier() {
    int waiting = 0, done = 0;
    for (int t = 0; t < threads; ++t) {
      waiting += fibers[static_cast<size_t>(t)].at == At::block;
      done += fibers[static_cast<size_t>(t)].at == At::end;
    }
    if (done == threads)
      return false;
    if (waiting < threads)
      end("threads of a block wait for each other at different places, or for some that have ended");
    for (int t = 0; t < threads; ++t)
      fibers[static_cast<size_t>(t)].at = At::running;
    std::shuffle(order.begin(), order.end(), drawn);
    next = 0;
    return true;
  }

  char *stacks;
  int threads = 0;
  const std::function<void()> *body = nullptr;
  ucontext_t outside;
  std::vector<int> order;                          ///< of warps
  size_t next = 0;                                 ///< of them, that has not gone as far as it may
  std::array<unsigned, kMostThreads / 32> begun{}; ///< exchanges of each warp that somebody has gone on after
};

Block &block() {
  static Block one;
  return one;
}
void Block::enter() {
  (*block().body)();
  block().leave(At::end);
}

} // namespace

void runBlock(int threads, void *shared, const std::function<void()> &body) { block().run(threads, shared, body); }
void seed(unsigned number) { block().drawn.seed(number); }
int thread() { return block().current; }
void *shared() { return block().shared; }
void meetBlock() { block().leave(At::block); }
void meetWarp() { block().leave(At::warp); }
/// Two in turn: who has gone on to the next exchange has found all lanes there, which have then read the last one.
void *left(int lane, bool next) {
  Block &all = block();
  const unsigned number = all.fibers[static_cast<size_t>(all.current)].exchanges - (next ? 0 : 1);
  return all.fibers[static_cast<size_t>(all.current / 32 * 32 + lane)].left[number % 2];
}
bool isFirst() { return block().isFirst(); }
void endExchange() {
  ++block().fibers[static_cast<size_t>(block().current)].exchanges;
  meetWarp();
}

} // namespace zc::test::fibers
