//===- ShardTensorsTest.cpp - the partitioned program beside the whole one ----===//
//
// The exported models of test/models, cut over 2 and 4 ranks that run in lockstep on the reference kernels: every rank
// returns the loss of the whole program, and the ranks' gradients together are its gradients.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/ShardingSearch.h"
#include "dialects/graph/ModuleAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/io/Safetensors.h"
#include "test/compiler/import/Run.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace zc;
using namespace zc::test;

namespace {

struct Model {
  const char *folder, *name;
  int64_t ranks;
  double share;      ///< of the parameters' elements that has to be cut
  bool rows = false; ///< sequence parallelism
};
void PrintTo(const Model &model, std::ostream *os) {
  *os << model.folder << "/" << model.name << " over " << model.ranks << (model.rows ? ", rows" : "");
}

std::vector<float> floats(const Bytes &bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

/// Row-major [outer, groups, ranks x part, inner]: for each element of rank `rank`'s part its place in the whole; -1 in
/// what it is filled up with.
std::vector<int64_t> placesOf(graph::CutAttr cut, int64_t rank, int64_t ranks) {
  llvm::ArrayRef<int64_t> shape = cut.getWhole().getShape();
  int64_t outer = cut.getGroups(), inner = 1, run = shape[cut.getDim()] / cut.getGroups();
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != cut.getDim())
      (i < cut.getDim() ? outer : inner) *= shape[i];
  int64_t part = (run + ranks - 1) / ranks;
  std::vector<int64_t> places;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row = rank * part; row < (rank + 1) * part; ++row)
      for (int64_t i = 0; i < inner; ++i)
        places.push_back(row < run ? (o * run + row) * inner + i : -1);
  return places;
}

struct ShardTensors : testing::TestWithParam<Model> {
  void SetUp() override { registerCpuKernels(kernels, /*referenceOnly=*/true); }

  mlir::OwningOpRef<mlir::ModuleOp> compileStep(const std::string &path, int64_t ranks, bool rows = false) {
    auto module = importer::importOnnx(context, path, {});
    EXPECT_TRUE(module.ok());
    GradOptions options;
    options.modelRanks = ranks;
    options.sequenceParallel = rows;
    mlir::PassManager manager(&context);
    buildGradPipeline(manager, options);
    EXPECT_TRUE(mlir::succeeded(manager.run(**module)));
    return std::move(*module);
  }

  /// The first two rows of every input.
  std::map<std::string, Bytes> readInputs(const std::string &folder, mlir::ModuleOp module) {
    auto file = io::SafetensorsFile::open(folder + "inputs.safetensors");
    std::map<std::string, Bytes> inputs;
    for (mlir::Attribute attribute : graph::programOf(module, graph::Phase::micro).getInputNames()) {
      std::string name = mlir::cast<mlir::StringAttr>(attribute).str();
      const io::SafetensorsEntry *entry = file->find(name);
      Bytes &bytes = inputs[name];
      bytes.resize(entry->bytes / entry->type.dims[0] * 2);
      EXPECT_TRUE(file->file().readAt(bytes.data(), bytes.size(), entry->offset).ok());
    }
    return inputs;
  }

  mlir::MLIRContext context;
  KernelRegistry kernels;
};

