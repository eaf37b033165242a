// conv, conv_transpose, conv_weight_grad through oneDNN, fp32 and bf16; f16 as fp32 copies. oneDNN is fast on layouts
// of its own, with channels in blocks of a vector's length; tensors are rearranged into scratch memory and back around
// each call. That costs a pass over each tensor and leaves every other kernel, and every view, with the plain layout.
#include "kernels/cpu/Windows.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
namespace {

using dnnl::memory;

/// A primitive between tensors in plain layouts, in the order of the kernel's operands.
class Rearranged {
public:
  Rearranged(int threads, DType dtype) : threads(threads), dtype(dtype), stream(cpuEngine()) {}

  /// Operands, in order; `wanted` is the primitive's layout.
  void input(int argument, const memory::desc &plain, const memory::desc &wanted) {
    Tensor tensor = plainOf(plain);
    if (plain != wanted)
      rearrange(tensor, tensor.plain, tensor.blocked = memory(wanted, cpuEngine()));
    arguments[argument] = tensor.isBlocked() ? tensor.blocked : tensor.plain;
    inputs.push_back(std::move(tensor));
  }
  void output(int argument, const memory::desc &plain, const memory::desc &wanted) {
    result = plainOf(plain);
    if (plain != wanted) {
      result.blocked = memory(wanted, cpuEngine());
      rearrange(result, result.blocked, result.plain);
    }
    arguments[argument] = result.isBlocked() ? result.blocked : result.plain;
  }
  template <typename PrimitiveDesc> void primitiveOf(const PrimitiveDesc &desc, dnnl::primitive made) {
    arguments[DNNL_ARG_SCRATCHPAD] = memory(desc.scratchpad_desc(), cpuEngine());
    primitive = std::move(made);
  }

  Status run(void *const *operands) {
    // oneDNN reports failure by exceptions; none may leave a kernel.
    try {
      TeamOf team(threads);
      for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor &input = inputs[i];
        if (!input.wide.empty())
          convertAll(dtype, operands[i], DType::f32, input.wide.data(), input);
        input.plain.set_data_handle(input.wide.empty() ? operands[i] : input.wide.data());
        if (inputs[i].isBlocked())
          inputs[i].reorder.execute(stream, inputs[i].arguments);
      }
      result.plain.set_data_handle(result.wide.empty() ? operands[inputs.size()] : result.wide.data());
      primitive.execute(stream, arguments);
      if (result.isBlocked())
        result.reorder.execute(stream, result.arguments);
      stream.wait();
      if (!result.wide.empty())
        convertAll(DType::f32, result.wide.data(), dtype, operands[inputs.size()], result);
    } catch (const std::exception &failure) {
      return makeError(Code::internal, 705, std::string("convolution failed in oneDNN: ") + failure.what());
    }
    return Status::success();
  }

private:
  using Arguments = std::unordered_map<int, memory>;
  struct Tensor {
    memory plain, blocked;   ///< memories are handles: copies share the data
    std::vector<float> wide; ///< what `plain` points to, of f16
    dnnl::reorder reorder;
    Arguments arguments;
    bool isBlocked() const { return static_cast<bool>(blocked); }
  };

  Tensor plainOf(const memory::desc &plain) const {
    return {memory(plain, cpuEngine(), nullptr),
            {},
            std::vector<float>(dtype == DType::f16 ? plain.get_size() / sizeof(float) : 0),
            {},
            {}};
  }
  void convertAll(DType from, const void *x, DType to, void *y, const Tensor &tensor) const {
    auto n = static_cast<int64_t>(tensor.wide.size());
    parallelParts(threadsFor(threads, n), n, 64, [&](int64_t begin, int64_t end, int) {
      convertFast(from, static_cast<const char *>(x) + begin * sizeOf(from), to,
                  static_cast<char *>(y) + begin * sizeOf(to), end - begin);
    });
  }

