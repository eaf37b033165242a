// Fused programs as C++: compiled for this machine they have the bits of their operations one by one; on a GPU (where
// ZC_TEST_DEVICE=cuda) what NVRTC makes of them has those of the GPU's kernels.
#include "kernels/cuda/FusedSource.h"
#include "kernels/formula/Elements.h"
#include "test/kernels/FastTest.h"
#include "test/kernels/FusedCases.h"

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace zc::test {
namespace {

using cuda::FusedSource;

std::string nameOf(unsigned seed) { return "fused" + std::to_string(seed); }

/// The functions of one translation unit, with the headers as they are handed to NVRTC.
class Compiled {
public:
  explicit Compiled(const std::string &source) {
    const std::filesystem::path folder =
        std::filesystem::path(testing::TempDir()) / ("zc-fused-source-" + std::to_string(::getpid()));
    for (const cuda::FusedHeader &header : cuda::fusedHeaders()) {
      const std::filesystem::path file = folder / header.name;
      if (file.parent_path() == folder) // <cmath> and the like are the compiler's own
        continue;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << header.text;
    }
    std::ofstream(folder / "fused.cpp") << "#include \"kernels/cuda/ChannelSums.h\"\n" << source;
    const std::string library = (folder / "fused.so").string();
    const std::string command = std::string(ZC_CXX) + " -std=c++17 -O1 -fwrapv -ffp-contract=off -shared -fPIC -I " +
                                folder.string() + " " + (folder / "fused.cpp").string() + " -o " + library;
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(handle) << ::dlerror();
    std::filesystem::remove_all(folder);
  }
  Compiled(const Compiled &) = delete;
  ~Compiled() { // the next one has the same name
    if (handle)
      ::dlclose(handle);
  }
  using Function = void (*)(const cuda::FusedArguments &);
  Function operator[](const std::string &name) const { return find<Function>(name); }
  using Sums = void (*)(const cuda::FusedArguments &, const cuda::GradSumsArguments &);
  Sums sums(const std::string &name) const { return find<Sums>(name); }

private:
  template <typename Function> Function find(const std::string &name) const {
    return handle ? reinterpret_cast<Function>(::dlsym(handle, name.c_str())) : nullptr;
  }
  void *handle = nullptr;
};

constexpr unsigned kPrograms = 150, kSums = 60;

/// Of each seed's call.
template <typename Fn> std::string sourcesOf(Fn callOf) {
  std::string all;
  for (unsigned seed = 0; seed < kPrograms; ++seed)
    all += must(FusedSource::of(callOf(seed).spec())).text(nameOf(seed));
  return all;
}

TEST(FusedSource, HasTheBitsOfItsOperations) {
  if (std::system((std::string(ZC_CXX) + " --version > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no compiler: " << ZC_CXX;
  const Compiled compiled(sourcesOf([](unsigned seed) { return fusedCall(randomCase(seed)); }));
  size_t packed = 0;
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    const std::vector<Value> expected = runApart(random, registry(true));
    const Compiled::Function function = compiled[nameOf(seed)];
    ASSERT_TRUE(function);
    for (int way : {0, 1, 2}) { // in packs, an element at a time, over the inputs
      Call call = atOffset(fusedCall(random), way % 2);
      std::vector<void *> operands;
      for (Value &value : call.inputs)
        operands.push_back(value.data());
      for (Value &value : call.outputs)
        operands.push_back(value.data());
      const auto over = way == 2 ? overlaid(call) : std::vector<std::pair<size_t, size_t>>();
      for (auto [input, output] : over)
        operands[call.inputs.size() + output] = operands[input];
      Result<FusedSource> source = FusedSource::of(call.spec());
      ASSERT_TRUE(source.ok());
      const cuda::FusedArguments arguments = source->arguments(operands.data());
      packed += arguments.isPacked;
      function(arguments);
      for (auto [input, output] : over)
        call.outputs[output] = call.inputs[input];
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(sameBits(call.outputs[i], expected[i])) << "result " << i << ", way " << way;
    }
  }
  EXPECT_GT(packed, kPrograms / 2);
  EXPECT_LT(packed, 3 * kPrograms);
}

TEST(FusedSource, ThroughViewsHasTheBitsOfItsOperations) {
  if (std::system((std::string(ZC_CXX) + " --version > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no compiler: " << ZC_CXX;
  const Compiled compiled(sourcesOf([](unsigned seed) { return seenCase(randomCase(seed), seed).call; }));
  size_t packed = 0;
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    SeenCase seen = seenCase(random, seed);
    const std::vector<Value> expected = runApart(random, registry(true));
    std::vector<void *> operands;
    for (std::vector<Value> *values : {&seen.call.inputs, &seen.call.outputs})
      for (Value &value : *values)
        operands.push_back(value.data());
    Result<FusedSource> source = FusedSource::of(seen.call.spec());
    ASSERT_TRUE(source.ok());
    const cuda::FusedArguments arguments = source->arguments(operands.data());
    packed += arguments.isPacked;
    const Compiled::Function function = compiled[nameOf(seed)];
    ASSERT_TRUE(function);
    function(arguments);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(sameBits(seen.result(random.shape, seen.call.outputs, i), expected[i])) << "result " << i;
  }
  EXPECT_GT(packed, kPrograms / 8);
}

/// Random programs of one result that is a gradient: it alone, and what sums of it are asked.
struct SumsCase {
  Case random;
  Prologue prologue;
  explicit SumsCase(unsigned seed) : random(randomCase(seed)) {
    random.program.results.resize(1);
    std::vector<TensorType> inputs;
    for (const Value &input : random.inputs)
      inputs.push_back(input.type);
    prologue = {random.program, inputs, {random.program.typeOf(random.program.results[0]), random.shape}};
  }
  bool isGradient() const { return formula::isFloat(prologue.result.dtype) && !random.shape.empty(); }
};

/// Partial sums of a gradient in memory by the same blocks, an element at a time.
template <typename T>
std::vector<double> partialSums(const Value &grad, const Value &x, const cuda::GradSumsArguments &s) {
  std::vector<double> sums(static_cast<size_t>(2 * s.cut.channels * s.cut.parts));
  cuda::ColumnCut cut = s.cut;
  cut.partial = sums.data();
  auto of = [](const Value &value) { return static_cast<const T *>(const_cast<Value &>(value).data()); };
  const cuda::GradSums<cuda::StoredGrad<T>, T, float> source{{of(grad)}, of(x), s.mean, s.variance, s.epsilon};
  for (int64_t index = 0; index < cut.blocks(1); ++index) {
    cuda::HostBlock<cuda::kColumnThreads> block;
    cuda::columnSums<1>(block, index, cut, source);
  }
  return sums;
}

std::vector<double> partialSums(const Value &grad, const Value &x, const cuda::GradSumsArguments &s) {
  switch (grad.type.dtype) {
  case DType::bf16:
    return partialSums<formula::Bf16>(grad, x, s);
  case DType::f16:
    return partialSums<formula::F16>(grad, x, s);
  default:
    return partialSums<float>(grad, x, s);
  }
}

/// Sums of a gradient that a program computes, in packs and an element at a time, are those of one in memory.
TEST(FusedSource, SumsHaveTheBitsOfAGradientInMemory) {
  if (std::system((std::string(ZC_CXX) + " --version > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no compiler: " << ZC_CXX;
  std::string all;
  for (unsigned seed = 0; seed < kSums; ++seed)
    if (SumsCase made(seed); made.isGradient())
      all += FusedSource::ofSums(made.prologue)->text(nameOf(seed));
  const Compiled compiled(all);
  size_t run = 0, packed = 0;
  for (unsigned seed = 0; seed < kSums; ++seed) {
    SumsCase made(seed);
    if (!made.isGradient())
      continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TensorType type = made.prologue.result;
    const int64_t channels = type.dims.back(), rows = type.numElements() / channels;
    const Value grad = runApart(made.random, registry(true))[0];
    Value x = uniform(type, seed, -2, 2), mean = uniform({DType::f32, {channels}}, seed + 1, -1, 1),
          variance = uniform({DType::f32, {channels}}, seed + 2, 0.5, 2);
    for (size_t offset : {size_t(0), size_t(1)}) {
      Call call = atOffset(fusedCall(made.random), offset);
      std::vector<void *> operands;
      for (Value &value : call.inputs)
        operands.push_back(value.data());
      const FusedSource source = *FusedSource::ofSums(made.prologue);
      const cuda::FusedArguments arguments = source.arguments(operands.data());
      const int64_t parts = std::min<int64_t>(rows, 3);
      std::vector<double> sums(static_cast<size_t>(2 * channels * parts));
      const cuda::GradSumsArguments asked{x.data(),
                                          static_cast<const float *>(mean.data()),
                                          static_cast<const float *>(variance.data()),
                                          1e-5,
                                          {rows, channels, parts, sums.data()},
                                          source.channelsAtOnce(arguments, type.dtype, x.data(), channels) > 1};
      const Compiled::Sums function = compiled.sums(nameOf(seed));
      ASSERT_TRUE(function);
      function(arguments, asked);
      const std::vector<double> expected = partialSums(grad, x, asked);
      for (size_t i = 0; i < sums.size(); ++i) // of a NaN compilers choose the bits: of which factor they are
        ASSERT_TRUE(std::memcmp(&sums[i], &expected[i], sizeof(double)) == 0 ||
                    (std::isnan(sums[i]) && std::isnan(expected[i])))
            << "offset " << offset << ", sum " << i << ": " << sums[i] << " " << expected[i];
      packed += asked.isPacked;
      ++run;
    }
  }
  EXPECT_GT(run, kSums / 2);
  EXPECT_GT(packed, 2u);
}

KernelSpec specOf(Ints scale, Ints result) {
  KernelSpec spec;
  spec.name = "fused";
  spec.operands = {{DType::f32, result}, {DType::f32, std::move(scale)}, {DType::f32, result}};
  spec.numInputs = 2;
  spec.attributes["program"] = Ints{1, 6, 0, 0, 1, 0, 2}; // a product
  return spec;
}

/// Layers of other sizes share the code; other broadcasts do not.
TEST(FusedSource, DoesNotKnowSizes) {
  auto text = [](Ints scale, Ints result) {
    return FusedSource::of(specOf(std::move(scale), std::move(result)))->text("f");
  };
  EXPECT_EQ(text({768}, {64, 768}), text({3}, {2, 3}));
  EXPECT_EQ(text({64, 1}, {64, 768}), text({2, 1}, {2, 3}));
  EXPECT_NE(text({768}, {64, 768}), text({64, 1}, {64, 768}));
  EXPECT_NE(text({1}, {64, 768}), text({64, 768}, {64, 768}));
}

/// Rows that packs do not fill go an element at a time, and so does memory that is not aligned.
TEST(FusedSource, PacksStayWithinRows) {
  alignas(64) char memory[64];
  void *const aligned[] = {memory, memory, memory};
  void *const apart[] = {memory, memory + 4, memory};
  auto isPacked = [](Ints scale, Ints result, void *const *operands) {
    return FusedSource::of(specOf(std::move(scale), std::move(result)))->arguments(operands).isPacked;
  };
  EXPECT_TRUE(isPacked({8}, {5, 8}, aligned));
  EXPECT_FALSE(isPacked({7}, {5, 7}, aligned));
  EXPECT_FALSE(isPacked({5, 1}, {5, 6}, aligned));
  EXPECT_TRUE(isPacked({5, 7}, {5, 7}, aligned)); // its last elements apart
  EXPECT_TRUE(isPacked({1}, {5, 7}, apart));      // a scalar may lie anywhere
  EXPECT_FALSE(isPacked({8}, {5, 8}, apart));
}

TEST(FusedSource, OnAGpuHasTheBitsOfItsKernels) {
  const char *device = std::getenv("ZC_TEST_DEVICE");
  if (!device || std::string(device) != "cuda")
    GTEST_SKIP() << "ZC_TEST_DEVICE=cuda runs it";
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case random = randomCase(seed);
    const std::vector<Value> expected = runApart(random, blockRegistry());
    Result<std::vector<Value>> outputs = runOn(blockRegistry(), fusedCall(random));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(sameBits((*outputs)[i], expected[i])) << "result " << i;
    const Call call = fusedCall(random);
    outputs = runInPlace(blockRegistry(), call, overlaid(call));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(sameBits((*outputs)[i], expected[i])) << "result " << i << ", over inputs";
    if (seed % 3 != 0) // each is a source more to compile
      continue;
    const SeenCase seen = seenCase(random, seed);
    outputs = runOn(blockRegistry(), seen.call);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(sameBits(seen.result(random.shape, *outputs, i), expected[i])) << "result " << i << ", through views";
  }
}

} // namespace
} // namespace zc::test
