//===- CheckpointFaultsTest.cpp - whatever fails, nothing is lost ---------------------------------===//
#include "test/runtime_train/CheckpointFixture.h"
#include "test/support/Sanitized.h"

#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <thread>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

namespace {

constexpr int64_t kStride = kIsSanitized ? 7 : 1; // which takes that many times as long
constexpr int64_t kCycles = kIsSanitized ? 100 : 1000;

using Passages = std::map<std::string, int64_t>;

bool reads(const std::string &site) {
  for (const char *each : {"file.open", "file.stat", "file.read", "folder.list", "whole.open", "whole.read"})
    if (site == each)
      return true;
  return false;
}
bool moves(const std::string &site) { return site == "file.read" || site == "file.write"; }

/// What can happen in a call of the system: it fails, for good or to be tried again, or moves fewer bytes than asked.
Names kindsOf(const std::string &site) {
  Names kinds{"EIO", reads(site) ? "ESTALE" : "ENOSPC"};
  if (moves(site))
    kinds.insert(kinds.end(), {"EINTR", "short"});
  return kinds;
}
bool isGoneOver(const std::string &kind) { return kind == "EINTR" || kind == "short"; }

/// A run's folder, from which it goes on again and again, something else failing each time.
struct Sweep : Fixture {
  /// The folder's state is that after `begun` steps, of a run that saves where `every` says.
  Sweep(int64_t begun, int64_t every, Placement placement) : placement(placement) {
    useMemory();
    options.saveEvery = every;
    options.keep = 2;
    EXPECT_TRUE(run(begun, 2, placement).ok());
    options.resume = "auto";
    begin = options.out + ".begin";
    std::filesystem::copy(options.out, begin, std::filesystem::copy_options::recursive);
  }
  ~Sweep() { std::filesystem::remove_all(begin); }

  void reset() const {
    std::filesystem::remove_all(options.out);
    std::filesystem::copy(begin, options.out, std::filesystem::copy_options::recursive);
  }
  Result<RunReport> goOn(int64_t steps, const std::string &rules) {
    EXPECT_TRUE(setFailpoints(rules).ok());
    auto report = run(steps, 2, placement);
    passed = passedFailpoints();
    EXPECT_TRUE(setFailpoints("").ok());
    return report;
  }
  /// The calls of the system that going on to `steps` makes, all of them fine.
  Passages callsOf(int64_t steps, const std::string &rules = "") {
    reset();
    EXPECT_TRUE(goOn(steps, rules + "; nothing:EIO").ok());
    Passages calls;
    for (const auto &[site, count] : passed)
      for (const char *kind : {"file.", "folder.", "whole.", "ckpt.", "metrics."})
        if (site.rfind(kind, 0) == 0)
          calls[site] = count;
    return calls;
  }

  Placement placement;
  std::string begin;
  Passages passed; ///< in the last run
};

int64_t sum(const Passages &calls) {
  int64_t all = 0;
  for (const auto &[site, count] : calls)
    all += count;
  return all;
}

/// Each call of a run that goes on from step 2 to 4 and saves there fails, one after the other; each time what is there
/// afterwards goes on to the same bits.
void failEach(Sweep &sweep, const Passages &calls, const std::string &always, int64_t &tried) {
  const std::string expected = undisturbed(4);
  for (const auto &[site, count] : calls)
    for (const std::string &kind : kindsOf(site))
      for (int64_t n = 1; n <= count; n += kStride, ++tried) {
        std::string rule = site + "@n=" + std::to_string(n) + ":" + kind;
        sweep.reset();
        auto report = sweep.goOn(4, always + rule);
        EXPECT_GE(sweep.passed[site], n) << rule << " did not happen";
        if (isGoneOver(kind)) {
          ASSERT_OK(report);
        }
        if (report.ok()) {
          EXPECT_EQ(sweep.read("final/weights.safetensors"), expected) << rule << ": passed over in silence";
        } else {
          EXPECT_TRUE(report.error().code == Code::io || report.error().code == Code::badInput)
              << rule << ": " << render(report.error());
        }
        auto rest = sweep.run(4, 2, sweep.placement);
        ASSERT_TRUE(rest.ok()) << rule << ": " << render(rest.error());
        EXPECT_LE(rest->steps, 2) << rule << ": began afresh";
        EXPECT_EQ(sweep.read("final/weights.safetensors"), expected) << rule;
        EXPECT_EQ(sweep.names(), (Names{"final", "step-3", "step-4"})) << rule;
      }
}

} // namespace

