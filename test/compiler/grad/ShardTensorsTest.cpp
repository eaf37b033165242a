//===- ShardTensorsTest.cpp - the partitioned program beside the whole one ----===//
//
// The exported models of test/models, and programs for rules that none of them needs, cut over 2 and 4 ranks that run
// in lockstep on the reference kernels: every rank returns the loss of the whole program, and the ranks' gradients
// together are its gradients.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "compiler/grad/ShardingSearch.h"
#include "dialects/graph/ModuleAttrs.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/io/Safetensors.h"
#include "test/compiler/import/Run.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

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

/// Beside the largest element.
void expectClose(const std::vector<float> &found, const std::vector<float> &expected, const std::string &name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  float worst = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  EXPECT_LE(worst, 1e-5 * largest + 1e-7) << name;
}

/// What compares a program in parts with the whole one.
struct InParts : testing::Test {
  void SetUp() override { registerCpuKernels(kernels, /*referenceOnly=*/true); }

  void compileStep(mlir::ModuleOp module, int64_t ranks, bool rows = false) {
    GradStage options;
    options.modelRanks = ranks;
    options.sequenceParallel = rows;
    mlir::PassManager manager(&context);
    buildGradPipeline(manager, options);
    EXPECT_TRUE(mlir::succeeded(manager.run(module)));
  }

  /// `parts` on ranks of the model axis, with the inputs and parameters of `reference`, the whole program.
  void expectSame(Interpreter &reference, mlir::ModuleOp parts, int64_t ranks, double share, const std::string &name);
  std::deque<Interpreter> makeRanks(const Interpreter &reference, mlir::ModuleOp parts, int64_t ranks, double share,
                                    const std::string &name);
  void expectGradients(const Interpreter &reference, std::deque<Interpreter> &group, mlir::ModuleOp parts);

  mlir::MLIRContext context;
  KernelRegistry kernels;
};

struct ShardTensors : InParts, testing::WithParamInterface<Model> {
  mlir::OwningOpRef<mlir::ModuleOp> compileModel(const std::string &path, int64_t ranks, bool rows = false) {
    auto module = importer::importOnnx(context, path, {});
    EXPECT_TRUE(module.ok());
    compileStep(**module, ranks, rows);
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
};

TEST_P(ShardTensors, ComputesWhatTheWholeProgramComputes) {
  auto [folderName, name, ranks, share, rows] = GetParam();
  std::string folder = std::string(ZC_SOURCE_DIR "/test/models/") + folderName + "/", path = folder + name + ".onnx";
  auto whole = compileModel(path, 1), parts = compileModel(path, ranks, rows);
  auto reference = prepareModel(*whole);
  ASSERT_TRUE(reference.ok()) << render(reference.error());
  reference->inputs = readInputs(folder, *whole);
  expectSame(*reference, *parts, ranks, share, std::string(folderName) + "/" + name);
}

std::deque<Interpreter> InParts::makeRanks(const Interpreter &reference, mlir::ModuleOp parts, int64_t ranks,
                                           double share, const std::string &name) {
  std::deque<Interpreter> group;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto one = Interpreter::prepare(parts, kernels, static_cast<int>(rank));
    EXPECT_TRUE(one.ok()) << one.error().message;
    one->inputs = reference.inputs;
    one->parameters = reference.parameters;
    group.push_back(std::move(*one));
  }
  int64_t elements = 0, cutElements = 0;
  for (auto parameter : parts.getOps<graph::ParameterOp>()) {
    std::string symbol = parameter.getSymName().str();
    int64_t count = parameter.getWholeType().getNumElements();
    elements += parameter.getRole() == graph::Role::buffer ? 0 : count;
    graph::CutAttr cut = parameter.getCutAttr();
    if (!cut)
      continue;
    cutElements += count;
    std::vector<float> all = floats(reference.parameters.at(symbol));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> part;
      for (int64_t place : placesOf(cut, rank, ranks))
        part.push_back(place < 0 ? 0 : all[place]);
      Bytes &bytes = group[rank].parameters[symbol];
      bytes.resize(part.size() * sizeof(float));
      std::memcpy(bytes.data(), part.data(), bytes.size());
    }
  }
  std::printf("%s over %ld: %.1f %% of %ld parameters are cut\n", name.c_str(), long(ranks),
              100.0 * double(cutElements) / double(elements), long(elements));
  EXPECT_GE(double(cutElements), share * double(elements));
  return group;
}

