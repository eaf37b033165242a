#include "test/runtime_train/TrainPlan.h"

#include "runtime/plan/Tiers.h"
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

namespace {

/// Slices and types that all placements have.
struct Builder : PlanBuilder {
  Builder(const std::string &model, uint32_t worldSize, uint32_t accumulation)
      : PlanBuilder(worldSize, accumulation), padded(paddedElements(worldSize)), shard(padded / worldSize),
        wholeBytes(uint64_t(padded) * 4), shardBytes(uint64_t(shard) * 4) {
    describeModel(plan, model);
    plan.mutable_parameters(0)->set_type(type(F32, {10, 10}));
    plan.mutable_metrics()->set_loss_slice(lossSum);
    plan.mutable_optimizer()->set_rule("adamw");
    plan.mutable_optimizer()->set_lr(0.01);
    Input &input = *plan.add_inputs();
    input.set_name("x");
    input.set_type(rows);
  }

  void bucket(uint32_t weights, bool sharded, uint32_t gradient, int master, uint32_t m, uint32_t v) {
    Bucket &bucket = *plan.add_buckets();
    along(bucket, mesh.dataAxes());
    bucket.set_padded(uint64_t(padded));
    bucket.set_used(100);
    bucket.set_trainable(true);
    bucket.set_parameter_slice(int(weights));
    bucket.set_parameters_sharded(sharded);
    bucket.set_gradient_slice(int(gradient));
    bucket.set_gradients_sharded(true);
    bucket.set_master_slice(master);
    bucket.set_moment1_slice(int(m));
    bucket.set_moment2_slice(int(v));
    bucket.set_optimizer_sharded(true);
  }

  void load() { integer(step(0, COMPUTE, "load_input", 0, {operand(x, rows, WRITE)}), "input", 0); }
  void gather(uint32_t section, Operand from, uint32_t to) {
    text(step(section, COMM, "all_gather", 1, {from, operand(to, whole, WRITE)}), "traffic", "gather");
  }
  /// loss = sum(weights * x); `flat`, the gradient, is x.
  void forwardAndBackward(uint32_t weights) {
    step(0, COMPUTE, "mul", 2,
         {operand(weights, whole, READ), operand(x, whole, READ), operand(product, whole, WRITE)});
    Step &reduce = step(0, COMPUTE, "reduce_sum", 1, {operand(product, whole, READ), operand(loss, scalar, WRITE)});
    planpb::Attribute &axes = *reduce.add_attributes();
    axes.set_name(string("axes"));
    axes.add_integers(0);
    step(0, COMPUTE, "copy", 1, {operand(x, whole, READ), operand(flat, whole, WRITE)});
  }
  /// The mean over ranks and micro-steps; accumulated there, if `accumulates`.
  void reduceScatter(uint32_t to, bool accumulates) {
    Step &scatter = step(0, COMM, "reduce_scatter", 1,
                         {operand(flat, whole, READ), operand(to, part, accumulates ? READ_WRITE : WRITE)});
    real(scatter, "scale", 1.0 / (uint32_t(mesh.dataDegree()) * plan.accumulation()));
    integer(scatter, "accumulate", accumulates);
    text(scatter, "traffic", "reduce_scatter");
  }
  void accumulateLoss() {
    step(0, COMPUTE, "accumulate_loss", 1, {operand(loss, scalar, READ), operand(lossSum, sum, READ_WRITE)});
  }
  /// Norm, clipping factor and update, all on one tier and queue. `out`: a copy of the weights, if there is one.
  void update(Queue queue, Tier tier, uint32_t gradient, Operand weights, uint32_t m, uint32_t v, int out = -1) {
    uint32_t norm = slice("norm", 4, true, -1, tier), accumulator = slice("accumulator", 192, false, -1, tier);
    uint32_t factor = slice("factor", 4, false, -1, tier);
    plan.mutable_metrics()->set_grad_norm_slice(int(norm));
    Step &partial =
        step(1, queue, "norm_partial", 1, {operand(gradient, part, READ), operand(accumulator, limbs, WRITE)});
    integer(partial, "first", 1);
    step(1, COMM, "all_reduce", 0, {operand(accumulator, limbs, READ_WRITE)});
    step(1, queue, "norm_finish", 1,
         {operand(accumulator, limbs, READ), operand(norm, scalar, WRITE), operand(factor, scalar, WRITE)});
    Step &adam = step(1, queue, "adamw", 2,
                      {operand(gradient, part, READ), operand(factor, scalar, READ), weights,
                       operand(m, part, READ_WRITE), operand(v, part, READ_WRITE)});
    if (out >= 0)
      *adam.add_operands() = operand(uint32_t(out), part, WRITE);
    real(adam, "beta1", 0.9);
    real(adam, "beta2", 0.999);
    real(adam, "eps", 1e-8);
    real(adam, "weight_decay", 0.01);
  }
  void output(const char *name, uint32_t from, uint32_t type, planpb::OutputKind kind) {
    Output &output = *plan.add_outputs();
    output.set_name(name);
    output.set_type(type);
    output.set_kind(kind);
    integer(step(0, COMPUTE, "store_output", 1, {operand(from, type, READ)}), "output", plan.outputs_size() - 1);
  }
  void copy(uint32_t section, const TierCopy &copy, uint32_t from, uint32_t to) {
    step(section, copy.queue, std::string(copy.kernel), 1, {operand(from, part, READ), operand(to, part, WRITE)});
  }

