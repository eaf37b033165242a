// Kernels at the shapes of GPT-2 124M, batch 4 x 256 tokens, and ResNet-50's convolutions: ms, and GF/s or GB/s beside
// the limits of the same run
// (`limit/`). zc-kernel-bench [--benchmark_filter=REGEX]; threads 1 and 2.
#include "base/StridedView.h"
#include "kernels/Workspace.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace zc {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  std::string label, kernel;
  std::vector<TensorType> inputs, outputs;
  std::map<std::string, Attribute> attributes;
  double flops; ///< 0: report bytes
};

TensorType f32(Ints dims) { return {DType::f32, std::move(dims)}; }
TensorType i64(Ints dims) { return {DType::i64, std::move(dims)}; }
const Attribute kOne = int64_t{1};

Case matmul(const char *label, Ints lhs, Ints rhs, Ints out, double k, std::map<std::string, Attribute> attributes,
            bool bias = false) {
  double flops = 2 * k;
  for (int64_t d : out)
    flops *= static_cast<double>(d);
  Case result{label, "matmul", {f32(std::move(lhs)), f32(std::move(rhs))}, {f32(out)}, std::move(attributes), flops};
  if (bias)
    result.inputs.push_back(f32({out.back()}));
  return result;
}

/// Causal, with heads of 64, and 12,288 queries in all: flops of what is not masked. Dropped, and with a table of
/// positions that is trained (T5), beside the plain one.
void addAttention(std::vector<Case> &all, int64_t keys) {
  const int64_t heads = 12288 / keys;
  const TensorType head = f32({1, heads, keys, 64}), lse = f32({1, heads, keys});
  const std::map<std::string, Attribute> attributes = {{"scale", 0.125}, {"causal", kOne}};
  const double product = 2.0 * 12288 * static_cast<double>(keys + 1) / 2 * 64;
  const std::string length = "/" + std::to_string(keys);
  all.push_back({"attention" + length, "attention", {head, head, head}, {head, lse}, attributes, 2 * product});
  all.push_back({"attention_grad" + length,
                 "attention_grad",
                 {head, head, head, head, head, lse},
                 {head, head, head},
                 attributes,
                 5 * product});
  auto variant = [&](const char *name, size_t grad, auto change) {
    for (Case c : {all[grad - 1], all[grad]}) {
      c.label = c.kernel + name + length;
      change(c);
      all.push_back(std::move(c));
    }
  };
  const size_t grad = all.size() - 1;
  variant("/dropped", grad, [](Case &c) {
    c.attributes["dropout"] = 0.1;
    c.attributes["dropout_id"] = int64_t{1};
  });
  variant("/table", grad, [&](Case &c) {
    c.inputs.push_back(f32({1, heads, keys, keys}));
    if (c.kernel == "attention_grad") {
      c.attributes["mask_grad"] = kOne;
      c.outputs.push_back(f32({1, heads, keys, keys}));
    }
  });
}

/// Of models: heads of 128, grouped ones, ViT's 197 keys of which each sees all; and GPT-2's that stand beside each
/// other in rows, as its linear layers have them.
void addAttentionOfModels(std::vector<Case> &all) {
  struct Model {
    const char *label;
    int64_t batch, heads, keyHeads, keys, depth;
    bool causal, isInRows;
  };
  for (const Model &m :
       {Model{"/1024/wide", 1, 6, 6, 1024, 128, true, false}, Model{"/1024/grouped", 1, 12, 3, 1024, 64, true, false},
        Model{"/197", 4, 12, 12, 197, 64, false, false}, Model{"/256/rows", 4, 12, 12, 256, 64, true, true}}) {
    const TensorType lse = f32({m.batch, m.heads, m.keys}), row = f32({1, m.batch, m.keys, m.heads * m.depth}),
                     query = m.isInRows ? row : f32({m.batch, m.heads, m.keys, m.depth}),
                     key = m.isInRows ? row : f32({m.batch, m.keyHeads, m.keys, m.depth});
    std::map<std::string, Attribute> attributes = {{"scale", 0.125}};
    if (m.causal)
      attributes["causal"] = kOne;
    const int64_t width = m.heads * m.depth;
    auto withViews = [&](size_t numOperands, size_t lseAt) {
      std::map<std::string, Attribute> seen = attributes;
      std::vector<StridedView> views;
      for (size_t i = 0; i < numOperands; ++i)
        views.push_back(
            i == lseAt ? StridedView::whole(i, lse.dims)
                       : StridedView{i, 0, {m.batch, m.heads, m.keys, m.depth}, {m.keys * width, m.depth, width, 1}});
      if (m.isInRows)
        seen["views"] = encode(views);
      return seen;
    };
    const double product = 2.0 * static_cast<double>(m.batch * m.heads * m.keys * m.depth) *
                           (m.causal ? static_cast<double>(m.keys + 1) / 2 : static_cast<double>(m.keys));
    const std::string label = m.label;
    all.push_back({"attention" + label, "attention", {query, key, key}, {query, lse}, withViews(5, 4), 2 * product});
    all.push_back({"attention_grad" + label,
                   "attention_grad",
                   {query, query, key, key, query, lse},
                   {query, key, key},
                   withViews(9, 5),
                   5 * product});
  }
}

