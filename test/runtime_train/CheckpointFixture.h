//===- CheckpointFixture.h - runs in one folder, for the tests of checkpoints ---------------------===//
#pragma once

#include "test/runtime_train/TrainPlan.h"

#include "base/Failpoint.h"
#include "runtime/train/Train.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unistd.h>

namespace zc::test {

/// What a run says besides its result.
struct Notes : train::RunObserver {
  void note(const std::string &text) override {
    std::lock_guard<std::mutex> lock(mutex);
    all += text + "\n";
  }
  bool has(const std::string &text) const { return all.find(text) != std::string::npos; }
  std::string all;
  std::mutex mutex; ///< any rank may warn
};

/// Runs in one folder, of plans with any world size: the data are the same but for zeros in the padding.
struct Fixture {
  Fixture() { ::unsetenv("ZERO_FAULT"); }
  ~Fixture() {
    EXPECT_TRUE(setFailpoints("").ok());
    if (inMemory)
      std::filesystem::remove_all(options.out);
  }

  /// Where a save costs no disk's time; not to be called after a run.
  void useMemory() {
    static int count = 0;
    inMemory = ::access("/dev/shm", W_OK) == 0;
    if (inMemory)
      options.out = "/dev/shm/zc-checkpoints-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
  }

  Result<train::RunReport> run(int64_t steps, uint32_t world = 2, Placement placement = Placement::sharded,
                               uint32_t accumulation = 2) {
    planpb::Plan plan = trainPlan(folder.write("model.onnx", modelBytes()), world, accumulation, placement);
    change(plan);
    options.data.data = dataFile(folder, world, samples);
    options.steps = steps;
    options.threads = 1;
    options.device = DeviceKind::sync;
    options.nvme.folder = folder.path;
    notes.all.clear();
    return train::train(plan, options, {}, notes);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(options.out))
      if (std::string name = entry.path().filename().string(); name[0] != '.' && name != "metrics.jsonl")
        found.push_back(name);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string read(const std::string &name) const {
    std::ifstream in(options.out + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  void flip(const std::string &name, size_t byte, int bit) {
    std::string bytes = read(name);
    bytes[byte % bytes.size()] = char(bytes[byte % bytes.size()] ^ (1 << bit));
    folder.write("out/" + name, bytes);
  }
  bool exists(const std::string &name) const { return std::filesystem::exists(options.out + "/" + name); }

  TempFolder folder;
  bool inMemory = false;
  int64_t samples = 13;
  std::function<void(planpb::Plan &)> change = [](planpb::Plan &) {};
  train::RunOptions options = [this] {
    train::RunOptions made;
    made.out = folder.path + "/out";
    return made;
  }();
  Notes notes;
};

using Names = std::vector<std::string>;

inline std::string undisturbed(int64_t steps, const char *file = "final/weights.safetensors") {
  Fixture whole;
  EXPECT_TRUE(whole.run(steps).ok());
  return whole.read(file);
}

} // namespace zc::test
