//===- FiniteDifferencesTest.cpp - every derivative against central differences ===//
//
// loss = sum(result 0 * weights), for one op on random f64 parameters. Backward by `differentiate`, run on the
// reference kernels; each component of each gradient against (loss(p + h) - loss(p - h)) / 2h.
//
//===----------------------------------------------------------------------===//
#include "compiler/grad/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "test/compiler/grad/Cases.h"
#include "test/support/Interpreter.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace zc;
using namespace zc::test;

namespace {

bool isParameter(const std::string &operand) { return operand.rfind("dense", 0) != 0; }
std::string tensorType(const std::string &type) { return "tensor<" + type + ">"; }

/// The type of an operand, which for a constant stands behind its colon.
std::string operandType(const std::string &operand) {
  return isParameter(operand) ? tensorType(operand) : operand.substr(operand.find(" : ") + 3);
}

int64_t countElements(const std::string &type) {
  int64_t count = 1;
  for (size_t at = 0, x = type.find('x'); x != std::string::npos; at = x + 1, x = type.find('x', at))
    count *= std::stoll(type.substr(at, x - at));
  return count;
}

/// Rank of a type as text: its number of dimensions.
size_t rankOf(const std::string &type) { return std::count(type.begin(), type.end(), 'x'); }

/// Fixed weights, all different and none zero, nested as MLIR writes a dense attribute of the type.
std::string denseWeights(const std::string &type) {
  int64_t count = countElements(type);
  if (count == 0)
    return "dense<> : " + tensorType(type);
  std::string flat;
  for (int64_t i = 0; i < count; ++i)
    flat += (i ? ", " : "") + std::to_string(0.5 + 0.37 * double(i % 7) - (i % 2 ? 1.9 : 0.0));
  return "dense<[" + flat + "]> : tensor<" + std::to_string(count) + "xf64>";
}

/// The micro program of a case.
std::string moduleText(const Case &test) {
  std::string declarations, body, names, types, results;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    std::string n = std::to_string(i), type = operandType(test.operands[i]);
    if (isParameter(test.operands[i])) {
      declarations += "graph.parameter @p" + n + " : " + type + " role = trainable\n";
      body += "  %p" + n + " = graph.read @p" + n + " : " + type + "\n";
    } else {
      body += "  %p" + n + " = graph.constant " + test.operands[i] + "\n";
    }
    names += (i ? ", %p" : "%p") + n;
    types += (i ? ", " : "") + type;
  }
  for (const std::string &result : test.results)
    results += (results.empty() ? "" : ", ") + tensorType(result);
  const std::string &result = test.results[0];
  std::string axes;
  for (size_t i = 0; i < rankOf(result); ++i)
    axes += (i ? ", " : ": ") + std::to_string(i);
  std::string weightType =
      countElements(result) == 0 ? tensorType(result) : "tensor<" + std::to_string(countElements(result)) + "xf64>";
  std::string shape;
  for (size_t at = 0, x = result.find('x'); x != std::string::npos; at = x + 1, x = result.find('x', at))
    shape += (shape.empty() ? ": " : ", ") + result.substr(at, x - at);
  std::string y = tensorType(result);
  body += "  %y:" + std::to_string(test.results.size()) + " = graph." + test.op + " " + names + " " + test.attributes +
          " : (" + types + ") -> (" + results + ")\n" +                                                          //
          "  %flat = graph.constant " + denseWeights(result) + "\n" +                                            //
          "  %w = graph.reshape %flat {shape = array<i64" + shape + ">} : (" + weightType + ") -> " + y + "\n" + //
          "  %z = graph.mul %y#0, %w : (" + y + ", " + y + ") -> " + y + "\n" +                                  //
          "  %loss = graph.reduce_sum %z {axes = array<i64" + axes + ">} : (" + y + ") -> tensor<f64>\n" +
          "  graph.return %loss : tensor<f64>\n";
  return declarations + "graph.program @micro phase = micro inputs = [] {\n" + body + "}\n";
}

double asDouble(const Bytes &bytes, size_t index) {
  double value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(double), sizeof(double));
  return value;
}
void setDouble(Bytes &bytes, size_t index, double value) {
  std::memcpy(bytes.data() + index * sizeof(double), &value, sizeof(double));
}