/// Convolutions of eight pictures, channels last as plans have them: ResNet-50's, depthwise ones, and the deepest of a
/// ResNet-18 on pictures of 32 pixels.
void addConvolutions(std::vector<Case> &all) {
  struct Conv {
    int64_t in, out, plane, kernel, stride, groups;
  };
  for (const Conv &c :
       {Conv{3, 64, 224, 7, 2, 1}, Conv{64, 64, 56, 3, 1, 1}, Conv{128, 128, 28, 3, 1, 1}, Conv{256, 256, 14, 3, 1, 1},
        Conv{512, 512, 7, 3, 1, 1}, Conv{512, 512, 14, 3, 2, 1}, Conv{64, 256, 56, 1, 1, 1},
        Conv{512, 128, 28, 1, 1, 1}, Conv{1024, 256, 14, 1, 1, 1}, Conv{2048, 512, 7, 1, 1, 1},
        Conv{1024, 2048, 14, 1, 2, 1}, Conv{96, 96, 112, 3, 2, 96}, Conv{384, 384, 14, 7, 1, 384},
        Conv{256, 256, 2, 3, 1, 1}, Conv{256, 512, 2, 3, 2, 1}, Conv{512, 512, 1, 3, 1, 1}}) {
    const int64_t result = c.plane / c.stride, pad = c.kernel / 2, high = std::max<int64_t>(0, pad + 1 - c.stride);
    const TensorType x = f32({8, c.plane, c.plane, c.in}), y = f32({8, result, result, c.out}),
                     weight = f32({c.out, c.in / c.groups, c.kernel, c.kernel});
    const std::map<std::string, Attribute> attributes = {{"strides", Ints{c.stride, c.stride}},
                                                         {"dilations", Ints{1, 1}},
                                                         {"low", Ints{pad, pad}},
                                                         {"high", Ints{high, high}},
                                                         {"groups", c.groups},
                                                         {"channels_last", kOne}};
    const double flops =
        2.0 * static_cast<double>(8 * result * result * c.out * (c.in / c.groups) * c.kernel * c.kernel);
    const std::string label = "/" + std::to_string(c.in) + "x" + std::to_string(c.plane) + "/" + std::to_string(c.out) +
                              "/" + std::to_string(c.kernel);
    all.push_back({"conv" + label, "conv", {x, weight}, {y}, attributes, flops});
    all.push_back({"conv_transpose" + label, "conv_transpose", {y, weight}, {x}, attributes, flops});
    all.push_back({"conv_weight_grad" + label, "conv_weight_grad", {x, y}, {weight}, attributes, flops});
  }
}

/// A type's word in programs (kernels/FusedProgram.h), and what it is called in a label.
struct ProgramType {
  DType type;
  int64_t word;
  const char *suffix;
};
constexpr ProgramType kProgramTypes[] = {{DType::f32, 0, ""}, {DType::bf16, 1, "/bf16"}, {DType::f16, 2, "/f16"}};

/// Element-wise work on so many rows: a residual that is scaled; less and select, as relu's gradient; silu, mul and add
/// of a row.
void addPrograms(std::vector<Case> &result, const std::string &label, int64_t rows) {
  const int64_t width = 3072;
  for (const auto &[type, t, suffix] : kProgramTypes) {
    const TensorType x{type, {rows, width}}, row{type, {width}};
    auto add = [&, end = label + suffix](const char *name, std::vector<TensorType> inputs, Ints program) {
      result.push_back({name + end, "fused", std::move(inputs), {x}, {{"program", std::move(program)}}, 0});
    };
    add("fused_mul_add", {x, x, row}, {2, 6, t, 0, 2, 4, t, 3, 1, 0, 4});
    add("fused_relu_grad", {x, x}, {3, 1, t, 0, 11, 3, 2, 0, 3, t, 3, 1, 2, 0, 4});
    add("fused_silu_mul_add", {x, x, row}, {3, 30, t, 0, 6, t, 3, 1, 4, t, 4, 2, 0, 5});
  }
  const TensorType x = f32({rows, width});
  result.push_back({"add" + label, "add", {x, x}, {x}, {}, 0});
}