void InParts::expectSame(Interpreter &reference, mlir::ModuleOp parts, int64_t ranks, double share,
                         const std::string &name) {
  std::deque<Interpreter> group = makeRanks(reference, parts, ranks, share, name);
  Status status = reference.run();
  ASSERT_TRUE(status.ok()) << status.error().message;
  status = Interpreter::runRanks(group);
  ASSERT_TRUE(status.ok()) << status.error().message;
  float loss = floats(reference.results.at(0))[0];
  for (Interpreter &rank : group) {
    EXPECT_EQ(rank.results.at(0), group[0].results.at(0));
    EXPECT_NEAR(floats(rank.results.at(0))[0], loss, 1e-5 * std::abs(loss));
  }
  for (auto parameter : parts.getOps<graph::ParameterOp>())
    if (parameter.getRole() == graph::Role::buffer) { // as assigned
      std::string symbol = parameter.getSymName().str();
      for (Interpreter &rank : group)
        EXPECT_TRUE(rank.parameters[symbol] == group[0].parameters[symbol]) << symbol;
      expectClose(floats(group[0].parameters[symbol]), floats(reference.parameters[symbol]), symbol);
    }
  expectGradients(reference, group, parts);
}

void InParts::expectGradients(const Interpreter &reference, std::deque<Interpreter> &group, mlir::ModuleOp parts) {
  ASSERT_EQ(group[0].gradients.size(), reference.gradients.size());
  for (auto &[symbol, bytes] : reference.gradients) {
    std::vector<float> expected = floats(bytes), found(expected.size());
    auto parameter = parts.lookupSymbol<graph::ParameterOp>(symbol);
    if (graph::CutAttr cut = parameter.getCutAttr()) {
      auto ranks = static_cast<int64_t>(group.size());
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::vector<float> part = floats(group[static_cast<size_t>(rank)].gradients[symbol]);
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
    expectClose(found, expected, symbol);
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
    for (const char *name : {"ts17", "dynamo23"})
      all.push_back({"resnet", name, ranks, 0.9});
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

//===-- programs ----------------------------------------------------------------===//

struct Program {
  const char *name;
  std::string text;
  double share = 0.9; ///< of the parameters' elements that has to be cut
};

// Window attributes of a kernel of 1 and of 3.
#define POINT                                                                                                          \
  "strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>"
#define AROUND                                                                                                         \
  "strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>"

/// A MobileNet's block: channels are expanded, filtered one by one, weighed by their means, and joined again.
const char *const kInvertedResidual =
    R"(
graph.parameter @expand : tensor<16x8x1x1xf32> role = trainable
graph.parameter @scale : tensor<16xf32> role = trainable
graph.parameter @bias : tensor<16xf32> role = trainable
graph.parameter @mean : tensor<16xf32> role = buffer
graph.parameter @depthwise : tensor<16x1x3x3xf32> role = trainable
graph.parameter @squeeze : tensor<4x16x1x1xf32> role = trainable
graph.parameter @squeeze_bias : tensor<4xf32> role = trainable
graph.parameter @excite : tensor<16x4x1x1xf32> role = trainable
graph.parameter @project : tensor<8x16x1x1xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x8x6x6xf32>):
  %we = graph.read @expand : tensor<16x8x1x1xf32>
  %e = graph.conv %x, %we {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<16x8x1x1xf32>) -> tensor<2x16x6x6xf32>
  %s = graph.read @scale : tensor<16xf32>
  %b = graph.read @bias : tensor<16xf32>
  %n, %m, %v = graph.batch_norm %e, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x16x6x6xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x6x6xf32>, tensor<16xf32>, tensor<16xf32>)
  %old = graph.read @mean : tensor<16xf32>
  %new = graph.moving_average %old, %m {momentum = 0.9 : f64, factor = 1.0 : f64} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  graph.assign @mean, %new : tensor<16xf32>
  %r = graph.relu %n : (tensor<2x16x6x6xf32>) -> tensor<2x16x6x6xf32>
  %wd = graph.read @depthwise : tensor<16x1x3x3xf32>
  %d = graph.conv %r, %wd {)" AROUND
    R"(, groups = 16 : i64} : (tensor<2x16x6x6xf32>, tensor<16x1x3x3xf32>) -> tensor<2x16x6x6xf32>
  %a = graph.reduce_mean %d {axes = array<i64: 2, 3>, keepdims} : (tensor<2x16x6x6xf32>) -> tensor<2x16x1x1xf32>
  %ws = graph.read @squeeze : tensor<4x16x1x1xf32>
  %bs = graph.read @squeeze_bias : tensor<4xf32>
  %q = graph.conv %a, %ws, %bs {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x16x1x1xf32>, tensor<4x16x1x1xf32>, tensor<4xf32>) -> tensor<2x4x1x1xf32>
  %wx = graph.read @excite : tensor<16x4x1x1xf32>
  %f = graph.conv %q, %wx {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x4x1x1xf32>, tensor<16x4x1x1xf32>) -> tensor<2x16x1x1xf32>
  %g = graph.sigmoid %f : (tensor<2x16x1x1xf32>) -> tensor<2x16x1x1xf32>
  %w = graph.mul %d, %g : (tensor<2x16x6x6xf32>, tensor<2x16x1x1xf32>) -> tensor<2x16x6x6xf32>
  %wp = graph.read @project : tensor<8x16x1x1xf32>
  %p = graph.conv %w, %wp {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x16x6x6xf32>, tensor<8x16x1x1xf32>) -> tensor<2x8x6x6xf32>
  %y = graph.add %x, %p : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  %z = graph.mul %y, %y : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x8x6x6xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// A ResNeXt's, with pools, and a norm with running statistics.
const char *const kGroups =
    R"(
graph.parameter @reduce : tensor<16x8x1x1xf32> role = trainable
graph.parameter @grouped : tensor<32x4x3x3xf32> role = trainable
graph.parameter @grouped_bias : tensor<32xf32> role = trainable
graph.parameter @scale : tensor<32xf32> role = trainable
graph.parameter @bias : tensor<32xf32> role = trainable
graph.parameter @mean : tensor<32xf32> role = buffer
graph.parameter @variance : tensor<32xf32> role = buffer
graph.parameter @expand : tensor<8x32x1x1xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x8x6x6xf32>):
  %wr = graph.read @reduce : tensor<16x8x1x1xf32>
  %a = graph.conv %x, %wr {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<16x8x1x1xf32>) -> tensor<2x16x6x6xf32>
  %p, %i = graph.max_pool %a {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 5, 5>} : (tensor<2x16x6x6xf32>) -> (tensor<2x16x5x5xf32>, tensor<2x16x5x5xi32>)
  %wg = graph.read @grouped : tensor<32x4x3x3xf32>
  %bg = graph.read @grouped_bias : tensor<32xf32>
  %g = graph.conv %p, %wg, %bg {)" AROUND
    R"(, groups = 4 : i64} : (tensor<2x16x5x5xf32>, tensor<32x4x3x3xf32>, tensor<32xf32>) -> tensor<2x32x5x5xf32>
  %s = graph.read @scale : tensor<32xf32>
  %b = graph.read @bias : tensor<32xf32>
  %m = graph.read @mean : tensor<32xf32>
  %v0 = graph.read @variance : tensor<32xf32>
  %v = graph.mul %v0, %v0 : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %n = graph.batch_norm_apply %g, %s, %b, %m, %v {epsilon = 1.0e-1 : f64} : (tensor<2x32x5x5xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<2x32x5x5xf32>
  %c = graph.sum_pool %n {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 4, 4>} : (tensor<2x32x5x5xf32>) -> tensor<2x32x4x4xf32>
  %we = graph.read @expand : tensor<8x32x1x1xf32>
  %y = graph.conv %c, %we {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x32x4x4xf32>, tensor<8x32x1x1xf32>) -> tensor<2x8x4x4xf32>
  %z = graph.mul %y, %y : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x8x4x4xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// A block of a diffusion model: groups of channels are normalized by themselves.
const char *const kGroupNorm =
    R"(
graph.parameter @expand : tensor<16x8x1x1xf32> role = trainable
graph.parameter @scale : tensor<16xf32> role = trainable
graph.parameter @bias : tensor<16xf32> role = trainable
graph.parameter @project : tensor<8x16x3x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x8x5x5xf32>):
  %we = graph.read @expand : tensor<16x8x1x1xf32>
  %e = graph.conv %x, %we {)" POINT
    R"(, groups = 1 : i64} : (tensor<2x8x5x5xf32>, tensor<16x8x1x1xf32>) -> tensor<2x16x5x5xf32>
  %s = graph.read @scale : tensor<16xf32>
  %b = graph.read @bias : tensor<16xf32>
  %n, %m, %v = graph.group_norm %e, %s, %b {groups = 8 : i64, epsilon = 1.0e-1 : f64} : (tensor<2x16x5x5xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x5x5xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %a = graph.silu %n : (tensor<2x16x5x5xf32>) -> tensor<2x16x5x5xf32>
  %wp = graph.read @project : tensor<8x16x3x3xf32>
  %p = graph.conv %a, %wp {)" AROUND
    R"(, groups = 1 : i64} : (tensor<2x16x5x5xf32>, tensor<8x16x3x3xf32>) -> tensor<2x8x5x5xf32>
  %y = graph.add %x, %p : (tensor<2x8x5x5xf32>, tensor<2x8x5x5xf32>) -> tensor<2x8x5x5xf32>
  %z = graph.mul %y, %y : (tensor<2x8x5x5xf32>, tensor<2x8x5x5xf32>) -> tensor<2x8x5x5xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x8x5x5xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// A decoder: channels of a transposed convolution, then of one in groups, then the sum over them.
const char *const kTransposed =
    R"(
graph.parameter @up : tensor<8x16x3x3xf32> role = trainable
graph.parameter @up_bias : tensor<16xf32> role = trainable
graph.parameter @grouped : tensor<16x2x1x1xf32> role = trainable
graph.parameter @down : tensor<8x8x3x3xf32> role = trainable
graph.parameter @down_bias : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x8x5x5xf32>):
  %wu = graph.read @up : tensor<8x16x3x3xf32>
  %bu = graph.read @up_bias : tensor<16xf32>
  %u = graph.conv_transpose %x, %wu, %bu {)" AROUND
    R"(, groups = 1 : i64, sizes = array<i64: 5, 5>} : (tensor<2x8x5x5xf32>, tensor<8x16x3x3xf32>, tensor<16xf32>) -> tensor<2x16x5x5xf32>
  %r = graph.relu %u : (tensor<2x16x5x5xf32>) -> tensor<2x16x5x5xf32>
  %wg = graph.read @grouped : tensor<16x2x1x1xf32>
  %g = graph.conv_transpose %r, %wg {)" POINT
    R"(, groups = 4 : i64, sizes = array<i64: 5, 5>} : (tensor<2x16x5x5xf32>, tensor<16x2x1x1xf32>) -> tensor<2x8x5x5xf32>
  %wd = graph.read @down : tensor<8x8x3x3xf32>
  %bd = graph.read @down_bias : tensor<8xf32>
  %y = graph.conv_transpose %g, %wd, %bd {)" AROUND
    R"(, groups = 1 : i64, sizes = array<i64: 5, 5>} : (tensor<2x8x5x5xf32>, tensor<8x8x3x3xf32>, tensor<8xf32>) -> tensor<2x8x5x5xf32>
  %z = graph.mul %y, %y : (tensor<2x8x5x5xf32>, tensor<2x8x5x5xf32>) -> tensor<2x8x5x5xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x8x5x5xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// Numbers that are drawn for columns, in runs of three where a reshape makes a part of them.
