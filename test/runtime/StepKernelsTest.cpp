// Who computes a plan's steps, and plans that are refused because nobody does.
#include "runtime/exec/StepKernels.h"

#include <gtest/gtest.h>

namespace zc {
namespace {

/// Steps of tensors of 2 elements.
class StepKernels : public testing::Test {
protected:
  StepKernels() {
    registerCpuKernels(host);
    plan.add_strings("");
    for (planpb::Type type : {planpb::F32, planpb::F64}) {
      planpb::TensorType *added = plan.add_types();
      added->set_type(type);
      added->add_dims(2);
    }
  }

  const planpb::Step &add(const std::string &kernel, int inputs, uint32_t type = 0,
                          planpb::Queue queue = planpb::COMPUTE) {
    planpb::Step *step = plan.mutable_micro()->add_steps();
    step->set_queue(queue);
    step->set_inputs(static_cast<uint32_t>(inputs));
    step->set_kernel(static_cast<uint32_t>(plan.strings_size()));
    plan.add_strings(kernel);
    step->set_node(static_cast<uint32_t>(plan.strings_size()));
    plan.add_strings("/" + kernel);
    for (int i = 0; i <= inputs; ++i)
      step->add_operands()->set_type(type);
    return *step;
  }
  std::string by(const planpb::Step &step, Target target) {
    auto found = implementationOf(plan, step, target, host);
    if (!found.ok())
      return found.error().message;
    return *found ? namesOf((*found)->kind)[static_cast<size_t>((*found)->kind)] : "none";
  }

  planpb::Plan plan;
  KernelRegistry host;
};

TEST_F(StepKernels, areOfTheProcessorThatServesTheQueue) {
  EXPECT_EQ(by(add("gelu", 1), Target::cuda), "own");
  EXPECT_EQ(by(add("gelu", 1), Target::cpu), "own");
  EXPECT_EQ(by(add("gelu", 1, 1), Target::cpu), "reference"); // the fast one does not take f64
  EXPECT_EQ(by(add("gelu", 1, 1, planpb::HOST_COMPUTE), Target::cuda), "reference");
  EXPECT_EQ(by(add("matmul", 2), Target::cuda), "library");
  EXPECT_EQ(by(add("all_gather", 1, 0, planpb::COMM), Target::cuda), "runtime");
  EXPECT_EQ(by(add("h2d", 1, 0, planpb::H2D), Target::cpu), "runtime");
}

TEST_F(StepKernels, thatNobodyHasAreCountedBeforeTheFirstStep) {
  add("gelu", 1);
  EXPECT_TRUE(checkImplementations(plan, Target::cuda, host).ok());
  add("tidy_up", 1);
  add("sweep", 1);
  for (Target target : {Target::cpu, Target::cuda}) {
    plan.set_target(target == Target::cuda ? planpb::CUDA : planpb::CPU);
    Status status = checkImplementations(plan, target, host);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::unsupported);
    EXPECT_EQ(status.error().number, 652);
    EXPECT_EQ(status.error().message, "2 steps have no implementation on " +
                                          std::string(namesOf(target)[static_cast<size_t>(target)]) +
                                          ", the first is kernel \"tidy_up\" of node \"/tidy_up\"");
  }
}

TEST_F(StepKernels, thatNobodyHasInAPlanForAnotherTargetSayHowToCompileForThis) {
  add("tidy_up", 1);
  for (Target target : {Target::cpu, Target::cuda}) {
    const std::string name = namesOf(target)[static_cast<size_t>(target)],
                      other = target == Target::cpu ? "cuda" : "cpu";
    plan.set_target(target == Target::cuda ? planpb::CPU : planpb::CUDA);
    plan.set_command("zero-compile /m.onnx --target " + other + " --world-size 2");
    Status status = checkImplementations(plan, target, host);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::mismatch);
    EXPECT_EQ(status.error().message, "1 step has no implementation on " + name +
                                          ", the first is kernel \"tidy_up\" of node \"/tidy_up\"; the plan is for " +
                                          other);
    EXPECT_EQ(status.error().help, "zero-compile /m.onnx --world-size 2 --target " + name + " -o PLAN");
    plan.clear_command(); // as of one that was written by hand
    EXPECT_EQ(checkImplementations(plan, target, host).error().help,
              "zero-compile MODEL.onnx --target " + name + " -o PLAN");
  }
}

