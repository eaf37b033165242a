#include "base/CallMemory.h"
#include "base/Descriptor.h"
#include "base/File.h"
#include "base/Shell.h"
#include "base/SignalStack.h"
#include "base/Size.h"
#include "base/Status.h"
#include "base/Tensor.h"
#include "base/Workers.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <new>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace zc;

TEST(Descriptor, ClosesWhatItOwnsOnce) {
  auto opened = [](int number) { return ::fcntl(number, F_GETFD) >= 0; };
  Descriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int number = first.get();
  {
    Descriptor second(std::move(first));
    EXPECT_FALSE(first.isOpen());
    EXPECT_TRUE(opened(number));
  }
  EXPECT_FALSE(opened(number));
  first = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  number = first.get();
  first = Descriptor();
  EXPECT_FALSE(opened(number));
  EXPECT_EQ(first.close(), 0); // nothing
  {
    Descriptor wrong(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::close(wrong.get());
    EXPECT_EQ(wrong.close(), EBADF);
    Descriptor again(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::close(again.get());
    errno = ENOSPC;
  }
  EXPECT_EQ(errno, ENOSPC); // closing by leaving a scope keeps it
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which have a stack of their own for it
/// Deeper and deeper, until the stack is used up.
static int descend(volatile char *above) {
  volatile char here[4096];
  here[0] = above ? *above : 0;
  return here[0] < 0 ? 0 : descend(here) + here[0];
}

/// Exit code 42 where a handler still ran.
static void overflow() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ::_exit(42); };
  action.sa_flags = SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, nullptr);
  std::thread([] {
    SignalStack stack;
    ::_exit(descend(nullptr));
  }).join();
}

TEST(Base, ASignalHandlerRunsWhereAStackIsUsedUp) { EXPECT_EXIT(overflow(), testing::ExitedWithCode(42), ""); }
#endif

TEST(Base, EscapesWhatSteersATerminal) {
  EXPECT_EQ(escapeName("plain/näme 模型"), "plain/näme 模型");
  EXPECT_EQ(escapeName("a\x1b[31mb\nc\x7f"), "a\\x1B[31mb\\x0Ac\\x7F");
  EXPECT_EQ(escapeName("\u202Eabc"), "\\xE2\\x80\\xAEabc");          // bidirectional override
  EXPECT_EQ(escapeName("\u0085"), "\\xC2\\x85");                     // C1
  EXPECT_EQ(escapeName("\xC0\x80"), "\\xC0\\x80");                   // overlong
  EXPECT_EQ(escapeName("\xED\xA0\x80"), "\\xED\\xA0\\x80");          // surrogate
  EXPECT_EQ(escapeName("\xF4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80"); // above U+10FFFF
  EXPECT_EQ(escapeName("x\xE2\x82"), "x\\xE2\\x82");                 // cut short
  EXPECT_EQ(escapeName(std::string("\0", 1)), "\\x00");
}

TEST(Base, AShellsWordsAreReadAsTheyWereQuoted) {
  const std::vector<std::string> words = {"zero-compile", "a b.onnx", "it's", "", "--dim", "batch=8", "\\'"};
  std::string line;
  for (const std::string &word : words)
    line += (line.empty() ? "" : "  ") + shellQuoted(word);
  EXPECT_EQ(shellWords(line), words);
  EXPECT_TRUE(shellWords("  ").empty());
  EXPECT_EQ(shellWords("a 'b c"), (std::vector<std::string>{"a", "b c"}));
}

TEST(Base, FindsWhatIsNotUtf8AtEveryPlace) {
  EXPECT_TRUE(isValidUtf8(""));
  for (size_t bytes = 1; bytes <= 40; ++bytes) {
    const std::string plain(bytes, 'a');
    EXPECT_TRUE(isValidUtf8(plain));
    EXPECT_TRUE(isValidUtf8(plain + "ä" + plain));
    for (size_t at = 0; at < bytes; ++at) {
      std::string damaged = plain;
      damaged[at] = '\xC3'; // begins two bytes
      EXPECT_FALSE(isValidUtf8(damaged)) << at << " of " << bytes;
    }
  }
}

TEST(Base, RendersEveryField) {
  Error error{Code::budget, 312, "activations need 7.4 GiB", "model.onnx: node \"a\tb\"", "n", "h"};
  EXPECT_EQ(render(error), "error[Z0312]: activations need 7.4 GiB\n  --> model.onnx: node \"a\\x09b\"\n  = note: n\n"
                           "  = help: h");
  EXPECT_EQ(render(makeError(Code::other, 7, "m")), "error[Z0007]: m");
}

TEST(Base, TypeNamesRoundTrip) {
  for (int i = 0; i < 10; ++i) {
    auto type = static_cast<DType>(i);
    EXPECT_EQ(dtypeFromName(nameOf(type)), type);
  }
  EXPECT_EQ(nameOf(DType::boolean), "bool");
  EXPECT_FALSE(dtypeFromName("f31"));
}

TEST(Base, Bf16RoundsToNearestEven) {
  EXPECT_EQ(toBf16(1.0f), 0x3F80);
  EXPECT_EQ(toBf16(1.00390625f), 0x3F80); // half way, to even
  EXPECT_EQ(toBf16(1.01171875f), 0x3F82); // half way, to even, upward
  EXPECT_EQ(toBf16(1.00390637f), 0x3F81); // just above
  EXPECT_EQ(toBf16(3.4e38f), 0x7F80);     // overflows to infinity
  EXPECT_EQ(toBf16(-INFINITY), 0xFF80);
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(NAN))));
  EXPECT_EQ(fromBf16(0x3FC0), 1.5f);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = fromBf16(static_cast<uint16_t>(bits));
    ASSERT_TRUE(std::isnan(value) || toBf16(value) == bits) << bits;
  }
}

