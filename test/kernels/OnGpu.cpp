#include "test/kernels/OnGpu.h"

#include "runtime/cuda/Cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace zc::test {

namespace {

/// A GPU with one stream and a piece of its memory. A new one is opened when a kernel has found something wrong: it
/// does not forget.
class Gpu {
public:
  static constexpr uint64_t kBytes = uint64_t(1) << 30;

  Gpu() { open(); }
  void open() {
    stream.reset();
    device.reset();
    device = take(openCudaDevice({}));
    memory = static_cast<char *>(take(device->allocate(kBytes)));
    context = static_cast<StepContext *>(take(device->allocate(sizeof(StepContext))));
    stream = take(device->makeStream());
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  char *memory = nullptr;
  StepContext *context = nullptr;
  uint32_t runs = 0;

private:
  template <typename T> static T take(Result<T> result) {
    if (result.ok())
      return std::move(*result);
    std::fprintf(stderr, "%s\n", render(result.error()).c_str());
    std::exit(4);
  }
};

Gpu &gpu() {
  static Gpu one;
  return one;
}

/// Under a tool that sees what is touched beside an allocation (compute-sanitizer).
bool isWatched() {
  static const bool is = std::getenv("ZC_TEST_SANITIZER") != nullptr;
  return is;
}

/// The names of kernels that can be called, and of those that were.
std::set<std::string> known, called;

/// Operands of a call, on the device and what is there as the host has it: side by side, between bytes that nobody may
/// touch, or each in an allocation of its own.
class Operands {
public:
  Operands(const KernelSpec &spec, void *const *operands) : spec(spec) {
    for (const TensorType &type : spec.operands)
      sizes.push_back(static_cast<uint64_t>(type.numBytes()));
    if (spec.workspace > 0)
      sizes.push_back(static_cast<uint64_t>(spec.workspace));
    host.assign(operands, operands + sizes.size());
  }

  Status bring() {
    ZC_RETURN_IF_ERROR(isWatched() ? placeApart() : placeTogether());
    for (Piece &piece : pieces) {
      for (size_t i : piece.operands)
        std::memcpy(piece.bytes.data() + (there[i] - piece.first), host[i], sizes[i]);
      ZC_RETURN_IF_ERROR(gpu().device->write(piece.first, piece.bytes.data(), piece.bytes.size()));
    }
    return {};
  }
  std::vector<void *> onDevice() const { return {there.begin(), there.end()}; }

  /// Results to the host. Errors: something else was written.
  Status fetch() {
    for (Piece &piece : pieces) {
      std::vector<char> now(piece.bytes.size());
      ZC_RETURN_IF_ERROR(gpu().device->read(now.data(), piece.first, now.size()));
      auto forWritten = [&](auto fn) {
        for (size_t i : piece.operands)
          if (isWritten(i))
            fn(i, static_cast<size_t>(there[i] - piece.first));
      };
      forWritten([&](size_t i, size_t at) {
        if (i < spec.operands.size())
          std::memcpy(host[i], now.data() + at, sizes[i]);
      });
      // The rest must be what it was. Behind all of them: one may stand over another.
      forWritten([&](size_t i, size_t at) { std::memcpy(now.data() + at, piece.bytes.data() + at, sizes[i]); });
      if (now != piece.bytes)
        return tellTouched(piece, now);
    }
    return {};
  }

private:
  struct Piece {
    char *first;
    std::vector<char> bytes;
    std::vector<size_t> operands; ///< that lie in it
  };
  static constexpr uint64_t kMargin = 256;
  static constexpr char kUntouched = '\x5a';

  /// The first operand that begins at the same place: a result that stands over it lies there too.
  size_t owner(size_t i) const {
    return static_cast<size_t>(std::find(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(i), host[i]) -
                               host.begin());
  }
  /// A result, what one stands over, the workspace.
  bool isWritten(size_t i) const {
    return i >= spec.numInputs ||
           std::find(host.begin() + static_cast<std::ptrdiff_t>(spec.numInputs), host.end(), host[i]) != host.end();
  }
  /// As far from a multiple of 64 as on the host: kernels ask for alignment.
  uint64_t offsetOf(size_t i) const { return reinterpret_cast<uintptr_t>(host[i]) % 64; }

