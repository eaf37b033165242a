// NVRTC takes what fused programs are written as, for every kind of GPU that the plugin is built for: needs no GPU.
#include "runtime/cuda/Nvrtc.h"
#include "base/Workers.h"
#include "kernels/cuda/FusedSource.h"
#include "test/kernels/FusedCases.h"

namespace zc::test {
namespace {

const std::string kInclude = "#include \"kernels/cuda/ChannelSums.h\"\n";

TEST(Nvrtc, CompilesRandomPrograms) {
  const std::pair<int, int> kGpus[] = {{8, 0}, {9, 0}, {10, 0}};
  for (unsigned from = 0; from < 150; from += 50) { // many in one source: it takes most of its time for the headers
    std::string text = kInclude;
    for (unsigned seed = from; seed < from + 50; ++seed) {
      Result<cuda::FusedSource> source = cuda::FusedSource::of(fusedCall(randomCase(seed)).spec());
      ASSERT_TRUE(source.ok()) << source.error().message;
      text += source->text("fused" + std::to_string(seed));
    }
    for (unsigned seed = from; seed < from + 20; ++seed) { // the same for sums of what they compute
      const Case random = randomCase(seed);
      Prologue prologue{random.program, {}, {random.program.typeOf(random.program.results[0]), random.shape}};
      prologue.program.results.resize(1);
      for (const Value &input : random.inputs)
        prologue.inputs.push_back(input.type);
      if (prologue.result.dtype != DType::boolean)
        text += cuda::FusedSource::ofSums(prologue)->text("sums" + std::to_string(seed));
    }
    auto [major, minor] = kGpus[from / 50];
    Result<std::string> code = cuda::compileForGpu(text, major, minor);
    ASSERT_TRUE(code.ok()) << render(code.error());
    EXPECT_EQ(code->substr(1, 3), "ELF");
  }
}

/// As a plan's programs are, ahead of their kernels.
TEST(Nvrtc, CompilesOnThreadsWhatItCompilesOneByOne) {
  std::vector<std::string> sources, alone;
  for (unsigned seed = 0; seed < 8; ++seed) {
    Result<cuda::FusedSource> source = cuda::FusedSource::of(fusedCall(randomCase(seed)).spec());
    ASSERT_TRUE(source.ok()) << source.error().message;
    sources.push_back(kInclude + source->text("fused"));
    alone.push_back(must(cuda::compileForGpu(sources.back(), 9, 0)));
  }
  std::vector<std::string> together(sources.size());
  Status status = forEachOf(sources.size(), 4, [&](int, size_t i) -> Status {
    Result<std::string> code = cuda::compileForGpu(sources[i], 9, 0);
    ZC_RETURN_IF_ERROR(code.status());
    together[i] = std::move(*code);
    return {};
  });
  ASSERT_TRUE(status.ok()) << render(status.error());
  EXPECT_EQ(together, alone);
}

TEST(Nvrtc, SaysWhatIsWrong) {
  Result<std::string> code = cuda::compileForGpu(kInclude + "int x = nothing;", 9, 0);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.error().code, Code::internal);
  EXPECT_NE(code.error().message.find("\"nothing\" is undefined"), std::string::npos) << code.error().message;
}

TEST(Nvrtc, KnowsNoGpuOfTheFuture) {
  Result<std::string> code = cuda::compileForGpu(kInclude, 99, 0);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.error().code, Code::unsupported);
}

} // namespace
} // namespace zc::test
