// What kernels reach of a device copy, and the host's update of an update in place: docs/cuda.md, H6, H8, H10.
//
// usage: zc-gpu-bench [--device cuda|fake] [--mebibytes N] [NAME...]
//        zc-gpu-bench [--device cuda|fake] --shapes PLAN...
//   N      bytes of the larger operands (256: more than a GPU's second-level cache)
//   NAME   cases of that goal, or whose name contains it (all)
// One JSON object per case: GB/s of the bytes that must move (each operand once, twice what is read and written), those
// of a copy of the same bytes in the same seconds, and their ratio; medians; of attention also what it multiplies, in
// TF/s, by cuDNN and by our own kernels, at the shape of H1. What numbers they are no time here depends on. Kernels are
// launched several times in a row, so that launching does not count. --shapes prepares what the plans ask libraries
// for, runs nothing, and prints what was asked and which algorithm was taken, then what is ours in a library's place.
#include "kernels/FusedProgram.h"
#include "kernels/Quantized.h"
#include "kernels/Views.h"
#include "kernels/Workspace.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/device/Arena.h"
#include "runtime/device/Fake.h"
#include "test/cuda/PlanSpecs.h"
#include "test/support/Seconds.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <omp.h>

namespace zc {
namespace {

using Ints = std::vector<int64_t>;

template <typename T> T take(Result<T> result) {
  if (result.ok())
    return std::move(*result);
  std::fprintf(stderr, "zc-gpu-bench: %s\n", render(result.error()).c_str());
  std::exit(result.error().code == Code::unsupported ? 4 : 1);
}
void check(Status status) {
  if (!status.ok()) {
    std::fprintf(stderr, "zc-gpu-bench: %s\n", render(status.error()).c_str());
    std::exit(1);
  }
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Case {
  std::string name, goal; ///< of docs/cuda.md
  KernelSpec spec;
  size_t numUpdated = 0; ///< of its results, from the first: read too
  double flops = 0;      ///< of what multiplies, rather than moves bytes
  double bytes() const {
    double total = 0;
    for (size_t i = 0; i < spec.operands.size(); ++i)
      total += static_cast<double>(spec.operands[i].numBytes()) *
               (i >= spec.numInputs && i < spec.numInputs + numUpdated ? 2 : 1);
    return total;
  }
};

/// Of `bytes` each; shapes of GPT-2 and Llama.
class Cases {
public:
  explicit Cases(int64_t bytes) : bytes(bytes) {
    rows();
    norms();
    elements();
    pieces();
    attentions();
  }
  std::vector<Case> all;

private:
  static constexpr int64_t kOne = 1;
  static constexpr DType kHalf = DType::bf16;

  /// So many rows of n numbers of 16 bits are `bytes`.
  int64_t rowsOf(int64_t n) const { return std::max<int64_t>(1, bytes / 2 / n); }

  void add(const char *goal, const std::string &kernel, std::vector<TensorType> inputs, std::vector<TensorType> outputs,
           std::map<std::string, Attribute> attributes = {}, size_t numUpdated = 0, const std::string &suffix = "") {
    KernelSpec spec;
    spec.name = kernel;
    spec.numInputs = inputs.size();
    spec.operands = std::move(inputs);
    spec.operands.insert(spec.operands.end(), outputs.begin(), outputs.end());
    spec.attributes = std::move(attributes);
    all.push_back({kernel + suffix, goal, std::move(spec), numUpdated});
  }

  void rows() {
    const TensorType scalar{DType::f32, {}};
    for (int64_t width : {768, 1600, 4096}) {
      const std::string suffix = " of " + std::to_string(width);
      const int64_t n = rowsOf(width);
      const TensorType x{kHalf, {n, width}}, row{kHalf, {width}}, stat{DType::f32, {n}};
      add("H10", "layer_norm", {x, row, row}, {x, stat, stat}, {{"axis", kOne}}, 0, suffix);
      add("H10", "layer_norm_grad", {x, x, row, stat, stat}, {x, row, row}, {{"axis", kOne}}, 0, suffix);
      add("H10", "rms_norm", {x, row}, {x, stat}, {{"axis", kOne}}, 0, suffix);
      add("H10", "rms_norm_grad", {x, x, row, stat}, {x, row}, {{"axis", kOne}}, 0, suffix);
      add("H10", "reduce_sum", {x}, {row}, {{"axes", Ints{0}}}, 0, suffix);
    }
    const TensorType scores{kHalf, {rowsOf(1024), 1024}};
    add("H10", "softmax", {scores}, {scores}, {{"axis", kOne}});
    add("H10", "softmax_grad", {scores, scores}, {scores}, {{"axis", kOne}});
    for (int64_t classes : {32000, 50304}) {
      const std::string suffix = " of " + std::to_string(classes);
      const int64_t n = rowsOf(classes);
      const TensorType logits{kHalf, {n, classes}}, labels{DType::i64, {n}}, lse{DType::f32, {n}};
      add("H10", "cross_entropy", {logits, labels}, {scalar, lse}, {}, 0, suffix);
      add("H10", "cross_entropy_grad", {scalar, logits, labels, lse}, {logits}, {}, 0, suffix);
    }
  }

  /// Sums of a batch norm's gradient, channels last: of one in memory, and of a relu's that is computed for them.
  void norms() {
    const FusedProgram relu{{kHalf, kHalf},
                            {{FusedCode::constant, kHalf, {}, 0},
                             {FusedCode::less, DType::boolean, {2, 1}},
                             {FusedCode::select, kHalf, {3, 0, 2}}},
                            {4}};
    for (int64_t channels : {64, 512}) {
      const std::string suffix = " of " + std::to_string(channels);
      const TensorType x{kHalf, {1, rowsOf(channels), channels}}, row{kHalf, {channels}}, stat{DType::f32, {channels}};
      add("H10", "batch_norm_grad_sums", {x, x, row, stat, stat}, {row, row, stat, stat, stat},
          {{"channels_last", kOne}, {"epsilon", 1e-5}}, 0, suffix);
      add("H10", "batch_norm_grad_sums", {x, x, x, row, stat, stat}, {row, row, stat, stat, stat},
          {{"channels_last", kOne}, {"epsilon", 1e-5}, {"program", encode(relu)}}, 0, suffix + ", with a relu");
    }
  }

  void elements() {
    const int64_t n = bytes / 2;
    const TensorType x{kHalf, {n / 4096, 4096}}, flat{kHalf, {n}}, wide{DType::f32, {n / 2}}, half{kHalf, {n / 2}};
    add("H10", "gelu", {x}, {x}, {{"tanh", kOne}});
    add("H10", "gelu_grad", {x, x}, {x}, {{"tanh", kOne}});
    add("H10", "add", {x, x}, {x});
    // silu, mul and add of a row (kernels/FusedProgram.h)
    add("H10", "fused", {x, x, {kHalf, {4096}}}, {x}, {{"program", Ints{3, 30, 1, 0, 6, 1, 3, 1, 4, 1, 4, 2, 0, 5}}});
    add("H10", "cast", {wide}, {half});
    add("H10", "transpose", {{kHalf, {n / 4096, 64, 64}}}, {{kHalf, {64, n / 4096, 64}}},
        {{"permutation", Ints{1, 0, 2}}});
    add("H10", "adamw", {half, {DType::f32, {}}}, {wide, wide, wide, half}, {{"weight_decay", 0.01}}, 3);
    add("H10", "norm_partial", {flat}, {{DType::i64, {24}}}, {{"first", kOne}});
  }

  /// ZeRO++'s, with its default blocks; sums of four sources.
  void pieces() {
    for (int64_t bits : {8, 4}) {
      const int64_t block = bits == 8 ? kWeightBlock : kGradientBlock, n = bytes / 2 / block * block, sources = 4;
      const int64_t piece = QuantizedPiece{n, bits, block}.bytes();
      const TensorType plain{kHalf, {n}}, one{DType::u8, {piece}}, four{DType::u8, {sources * piece}};
      const std::string suffix = " int" + std::to_string(bits);
      const std::map<std::string, Attribute> attributes = {
          {"bits", bits}, {"block", block}, {"sources", sources}, {"elements", n}};
      add("H8", "quantize", {plain}, {one}, attributes, 0, suffix);
      add("H8", "dequantize", {one}, {plain}, attributes, 0, suffix);
      add("H8", "dequantize_sum", {four}, {plain}, attributes, 0, suffix);
      add("H8", "dequantize_sum_quantize", {four}, {one}, attributes, 0, suffix);
    }
  }

  /// GPT-2 124M's, causal, heads inside of a linear layer's result; a batch of 64 with 256 MiB. Products of the half
  /// that is seen: two forward, five of the gradient, whatever takes more.
  void attentions() {
    const int64_t batch = std::max<int64_t>(1, bytes >> 22), heads = 12, length = bytes >> 24 ? 1024 : 128, depth = 64;
    const Ints dims = {batch, heads, length, depth};
    const TensorType q{kHalf, {batch, length, heads * depth}}, packed{kHalf, {batch, length, 3 * heads * depth}},
        lse{DType::f32, {batch, heads, length}};
    auto view = [&](size_t tensor, int64_t offset, int64_t width) {
      return StridedView{tensor, offset, dims, {length * width, depth, width, 1}};
    };
    auto of = [&](size_t tensor, int64_t which) { return view(tensor, which * heads * depth, 3 * heads * depth); };
    auto result = [&](size_t tensor) { return view(tensor, 0, heads * depth); };
    const double product = static_cast<double>(batch * heads * length * length * depth);
    for (int64_t own : {0, 1}) {
      const std::string suffix = own ? ", ours" : ", cuDNN's";
      std::map<std::string, Attribute> attributes = {{"scale", 0.125}, {"causal", kOne}, {"own", own}};
      attributes["views"] = encode({of(0, 0), of(1, 1), of(2, 2), result(3), StridedView::whole(4, lse.dims)});
      add("attention", "attention", {packed, packed, packed}, {q, lse}, attributes, 0, suffix);
      all.back().flops = 2 * product;
      attributes["views"] = encode({result(0), of(1, 0), of(2, 1), of(3, 2), result(4), StridedView::whole(5, lse.dims),
                                    of(6, 0), of(6, 1), of(6, 2)});
      add("attention", "attention_grad", {q, packed, packed, packed, q, lse}, {packed}, attributes, 0, suffix);
      all.back().flops = 5 * product;
    }
  }

  int64_t bytes;
};

/// `seconds` of the case, `limit` GB/s of a copy.
void print(const Case &c, double seconds, double limit) {
  const double gigabytes = c.bytes() / seconds * 1e-9;
  std::printf("{\"bench\": \"gpu-kernel\", \"goal\": \"%s\", \"name\": \"%s\", \"gb_s\": %.1f, \"copy_gb_s\": %.1f, "
              "\"ratio\": %.3f",
              c.goal.c_str(), c.name.c_str(), gigabytes, limit, gigabytes / limit);
  if (c.flops > 0)
    std::printf(", \"ms\": %.3f, \"tf_s\": %.1f", seconds * 1e3, c.flops / seconds * 1e-12);
  std::printf("}\n");
  std::fflush(stdout);
}

/// The device's memory, one stream of it, and a clock on that.
class Bench {
public:
  /// Of cases whose operands are `bytes` at most.
  Bench(std::unique_ptr<Device> opened, uint64_t bytes)
      : device(std::move(opened)), size(7 * bytes + (uint64_t(64) << 20)), copySize(8 * bytes) {
    memory = static_cast<char *>(take(device->allocate(size)));
    copied = static_cast<char *>(take(device->allocate(copySize)));
    context = static_cast<StepContext *>(take(device->allocate(sizeof(StepContext))));
    check(device->write(context, &host, sizeof host));
    stream = take(device->makeStream());
    begin = take(device->makeStamp());
    end = take(device->makeStamp());
  }

  void run(const Case &c) {
    KernelSpec spec = c.spec;
    spec.workspace = std::max(workspaceBytes(spec, Target::cuda), workspaceBytes(spec, Target::cpu));
    std::vector<void *> operands;
    uint64_t used = 0;
    auto place = [&](int64_t bytes) {
      operands.push_back(memory + used);
      used += (static_cast<uint64_t>(bytes) + 511) / 512 * 512;
    };
    for (const TensorType &type : spec.operands)
      place(type.numBytes());
    place(spec.workspace);
    if (used > size)
      check(makeError(Code::budget, 0, c.name + " needs " + std::to_string(used) + " bytes"));
    for (size_t i = 0; i < spec.operands.size(); ++i) // labels; what cases before left in their place are none
      if (spec.operands[i].dtype == DType::i64) {
        const std::vector<char> zeroes(static_cast<size_t>(spec.operands[i].numBytes()));
        check(device->write(operands[i], zeroes.data(), zeroes.size()));
      }
    auto kernel = take(device->prepare(spec, number++));
    const auto half = std::min(static_cast<uint64_t>(c.bytes()), copySize) / 2 / 512 * 512; // a copy reads and writes
    std::vector<double> kernels, copies;
    for (int round = 0; round < kRounds; ++round) {
      kernels.push_back(seconds([&] { check(kernel->enqueue(operands.data(), {&host, context, 0}, *stream)); }));
      copies.push_back(seconds([&] { check(stream->copy(copied, copied + half, half)); }));
    }
    if (auto fault = device->fault())
      check(fault->error);
    print(c, median(kernels), 2 * static_cast<double>(half) / median(copies) * 1e-9);
  }

private:
  static constexpr int kRounds = 5, kInARow = 5;

  /// Of one `enqueue`, of several in a row; the first is for libraries to load, and caches.
  double seconds(const std::function<void()> &enqueue) {
    enqueue();
    check(stream->stamp(*begin));
    for (int i = 0; i < kInARow; ++i)
      enqueue();
    check(stream->stamp(*end));
    check(stream->drain());
    return static_cast<double>(std::max<int64_t>(1, take(device->nanosecondsBetween(*begin, *end)))) * 1e-9 / kInARow;
  }

  std::unique_ptr<Device> device;
  uint64_t size, copySize;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Stamp> begin, end;
  char *memory = nullptr, *copied = nullptr;
  StepContext host, *context = nullptr;
  uint32_t number = 0;
};

/// H6: the update of a host's share, all threads, beside an update in place of as many bytes.
void runHost(const KernelRegistry &kernels, int64_t elements) {
  const TensorType wide{DType::f32, {elements}}, half{DType::bf16, {elements}};
  Case c{"adamw on the host", "H6", {}, 3};
  c.spec.name = "adamw";
  c.spec.operands = {half, {DType::f32, {}}, wide, wide, wide, half};
  c.spec.numInputs = 2;
  c.spec.threads = omp_get_max_threads();
  c.spec.attributes["weight_decay"] = 0.01;
  std::vector<Arena> arenas;
  std::vector<void *> operands;
  for (const TensorType &type : c.spec.operands) {
    arenas.push_back(take(Arena::map(static_cast<uint64_t>(type.numBytes()))));
    operands.push_back(arenas.back().data());
  }
  auto kernel = take(kernels.prepare(c.spec));
  auto *numbers = static_cast<float *>(operands[2]);
  auto update = [&] {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < elements; ++i)
      numbers[i] += 1;
  };
  std::vector<double> updates, streams;
  for (int round = 0; round < 7; ++round) {
    updates.push_back(test::secondsOf([&] { check(kernel->run(operands.data(), {1, 0, 1e-4})); }));
    streams.push_back(test::secondsOf(update));
  }
  updates.erase(updates.begin()); // pages that are touched
  print(c, median(updates), 8.0 * static_cast<double>(elements) / median(streams) * 1e-9);
}

std::string quoted(const std::string &text) {
  std::string all = "\"";
  for (char c : text)
    all += c == '"' || c == '\\'                 ? std::string("\\") + c
           : static_cast<unsigned char>(c) < ' ' ? " "
                                                 : std::string(1, c);
  return all + "\"";
}

void printShapes(Device &device, const std::vector<std::string> &plans) {
  test::LibraryKernels kernels;
  std::vector<KernelSpec> specs;
  for (const std::string &plan : plans)
    for (KernelSpec &spec : take(kernels.add(plan))) {
      if (device.target() == Target::cpu) // a fake one, which has a CPU's kernels
        spec.workspace = std::max(spec.workspace, workspaceBytes(spec, Target::cpu));
      specs.push_back(std::move(spec));
    }
  uint32_t number = 0;
  for (const KernelSpec &spec : specs)
    (void)take(device.prepare(spec, number++));
  for (const LibraryChoice &choice : device.choices())
    std::printf("{\"library\": %s, \"asked\": %s, \"taken\": %s}\n", quoted(choice.library).c_str(),
                quoted(choice.asked).c_str(), quoted(choice.taken).c_str());
  for (const std::string &note : device.notes())
    std::printf("{\"note\": %s}\n", quoted(note).c_str());
  const Result<std::string> description = device.description();
  std::printf("{\"gpu\": %s, \"kernels\": %u, \"description\": %s}\n", quoted(device.name()).c_str(), number,
              quoted(description ? *description : "").c_str());
}

int run(const std::vector<std::string> &arguments) {
  std::string device = "cuda";
  int64_t mebibytes = 256;
  bool shapes = false;
  std::vector<std::string> names;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool hasValue = i + 1 < arguments.size();
    if (arguments[i] == "--device" && hasValue)
      device = arguments[++i];
    else if (arguments[i] == "--mebibytes" && hasValue)
      mebibytes = std::max<int64_t>(1, std::atoll(arguments[++i].c_str()));
    else if (arguments[i] == "--shapes")
      shapes = true;
    else
      names.push_back(arguments[i]);
  }
  auto isWanted = [&](const std::string &name, const std::string &goal) {
    return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string &part) {
             return part == goal || name.find(part) != std::string::npos;
           });
  };
  KernelRegistry kernels;
  registerCpuKernels(kernels);
  auto open = [&] { return device == "fake" ? makeFakeDevice(kernels, {}) : take(openCudaDevice({})); };
  if (shapes) {
    printShapes(*open(), names);
    return 0;
  }
  const int64_t bytes = mebibytes << 20;
  if (isWanted("adamw on the host", "H6"))
    runHost(kernels, bytes / 2);
  std::vector<Case> wanted;
  for (const Case &c : Cases(bytes).all)
    if (isWanted(c.name, c.goal))
      wanted.push_back(c);
  if (wanted.empty())
    return 0;
  Bench bench(open(), static_cast<uint64_t>(bytes));
  for (const Case &c : wanted)
    bench.run(c);
  return 0;
}

} // namespace
} // namespace zc

int main(int argc, char **argv) { return zc::run({argv + 1, argv + argc}); }
