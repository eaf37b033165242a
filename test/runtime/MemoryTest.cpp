#include "runtime/base/Memory.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace zc;

namespace {

/// A folder that stands for "/".
class Memory : public testing::Test {
protected:
  void SetUp() override {
    root = std::filesystem::temp_directory_path() / ("memory-" + std::to_string(::getpid()));
    std::filesystem::remove_all(root);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  MemoryLimit limit() const { return memoryLimit(root); }

  std::filesystem::path root;
  const uint64_t physical =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
};

TEST_F(Memory, OfTheMachineWhereNoGroupSaysLess) {
  EXPECT_EQ(limit().bytes, physical);
  write("proc/self/cgroup", "0::/job\nnot a line\n:\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  EXPECT_EQ(limit().bytes, physical);
  EXPECT_FALSE(limit().isOfGroup);
}

TEST_F(Memory, OfTheSmallestGroupAround) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "4096000\n");
  write("sys/fs/cgroup/slurm/memory.max", "8192000\n");
  EXPECT_EQ(limit().bytes, 4096000u);
  EXPECT_TRUE(limit().isOfGroup);
}

TEST_F(Memory, OfGroupsOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(limit().bytes, 1048576u);
}

/// Inside a container the path is one of the host's; what is mounted is the container's group.
TEST_F(Memory, OfTheMountWhereThePathIsNotThere) {
  write("proc/self/cgroup", "0::/host/path/of/the/container\n");
  write("sys/fs/cgroup/memory.max", "2097152\n");
  EXPECT_EQ(limit().bytes, 2097152u);
}

} // namespace