TEST_F(StepKernels, thatArePlainLoopsAreToldOfWhereTheyMatter) {
  plan.mutable_report()->set_predicted_step_seconds(1);
  plan.set_accumulation(1);
  auto take = [&](const std::string &kernel, uint32_t type, double seconds) {
    add(kernel, 1, type);
    plan.mutable_micro()->mutable_steps()->rbegin()->set_seconds(seconds);
  };
  take("gelu", 1, 0.004); // too little of it
  take("gelu", 0, 0.5);   // not by plain loops
  for (int i = 0; i < 1000; ++i)
    take("sqrt", 1, 1e-6); // what any step costs
  EXPECT_TRUE(plainLoopNotes(plan, Target::cpu, host).empty());
  take("gelu", 1, 0.0009); // small ones count together
  take("gelu", 1, 0.0003);
  EXPECT_EQ(plainLoopNotes(plan, Target::cpu, host).size(), size_t{1});
  take("gelu", 1, 0.25);
  EXPECT_EQ(plainLoopNotes(plan, Target::cpu, host),
            std::vector<std::string>{
                "node \"/gelu\" and 3 more: plain loops compute gelu, 26 % of the time that is predicted "
                "(zero-run inspect PLAN --kernels)"});
  plan.set_accumulation(2); // of a step, not of a micro-step
  EXPECT_EQ(plainLoopNotes(plan, Target::cpu, host).size(), size_t{1});
  plan.mutable_report()->set_predicted_step_seconds(1000);
  EXPECT_TRUE(plainLoopNotes(plan, Target::cpu, host).empty());
}

TEST_F(StepKernels, thatArePlainLoopsTakeTheirTimePerElement) {
  plan.mutable_report()->set_predicted_step_seconds(1);
  plan.set_accumulation(1);
  planpb::TensorType *large = plan.add_types();
  large->set_type(plan.types(1).type()); // that of the plain loops above
  large->add_dims(10'000'000);
  add("gelu", 1, 2);
  plan.mutable_micro()->mutable_steps(0)->set_seconds(0.001);
  EXPECT_EQ(plainLoopNotes(plan, Target::cpu, host),
            std::vector<std::string>{"node \"/gelu\": plain loops compute gelu, 7.4 % of the time that is predicted "
                                     "(zero-run inspect PLAN --kernels)"});
  plan.mutable_micro()->mutable_steps(0)->set_seconds(1e-6); // touches little of it
  EXPECT_TRUE(plainLoopNotes(plan, Target::cpu, host).empty());
}

TEST_F(StepKernels, ofOneKernelMayDifferByTheirAttributes) {
  plan.mutable_report()->set_predicted_step_seconds(1);
  plan.set_accumulation(1);
  planpb::TensorType *matrix = plan.add_types();
  matrix->set_type(planpb::F32);
  matrix->add_dims(2);
  matrix->add_dims(3);
  add("softmax", 1, 2);
  planpb::Step *step = plan.mutable_micro()->mutable_steps(0);
  plan.add_strings("axis");
  step->add_attributes()->set_name(uint32_t(plan.strings_size() - 1));
  step->mutable_attributes(0)->set_integer(1);
  step->set_seconds(0.5);
  EXPECT_TRUE(plainLoopNotes(plan, Target::cpu, host).empty());
  *plan.mutable_micro()->add_steps() = *step;
  plan.mutable_micro()->mutable_steps(1)->mutable_attributes(0)->set_integer(0); // along columns: plain loops
  EXPECT_EQ(plainLoopNotes(plan, Target::cpu, host).size(), size_t{1});
}

} // namespace
} // namespace zc
