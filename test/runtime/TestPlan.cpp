#include "test/runtime/TestPlan.h"

#include "runtime/plan/Hazards.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>

namespace zc::test {

PlanBuilder::PlanBuilder(uint32_t worldSize, uint32_t accumulation)
    : PlanBuilder(Mesh::ofNodes(static_cast<int>(worldSize), static_cast<int>(worldSize)), accumulation) {}

PlanBuilder::PlanBuilder(const Mesh &mesh, uint32_t accumulation) : mesh(mesh) {
  plan.set_format(kPlanFormat);
  for (const MeshAxis &axis : mesh.axes()) {
    planpb::MeshAxis &out = *plan.add_mesh();
    out.set_name(axis.name);
    out.set_size(static_cast<uint32_t>(axis.size));
    out.set_kind(axis.isData ? planpb::DATA : planpb::MODEL);
  }
  plan.set_accumulation(accumulation);
  plan.set_precision("fp32");
  plan.mutable_model()->set_name("tiny");
  plan.mutable_metrics()->set_grad_norm_slice(-1);
  plan.add_arenas()->set_tier(planpb::DEVICE);
}

uint32_t PlanBuilder::string(const std::string &text) {
  auto begin = plan.strings().begin(), end = plan.strings().end();
  auto found = std::find(begin, end, text);
  if (found == end) {
    plan.add_strings(text);
    return static_cast<uint32_t>(plan.strings_size() - 1);
  }
  return static_cast<uint32_t>(found - begin);
}

uint32_t PlanBuilder::type(planpb::Type type, std::vector<int64_t> dims) {
  planpb::TensorType &out = *plan.add_types();
  out.set_type(type);
  out.mutable_dims()->Add(dims.begin(), dims.end());
  return static_cast<uint32_t>(plan.types_size() - 1);
}

uint32_t PlanBuilder::arena(planpb::Tier tier) {
  for (int i = 0; i < plan.arenas_size(); ++i)
    if (plan.arenas(i).tier() == tier)
      return static_cast<uint32_t>(i);
  plan.add_arenas()->set_tier(tier);
  return static_cast<uint32_t>(plan.arenas_size() - 1);
}

uint32_t PlanBuilder::slice(const std::string &name, uint64_t bytes, bool persistent, int64_t at, planpb::Tier tier) {
  uint64_t alignment = sliceAlignment(tier);
  planpb::Slice &slice = *plan.add_slices();
  slice.set_arena(arena(tier));
  planpb::Arena &arena = *plan.mutable_arenas(static_cast<int>(slice.arena()));
  slice.set_name(name);
  slice.set_offset(at >= 0 ? static_cast<uint64_t>(at) : (arena.bytes() + alignment - 1) / alignment * alignment);
  slice.set_bytes(bytes);
  slice.set_persistent(persistent);
  arena.set_bytes(std::max(arena.bytes(), slice.offset() + reservedBytes(tier, bytes)));
  return static_cast<uint32_t>(plan.slices_size() - 1);
}

planpb::Operand PlanBuilder::operand(uint32_t slice, uint32_t type, planpb::Access access, uint64_t offset,
                                     std::vector<uint64_t> strides) {
  planpb::Operand operand;
  operand.set_slice(slice);
  operand.set_type(type);
  operand.set_access(access);
  operand.set_offset(offset);
  operand.mutable_strides()->Add(strides.begin(), strides.end());
  return operand;
}

std::vector<uint64_t> PlanBuilder::ownStrides(AxisSet axes, uint64_t bytes) const {
  std::vector<uint64_t> strides;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    strides.push_back(bytes * static_cast<uint64_t>(mesh.strideIn(axes, axis)));
  return strides;
}

planpb::Step &PlanBuilder::step(uint32_t section, planpb::Queue queue, const std::string &kernel, uint32_t inputs,
                                std::initializer_list<planpb::Operand> operands) {
  planpb::Section &steps = section == 0 ? *plan.mutable_micro() : *plan.mutable_update();
  planpb::Step &step = *steps.add_steps();
  step.set_queue(queue);
  step.set_kernel(string(kernel));
  step.set_inputs(inputs);
  for (const planpb::Operand &operand : operands)
    *step.add_operands() = operand;
  step.set_node(string("node of " + kernel));
  return step;
}

void PlanBuilder::integer(planpb::Step &step, const std::string &name, int64_t value) {
  planpb::Attribute &attribute = *step.add_attributes();
  attribute.set_name(string(name));
  attribute.set_integer(value);
}
void PlanBuilder::real(planpb::Step &step, const std::string &name, double value) {
  planpb::Attribute &attribute = *step.add_attributes();
  attribute.set_name(string(name));
  attribute.set_real(value);
}
void PlanBuilder::text(planpb::Step &step, const std::string &name, const std::string &value) {
  planpb::Attribute &attribute = *step.add_attributes();
  attribute.set_name(string(name));
  attribute.set_text(value);
}

namespace {

/// Slices, types and steps of tinyPlan and modelPlan, on a mesh whose data axes cut the bucket.
struct TinyBuilder : PlanBuilder {
  TinyBuilder(const Mesh &mesh, uint32_t accumulation) : PlanBuilder(mesh, accumulation) {
    using planpb::Bucket;
    plan.mutable_metrics()->set_loss_slice(lossSum);
    planpb::Input &input = *plan.add_inputs();
    input.set_name("x");
    input.set_type(whole);
    Bucket &bucket = *plan.add_buckets();
    along(bucket, data);
    bucket.set_padded(padded);
    bucket.set_used(100);
    bucket.set_trainable(true);
    bucket.set_parameter_slice(static_cast<int>(parameters));
    bucket.set_gradient_slice(static_cast<int>(state));
    bucket.set_gradients_sharded(true);
    for (auto set : {&Bucket::set_master_slice, &Bucket::set_moment1_slice, &Bucket::set_moment2_slice})
      (bucket.*set)(-1);
    planpb::Parameter &parameter = *plan.add_parameters();
    parameter.set_name("w");
    parameter.set_type(weights);
    parameter.set_slice(-1);
    parameter.set_inline_(std::string(400, '\0'));
  }

