#include "test/conformance/Modes.h"
#include "compiler/import/base/HostTensor.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/cuda/Kernels.h"
#include "test/compiler/import/Run.h"
#include "test/conformance/Operators.h"
#include "test/conformance/Properties.h"
#include "test/conformance/Sharded.h"

#include <fstream>
#include <functional>
#include <set>
#include <unistd.h>

using namespace zc;
using namespace zc::test;
namespace fs = std::filesystem;

namespace {

using Names = std::set<std::string>;

const KernelRegistry &plain() {
  static const KernelRegistry kernels = referenceKernels(Target::cpu);
  return kernels;
}

/// Those of a GPU, laid over the plain ones.
const KernelRegistry &blocks() {
  static const KernelRegistry kernels = [] {
    KernelRegistry filled = referenceKernels(Target::cuda);
    cuda::registerHostBlockKernels(filled);
    return filled;
  }();
  return kernels;
}

/// One test in one mode.
class Run {
public:
  Run(NodeTest &test, Mode mode, const fs::path &scratch) : test(test), mode(mode), scratch(scratch) {}

  Outcome run() {
    Outcome outcome;
    if (!test.plainInputs)
      return {Verdict::refused, "an input is no tensor", Outcome::none};
    if (!readData(test, outcome.detail))
      return outcome;
    for (const NodeValue &value : test.inputs)
      if (!value.dtype)
        return {Verdict::refused, "an input has a foreign element type", Outcome::none};
    for (const Names &fixed : choices()) {
      outcome = attempt(fixed);
      outcome.fixed = fixed.empty() ? Outcome::none : fixed.size() < test.inputs.size() ? Outcome::some : Outcome::all;
      if (outcome.verdict != Verdict::refused)
        return outcome;
    }
    return outcome;
  }

private:
  /// Which inputs are fixed, in the order in which it is tried: as few as possible, and data last.
  std::vector<Names> choices() const {
    std::vector<Names> sets = {{}};
    Names integers, small, butFirst, all;
    for (const NodeValue &value : test.inputs) {
      bool isInteger = *value.dtype != DType::f32 && *value.dtype != DType::f64 && *value.dtype != DType::f16 &&
                       *value.dtype != DType::bf16;
      if (value.dims.size() <= 1) {
        small.insert(value.name);
        if (isInteger) {
          integers.insert(value.name);
          sets.push_back({value.name});
        }
      }
      if (!all.empty())
        butFirst.insert(value.name);
      all.insert(value.name);
    }
    for (const Names &names : {integers, small, butFirst, all})
      if (names != sets.back())
        sets.push_back(names);
    return sets;
  }

  Outcome attempt(const Names &fixed) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    importer::ImportOptions options;
    options.forwardOnly = true;
    for (const NodeValue &value : test.inputs)
      if (fixed.count(value.name))
        options.fixedInputs[value.name] = value.bytes;
    fs::path model = test.folder / "model.onnx";
    if (mode == Mode::dynamic)
      model = makeDynamic(fixed, options);
    auto module = importer::importOnnx(context, model.string(), options);
    if (mode == Mode::dynamic)
      fs::remove(model);
    if (!module.ok()) {
      bool refused = module.error().code == Code::unsupported || module.error().code == Code::usage;
      return {refused ? Verdict::refused : Verdict::failed, render(module.error()), Outcome::none};
    }
    auto ranks = mode == Mode::sharded ? runSharded(**module, test.inputs) : interpret(**module);
    if (!ranks.ok())
      return {Verdict::failed, render(ranks.error()), Outcome::none};
    std::string wrong;
    for (const std::vector<NodeValue> &actual : *ranks)
      wrong = wrong.empty() ? checkProperties(test, actual) : wrong;
    for (size_t k = 0; k < ranks->back().size() && wrong.empty() && !isRandom(test); ++k)
      if (ranks->front()[k].bytes != ranks->back()[k].bytes)
        wrong = "the ranks differ in output " + std::to_string(k);
    return {wrong.empty() ? Verdict::passed : Verdict::failed, wrong, Outcome::none,
            mode == Mode::forward ? evidenceOf(test, **module) : ""};
  }

  /// A copy of the model in which the inputs' dimensions are symbols, which `options` bind.
  fs::path makeDynamic(const Names &fixed, importer::ImportOptions &options) {
    onnxpb::Model model = test.model;
    int index = 0;
    for (onnxpb::ValueInfo &input : *model.mutable_graph()->mutable_input()) {
      const NodeValue &value = test.inputs[index++];
      auto *shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
      if (fixed.count(input.name()))
        continue;
      for (int d = 0; d < shape->dim_size(); ++d) {
        std::string symbol = "d" + std::to_string(index) + "_" + std::to_string(d);
        shape->mutable_dim(d)->clear_dim_value();
        shape->mutable_dim(d)->set_dim_param(symbol);
        options.dims[symbol] = value.dims[d];
      }
    }
    fs::path path = scratch / (std::to_string(getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return path;
  }

  /// As if of one rank.
  Result<std::vector<std::vector<NodeValue>>> interpret(mlir::ModuleOp module) {
    std::vector<NodeValue> actual;
    auto interpreter = prepareModel(module, mode == Mode::blocks ? blocks() : plain());
    ZC_RETURN_IF_ERROR(interpreter.status());
    for (const NodeValue &value : test.inputs) {
      Bytes &bytes = interpreter->inputs[value.name];
      bytes = value.bytes;
      bytes.resize(std::max<size_t>(bytes.size(), 1)); // an empty tensor has an address
    }
    ZC_RETURN_IF_ERROR(interpreter->run());
    graph::ProgramOp program = *module.getOps<graph::ProgramOp>().begin();
    auto results = program.getBlock().getTerminator()->getOperands();
    for (size_t k = 0; k < results.size(); ++k) {
      auto type = *graph::toTensorType(results[k].getType());
      actual.push_back({"", type.dtype, type.dims, interpreter->results[k]});
    }
    return std::vector<std::vector<NodeValue>>{std::move(actual)};
  }

  NodeTest &test;
  const Mode mode;
  const fs::path &scratch;
};

} // namespace

Outcome test::runNodeTest(NodeTest &test, Mode mode, const fs::path &scratch) { return Run(test, mode, scratch).run(); }