  int64_t padded, shard;
  uint64_t wholeBytes, shardBytes;
  uint32_t whole = type(F32, {padded}), part = type(F32, {shard}), rows = type(F32, {1, padded}), sum = type(F64, {1}),
           scalar = type(F32, {}), limbs = type(I64, {24});
  uint32_t lossSum = slice("loss_sum", 8, true), x = slice("x", wholeBytes, false),
           product = slice("product", wholeBytes, false), flat = slice("flat", wholeBytes, false),
           loss = slice("loss", 4, false);
};

/// All on the device.
void buildDevicePlan(Builder &b, bool sharded) {
  uint32_t weights = b.slice("weights", sharded ? b.shardBytes : b.wholeBytes, true);
  uint32_t gradient = b.slice("gradient", b.shardBytes, true), m = b.slice("m", b.shardBytes, true);
  uint32_t v = b.slice("v", b.shardBytes, true), gathered = weights;
  b.bucket(weights, sharded, gradient, -1, m, v);
  uint64_t own = sharded ? 0 : b.shardBytes; // from one rank's shard of `weights` to the next
  b.load();
  if (sharded) {
    gathered = b.slice("gathered", b.wholeBytes, false);
    b.gather(0, b.operand(weights, b.part, READ), gathered);
  }
  b.forwardAndBackward(gathered);
  b.reduceScatter(gradient, true);
  b.accumulateLoss();
  b.update(COMPUTE, DEVICE, gradient, b.operand(weights, b.part, READ_WRITE, 0, {0, own}), m, v);
  if (!sharded)
    b.gather(1, b.operand(weights, b.part, READ, 0, {0, own}), weights);
}

/// Weights and moments on nvme; gradients, master weights and the update on the host.
void buildTieredPlan(Builder &b) {
  auto [h2d, d2h, read, write] = kTierCopies;
  auto make = [&](const char *name, Tier tier, bool persistent) {
    return b.slice(name, b.shardBytes, persistent, -1, tier);
  };
  uint32_t weights = make("weights", NVME, true), m = make("m", NVME, true), v = make("v", NVME, true);
  uint32_t master = make("master", HOST, true), gradient = make("gradient", HOST, true);
  uint32_t staged = make("staged weights", HOST, false), fetched = make("fetched", DEVICE, false);
  uint32_t reduced = make("reduced", DEVICE, false), landed = make("landed", HOST, false);
  uint32_t stagedM = make("staged m", HOST, false), stagedV = make("staged v", HOST, false);
  uint32_t updated = make("updated weights", HOST, false), gathered = b.slice("gathered", b.wholeBytes, false);
  b.bucket(weights, true, gradient, int(master), m, v);
  b.load();
  b.copy(0, read, weights, staged);
  b.copy(0, h2d, staged, fetched);
  b.gather(0, b.operand(fetched, b.part, READ), gathered);
  b.forwardAndBackward(gathered);
  b.reduceScatter(reduced, false);
  b.copy(0, d2h, reduced, landed);
  Step &add = b.step(0, HOST_COMPUTE, "accumulate_gradient", 1,
                     {b.operand(landed, b.part, READ), b.operand(gradient, b.part, READ_WRITE)});
  b.integer(add, "restart", 1);
  b.accumulateLoss();
  b.copy(1, read, m, stagedM);
  b.copy(1, read, v, stagedV);
  b.update(HOST_COMPUTE, HOST, gradient, b.operand(master, b.part, READ_WRITE), stagedM, stagedV, int(updated));
  b.copy(1, write, stagedM, m);
  b.copy(1, write, stagedV, v);
  b.copy(1, write, updated, weights);
}

} // namespace

Plan evalPlan(const std::string &model, uint32_t worldSize, bool sharded) {
  Builder b(model, worldSize, 1);
  b.plan.set_forward_only(true);
  b.plan.mutable_parameters(0)->set_role(planpb::FROZEN);
  uint32_t weights = b.slice("weights", sharded ? b.shardBytes : b.wholeBytes, true), gathered = weights;
  b.bucket(weights, sharded, 0, -1, 0, 0);
  Bucket &bucket = *b.plan.mutable_buckets(0);
  bucket.set_trainable(false);
  bucket.set_gradient_slice(-1);
  bucket.set_moment1_slice(-1);
  bucket.set_moment2_slice(-1);
  b.load();
  if (sharded) {
    gathered = b.slice("gathered", b.wholeBytes, false);
    b.gather(0, b.operand(weights, b.part, READ), gathered);
  }
  b.forwardAndBackward(gathered);
  b.output("product", b.product, b.rows, planpb::VALUE);
  b.output("loss", b.loss, b.scalar, planpb::LOSS);
  EXPECT_TRUE(addWaits(b.plan).ok());
  return b.plan;
}

Plan trainPlan(const std::string &model, uint32_t worldSize, uint32_t accumulation, Placement placement) {
  Builder b(model, worldSize, accumulation);
  if (placement == Placement::tiered)
    buildTieredPlan(b);
  else
    buildDevicePlan(b, placement == Placement::sharded);
  b.step(1, COMM, "all_reduce", 0, {b.operand(b.lossSum, b.sum, READ_WRITE)});
  Status status = addWaits(b.plan);
  EXPECT_TRUE(status.ok()) << render(status.error());
  return b.plan;
}

} // namespace zc::test