  void load() { integer(step(0, planpb::H2D, "load_input", 0, {operand(x, whole, W)}), "input", 0); }
  /// Of the elements that stand in a `part` from `strides` on.
  void gradient(uint32_t type, const std::vector<uint64_t> &strides) {
    step(0, planpb::COMPUTE, "test_gradient", 2,
         {operand(parameters, type, R, 0, strides), operand(x, type, R, 0, strides),
          operand(gradients, type, W, 0, strides), operand(loss, scalar, W)});
  }
  planpb::Step &collective(uint32_t section, const char *kernel, uint32_t inputs,
                           std::initializer_list<planpb::Operand> operands, AxisSet axes) {
    planpb::Step &step = this->step(section, planpb::COMM, kernel, inputs, operands);
    if (mesh.size(axes) != mesh.worldSize())
      along(step, axes);
    return step;
  }
  void reduce() {
    planpb::Step &reduce =
        collective(0, "reduce_scatter", 1, {operand(gradients, whole, R), operand(state, part, RW)}, data);
    real(reduce, "scale", 1.0 / (mesh.dataDegree() * static_cast<double>(plan.accumulation())));
    integer(reduce, "accumulate", 1);
    text(reduce, "traffic", "reduce_scatter");
    step(0, planpb::COMPUTE, "accumulate_loss", 1, {operand(loss, scalar, R), operand(lossSum, sum, RW)});
  }
  void update() {
    std::vector<uint64_t> own = ownStrides(data, shard * 4);
    step(1, planpb::COMPUTE, "test_update", 1, {operand(state, part, R), operand(parameters, part, RW, 0, own)});
    planpb::Step &gather =
        collective(1, "all_gather", 1, {operand(parameters, part, R, 0, own), operand(parameters, whole, W)}, data);
    text(gather, "traffic", "gather");
    collective(1, "all_reduce", 0, {operand(lossSum, sum, RW)}, data);
  }

