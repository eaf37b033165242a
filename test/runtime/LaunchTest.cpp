#include "runtime/launch/Listener.h"
#include "runtime/launch/Mpirun.h"
#include "runtime/launch/Outcome.h"
#include "test/runtime/ExpectOk.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace zc;
using namespace zc::launch;
using zc::test::expectOk;

namespace {

std::string textOf(const std::vector<Host> &hosts) {
  std::string text;
  for (const Host &host : hosts)
    text += (text.empty() ? "" : ",") + host.name + ":" + std::to_string(host.ranks);
  return text;
}

/// As waitpid has it, of a process that ended by itself.
int ended(int code) { return code << 8; }

} // namespace

TEST(Launch, HostsAreAListOrAFile) {
  const std::pair<const char *, const char *> lists[] = {
      {"a:2,b:3", "a:2,b:3"}, {"a,b", "a:4,b:4"}, {" a : 2 ,,b slots=3", "a:2,b:3"}, {"10.0.0.1:2", "10.0.0.1:2"}};
  for (auto [text, meant] : lists) {
    auto hosts = parseHosts(text, 4);
    expectOk(hosts.status());
    EXPECT_EQ(textOf(*hosts), meant);
  }
  const std::string file = testing::TempDir() + "hosts-" + std::to_string(::getpid());
  std::FILE *out = std::fopen(file.c_str(), "w");
  std::fputs("# two racks\n a slots=2\r\n\nb:3 # the second\nc\n", out);
  std::fclose(out);
  auto hosts = parseHosts(file, 1);
  expectOk(hosts.status());
  ::unlink(file.c_str());
  EXPECT_EQ(textOf(*hosts), "a:2,b:3,c:1");
  EXPECT_EQ(ranksOf(*hosts), 6);
}

TEST(Launch, WhatIsNoHostIsRefused) {
  const std::string longest(253, 'a'); // Open MPI writes beyond its room for longer ones
  EXPECT_TRUE(parseHosts(longest, 1).ok());
  for (const std::string &text :
       {std::string(), std::string(","), std::string("a:"), std::string("a: ,b"), std::string(":2"), std::string("a:0"),
        std::string("a:-1"), std::string("a:2x"), std::string("a:100000"), std::string("-x:2"), std::string("a slots="),
        std::string("a:2:3"), longest + "a"}) {
    auto hosts = parseHosts(text, 1);
    ASSERT_FALSE(hosts.ok()) << text;
    EXPECT_EQ(hosts.status().error().code, Code::usage);
  }
}

TEST(Launch, TheCommandHasTheHostsInOrderAndTheArgumentsLast) {
  const std::vector<std::string> words =
      mpirunCommand({{"a", 2}, {"b", 1}}, "/bin/zero-run", {"x.plan", "--steps", "2"});
  auto after = [&](const char *word) { return *std::next(std::find(words.begin(), words.end(), word)); };
  EXPECT_EQ(after("--host"), "a:2,b:1");
  EXPECT_EQ(after("-np"), "3");
  EXPECT_EQ(std::vector<std::string>(words.end() - 4, words.end()),
            (std::vector<std::string>{"/bin/zero-run", "x.plan", "--steps", "2"}));
}

TEST(Launch, AListenerTellsRanksFromMpirun) {
  std::string said;
  Listener listener(2, [&](const std::string &line) { said += line; });
  const std::string text = "zero-run: started rank 1\nstep 1\n" + std::string(30, '-') + "\nmpirun's\n" +
                           std::string(30, '-') + "\nzero-run: started rank 7\nzero-run: ended with code 8\nlast";
  for (char c : text)
    listener.take(&c, 1);
  listener.flush();
  EXPECT_EQ(said, "step 1\nlast");
  EXPECT_EQ(listener.words, "mpirun's\n");
  EXPECT_EQ(listener.code, 8);
  EXPECT_EQ(listener.started, (std::vector<bool>{false, true}));
  EXPECT_FALSE(listener.allStarted());
  const Error error = notAll({{"a", 1}, {"b", 1}}, listener.started, 5);
  EXPECT_EQ(error.message, "not all ranks have started within 5 s: missing are 0 on a");
  EXPECT_EQ(error.note, "started are ranks 1");
}

TEST(Launch, RanksThatDoNotStartAreNotWaitedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Listener listener(1, [](const std::string &) {});
  EXPECT_FALSE(listen(ends[0], listener, 0.05));
  ASSERT_EQ(::write(ends[1], "zero-run: started rank 0\n", 25), 25);
  ::close(ends[1]);
  EXPECT_TRUE(listen(ends[0], listener, 10));
  EXPECT_TRUE(listener.allStarted());
  ::close(ends[0]);
}

TEST(Launch, WhatBecameOfAJobIsAnErrorWithItsCode) {
  const std::string none = testing::TempDir() + "no-such-run";
  expectOk(outcomeOf(ended(0), "", none, 0));
  EXPECT_EQ(outcomeOf(ended(9), "", none, 0).error().code, Code::corrupt); // a rank has said why
  EXPECT_EQ(outcomeOf(ended(127), "", none, 0).error().code, Code::unsupported);
  EXPECT_EQ(outcomeOf(ended(1), "unable to reliably start one or more daemons", none, 0).error().code, Code::peerLost);
  EXPECT_EQ(outcomeOf(ended(1), "----\nORTE was unable to reliably start one or more daemons.\n\n* not finding\n----\n",
                      none, 0)
                .error()
                .note,
            "ORTE was unable to reliably start one or more daemons. * not finding");
  const Status killed = outcomeOf(ended(137), "process rank 3 exited on signal 9", none, UINT64_MAX);
  EXPECT_EQ(killed.error().code, Code::peerLost);
  EXPECT_EQ(killed.error().message.rfind("rank 3 was killed by signal 9", 0), size_t{0}) << killed.error().message;
}

namespace {

/// What runMpirun ends with where `script` stands for mpirun, whose lines `hear` gets; in a process of its own.
[[noreturn]] void endWith(const std::string &script, std::function<void(const std::string &)> hear) {
  MpiJob job;
  job.hosts = {{"a", 1}};
  job.command = {"/bin/sh", "-c", "echo 'zero-run: started rank 0' >&2; " + script};
  job.say = std::move(hear);
  Status status = runMpirun(job);
  ::_exit(status.ok() ? 0 : int(status.error().code));
}
void passATermination() { ::kill(::getpid(), SIGTERM); }

} // namespace

TEST(LaunchDeathTest, ToldTwiceItEndsWithTheNumberOfTheSignal) {
  const std::string script = "trap : USR1; trap 'exit 1' TERM; echo ready >&2; while :; do sleep 0.02; done";
  for (int number : {SIGINT, SIGTERM})
    EXPECT_EXIT(endWith(script,
                        [number](const std::string &) {
                          ::kill(::getpid(), number);
                          ::kill(::getpid(), number); // as `timeout` does: that is one request
                          std::this_thread::sleep_for(std::chrono::milliseconds(400));
                          ::kill(::getpid(), number);
                        }),
                testing::ExitedWithCode(128 + number), "");
}

/// mpirun is there, but nobody knows its number yet: it is told as soon as it is known.
TEST(LaunchDeathTest, ASignalWhileMpirunStartsIsNotLost) {
  EXPECT_EXIT(
      {
        ::pthread_atfork(nullptr, passATermination, nullptr);
        endWith("exec sleep 20", [](const std::string &) {});
      },
      testing::ExitedWithCode(128 + SIGUSR1), "");
}