const char *const kRandom = R"(
graph.parameter @up : tensor<6x24xf32> role = trainable
graph.parameter @down : tensor<24x6xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<5x6xf32>):
  %wu = graph.read @up : tensor<6x24xf32>
  %h = graph.matmul %x, %wu : (tensor<5x6xf32>, tensor<6x24xf32>) -> tensor<5x24xf32>
  %a = graph.reshape %h {shape = array<i64: 5, 8, 3>} : (tensor<5x24xf32>) -> tensor<5x8x3xf32>
  %d, %m = graph.dropout %a {ratio = 0.4 : f64, id = 1 : i64} : (tensor<5x8x3xf32>) -> (tensor<5x8x3xf32>, tensor<5x8x3xi1>)
  %noise = graph.random {type = tensor<5x8x3xf32>, id = 2 : i64, normal} : () -> tensor<5x8x3xf32>
  %uniform = graph.random {type = tensor<5x8x3xf32>, id = 3 : i64} : () -> tensor<5x8x3xf32>
  %e = graph.mul %d, %noise : (tensor<5x8x3xf32>, tensor<5x8x3xf32>) -> tensor<5x8x3xf32>
  %f = graph.add %e, %uniform : (tensor<5x8x3xf32>, tensor<5x8x3xf32>) -> tensor<5x8x3xf32>
  %g = graph.reshape %f {shape = array<i64: 5, 24>} : (tensor<5x8x3xf32>) -> tensor<5x24xf32>
  %wd = graph.read @down : tensor<24x6xf32>
  %y = graph.matmul %g, %wd : (tensor<5x24xf32>, tensor<24x6xf32>) -> tensor<5x6xf32>
  %z = graph.mul %y, %y : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1>} : (tensor<5x6xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// Attention of 8 heads that share H heads of keys, of 4 numbers each, W in all.
const char *const kSharedKeys = R"(graph.parameter @q : tensor<16x32xf32> role = trainable
graph.parameter @k : tensor<16xWxf32> role = trainable
graph.parameter @v : tensor<16xWxf32> role = trainable
graph.parameter @o : tensor<32x16xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<10x16xf32>):
  %wq = graph.read @q : tensor<16x32xf32>
  %wk = graph.read @k : tensor<16xWxf32>
  %wv = graph.read @v : tensor<16xWxf32>
  %wo = graph.read @o : tensor<32x16xf32>
  %xq = graph.matmul %x, %wq : (tensor<10x16xf32>, tensor<16x32xf32>) -> tensor<10x32xf32>
  %xk = graph.matmul %x, %wk : (tensor<10x16xf32>, tensor<16xWxf32>) -> tensor<10xWxf32>
  %xv = graph.matmul %x, %wv : (tensor<10x16xf32>, tensor<16xWxf32>) -> tensor<10xWxf32>
  %rq = graph.reshape %xq {shape = array<i64: 2, 5, 8, 4>} : (tensor<10x32xf32>) -> tensor<2x5x8x4xf32>
  %rk = graph.reshape %xk {shape = array<i64: 2, 5, H, 4>} : (tensor<10xWxf32>) -> tensor<2x5xHx4xf32>
  %rv = graph.reshape %xv {shape = array<i64: 2, 5, H, 4>} : (tensor<10xWxf32>) -> tensor<2x5xHx4xf32>
  %hq = graph.transpose %rq {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x8x4xf32>) -> tensor<2x8x5x4xf32>
  %hk = graph.transpose %rk {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5xHx4xf32>) -> tensor<2xHx5x4xf32>
  %hv = graph.transpose %rv {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5xHx4xf32>) -> tensor<2xHx5x4xf32>
  %a, %l = graph.attention %hq, %hk, %hv {scale = 0.5 : f64, causal} : (tensor<2x8x5x4xf32>, tensor<2xHx5x4xf32>, tensor<2xHx5x4xf32>) -> (tensor<2x8x5x4xf32>, tensor<2x8x5xf32>)
  %t = graph.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8x5x4xf32>) -> tensor<2x5x8x4xf32>
  %r = graph.reshape %t {shape = array<i64: 10, 32>} : (tensor<2x5x8x4xf32>) -> tensor<10x32xf32>
  %y = graph.matmul %r, %wo : (tensor<10x32xf32>, tensor<32x16xf32>) -> tensor<10x16xf32>
  %z = graph.mul %y, %y : (tensor<10x16xf32>, tensor<10x16xf32>) -> tensor<10x16xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1>} : (tensor<10x16xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

std::string sharedKeys(int64_t heads) {
  std::string text = kSharedKeys;
  for (auto [letter, number] : {std::pair('H', heads), std::pair('W', 4 * heads)})
    for (size_t at; (at = text.find(letter)) != std::string::npos;)
      text.replace(at, 1, std::to_string(number));
  return text;
}

/// Normal numbers for an element of each of `bytes`.
Bytes drawFloats(mlir::Type type, std::mt19937 &draw) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(mlir::cast<mlir::RankedTensorType>(type).getNumElements()));
  for (float &value : values)
    value = normal(draw);
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct ShardProgram : InParts, testing::WithParamInterface<std::tuple<Program, int64_t>> {};