  static constexpr planpb::Access R = planpb::READ, W = planpb::WRITE, RW = planpb::READ_WRITE;
  AxisSet data = mesh.dataAxes();
  uint64_t degree = static_cast<uint64_t>(mesh.dataDegree());
  uint64_t shard = (128 / degree + 63) / 64 * 64, padded = shard * degree;
  uint32_t whole = type(planpb::F32, {static_cast<int64_t>(padded)});
  uint32_t part = type(planpb::F32, {static_cast<int64_t>(shard)});
  uint32_t sum = type(planpb::F64, {1}), scalar = type(planpb::F32, {1}), weights = type(planpb::F32, {10, 10});
  uint32_t parameters = slice("parameters", padded * 4, true), state = slice("state", shard * 4, true);
  uint32_t lossSum = slice("loss_sum", 8, true);
  uint32_t x = slice("x", padded * 4, false), gradients = slice("gradients", padded * 4, false);
  uint32_t loss = slice("loss", 4, false);
};

} // namespace

static planpb::Plan withoutWaits(const Mesh &mesh, uint32_t accumulation) {
  TinyBuilder b(mesh, accumulation);
  b.load();
  b.gradient(b.whole, {});
  b.reduce();
  b.update();
  return b.plan;
}

planpb::Plan tinyPlanWithoutWaits(uint32_t worldSize, uint32_t accumulation) {
  int world = static_cast<int>(worldSize);
  return withoutWaits(Mesh::ofNodes(world, world), accumulation);
}

planpb::Plan tinyPlan(const Mesh &mesh, uint32_t accumulation) {
  planpb::Plan plan = withoutWaits(mesh, accumulation);
  Status status = addWaits(plan);
  return status.ok() ? plan : planpb::Plan();
}

planpb::Plan modelPlan(const Mesh &mesh, uint32_t accumulation) {
  TinyBuilder b(mesh, accumulation);
  AxisSet model = mesh.find(kModelAxis);
  uint64_t elements = b.padded / static_cast<uint64_t>(mesh.size(model));
  uint32_t share = b.type(planpb::F32, {static_cast<int64_t>(elements)});
  std::vector<uint64_t> own = b.ownStrides(model, elements * 4);
  b.load();
  b.gradient(share, own);
  b.collective(0, "all_gather", 1, {b.operand(b.gradients, share, b.R, 0, own), b.operand(b.gradients, b.whole, b.W)},
               model);
  b.collective(0, "all_reduce", 0, {b.operand(b.loss, b.scalar, b.RW)}, model);
  b.reduce();
  b.update();
  Status status = addWaits(b.plan);
  return status.ok() ? b.plan : planpb::Plan();
}

planpb::Plan delayedPlanWithoutWaits(uint32_t worldSize, uint32_t accumulation, uint64_t after) {
  using namespace planpb;
  PlanBuilder b(1, 1);
  b.plan = tinyPlanWithoutWaits(worldSize, accumulation);
  b.plan.mutable_delay()->set_after(after);
  auto update = [&](int i) { return b.plan.mutable_update()->mutable_steps(i); };
  Operand state = update(0)->operands(0), own = update(0)->operands(1);
  uint64_t bytes = b.plan.slices(static_cast<int>(state.slice())).bytes();
  uint32_t master = b.slice("master", bytes, true, -1, HOST), landed = b.slice("landed", bytes, false, -1, HOST);
  b.plan.mutable_buckets(0)->set_master_slice(static_cast<int>(master));
  b.plan.mutable_buckets(0)->set_optimizer_sharded(true);
  auto on = [&](uint32_t slice, Access access) { return b.operand(slice, state.type(), access); };
  own.set_access(WRITE);
  b.step(1, H2D, "h2d", 1, {on(master, READ), own}).set_publishes(true);
  b.step(1, D2H, "d2h", 1, {state, on(landed, WRITE)});
  b.step(1, HOST_COMPUTE, "test_update", 1, {on(landed, READ), on(master, READ_WRITE)});
  update(1)->set_publishes(true);                               // the gather
  b.plan.mutable_update()->mutable_steps()->SwapElements(0, 3); // publish, then gather and update
  b.plan.mutable_update()->mutable_steps()->DeleteSubrange(3, 1);
  return b.plan;
}

planpb::Plan tinyPlan(uint32_t worldSize, uint32_t accumulation) {
  int world = static_cast<int>(worldSize);
  return tinyPlan(Mesh::ofNodes(world, world), accumulation);
}

namespace {

/// Builds randomPlan.
class RandomPlan {
public:
  RandomPlan(uint32_t seed, uint32_t accumulation) : random(seed), b(1, accumulation) {
    type = b.type(planpb::U8, {256});
    b.plan.mutable_metrics()->set_loss_slice(b.slice("loss", 8, true));
    for (planpb::Tier tier : {planpb::DEVICE, planpb::HOST, planpb::NVME}) {
      for (int i = 0; i < 4; ++i)
        pools[tier].kept.push_back(b.slice("kept", 256, true, -1, tier));
      uint64_t alignment = sliceAlignment(tier), end = b.plan.arenas(static_cast<int>(b.arena(tier))).bytes();
      pools[tier].begin = (end + alignment - 1) / alignment * alignment;
    }
  }
  void section(uint32_t index, int steps) {
    for (Pool &pool : pools)
      pool.live.clear(); // what an earlier section wrote may be gone
    for (int i = 0; i < steps; ++i)
      step(index, static_cast<planpb::Queue>(below(kNumQueues)));
  }
  planpb::Plan take() { return std::move(b.plan); }

private:
  struct Pool {
    std::vector<uint32_t> kept, live;
    uint64_t begin = 0; // of eight places that transient slices share
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random() % n); }
  /// A tier that the queue reads from or, for the queues between tiers, the one or the other.
  planpb::Tier tier(planpb::Queue queue, bool writes) {
    for (const TierCopy &copy : kTierCopies)
      if (copy.queue == queue)
        return writes ? copy.to : copy.from;
    bool host = queue == planpb::HOST_COMPUTE || (queue == planpb::COMM && below(2) == 0);
    return host ? planpb::HOST : planpb::DEVICE;
  }
  uint32_t source(const Pool &pool) {
    return !pool.live.empty() && below(3) > 0 ? pool.live[below(static_cast<uint32_t>(pool.live.size()))]
                                              : pool.kept[below(4)];
  }