TEST(CheckpointFaults, EveryCallOfASaveFailsAndOneIsThereThatLoads) {
  Sweep sweep(2, 1, Placement::sharded);
  Passages calls = sweep.callsOf(4);
  for (const char *site :
       {"file.create", "file.allocate", "file.open", "file.stat", "file.read", "file.write", "file.writeback",
        "file.fsync", "file.rename", "file.close", "folder.make", "folder.list", "folder.open", "folder.fsync",
        "folder.rename", "ckpt.exchange", "ckpt.removed", "metrics.write"})
    EXPECT_GT(calls[site], 0) << site;
  EXPECT_GE(sum(calls), 100);
  RecordProperty("calls", std::to_string(sum(calls)));
  int64_t tried = 0;
  failEach(sweep, calls, "", tried);
  EXPECT_GE(tried, 2 * sum(calls) / kStride) << "each in two ways at least";
  RecordProperty("tried", std::to_string(tried));
}

TEST(CheckpointFaults, EveryCallOfASaveFailsWhereNothingCanBeExchanged) {
  const std::string always = "ckpt.exchange:EINVAL; ";
  Sweep sweep(2, 1, Placement::sharded);
  Passages calls;
  for (const auto &[site, count] : sweep.callsOf(4, always)) // what replacing goes through
    if (site != "ckpt.exchange" && (site.rfind("folder.", 0) == 0 || site.rfind("ckpt.", 0) == 0))
      calls[site] = count;
  EXPECT_GT(calls["ckpt.replaced"], 0);
  int64_t tried = 0;
  failEach(sweep, calls, always, tried);
}

/// Loading fails at each of its calls, and each of them gives another bit than lies on disk: the run ends, or goes on
/// from an older checkpoint, or nothing of it mattered; other bits never come of it.
TEST(CheckpointFaults, EveryCallOfALoadFailsOrLiesAndNothingIsTakenForRight) {
  Sweep sweep(2, 1, Placement::tiered);
  const std::string expected = undisturbed(3);
  Passages calls = sweep.callsOf(2); // no step is left: it loads, and that is all
  EXPECT_GE(sum(calls), 50);
  RecordProperty("calls", std::to_string(sum(calls)));
  std::map<Code, int64_t> ends;
  int64_t passedOver = 0;
  for (const auto &[site, count] : calls)
    for (std::string kind : {"EIO", "ESTALE", "EINTR", "short", "flip"})
      for (int64_t n = 1; n <= count; n += kStride) {
        if ((isGoneOver(kind) && !moves(site)) || (kind == "flip" && site != "file.read"))
          continue;
        std::string rule = site + "@n=" + std::to_string(n) + ":" + kind;
        sweep.reset();
        auto report = sweep.goOn(3, rule);
        EXPECT_GE(sweep.passed[site], n) << rule << " did not happen";
        if (isGoneOver(kind)) {
          ASSERT_OK(report);
        }
        if (report.ok()) {
          EXPECT_EQ(sweep.read("final/weights.safetensors"), expected) << rule;
          passedOver += sweep.notes.has("passed over");
          EXPECT_EQ(report->steps, sweep.notes.has("passed over") ? report->steps : 1) << rule;
        } else {
          ++ends[report.error().code];
        }
        auto rest = sweep.run(3, 2, sweep.placement);
        ASSERT_TRUE(rest.ok()) << rule << ": " << render(rest.error());
        EXPECT_EQ(sweep.read("final/weights.safetensors"), expected) << rule;
      }
  for (const auto &[code, count] : ends)
    EXPECT_TRUE(code == Code::io || code == Code::badInput || code == Code::mismatch || code == Code::corrupt)
        << int(code);
  EXPECT_GT(ends[Code::io], 0);
  EXPECT_GT(passedOver, 0) << "a flipped bit is damage: an older checkpoint is taken, and that is said";
}