/// A rotary embedding of 12 heads of 64: halves read where the linear layer has them; and of a copy that has them in
/// the other order.
void addRotary(std::vector<Case> &result) {
  const int64_t batch = 4, tokens = 256, heads = 12;
  for (const auto &[type, t, suffix] : kProgramTypes) {
    const std::map<std::string, Attribute> program = {
        {"program", Ints{4, 6, t, 0, 1, 6, t, 2, 3, 6, t, 6, 4, 4, t, 5, 7, 0, 8}}};
    const TensorType x{type, {batch, tokens, heads, 2, 32}}, sign{type, {2, 32}}, half{type, {tokens, 2, 32}};
    const StridedView seen{0, 0, {batch, heads, tokens, 2, 32}, {heads * tokens * 64, 64, heads * 64, 32, 1}};
    StridedView other = seen;
    other.tensor = 2;
    other.offset = 32;
    other.strides[3] = -32;
    std::map<std::string, Attribute> views = program;
    views["views"] = encode({seen, StridedView::whole(1, half.dims), other, StridedView::whole(3, sign.dims),
                             StridedView::whole(4, half.dims), StridedView::whole(5, seen.sizes)});
    const TensorType rotated{type, seen.sizes}, head{type, {batch, heads, tokens, 64}}, angle{type, {tokens, 64}};
    result.push_back(
        {"fused_rotary/heads" + std::string(suffix), "fused", {x, half, x, sign, half}, {rotated}, views, 0});
    result.push_back({"fused_rotary/copies" + std::string(suffix),
                      "fused",
                      {head, angle, head, {type, {64}}, angle},
                      {head},
                      program,
                      0});
  }
}