  static void rearrange(Tensor &tensor, const memory &from, const memory &to) {
    dnnl::reorder::primitive_desc desc(from, to, ownScratchpad());
    tensor.reorder = dnnl::reorder(desc);
    tensor.arguments = {
        {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc(), cpuEngine())}};
  }

  int threads;
  DType dtype;
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<Tensor> inputs;
  Tensor result;
  Arguments arguments;
};

/// The convolution in oneDNN's words, layouts plain or left to it.
struct Described {
  explicit Described(const ConvShape &s)
      : s(s), type(s.dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32),
        strides(s.windows.strides), dilates(s.windows.dilations), low(s.windows.low), high(s.high) {
    for (int64_t &d : dilates)
      --d;
  }

  memory::dims input() const { return with({s.batch, s.inChannels}, s.windows.in); }
  memory::dims output() const { return with({s.batch, s.outChannels}, s.windows.out); }
  memory::dims weight() const {
    if (s.groups == 1)
      return with({s.outChannels, s.inChannels}, s.windows.kernel);
    return with({s.groups, s.outPerGroup(), s.inPerGroup()}, s.windows.kernel);
  }
  memory::desc plain(const memory::dims &dims) const { return {dims, type, rowMajorStrides(dims)}; }
  memory::desc any(const memory::dims &dims) const { return {dims, type, memory::format_tag::any}; }

  dnnl::convolution_forward::primitive_desc forward(bool hasBias, dnnl::prop_kind kind) const {
    using Desc = dnnl::convolution_forward::desc;
    auto algorithm = dnnl::algorithm::convolution_direct;
    Desc desc = hasBias
                    ? Desc(kind, algorithm, any(input()), any(weight()), plain({s.outChannels}), any(output()), strides,
                           dilates, low, high)
                    : Desc(kind, algorithm, any(input()), any(weight()), any(output()), strides, dilates, low, high);
    return {desc, ownScratchpad(), cpuEngine()};
  }

  const ConvShape &s;
  memory::data_type type;
  memory::dims strides, dilates, low, high;

private:
  static memory::dims with(memory::dims lead, const Dims &rest) {
    lead.insert(lead.end(), rest.begin(), rest.end());
    return lead;
  }
};

template <typename PrimitiveDesc> bool isOptimised(const PrimitiveDesc &desc) {
  return std::string(desc.impl_info_str()).rfind("ref", 0) != 0;
}

using Made = std::unique_ptr<Rearranged>;

Made makeForward(const ConvShape &s, int threads) {
  Described d(s);
  auto desc = d.forward(s.hasBias, dnnl::prop_kind::forward_training);
  if (!isOptimised(desc))
    return nullptr;
  auto made = std::make_unique<Rearranged>(threads, s.dtype);
  made->input(DNNL_ARG_SRC, d.plain(d.input()), desc.src_desc());
  made->input(DNNL_ARG_WEIGHTS, d.plain(d.weight()), desc.weights_desc());
  if (s.hasBias)
    made->input(DNNL_ARG_BIAS, d.plain({s.outChannels}), desc.bias_desc());
  made->output(DNNL_ARG_DST, d.plain(d.output()), desc.dst_desc());
  made->primitiveOf(desc, dnnl::convolution_forward(desc));
  return made;
}

Made makeBackwardData(const ConvShape &s, int threads) {
  Described d(s);
  dnnl::convolution_backward_data::primitive_desc desc(
      dnnl::convolution_backward_data::desc(dnnl::algorithm::convolution_direct, d.any(d.input()), d.any(d.weight()),
                                            d.any(d.output()), d.strides, d.dilates, d.low, d.high),
      ownScratchpad(), cpuEngine(), d.forward(false, dnnl::prop_kind::forward_training));
  if (!isOptimised(desc))
    return nullptr;
  auto made = std::make_unique<Rearranged>(threads, s.dtype);
  made->input(DNNL_ARG_DIFF_DST, d.plain(d.output()), desc.diff_dst_desc());
  made->input(DNNL_ARG_WEIGHTS, d.plain(d.weight()), desc.weights_desc());
  made->output(DNNL_ARG_DIFF_SRC, d.plain(d.input()), desc.diff_src_desc());
  made->primitiveOf(desc, dnnl::convolution_backward_data(desc));
  return made;
}

