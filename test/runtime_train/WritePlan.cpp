//===- WritePlan.cpp - the test plans as files, for cli*.py --------------------------------------------===//
//
// zc-write-train-plan FOLDER WORLD_SIZE ACCUMULATION PLACEMENT (0, 1, 2): writes model.onnx, data.safetensors and
// tiny.plan.
//
//===----------------------------------------------------------------------===//
#include "runtime/plan/PlanFile.h"
#include "test/runtime_train/TrainPlan.h"

#include <cstdio>

using namespace zc;

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  std::string folder = argv[1];
  auto worldSize = uint32_t(std::stoi(argv[2])), accumulation = uint32_t(std::stoi(argv[3]));
  test::TempFolder temporary;
  std::string data = test::dataFile(temporary, worldSize, 13);
  std::filesystem::copy_file(data, folder + "/data.safetensors", std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder + "/model.onnx", std::ios::binary) << test::modelBytes();
  planpb::Plan plan = test::trainPlan(folder + "/model.onnx", worldSize, accumulation,
                                      static_cast<test::Placement>(std::stoi(argv[4])));
  plan.mutable_parameters(0)->clear_tied(); // tied ones cannot be exported as ONNX
  Status status = writePlan(folder + "/tiny.plan", plan);
  if (status.ok())
    status = writePlan(folder + "/eval.plan", test::evalPlan(folder + "/model.onnx", worldSize, /*sharded=*/true));
  if (!status.ok())
    std::fprintf(stderr, "%s\n", render(status.error()).c_str());
  return status.ok() ? 0 : 1;
}