  void step(uint32_t section, planpb::Queue queue) {
    bool isCopy = queue >= planpb::H2D && queue <= planpb::NVME_WRITE;
    uint32_t in1 = source(pools[tier(queue, false)]), in2 = isCopy ? in1 : source(pools[tier(queue, false)]), out = 0;
    planpb::Tier target = tier(queue, true);
    Pool &pool = pools[target];
    bool isKept = below(4) == 0;
    if (isKept) {
      do
        out = source(pool);
      while (out == in1 || out == in2);
    } else { // a fresh slice over one of eight places; whoever had it is dead
      uint64_t at = pool.begin + below(8) * sliceAlignment(target);
      auto uses = [&](uint32_t slice) {
        const planpb::Slice &other = b.plan.slices(static_cast<int>(slice));
        return other.offset() == at && other.arena() == b.arena(target);
      };
      if (uses(in1) || uses(in2))
        return;
      pool.live.erase(std::remove_if(pool.live.begin(), pool.live.end(), uses), pool.live.end());
      out = b.slice("t", 256, false, static_cast<int64_t>(at), target);
      pool.live.push_back(out);
    }
    std::string kernel = isCopy ? std::string(kTierCopies[queue - planpb::H2D].kernel) : "mix";
    planpb::Step &step = b.step(section, queue, kernel, in1 == in2 ? 1 : 2, {});
    if (!isKept && !isCopy)
      b.integer(step, "fresh", 1);
    *step.add_operands() = b.operand(in1, type, planpb::READ);
    if (in1 != in2)
      *step.add_operands() = b.operand(in2, type, planpb::READ);
    *step.add_operands() = b.operand(out, type, isKept && !isCopy ? planpb::READ_WRITE : planpb::WRITE);
  }

  std::mt19937 random;
  PlanBuilder b;
  uint32_t type = 0;
  std::array<Pool, 3> pools; // by tier
};

} // namespace

planpb::Plan randomPlan(uint32_t seed, int steps, uint32_t accumulation) {
  RandomPlan plan(seed, accumulation);
  plan.section(0, steps);
  plan.section(1, steps);
  return plan.take();
}