std::vector<Case> cases() {
  const int64_t tokens = 1024, width = 768, vocabulary = 50257, heads = 12, length = 256, parameters = 1 << 24;
  const TensorType x = f32({tokens, width}), up = f32({tokens, 4 * width}), row = f32({width}), stat = f32({tokens});
  const TensorType head = f32({4, heads, length, 64}), logits = f32({tokens, vocabulary});
  const TensorType flat = f32({parameters}), scalar = f32({});
  const Attribute first = int64_t{0}, axis = kOne;
  std::vector<Case> result = {
      matmul("qkv", {tokens, width}, {width, 3 * width}, {tokens, 3 * width}, 768, {}, true),
      matmul("up", {tokens, width}, {width, 4 * width}, {tokens, 4 * width}, 768, {}, true),
      matmul("down", {tokens, 4 * width}, {4 * width, width}, {tokens, width}, 3072, {}, true),
      matmul("up_dx", {tokens, 4 * width}, {width, 4 * width}, {tokens, width}, 3072, {{"trans_rhs", kOne}}),
      matmul("up_dw", {tokens, width}, {tokens, 4 * width}, {width, 4 * width}, 1024, {{"trans_lhs", kOne}}),
      matmul("head", {tokens, width}, {vocabulary, width}, {tokens, vocabulary}, 768, {{"trans_rhs", kOne}}),
      matmul("head_dx", {tokens, vocabulary}, {vocabulary, width}, {tokens, width}, 50257, {}),
      matmul("head_dw", {tokens, vocabulary}, {tokens, width}, {vocabulary, width}, 1024, {{"trans_lhs", kOne}}),
      matmul("batched_qk", {48, length, 64}, {48, length, 64}, {48, length, length}, 64, {{"trans_rhs", kOne}}),
      {"adamw", "adamw", {flat, scalar}, {flat, flat, flat}, {{"weight_decay", 0.01}}, 0},
      {"norm_partial", "norm_partial", {flat}, {{DType::i64, {24}}}, {{"first", kOne}}, 0},
      {"cross_entropy", "cross_entropy", {logits, i64({tokens})}, {scalar, stat}, {}, 0},
      {"cross_entropy_grad", "cross_entropy_grad", {scalar, logits, i64({tokens}), stat}, {logits}, {}, 0},
      {"head_loss",
       "linear_cross_entropy_grad",
       {scalar, x, i64({tokens}), f32({vocabulary, width})},
       {scalar, x, f32({vocabulary, width})},
       {{"trans_weight", kOne}, {"chunk", int64_t{512}}},
       3.0 * 2 * 1024 * 50257 * 768},
      {"head_capped",
       "linear_cross_entropy_grad",
       {scalar, x, i64({tokens}), f32({vocabulary, width})},
       {scalar, x, f32({vocabulary, width})},
       {{"trans_weight", kOne}, {"chunk", int64_t{512}}, {"cap", 30.0}},
       3.0 * 2 * 1024 * 50257 * 768},
      {"head_logs",
       "linear_log_softmax_grad",
       {stat, stat, x, i64({tokens}), f32({vocabulary}), f32({vocabulary, width})},
       {stat, stat, x, f32({vocabulary, width})},
       {{"trans_weight", kOne}, {"chunk", int64_t{512}}},
       3.0 * 2 * 1024 * 50257 * 768},
      {"gelu", "gelu", {up}, {up}, {{"tanh", kOne}}, 0},
      {"gelu_grad", "gelu_grad", {up, up}, {up}, {{"tanh", kOne}}, 0},
      {"gelu_erf", "gelu", {up}, {up}, {}, 0},
      {"layer_norm", "layer_norm", {x, row, row}, {x, stat, stat}, {{"axis", axis}}, 0},
      {"layer_norm_grad", "layer_norm_grad", {x, x, row, stat, stat}, {x, row, row}, {{"axis", axis}}, 0},
      {"softmax", "softmax", {f32({48 * length, length})}, {f32({48 * length, length})}, {{"axis", axis}}, 0},
      {"bias_grad", "reduce_sum", {up}, {f32({4 * width})}, {{"axes", Ints{0}}}, 0},
      {"row_max", "reduce_max", {up}, {f32({tokens})}, {{"axes", Ints{1}}}, 0},
      {"row_place", "arg_max", {up}, {i64({tokens})}, {{"axis", int64_t{1}}}, 0},
      {"column_place", "arg_max", {up}, {i64({4 * width})}, {{"axis", first}}, 0},
      {"residual", "add", {x, x}, {x}, {}, 0},
      {"add_row", "add", {up, f32({4 * width})}, {up}, {}, 0},
      {"heads", "transpose", {f32({4, length, heads, 64})}, {head}, {{"permutation", Ints{0, 2, 1, 3}}}, 0},
      {"transpose", "transpose", {up}, {f32({4 * width, tokens})}, {{"permutation", Ints{1, 0}}}, 0},
      {"embed", "gather", {f32({vocabulary, width}), i64({tokens})}, {x}, {{"axis", first}}, 0},
      {"embed_grad", "gather_grad", {x, i64({tokens})}, {f32({vocabulary, width})}, {{"axis", first}}, 0},
      {"join", "concat", {x, x, x}, {f32({tokens, 3 * width})}, {{"axis", axis}}, 0},
      {"join_elements", "concat", std::vector(64, f32({3072, 1})), {f32({3072, 64})}, {{"axis", axis}}, 0},
      {"split_grad",
       "slice_grad",
       {x},
       {f32({tokens, 3 * width})},
       {{"offsets", Ints{0, width}}, {"strides", Ints{1, 1}}},
       0},
      {"limit/copy", "copy", {f32({1 << 25})}, {f32({1 << 25})}, {}, 0},
      matmul("limit/product", {2048, 2048}, {2048, 2048}, {2048, 2048}, 2048, {}),
  };
  // Those of 8,192 rows fit into no cache, of 16 into the second.
  for (auto [label, rows] : {std::pair{"", 1024}, {"/memory", 8192}, {"/cache", 16}})
    addPrograms(result, label, rows);
  addRotary(result);
  for (int64_t keys : {256, 1024, 2048})
    addAttention(result, keys);
  addAttentionOfModels(result);
  addConvolutions(result);
  return result;
}

/// Operands that share nothing, 64-byte aligned, filled with small numbers (labels and indices with small integers).
struct Operands {
  std::vector<void *> pointers;
  explicit Operands(const std::vector<TensorType> &types) {
    for (const TensorType &type : types) {
      auto bytes = static_cast<size_t>(type.numBytes() + 63) / 64 * 64;
      void *p = std::aligned_alloc(64, bytes);
      std::memset(p, 1, bytes);
      if (type.dtype == DType::f32)
        for (int64_t i = 0; i < type.numElements(); ++i)
          static_cast<float *>(p)[i] = static_cast<float>((i * 7919) % 1000) * 1e-3f;
      else if (type.dtype == DType::bf16)
        for (int64_t i = 0; i < type.numElements(); ++i)
          static_cast<uint16_t *>(p)[i] = toBf16(static_cast<float>((i * 7919) % 1000) * 1e-3f);
      else if (type.dtype == DType::f16)
        for (int64_t i = 0; i < type.numElements(); ++i)
          static_cast<uint16_t *>(p)[i] = toF16(static_cast<float>((i * 7919) % 1000) * 1e-3f);
      else
        for (int64_t i = 0; i < type.numElements() && type.dtype == DType::i64; ++i)
          static_cast<int64_t *>(p)[i] = (i * 31) % 1000;
      pointers.push_back(p);
    }
  }
  ~Operands() {
    for (void *p : pointers)
      std::free(p);
  }
};