  Status placeTogether() {
    Piece all{gpu().memory, {}, {}};
    uint64_t at = kMargin;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (const size_t first = owner(i); first < i) {
        there.push_back(there[first]);
      } else {
        at = (at + 255) / 256 * 256 + offsetOf(i);
        there.push_back(all.first + at);
        at += sizes[i] + kMargin;
      }
      all.operands.push_back(i);
    }
    if (at > Gpu::kBytes)
      return makeError(Code::budget, 0, "the test needs more than the GPU was asked for");
    all.bytes.assign(at, kUntouched);
    pieces.push_back(std::move(all));
    return {};
  }
  Status placeApart() {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (const size_t first = owner(i); first < i) {
        there.push_back(there[first]);
        continue;
      }
      const uint64_t bytes = offsetOf(i) + sizes[i];
      Result<void *> memory = gpu().device->allocate(std::max<uint64_t>(bytes, 1));
      ZC_RETURN_IF_ERROR(memory.status());
      there.push_back(static_cast<char *>(*memory) + offsetOf(i));
      pieces.push_back({static_cast<char *>(*memory), std::vector<char>(bytes, kUntouched), {i}});
    }
    return {};
  }

  Status tellTouched(const Piece &piece, const std::vector<char> &now) const {
    const auto at = std::mismatch(now.begin(), now.end(), piece.bytes.begin()).first - now.begin();
    size_t nearest = piece.operands.front();
    for (size_t i : piece.operands)
      if (there[i] - piece.first <= at)
        nearest = i;
    const auto within = at - (there[nearest] - piece.first);
    return makeError(Code::internal, 0,
                     "kernel '" + spec.name + "' wrote byte " + std::to_string(within) + " of operand " +
                         std::to_string(nearest) + ", which has " + std::to_string(sizes[nearest]) + " that are " +
                         (nearest < spec.numInputs ? "read" : "written"));
  }

  const KernelSpec &spec;
  std::vector<uint64_t> sizes;
  std::vector<void *> host;
  std::vector<char *> there;
  std::vector<Piece> pieces;
};

class OnGpu : public Kernel {
public:
  explicit OnGpu(const KernelSpec &spec) : spec(spec) {}

  Status run(void *const *operands, const StepContext &context) override {
    called.insert(spec.name);
    Operands own(spec, operands);
    ZC_RETURN_IF_ERROR(own.bring());
    Device &device = *gpu().device;
    ZC_RETURN_IF_ERROR(device.write(gpu().context, &context, sizeof context));
    // Prepared for each run: the device may be another one by now.
    auto kernel = device.prepare(spec, gpu().runs++);
    ZC_RETURN_IF_ERROR(kernel.status());
    ZC_RETURN_IF_ERROR((*kernel)->enqueue(own.onDevice().data(), {&context, gpu().context, 0}, *gpu().stream));
    ZC_RETURN_IF_ERROR(gpu().stream->drain());
    if (std::optional<Device::Fault> fault = device.fault()) {
      Error error = fault->error;
      gpu().open();
      return error;
    }
    return own.fetch();
  }

private:
  KernelSpec spec;
};

/// After the last test.
class Tell : public testing::Environment {
public:
  void TearDown() override {
    std::string never;
    for (const std::string &name : known)
      if (!called.count(name))
        never += " " + name;
    if (!known.empty())
      std::printf("on the GPU: %zu of %zu kernels were called; not%s\n", called.size(), known.size(), never.c_str());
  }
};
[[maybe_unused]] const testing::Environment *const tells = testing::AddGlobalTestEnvironment(new Tell);

} // namespace

KernelRegistry onGpu(const std::vector<std::string> &names) {
  KernelRegistry registry(Target::cuda);
  known.insert(names.begin(), names.end());
  for (const std::string &name : names)
    registry.add(name, [](const KernelSpec &spec) -> Result<std::unique_ptr<Kernel>> {
      ZC_RETURN_IF_ERROR(gpu().device->prepare(spec, 0).status());
      return std::unique_ptr<Kernel>(std::make_unique<OnGpu>(spec));
    });
  return registry;
}

bool isSampled(const KernelSpec &spec) {
  if (!isWatched())
    return true;
  int64_t elements = 0;
  for (const TensorType &type : spec.operands)
    elements = std::max(elements, type.numElements());
  static std::set<std::tuple<std::string, DType, int>> seen;
  return seen
      .emplace(spec.name, spec.operands.empty() ? DType::f32 : spec.operands[0].dtype,
               elements < 1024    ? 0
               : elements < 65536 ? 1
                                  : 2)
      .second;
}

} // namespace zc::test
