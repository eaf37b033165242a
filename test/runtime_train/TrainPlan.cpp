#include "test/runtime_train/TrainPlan.h"

#include "runtime/plan/Walk.h"
#include "test/runtime/TestPlan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zc::test {

using namespace planpb;

std::vector<float> initialWeights() {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i)
    values.push_back(float(i - 50) / 64);
  return values;
}

std::string modelBytes() { return "HEAD" + rawBytes(initialWeights()) + "TAIL"; }

int64_t paddedElements(uint32_t worldSize) { return (100 / int64_t(worldSize) + 63) / 64 * 64 * worldSize; }

float sampleElement(int64_t sample, int64_t i) { return i < 100 ? float((sample * 7 + i * 3) % 11 - 5) / 8 : 0; }

std::string dataFile(const TempFolder &folder, uint32_t worldSize, int64_t samples) {
  int64_t padded = paddedElements(worldSize);
  std::vector<float> x;
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t i = 0; i < padded; ++i)
      x.push_back(sampleElement(s, i));
  std::string header = "{\"x\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(samples) + "," +
                       std::to_string(padded) + "],\"data_offsets\":[0," + std::to_string(x.size() * 4) + "]}}";
  return folder.write("data.safetensors", safetensors(header, rawBytes(x)));
}

static void describeModel(Plan &plan, const std::string &model) {
  std::string bytes = modelBytes();
  plan.mutable_model()->set_path(model);
  plan.mutable_model()->set_bytes(bytes.size());
  plan.mutable_model()->set_hash(XXH3_64bits(bytes.data(), bytes.size()));
  Parameter &parameter = *plan.add_parameters();
  parameter.set_name("w");
  parameter.add_tied("v");
  parameter.set_slice(-1);
  parameter.mutable_source()->set_file(model.substr(model.rfind('/') + 1));
  parameter.mutable_source()->set_offset(4);
  parameter.mutable_source()->set_bytes(400);
}

Plan trainPlan(const std::string &model, uint32_t worldSize, uint32_t accumulation, bool stage3) {
  PlanBuilder b(worldSize, accumulation);
  int64_t padded = paddedElements(worldSize), shard = padded / worldSize;
  uint64_t wholeBytes = uint64_t(padded) * 4, shardBytes = uint64_t(shard) * 4;
  uint32_t whole = b.type(F32, {padded}), part = b.type(F32, {shard}), rows = b.type(F32, {1, padded});
  uint32_t sum = b.type(F64, {1}), scalar = b.type(F32, {}), limbs = b.type(I64, {24});
  uint32_t weights = b.slice("weights", stage3 ? shardBytes : wholeBytes, true);
  uint32_t gradient = b.slice("gradient", shardBytes, true), m = b.slice("m", shardBytes, true),
           v = b.slice("v", shardBytes, true), lossSum = b.slice("loss_sum", 8, true), norm = b.slice("norm", 4, true);
  uint32_t x = b.slice("x", wholeBytes, false), product = b.slice("product", wholeBytes, false),
           flat = b.slice("flat", wholeBytes, false), loss = b.slice("loss", 4, false),
           accumulator = b.slice("accumulator", 192, false), factor = b.slice("factor", 4, false);
  uint32_t gathered = stage3 ? b.slice("gathered", wholeBytes, false) : weights;
  Plan &plan = b.plan;
  describeModel(plan, model);
  plan.mutable_parameters(0)->set_type(b.type(F32, {10, 10}));
  plan.mutable_metrics()->set_loss_slice(lossSum);
  plan.mutable_metrics()->set_grad_norm_slice(int(norm));
  plan.mutable_optimizer()->set_rule("adamw");
  plan.mutable_optimizer()->set_lr(0.01);
  Input &input = *plan.add_inputs();
  input.set_name("x");
  input.set_type(rows);
  Bucket &bucket = *plan.add_buckets();
  bucket.set_padded(uint64_t(padded));
  bucket.set_used(100);
  bucket.set_trainable(true);
  bucket.set_parameter_slice(int(weights));
  bucket.set_parameters_sharded(stage3);
  bucket.set_gradient_slice(int(gradient));
  bucket.set_gradients_sharded(true);
  bucket.set_master_slice(-1);
  bucket.set_moment1_slice(int(m));
  bucket.set_moment2_slice(int(v));
  bucket.set_optimizer_sharded(true);

  auto R = READ, W = WRITE, RW = READ_WRITE;
  uint64_t own = stage3 ? 0 : shardBytes; // from one rank's shard of `weights` to the next
  b.integer(b.step(0, COMPUTE, "load_input", 0, {b.operand(x, rows, W)}), "input", 0);
  if (stage3)
    b.text(b.step(0, COMM, "all_gather", 1, {b.operand(weights, part, R), b.operand(gathered, whole, W)}), "traffic",
           "gather");
  b.step(0, COMPUTE, "mul", 2, {b.operand(gathered, whole, R), b.operand(x, whole, R), b.operand(product, whole, W)});
  Step &reduce = b.step(0, COMPUTE, "reduce_sum", 1, {b.operand(product, whole, R), b.operand(loss, scalar, W)});
  planpb::Attribute &axes = *reduce.add_attributes();
  axes.set_name(b.string("axes"));
  axes.add_integers(0);
  b.step(0, COMPUTE, "copy", 1, {b.operand(x, whole, R), b.operand(flat, whole, W)});
  Step &scatter = b.step(0, COMM, "reduce_scatter", 1, {b.operand(flat, whole, R), b.operand(gradient, part, RW)});
  b.real(scatter, "scale", 1.0 / (worldSize * accumulation));
  b.integer(scatter, "accumulate", 1);
  b.text(scatter, "traffic", "reduce_scatter");
  b.step(0, COMPUTE, "accumulate_loss", 1, {b.operand(loss, scalar, R), b.operand(lossSum, sum, RW)});

  Step &partial =
      b.step(1, COMPUTE, "norm_partial", 1, {b.operand(gradient, part, R), b.operand(accumulator, limbs, W)});
  b.integer(partial, "first", 1);
  b.step(1, COMM, "all_reduce", 0, {b.operand(accumulator, limbs, RW)});
  b.step(1, COMPUTE, "norm_finish", 1,
         {b.operand(accumulator, limbs, R), b.operand(norm, scalar, W), b.operand(factor, scalar, W)});
  Step &adam = b.step(1, COMPUTE, "adamw", 2,
                      {b.operand(gradient, part, R), b.operand(factor, scalar, R), b.operand(weights, part, RW, 0, own),
                       b.operand(m, part, RW), b.operand(v, part, RW)});
  b.real(adam, "beta1", 0.9);
  b.real(adam, "beta2", 0.999);
  b.real(adam, "eps", 1e-8);
  b.real(adam, "weight_decay", 0.01);
  if (!stage3)
    b.step(1, COMM, "all_gather", 1, {b.operand(weights, part, R, 0, own), b.operand(weights, whole, W)});
  b.step(1, COMM, "all_reduce", 0, {b.operand(lossSum, sum, RW)});
  Status status = addWaits(plan);
  EXPECT_TRUE(status.ok()) << render(status.error());
  return plan;
}

} // namespace zc::test