TEST_P(ShardTensors, ComputesWhatTheWholeProgramComputes) {
  auto [folderName, name, ranks, share, rows] = GetParam();
  std::string folder = std::string(ZC_SOURCE_DIR "/test/models/") + folderName + "/", path = folder + name + ".onnx";
  auto whole = compileStep(path, 1), parts = compileStep(path, ranks, rows);
  auto reference = prepareModel(*whole);
  ASSERT_TRUE(reference.ok()) << render(reference.error());
  reference->inputs = readInputs(folder, *whole);
  ASSERT_TRUE(reference->run().ok());

  std::deque<Interpreter> group;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto one = Interpreter::prepare(*parts, kernels);
    ASSERT_TRUE(one.ok()) << one.error().message;
    one->inputs = reference->inputs;
    one->parameters = reference->parameters;
    group.push_back(std::move(*one));
  }
  int64_t elements = 0, cutElements = 0;
  for (auto parameter : parts->getOps<graph::ParameterOp>()) {
    std::string symbol = parameter.getSymName().str();
    int64_t count = parameter.getWholeType().getNumElements();
    elements += parameter.getRole() == graph::Role::buffer ? 0 : count;
    graph::CutAttr cut = parameter.getCutAttr();
    if (!cut)
      continue;
    cutElements += count;
    std::vector<float> all = floats(reference->parameters[symbol]);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> part;
      for (int64_t place : placesOf(cut, rank, ranks))
        part.push_back(place < 0 ? 0 : all[place]);
      Bytes &bytes = group[rank].parameters[symbol];
      bytes.resize(part.size() * sizeof(float));
      std::memcpy(bytes.data(), part.data(), bytes.size());
    }
  }
  std::printf("%s/%s over %ld: %.1f %% of %ld parameters are cut\n", folderName, name, long(ranks),
              100.0 * double(cutElements) / double(elements), long(elements));
  EXPECT_GE(double(cutElements), share * double(elements));

  Status status = Interpreter::runRanks(group);
  ASSERT_TRUE(status.ok()) << status.error().message;
  float loss = floats(reference->results.at(0))[0];
  for (Interpreter &rank : group) {
    EXPECT_EQ(rank.results.at(0), group[0].results.at(0));
    EXPECT_NEAR(floats(rank.results.at(0))[0], loss, 1e-5 * std::abs(loss));
  }
  ASSERT_EQ(group[0].gradients.size(), reference->gradients.size());
  for (auto &[symbol, bytes] : reference->gradients) {
    std::vector<float> expected = floats(bytes), found(expected.size());
    float largest = 0;
    for (float value : expected)
      largest = std::max(largest, std::abs(value));
    auto parameter = parts->lookupSymbol<graph::ParameterOp>(symbol);
    if (graph::CutAttr cut = parameter.getCutAttr()) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::vector<float> part = floats(group[rank].gradients[symbol]);
        std::vector<int64_t> places = placesOf(cut, rank, ranks);
        for (size_t i = 0; i < places.size(); ++i) {
          if (places[i] >= 0)
            found[places[i]] = part[i];
          else
            EXPECT_EQ(part[i], 0) << symbol << ": a gradient of what is filled up";
        }
      }
    } else {
      for (Interpreter &rank : group)
        EXPECT_EQ(rank.gradients[symbol], group[0].gradients[symbol]) << symbol;
      found = floats(group[0].gradients[symbol]);
    }
    float worst = 0;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - expected[i]));
    EXPECT_LE(worst, 1e-5 * largest + 1e-7) << symbol;
  }
}

std::vector<Model> models() {
  std::vector<Model> all;
  for (int64_t ranks : {2, 4}) {
    for (const char *name : {"ts17", "dynamo18", "dynamo20opt", "dynamo23"})
      for (const char *folder : {"gpt2", "llama", "bert", "vit"})
        all.push_back({folder, name, ranks, 0.9});
    all.push_back({"gpt2", "dynamo23_sdpa", ranks, 0.9});
    all.push_back({"gpt2", "ts17_dropout", ranks, 0.9});
    all.push_back({"mlp", "ts17", ranks, 0.9});
    for (const char *folder : {"gpt2", "llama", "bert", "vit"})
      // 4 ranks divide neither the 2 images nor the 17 tokens of vit, and not llama's 2 heads of keys: more would be
      // sent.
      if (ranks == 2 || (std::string(folder) != "vit" && std::string(folder) != "llama"))
        for (const char *name : {"ts17", "dynamo23"})
          all.push_back({folder, name, ranks, 0.9, true});
    all.push_back({"gpt2", "ts17_dropout", ranks, 0.9, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, ShardTensors, testing::ValuesIn(models()), [](const auto &info) {
  return std::string(info.param.folder) + "_" + info.param.name + "_" + std::to_string(info.param.ranks) +
         (info.param.rows ? "_rows" : "");
});

} // namespace