TEST(Base, F16RoundsToNearestEven) {
  EXPECT_EQ(fromF16(0x3C00), 1);
  EXPECT_EQ(fromF16(0x0001), 0x1p-24f);
  EXPECT_EQ(fromF16(0xFC00), -INFINITY);
  EXPECT_EQ(toF16(65519.0f), 0x7BFF);
  EXPECT_EQ(toF16(65520.0f), 0x7C00); // overflows to infinity
  EXPECT_EQ(toF16(-INFINITY), 0xFC00);
  EXPECT_EQ(toF16(1 + 0x1p-11f), 0x3C00); // half way, to even
  EXPECT_EQ(toF16(1 + 0x3p-11f), 0x3C02); // half way, to even, upward
  EXPECT_EQ(toF16(0x1p-25f), 0x0000);
  EXPECT_EQ(toF16(0x3p-26f), 0x0001);
  EXPECT_EQ(toF16(-0x3p-25f), 0x8002);
  EXPECT_EQ(toF16(0x1.FFEp-15f), 0x0400); // the largest below the normal numbers rounds up to them
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = fromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(fromF16(toF16(value)))) << bits;
    else
      ASSERT_EQ(toF16(value), bits);
  }
}

namespace {
struct Folder {
  Folder() {
    std::string pattern = testing::TempDir() + "/zc-base-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};
} // namespace

TEST(Base, OnlyRegularFilesAreRead) {
  Folder folder;
  EXPECT_EQ(readFile(folder.path + "/none", 10).error().code, Code::badInput);
  EXPECT_EQ(readFile(folder.path, 10).error().code, Code::badInput);
  ASSERT_EQ(::mkfifo((folder.path + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(readFile(folder.path + "/fifo", 10).error().code, Code::badInput);
  std::ofstream(folder.path + "/big") << "12345";
  EXPECT_EQ(readFile(folder.path + "/big", 4).error().code, Code::badInput);
}

TEST(CallMemory, ServesAThreadWithinACallAndAgainInTheNext) {
  EXPECT_EQ(CallMemory::take(32), nullptr);
  char elsewhere = 0;
  EXPECT_FALSE(CallMemory::give(&elsewhere));
  void *first = nullptr;
  for (int call = 0; call < 3; ++call) {
    CallMemory open;
    void *a = CallMemory::take(1), *b = CallMemory::take(100);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(static_cast<char *>(b) - static_cast<char *>(a), 32); // a word's worth before each
    EXPECT_EQ(a, first ? first : a);
    first = a;
    EXPECT_EQ(CallMemory::take(CallMemory::kBytes), nullptr); // as much is not left
    std::thread([] { EXPECT_EQ(CallMemory::take(1), nullptr); }).join();
    EXPECT_TRUE(CallMemory::give(a));
    EXPECT_TRUE(CallMemory::give(b));
  }
  EXPECT_EQ(CallMemory::take(32), nullptr);
}

TEST(CallMemory, WhatOutlivesItsCallIsLeftAlone) {
  void *kept = nullptr;
  {
    CallMemory open;
    kept = CallMemory::take(64);
  }
  {
    CallMemory open;
    void *next = CallMemory::take(64);
    EXPECT_EQ(next, static_cast<char *>(kept) + 64 + 16);
    EXPECT_TRUE(CallMemory::give(next));
    std::thread([&] { EXPECT_TRUE(CallMemory::give(kept)); }).join();
  }
}

TEST(CallMemory, ServesNothingDuringAPause) {
  {
    CallMemory::Pause pause;
  }
  EXPECT_EQ(CallMemory::take(64), nullptr); // none was open before either
  CallMemory open;
  void *before = CallMemory::take(64);
  {
    CallMemory::Pause pause;
    EXPECT_EQ(CallMemory::take(64), nullptr);
    EXPECT_TRUE(CallMemory::give(before));
  }
  EXPECT_EQ(CallMemory::take(64), before);
  EXPECT_TRUE(CallMemory::give(before));
}

/// As a convolution does that multiplies matrices for each image: it has objects of its own meanwhile.
TEST(CallMemory, ServesAnyNumberOfObjectsOneAfterTheOther) {
  CallMemory open;
  void *outer = CallMemory::take(64), *first = nullptr;
  for (int i = 0; i < 1000; ++i) {
    void *a = CallMemory::take(160), *b = CallMemory::take(24);
    ASSERT_TRUE(a && b) << i;
    ASSERT_EQ(a, first ? first : a);
    first = a;
    EXPECT_TRUE(CallMemory::give(a)); // in either order
    EXPECT_TRUE(CallMemory::give(b));
  }
  EXPECT_TRUE(CallMemory::give(outer));
  EXPECT_EQ(CallMemory::take(8), outer);
  EXPECT_TRUE(CallMemory::give(outer));
}

namespace {
/// Asks for memory when its thread has come to an end.
struct AsksAtTheEnd {
  ~AsksAtTheEnd() {
    if (asked)
      *asked = CallMemory::take(16);
  }
  void **asked = nullptr;
};
} // namespace

TEST(CallMemory, IsNobodysWhenItsThreadHasEnded) {
  char none = 0;
  void *asked = &none;
  std::thread([&] {
    thread_local AsksAtTheEnd asks; // made before what the thread has of it, and so destroyed after
    asks.asked = &asked;
    CallMemory::openForGood();
    void *taken = CallMemory::take(16);
    EXPECT_NE(taken, nullptr);
    EXPECT_TRUE(CallMemory::give(taken));
  }).join();
  EXPECT_EQ(asked, nullptr);
}

TEST(Workers, WhatIsThrownIsThrownWhenAllHaveComeBack) {
  for (int threads : {1, 4})
    for (size_t thrower : {size_t(0), size_t(5)}) {
      std::atomic<int> inside{0};
      auto work = [&](int, size_t index) -> Status {
        ++inside;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        --inside;
        if (index == thrower)
          throw std::bad_alloc();
        return {};
      };
      EXPECT_THROW((void)forEachOf(20, threads, work), std::bad_alloc) << threads << " threads, " << thrower;
      EXPECT_EQ(inside, 0);
    }
}

TEST(Workers, TheLowestIndexThatFailsIsTold) {
  Status status = forEachOf(8, 4, [](int, size_t index) -> Status {
    if (index == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return index < 2 ? Status() : Status(makeError(Code::other, 1, std::to_string(index)));
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "2");
}

TEST(Size, IsShownInBinaryUnits) {
  EXPECT_EQ(showSize(0), "0 B");
  EXPECT_EQ(showSize(1023), "1023 B");
  EXPECT_EQ(showSize(1024), "1.00 KiB");
  EXPECT_EQ(showSize(32953088), "31.43 MiB");
  EXPECT_EQ(showSize(uint64_t(3) << 50), "3.00 PiB");
  EXPECT_EQ(showSize(uint64_t(1) << 63), "8192.00 PiB");
  for (uint64_t bytes : {uint64_t(1) << 10, uint64_t(5) << 30})
    EXPECT_EQ(parseSize(showSize(bytes)), bytes);
}