/// The same of transfers past the page cache, which only large tensors have.
TEST(CheckpointFaults, EveryTransferOfALargeTensorFails) {
  TempFolder folder;
  std::vector<io::SafetensorsTable::Tensor> tensors{{"a", {DType::u8, {5}}}, {"b", {DType::f32, {2000003}}}};
  std::string bytes(5 + 4 * 2000003, char(0));
  std::mt19937_64 random(3);
  for (char &byte : bytes)
    byte = char(random());
  TransferBuffer buffer;
  const auto all = int64_t(bytes.size());
  const std::string name = folder.path + "/t.safetensors";
  int64_t begin = 0;
  auto save = [&]() -> Status {
    std::filesystem::remove(name);
    auto table = io::SafetensorsTable::createInPlace(name, tensors, {});
    if (!table)
      return table.error();
    begin = table->positionOf(0);
    for (int64_t at = 0, now; at < all; at += now) {
      now = std::min(kPieceBytes - (begin + at) % kPieceBytes, all - at);
      std::memcpy(buffer.at(begin + at), &bytes[size_t(at)], size_t(now));
      ZC_RETURN_IF_ERROR(table->place(0, at, buffer.at(begin + at), now));
    }
    return table->flush();
  };
  auto load = [&]() -> Status {
    auto file = io::File::open(name);
    if (!file)
      return file.error();
    file->openDirect();
    for (int64_t at = 0, now; at < all; at += now) {
      now = std::min(kPieceBytes - (begin + at) % kPieceBytes, all - at);
      ZC_RETURN_IF_ERROR(file->readInto(buffer.begin(), now, begin + at));
      if (std::memcmp(buffer.at(begin + at), &bytes[size_t(at)], size_t(now)) != 0)
        return makeError(Code::corrupt, 1, "other bytes");
    }
    return Status::success();
  };
  for (bool saves : {true, false}) {
    auto act = [&] { return saves ? save() : load(); };
    ASSERT_TRUE(setFailpoints("nothing:EIO").ok());
    ASSERT_OK(act());
    for (const auto &[site, count] : passedFailpoints())
      for (const std::string &kind : kindsOf(site))
        for (int64_t n = 1; n <= count; ++n) {
          std::string rule = site + "@n=" + std::to_string(n) + ":" + kind;
          ASSERT_TRUE(setFailpoints(rule).ok());
          EXPECT_EQ(act().ok(), isGoneOver(kind)) << rule;
          ASSERT_TRUE(setFailpoints("").ok());
          if (saves && isGoneOver(kind)) {
            ASSERT_OK(load());
          }
        }
    ASSERT_TRUE(setFailpoints("").ok());
    ASSERT_OK(save());
  }
}

//===- Nothing grows --------------------------------------------------------------===//

static size_t entriesOf(const char *folder, const std::string &lead = "") {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    count += entry.path().filename().string().rfind(lead, 0) == 0;
  return count;
}

/// F58: a thousand times a load, and two saves: step-K and final. In memory, where a save costs no disk's time.
TEST(CheckpointFaults, AThousandCyclesLeaveNothingBehind) {
  Fixture fixture;
  fixture.useMemory();
  fixture.options.saveEvery = 1;
  fixture.options.keep = 2;
  ASSERT_OK(fixture.run(1));
  fixture.options.resume = "auto";
  ASSERT_OK(fixture.run(2));
  const std::string own = "zc-checkpoints-" + std::to_string(::getpid());
  size_t files = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task"),
         shared = entriesOf("/dev/shm", own);
  const int64_t last = 2 + kCycles;
  for (int64_t step = 3; step <= last; ++step)
    ASSERT_OK(fixture.run(step));
  EXPECT_EQ(fixture.names(), (Names{"final", "step-" + std::to_string(last - 1), "step-" + std::to_string(last)}));
  EXPECT_EQ(entriesOf("/proc/self/fd"), files);
  for (int tries = 0; tries < 1000 && entriesOf("/proc/self/task") > threads;
       ++tries) // who was joined is there for a moment
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(entriesOf("/proc/self/task"), threads);
  EXPECT_EQ(entriesOf("/dev/shm", own), shared);
}