Made makeBackwardWeights(const ConvShape &s, int threads) {
  Described d(s);
  dnnl::convolution_backward_weights::primitive_desc desc(
      dnnl::convolution_backward_weights::desc(dnnl::algorithm::convolution_direct, d.any(d.input()), d.any(d.weight()),
                                               d.any(d.output()), d.strides, d.dilates, d.low, d.high),
      ownScratchpad(), cpuEngine(), d.forward(false, dnnl::prop_kind::forward_training));
  if (!isOptimised(desc))
    return nullptr;
  auto made = std::make_unique<Rearranged>(threads, s.dtype);
  made->input(DNNL_ARG_SRC, d.plain(d.input()), desc.src_desc());
  made->input(DNNL_ARG_DIFF_DST, d.plain(d.output()), desc.diff_dst_desc());
  made->output(DNNL_ARG_DIFF_WEIGHTS, d.plain(d.weight()), desc.diff_weights_desc());
  made->primitiveOf(desc, dnnl::convolution_backward_weights(desc));
  return made;
}

/// Null where oneDNN has nothing better than plain loops: the caller has those too.
Made tryMake(Made (*make)(const ConvShape &, int), const ConvShape &s, int threads) {
  auto negative = [](int64_t amount) { return amount < 0; };
  const Windows &w = s.windows;
  if (!isFast(s.dtype) || s.batch * s.inChannels * s.outChannels * w.inPlane * w.outPlane == 0 || w.in.size() > 3 ||
      std::any_of(w.low.begin(), w.low.end(), negative) || std::any_of(s.high.begin(), s.high.end(), negative))
    return nullptr;
  try {
    TeamOf team(threads);
    return make(s, threads);
  } catch (const std::exception &) {
    return nullptr; // no implementation for this CPU or shape
  }
}

Prepared prepareConv(const KernelSpec &spec, Result<ConvShape> read, Made (*make)(const ConvShape &, int)) {
  ZC_RETURN_IF_ERROR(read.status());
  std::shared_ptr<Rearranged> made = tryMake(make, *read, spec.threads);
  if (!made)
    return decline();
  return makeKernel([made](void *const *operands, const StepContext &) { return made->run(operands); });
}

/// Operands: input, weight, [bias], result.
Prepared prepareConvTranspose(const KernelSpec &spec) {
  Result<ConvShape> read = readConvTranspose(spec);
  ZC_RETURN_IF_ERROR(read.status());
  std::shared_ptr<Rearranged> made = tryMake(makeBackwardData, *read, spec.threads);
  if (!made)
    return decline();
  if (!read->hasBias)
    return makeKernel([made](void *const *operands, const StepContext &) { return made->run(operands); });
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([made, s = *read,
                       threads = threadsFor(spec.threads, read->batch * read->inChannels * read->windows.inPlane)](
                          void *const *operands, const StepContext &) -> Status {
      void *const spread[] = {operands[0], operands[1], operands[3]};
      ZC_RETURN_IF_ERROR(made->run(spread));
      parallelParts(threads, s.batch * s.inChannels, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p)
          for (int64_t i = p * s.windows.inPlane; i < (p + 1) * s.windows.inPlane; ++i)
            as<T>(operands[3])[i] = store<T>(load(as<T>(operands[3])[i]) + load(as<T>(operands[2])[p % s.inChannels]));
      });
      return Status::success();
    });
  });
}

} // namespace

void addFastConv(Overlay &overlay) {
  overlay.add("conv", [](const KernelSpec &spec) { return prepareConv(spec, readConv(spec), makeForward); });
  overlay.add("conv_transpose", prepareConvTranspose);
  overlay.add("conv_weight_grad",
              [](const KernelSpec &spec) { return prepareConv(spec, readConvWeightGrad(spec), makeBackwardWeights); });
}

} // namespace zc::cpu