void measure(benchmark::State &state, const Case &c, const KernelRegistry &registry, int threads) {
  KernelSpec spec;
  spec.name = c.kernel;
  spec.operands = c.inputs;
  spec.operands.insert(spec.operands.end(), c.outputs.begin(), c.outputs.end());
  spec.numInputs = c.inputs.size();
  spec.attributes = c.attributes;
  spec.threads = threads;
  spec.workspace = workspaceBytes(spec, Target::cpu);
  auto kernel = registry.prepare(spec);
  if (!kernel.ok())
    return state.SkipWithError(kernel.error().message.c_str());
  std::vector<TensorType> memory = spec.operands;
  memory.push_back({DType::u8, {spec.workspace}});
  Operands operands(memory);
  StepContext context{1, 0, 1e-3};
  if (auto status = (*kernel)->run(operands.pointers.data(), context); !status.ok())
    return state.SkipWithError(status.error().message.c_str());
  double bytes = 0;
  for (const TensorType &type : spec.operands)
    bytes += static_cast<double>(type.numBytes());
  if (c.kernel == "adamw")
    bytes *= 7.0 / 4; // parameter and moments are read and written
  for (auto _ : state)
    if (auto status = (*kernel)->run(operands.pointers.data(), context); !status.ok())
      return state.SkipWithError(status.error().message.c_str());
  auto runs = static_cast<double>(state.iterations());
  if (c.flops > 0)
    state.counters["GF/s"] = benchmark::Counter(c.flops * runs * 1e-9, benchmark::Counter::kIsRate);
  else
    state.counters["GB/s"] = benchmark::Counter(bytes * runs * 1e-9, benchmark::Counter::kIsRate);
}

/// The same case in bf16 or f16; statistics, the factor and optimizer state stay fp32.
Case inHalf(Case c, DType half) {
  bool optimizer = c.kernel == "adamw";
  for (auto *list : {&c.inputs, &c.outputs})
    for (TensorType &type : *list)
      if (type.dtype == DType::f32 &&
          type.dims.size() >
              (c.kernel.rfind("cross_entropy", 0) == 0 || c.kernel == "linear_log_softmax_grad" ? 1u : 0u))
        type.dtype = half;
  if (c.kernel.rfind("layer_norm", 0) == 0)
    for (auto *list : {&c.inputs, &c.outputs})
      for (TensorType &type : *list)
        if (type.dims == Ints{1024})
          type.dtype = DType::f32;
  if (c.kernel.rfind("attention", 0) == 0)
    for (auto *list : {&c.inputs, &c.outputs})
      for (TensorType &type : *list)
        if (type.dims.size() == 3)
          type.dtype = DType::f32;
  if (c.attributes.count("mask_grad"))
    c.outputs.back().dtype = DType::f32;
  if (optimizer) {
    for (TensorType &type : c.outputs)
      type.dtype = DType::f32;
    c.outputs.push_back({half, c.inputs[0].dims});
  }
  c.label += "/" + std::string(zc::nameOf(half));
  return c;
}

/// One thread is timed by its own CPU time, which neighbours on the machine disturb least; teams by the clock.
void addBenchmark(const Case &c, int threads, const KernelRegistry &registry) {
  auto *entry = benchmark::RegisterBenchmark(
      (c.label + "/" + std::to_string(threads)).c_str(),
      [c, threads, &registry](benchmark::State &state) { measure(state, c, registry, threads); });
  entry->Unit(benchmark::kMillisecond)->MinTime(0.2);
  if (threads > 1)
    entry->UseRealTime();
}

} // namespace
} // namespace zc

int main(int argc, char **argv) {
  static zc::KernelRegistry registry;
  zc::registerCpuKernels(registry);
  std::vector<zc::Case> all = zc::cases();
  for (size_t i = 0, n = all.size(); i < n; ++i)
    for (zc::DType half : {zc::DType::bf16, zc::DType::f16})
      if (all[i].kernel != "fused") // of which there are such already
        all.push_back(zc::inHalf(all[i], half));
  for (const zc::Case &c : all)
    for (int threads : {1, 2})
      zc::addBenchmark(c, threads, registry);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