class FiniteDifferences : public testing::TestWithParam<Case> {
protected:
  FiniteDifferences() {
    context.loadDialect<graph::GraphDialect>();
    registerCpuKernels(kernels, /*referenceOnly=*/true);
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  bool differentiate(mlir::ModuleOp module) {
    mlir::PassManager manager(&context);
    manager.addPass(createDifferentiate());
    return mlir::succeeded(manager.run(module));
  }

  /// Random parameters, the same for each interpreter of a case.
  static std::map<std::string, Bytes> drawParameters(const Case &test) {
    std::mt19937 random(17);
    std::uniform_real_distribution<double> draw(test.low, test.high);
    std::map<std::string, Bytes> parameters;
    for (size_t i = 0; i < test.operands.size(); ++i) {
      if (!isParameter(test.operands[i]))
        continue;
      int64_t count = countElements(test.operands[i]);
      Bytes bytes(std::max<int64_t>(1, count * 8));
      for (int64_t k = 0; k < count; ++k) {
        double value = draw(random);
        while (std::abs(value) < test.gap)
          value = draw(random);
        setDouble(bytes, k, value);
      }
      parameters["p" + std::to_string(i)] = std::move(bytes);
    }
    return parameters;
  }

  mlir::MLIRContext context;
  KernelRegistry kernels;
};

double lossAt(Interpreter &forward, Bytes &parameter, size_t index, double value) {
  double kept = asDouble(parameter, index);
  setDouble(parameter, index, value);
  Status status = forward.run();
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  setDouble(parameter, index, kept);
  return asDouble(forward.results.at(0), 0);
}

TEST_P(FiniteDifferences, Agree) {
  const Case &test = GetParam();
  auto module = parse(moduleText(test)), backward = parse(moduleText(test));
  ASSERT_TRUE(module && backward) << moduleText(test);
  ASSERT_TRUE(differentiate(*backward));
  auto primal = Interpreter::prepare(*module, kernels), adjoint = Interpreter::prepare(*backward, kernels);
  ASSERT_TRUE(primal.ok()) << primal.error().message;
  ASSERT_TRUE(adjoint.ok()) << adjoint.error().message;
  primal->parameters = adjoint->parameters = drawParameters(test);
  Status status = adjoint->run();
  ASSERT_TRUE(status.ok()) << status.error().message;

  for (size_t i = 0; i < test.operands.size(); ++i) {
    if (!isParameter(test.operands[i]))
      continue;
    std::string name = "p" + std::to_string(i);
    ASSERT_EQ(adjoint->gradients.count(name), 1u) << name << " has no gradient";
    size_t count = countElements(test.operands[i]);
    std::vector<double> expected(count);
    double largest = 0;
    for (size_t k = 0; k < count; ++k) {
      constexpr double h = 1e-5;
      double at = asDouble(primal->parameters[name], k);
      expected[k] = (lossAt(*primal, primal->parameters[name], k, at + h) -
                     lossAt(*primal, primal->parameters[name], k, at - h)) /
                    (2 * h);
      largest = std::max(largest, std::abs(expected[k]));
    }
    // The differences themselves are good to about 1e-16 / h.
    for (size_t k = 0; k < count; ++k)
      EXPECT_NEAR(asDouble(adjoint->gradients[name], k), expected[k], 1e-6 * largest + 1e-9) << name << "[" << k << "]";
  }
}

/// Who forgets to say so would get one mask for all micro-steps.
TEST_P(FiniteDifferences, OnlyOpsThatSaySoDependOnTheMicroStep) {
  auto module = parse(moduleText(GetParam()));
  ASSERT_TRUE(module);
  bool depends = false;
  module->walk([&](graph::KernelOp kernel) { depends |= kernel.dependsOnMicroStep(); });
  auto forward = Interpreter::prepare(*module, kernels);
  ASSERT_TRUE(forward.ok()) << forward.error().message;
  forward->parameters = drawParameters(GetParam());
  std::vector<Bytes> losses;
  for (int64_t micro : {0, 1}) {
    StepContext step;
    step.micro = micro;
    Status status = forward->run(step);
    ASSERT_TRUE(status.ok()) << status.error().message;
    losses.push_back(forward->results.at(0));
  }
  EXPECT_TRUE(depends || losses[0] == losses[1]);
}

std::string caseName(const testing::TestParamInfo<Case> &info) {
  return info.param.op + "_" + std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Graph, FiniteDifferences, testing::ValuesIn(allCases()), caseName);

TEST(Differentiable, EveryOpHasAtLeastThreeCases) {
  mlir::MLIRContext context;
  context.loadDialect<graph::GraphDialect>();
  std::map<std::string, int> counts;
  for (const Case &test : allCases())
    ++counts["graph." + test.op];
  int differentiable = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    // What is of the model axis has no meaning on one rank: ShardTensorsTest.cpp.
    if (!name.hasInterface<graph::Differentiable>() || name.hasTrait<graph::Collective>() ||
        name.getStringRef() == graph::DivergeOp::getOperationName() ||
        name.getStringRef() == graph::AllSliceOp::getOperationName())
      continue;
    ++differentiable;
    EXPECT_GE(counts[name.getStringRef().str()], 3) << name.getStringRef().str();
  }
  EXPECT_GE(differentiable, 40);
}

// Finite differences cannot see ties: the gradient is split evenly, as torch does.
class Ties : public FiniteDifferences {};
TEST_F(Ties, AreSharedEvenly) {
  auto module = parse(R"(
    graph.parameter @a : tensor<3xf64> role = trainable
    graph.parameter @b : tensor<f64> role = trainable
    graph.program @micro phase = micro inputs = [] {
      %a = graph.read @a : tensor<3xf64>
      %b = graph.read @b : tensor<f64>
      %m = graph.max %a, %b : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
      %r = graph.reduce_max %m {axes = array<i64: 0>} : (tensor<3xf64>) -> tensor<f64>
      graph.return %r : tensor<f64>
    })");
  ASSERT_TRUE(module && differentiate(*module));
  auto run = Interpreter::prepare(*module, kernels);
  ASSERT_TRUE(run.ok());
  run->parameters["a"] = Bytes(24);
  for (size_t i = 0; i < 3; ++i)
    setDouble(run->parameters["a"], i, i == 0 ? 1.0 : 5.0);
  run->parameters["b"] = Bytes(8);
  setDouble(run->parameters["b"], 0, 5.0);
  ASSERT_TRUE(run->run().ok());
  // All three maxima are 5: a third each; then a and b share it where they are equal, b takes it all where a is less.
  EXPECT_DOUBLE_EQ(asDouble(run->gradients["a"], 0), 0);
  EXPECT_DOUBLE_EQ(asDouble(run->gradients["a"], 1), 1.0 / 6);
  EXPECT_DOUBLE_EQ(asDouble(run->gradients["a"], 2), 1.0 / 6);
  EXPECT_DOUBLE_EQ(asDouble(run->gradients["b"], 0), 2.0 / 3);
}

} // namespace
