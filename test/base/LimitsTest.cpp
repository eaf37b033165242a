#include "base/Limits.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace zc;

namespace {

/// A folder that stands for "/".
class Limits : public testing::Test {
protected:
  void SetUp() override {
    root = std::filesystem::temp_directory_path() / ("limits-" + std::to_string(::getpid()));
    std::filesystem::remove_all(root);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  MemoryLimit limit() const { return memoryLimit(root); }
  double quota() const { return cpuLimit(root).quota; }

  std::filesystem::path root;
  const uint64_t physical =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
};

TEST_F(Limits, MemoryOfTheMachineWhereNoGroupSaysLess) {
  EXPECT_EQ(limit().bytes, physical);
  write("proc/self/cgroup", "0::/job\nnot a line\n:\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  EXPECT_EQ(limit().bytes, physical);
  EXPECT_FALSE(limit().isOfGroup);
}

TEST_F(Limits, MemoryOfTheSmallestGroupAround) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "4096000\n");
  write("sys/fs/cgroup/slurm/memory.max", "8192000\n");
  EXPECT_EQ(limit().bytes, 4096000u);
  EXPECT_TRUE(limit().isOfGroup);
}

TEST_F(Limits, MemoryOfGroupsOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(limit().bytes, 1048576u);
}

TEST_F(Limits, WhoWasKilledForMemoryIsCountedInTheGroup) {
  EXPECT_EQ(oomKills(root), 0u);
  write("proc/vmstat", "pgfault 12\noom_kill 7\n");
  EXPECT_EQ(oomKills(root), 7u) << "of the machine, without a group";
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n");
  write("sys/fs/cgroup/job/memory.events", "oom_kill 5\n");
  EXPECT_EQ(oomKills(root), 2u) << "the innermost group";
  write("proc/self/cgroup", "4:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_EQ(oomKills(root), 4u) << "version 1";
}

/// What is used already cannot be had; cached files can.
TEST_F(Limits, MemoryThatIsFreeIsNotUsed) {
  EXPECT_EQ(memoryAvailable(root).bytes, physical);
  write("proc/meminfo", "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(memoryAvailable(root).bytes, 4096000u);
  EXPECT_FALSE(memoryAvailable(root).isOfGroup);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "3000000\n");
  write("sys/fs/cgroup/job/memory.current", "2500000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 500000\n");
  EXPECT_EQ(memoryAvailable(root).bytes, 1000000u);
  EXPECT_TRUE(memoryAvailable(root).isOfGroup);
  write("sys/fs/cgroup/job/memory.current", "9500000\n");
  EXPECT_EQ(memoryAvailable(root).bytes, 0u);
}

/// Inside a container the path is one of the host's; what is mounted is the container's group.
TEST_F(Limits, MemoryOfTheMountWhereThePathIsNotThere) {
  write("proc/self/cgroup", "0::/host/path/of/the/container\n");
  write("sys/fs/cgroup/memory.max", "2097152\n");
  EXPECT_EQ(limit().bytes, 2097152u);
}

TEST_F(Limits, QuotaOfNoGroup) {
  EXPECT_TRUE(std::isinf(quota()));
  write("proc/self/cgroup", "0::/job\n5:cpu,cpuacct:/job\n");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST_F(Limits, QuotaOfTheSmallestGroupAround) {
  write("proc/self/cgroup", "0::/kubepods/pod7/container\n");
  write("sys/fs/cgroup/kubepods/pod7/container/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/kubepods/pod7/cpu.max", "100000 50000\n");
  write("sys/fs/cgroup/kubepods/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/cpu.max", "broken\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Limits, QuotaOfVersion1InAContainer) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(Limits, ThreadsOfRanksThatShareAMachine) {
  auto threads = [](int cores, bool isBound, double quota, int ranksHere, int ranksOnMachine) {
    CpuLimit limit;
    limit.cores = cores;
    limit.isBound = isBound;
    if (quota > 0)
      limit.quota = quota;
    return threadsPerRank(limit, ranksHere, ranksOnMachine);
  };
  EXPECT_EQ(threads(64, false, 0, 1, 1), 64);
  EXPECT_EQ(threads(64, false, 2, 1, 1), 2); // a container with two processors on a large machine
  EXPECT_EQ(threads(64, false, 2.9, 1, 1), 2);
  EXPECT_EQ(threads(64, false, 8, 1, 4), 2); // one process of four in the container
  EXPECT_EQ(threads(64, false, 0.5, 1, 1), 1);
  EXPECT_EQ(threads(64, false, 0, 4, 8), 8);
  EXPECT_EQ(threads(8, true, 0, 2, 8), 4); // bound to its own cores
  EXPECT_EQ(threads(8, true, 16, 2, 8), 2);
  EXPECT_EQ(threads(2, false, 0, 8, 8), 1);
}

} // namespace

TEST(OpenFiles, AreAsManyAsTheProcessMayAskFor) {
  struct rlimit before = {}, after = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit low = {64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raiseOpenFiles();
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}