namespace {

/// A kernel from a function.
template <typename Run> class FunctionKernel : public Kernel {
public:
  FunctionKernel(KernelSpec spec, Run body) : spec(std::move(spec)), body(body) {}
  Status run(void *const *operands, const StepContext &context) override { return body(spec, operands, context); }
  std::string note() const override { return spec.getText("note"); }

private:
  KernelSpec spec;
  Run body;
};

template <typename Run>
void add(KernelRegistry &registry, const std::string &name, Run body, InputSet overwrites = kAnyInput) {
  registry.add(
      name,
      [body](const KernelSpec &spec) -> Result<std::unique_ptr<Kernel>> {
        return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Run>>(spec, body));
      },
      KernelTraits().overwriting(overwrites));
}

Status gradient(const KernelSpec &spec, void *const *operands, const StepContext &) {
  auto *p = static_cast<const float *>(operands[0]), *x = static_cast<const float *>(operands[1]);
  auto *g = static_cast<float *>(operands[2]), *loss = static_cast<float *>(operands[3]);
  *loss = 0;
  for (int64_t i = 0; i < spec.operands[0].numElements(); ++i)
    *loss += g[i] = (p[i] + 1) * x[i];
  return {};
}

Status update(const KernelSpec &spec, void *const *operands, const StepContext &context) {
  auto *g = static_cast<const float *>(operands[0]);
  auto *p = static_cast<float *>(operands[1]);
  for (int64_t i = 0; i < spec.operands[0].numElements(); ++i)
    p[i] -= static_cast<float>(context.learningRate) * g[i];
  return {};
}

Status accumulate(const KernelSpec &, void *const *operands, const StepContext &context) {
  auto *sum = static_cast<double *>(operands[1]);
  *sum = (context.micro == 0 ? 0 : *sum) + *static_cast<const float *>(operands[0]);
  return {};
}

/// FNV over the inputs and, in place, the output; then bytes of a generator.
Status mix(const KernelSpec &spec, void *const *operands, const StepContext &context) {
  uint64_t hash = 1469598103934665603u + static_cast<uint64_t>(context.step * 1000 + context.micro);
  size_t out = spec.numInputs;
  for (size_t i = 0; i < spec.numInputs; ++i)
    for (int64_t j = 0; j < 256; ++j)
      hash = (hash ^ static_cast<const uint8_t *>(operands[i])[j]) * 1099511628211u;
  auto *bytes = static_cast<uint8_t *>(operands[out]);
  for (int64_t j = 0; j < 256; ++j) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    bytes[j] = static_cast<uint8_t>((spec.has("fresh") ? 0 : bytes[j]) + (hash >> 40));
  }
  return {};
}

Status failing(const KernelSpec &spec, void *const *, const StepContext &context) {
  if (spec.has("throw"))
    throw std::runtime_error("from a library");
  if (context.step == 2 && context.micro == 1 && spec.rank == spec.getInt("rank", 0))
    return makeError(Code::numeric, 999, "the loss is not a number");
  return {};
}

Status reverse(const KernelSpec &spec, void *const *operands, const StepContext &) {
  auto *from = static_cast<const float *>(operands[0]);
  std::reverse_copy(from, from + spec.operands[0].numElements(), static_cast<float *>(operands[1]));
  return {};
}

Status slow(const KernelSpec &, void *const *operands, const StepContext &) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ++*static_cast<uint8_t *>(operands[0]);
  return {};
}

} // namespace

KernelRegistry testKernels() {
  KernelRegistry registry;
  add(registry, "test_gradient", gradient);
  add(registry, "test_update", update);
  add(registry, "accumulate_loss", accumulate);
  add(registry, "mix", mix);
  add(registry, "test_fail", failing);
  add(registry, "test_slow", slow);
  add(registry, "test_reverse", reverse, kNoInput);
  return registry;
}

float TestLoader::element(const StepContext &context, int rank, uint64_t i) {
  return static_cast<float>((context.step * 131 + context.micro * 37 + rank * 17 + static_cast<int64_t>(i)) % 61) / 7;
}

Status TestLoader::load(uint32_t, const StepContext &context, void *destination, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes / sizeof(float); ++i)
    static_cast<float *>(destination)[i] = element(context, rank, i);
  return {};
}

} // namespace zc::test