TEST_P(ShardProgram, ComputesWhatTheWholeProgramComputes) {
  auto [program, ranks] = GetParam();
  context.loadDialect<graph::GraphDialect>();
  auto whole = mlir::parseSourceString<mlir::ModuleOp>(program.text, &context);
  auto parts = mlir::parseSourceString<mlir::ModuleOp>(program.text, &context);
  ASSERT_TRUE(whole && parts);
  compileStep(*whole, 1);
  compileStep(*parts, ranks);
  auto reference = Interpreter::prepare(*whole, kernels);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  std::mt19937 draw(7);
  for (auto parameter : whole->getOps<graph::ParameterOp>())
    reference->parameters[parameter.getSymName().str()] = drawFloats(parameter.getType(), draw);
  graph::ProgramOp micro = graph::programOf(*whole, graph::Phase::micro);
  for (auto [name, input] : llvm::zip(micro.getInputNames(), micro.getBlock().getArguments()))
    reference->inputs[mlir::cast<mlir::StringAttr>(name).str()] = drawFloats(input.getType(), draw);
  expectSame(*reference, *parts, ranks, program.share, program.name);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ShardProgram,
    testing::Combine(testing::Values(Program{"InvertedResidual", kInvertedResidual}, Program{"Groups", kGroups},
                                     Program{"Transposed", kTransposed}, Program{"Random", kRandom},
                                     Program{"GroupNorm", kGroupNorm}, Program{"OneHeadOfKeys", sharedKeys(1), 0.8},
                                     Program{"TwoHeadsOfKeys", sharedKeys(2), 0.6}),
                     testing::Values(2, 4)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).name) + std::to_string(std::get<1>(info.param));
    });

} // namespace
