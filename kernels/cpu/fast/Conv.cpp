// conv, conv_transpose, conv_weight_grad through oneDNN, fp32 and bf16; f16, and bf16 where oneDNN has nothing for it
// on this CPU (before AVX-512), as fp32 copies. oneDNN is fast on layouts of its own, with channels in blocks of a
// vector's length; tensors are rearranged into the step's workspace and back around each call. That costs a pass over
// each tensor and leaves every other kernel, and every view, with the plain layout. Channels-last activations are taken
// as they are where oneDNN has a kernel for that; then only weights are rearranged.
#include "kernels/cpu/Registries.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
namespace {

using dnnl::memory;

/// A weight of one point, from tiles of b x b channels to the plain layout: [out/b, in, b] to [out/b, b, in]. oneDNN's
/// rearrangement writes parts of cache lines, which those of rows 4 KiB apart push out before they are whole: 3 to 4
/// GB/s of a weight of 2048 x 1024. Null: that is not what the layouts are.
std::unique_ptr<Kernel> untiled(const memory::desc &tiled, const memory::desc &plain, DType dtype, int threads) {
  using Tag = memory::format_tag;
  const memory::dims dims = plain.dims();
  if (dims.size() != 4 || dims[2] * dims[3] != 1 || plain != memory::desc(dims, plain.data_type(), Tag::abcd))
    return nullptr;
  for (auto [tile, tag] : {std::pair(16, Tag::ABcd16b16a), std::pair(8, Tag::ABcd8b8a)}) {
    if (dims[0] % tile != 0 || dims[1] % tile != 0 || tiled != memory::desc(dims, plain.data_type(), tag))
      continue;
    KernelSpec spec;
    spec.name = "transpose";
    spec.operands = {{dtype, {dims[0] / tile, dims[1], tile}}, {dtype, {dims[0] / tile, tile, dims[1]}}};
    spec.numInputs = 1;
    spec.attributes["permutation"] = std::vector<int64_t>{0, 2, 1};
    spec.threads = threads;
    if (auto kernel = fastKernels().prepare(spec))
      return std::move(*kernel);
  }
  return nullptr;
}

/// A primitive between tensors in plain layouts: the step's first operands to its last.
class Rearranged {
public:
  /// `isWide`: the primitive is fp32's, on copies of tensors of 16 bits.
  Rearranged(const KernelSpec &spec, int threads, DType dtype, bool isWide)
      : threads(threads), dtype(dtype), isWide(isWide), last(spec.operands.size() - 1), workspace(spec),
        room(spec.kept), stream(cpuEngine()) {}

  /// For who wonders that 16 bits save memory and no time.
  std::string method() const {
    return std::string(isWide ? "oneDNN on copies in fp32" : keeps ? "oneDNN" : "") + (keeps ? ", weights kept" : "");
  }

  /// Operands, in order; `wanted` is the primitive's layout.
  void input(int argument, const memory::desc &plain, const memory::desc &wanted) {
    Tensor tensor = describe(plain, wanted);
    if (tensor.isBlocked())
      rearrange(tensor, tensor.plain, tensor.blocked);
    if (tensor.isBlocked() && inputs.size() == kWeight && 0 < tensor.piece.count && tensor.piece.count <= room) {
      tensor.piece = {last + 2, 0, tensor.piece.count};
      keeps = true;
    }
    arguments[argument] = tensor.isBlocked() ? tensor.blocked : tensor.plain;
    inputs.push_back(std::move(tensor));
  }
  void output(int argument, const memory::desc &plain, const memory::desc &wanted) {
    result = describe(plain, wanted);
    if (result.isBlocked())
      untile = untiled(wanted, plain, isWide ? DType::f32 : dtype, threads);
    if (result.isBlocked() && !untile)
      rearrange(result, result.blocked, result.plain);
    arguments[argument] = result.isBlocked() ? result.blocked : result.plain;
  }
  /// Last. False if all this does not fit into the workspace.
  template <typename PrimitiveDesc> bool primitiveOf(const PrimitiveDesc &desc, dnnl::primitive made) {
    primitive = std::move(made);
    if (wideElements > 0) {
      Piece<float> shared = workspace.take<float>(wideElements);
      for (Tensor &tensor : inputs)
        tensor.wide = tensor.isBlocked() ? shared : tensor.wide;
      result.wide = result.isBlocked() ? shared : result.wide;
    }
    // One primitive runs after the other: their scratchpads share bytes.
    int64_t bytes = static_cast<int64_t>(desc.scratchpad_desc().get_size());
    for (const Scratchpad &pad : pads)
      bytes = std::max(bytes, static_cast<int64_t>(pad.memory.get_desc().get_size()));
    scratchpad = workspace.take<char>(bytes);
    pads.push_back({memory(desc.scratchpad_desc(), cpuEngine(), nullptr)});
    arguments[DNNL_ARG_SCRATCHPAD] = pads.back().memory;
    return workspace.fits();
  }

  Status run(void *const *operands, const StepContext &context) {
    // oneDNN reports failure by exceptions; none may leave a kernel.
    try {
      DnnlCall call(threads, std::exchange(isFirst, false));
      for (Scratchpad &pad : pads)
        setHandle(pad.memory, scratchpad.of(operands));
      for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor &input = inputs[i];
        if (keeps && i == kWeight && context.micro > 0) {
          setHandle(input.blocked, input.piece.of(operands));
          continue;
        }
        float *wide = input.wide.of(operands);
        if (wide)
          convertAll(dtype, operands[i], DType::f32, wide, input.elements);
        setHandle(input.plain, wide ? wide : operands[i]);
        if (input.isBlocked()) {
          setHandle(input.blocked, input.piece.of(operands));
          input.reorder.execute(stream, input.arguments);
          stream.wait(); // the next input may be widened over this one
        }
      }
      float *wide = result.wide.of(operands);
      setHandle(result.plain, wide ? wide : operands[last]);
      if (result.isBlocked())
        setHandle(result.blocked, result.piece.of(operands));
      primitive.execute(stream, arguments);
      if (result.reorder)
        result.reorder.execute(stream, result.arguments);
      stream.wait();
      if (untile) {
        void *both[] = {result.piece.of(operands), wide ? wide : operands[last]};
        ZC_RETURN_IF_ERROR(untile->run(both, {}));
      }
      if (wide)
        convertAll(DType::f32, wide, dtype, operands[last], result.elements);
    } catch (const std::exception &failure) {
      return makeError(Code::internal, 705, std::string("convolution failed in oneDNN: ") + failure.what());
    }
    return Status::success();
  }

private:
  static constexpr size_t kWeight = 1; ///< among the inputs, where it is one

  using Arguments = std::unordered_map<int, memory>;
  struct Tensor {
    memory plain, blocked; ///< memories are handles: copies share the data
    Piece<char> piece;     ///< where `blocked` lies
    Piece<float> wide;     ///< what `plain` points to, where it is a copy
    int64_t elements = 0;
    dnnl::reorder reorder;
    Arguments arguments;
    bool isBlocked() const { return static_cast<bool>(blocked); }
  };
  struct Scratchpad {
    dnnl::memory memory;
  };

  Tensor describe(const memory::desc &plain, const memory::desc &wanted) {
    Tensor tensor;
    tensor.plain = memory(plain, cpuEngine(), nullptr);
    tensor.elements = product(plain.dims(), 0, plain.dims().size());
    if (plain != wanted) {
      tensor.blocked = memory(wanted, cpuEngine(), nullptr);
      tensor.piece = workspace.take<char>(static_cast<int64_t>(wanted.get_size()));
      // Widened tensors that are rearranged next are needed one after the other.
      if (isWide)
        wideElements = std::max(wideElements, tensor.elements);
    } else if (isWide) {
      tensor.wide = workspace.take<float>(tensor.elements);
    }
    return tensor;
  }
  /// Where a primitive's memory is changes seldom, and saying so has a price: padding is zeroed.
  static void setHandle(memory &of, void *data) {
    if (of.get_data_handle() != data)
      of.set_data_handle(data);
  }
  void convertAll(DType from, const void *x, DType to, void *y, int64_t n) const {
    parallelRanges(threadsFor(threads, n), n, kPieceElements, [&](int64_t begin, int64_t end, int) {
      convertFast(from, static_cast<const char *>(x) + begin * sizeOf(from), to,
                  static_cast<char *>(y) + begin * sizeOf(to), end - begin);
    });
  }

  void rearrange(Tensor &tensor, const memory &from, const memory &to) {
    dnnl::reorder::primitive_desc desc(from, to, ownScratchpad());
    tensor.reorder = dnnl::reorder(desc);
    pads.push_back({memory(desc.scratchpad_desc(), cpuEngine(), nullptr)});
    tensor.arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, pads.back().memory}};
  }

  int threads;
  DType dtype;
  bool isWide;
  size_t last; ///< the result's operand
  Workspace workspace;
  int64_t room;       ///< for what is kept of the weight
  bool keeps = false; ///< it, rearranged
  dnnl::stream stream;
  dnnl::primitive primitive;
  std::vector<Tensor> inputs;
  Tensor result;
  std::unique_ptr<Kernel> untile; ///< the result, where its `reorder` would do it slowly
  Arguments arguments;
  std::vector<Scratchpad> pads;
  Piece<char> scratchpad;
  bool isFirst = true;      ///< run
  int64_t wideElements = 0; ///< of the largest tensor that is widened and rearranged
};

/// What is asked of oneDNN at a time.
struct Attempt {
  int threads;
  bool isWide = false;      ///< of 16 bits: computed on copies in fp32
  bool isGiven = false;     ///< activations are not rearranged
  bool lacksMemory = false; ///< had an implementation that does not fit into the workspace
};

/// The convolution in oneDNN's words, layouts plain or left to it.
struct Described {
  Described(const ConvShape &s, const Attempt &attempt)
      : s(s), isGiven(attempt.isGiven),
        type(s.dtype == DType::bf16 && !attempt.isWide ? memory::data_type::bf16 : memory::data_type::f32),
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
  /// An activation as the step has it, dimensions always in the model's order.
  memory::desc given(const memory::dims &dims) const {
    if (!s.channelsLast)
      return plain(dims);
    memory::dims last = dims;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    memory::dims strides = rowMajorStrides(last);
    std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
    return {dims, type, strides};
  }
  /// And as the primitive is to have it.
  memory::desc activation(const memory::dims &dims) const { return isGiven ? given(dims) : any(dims); }

  dnnl::convolution_forward::desc forward(bool hasBias) const {
    using Desc = dnnl::convolution_forward::desc;
    auto kind = dnnl::prop_kind::forward_training;
    auto algorithm = dnnl::algorithm::convolution_direct;
    return hasBias ? Desc(kind, algorithm, activation(input()), any(weight()), plain({s.outChannels}),
                          activation(output()), strides, dilates, low, high)
                   : Desc(kind, algorithm, activation(input()), any(weight()), activation(output()), strides, dilates,
                          low, high);
  }
  /// What oneDNN asks for before it describes a gradient.
  dnnl::convolution_forward::primitive_desc hint() const { return {forward(false), attributes, cpuEngine()}; }

  const ConvShape &s;
  bool isGiven;
  memory::data_type type;
  memory::dims strides, dilates, low, high;
  const dnnl::primitive_attr attributes = ownScratchpad();

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

/// `pick(desc, made)` connects a primitive's tensors and says whether they fit: oneDNN's implementations in its order
/// of preference, none that is plain loops. next_impl() reads what `desc` was made of, the operation's description and
/// the hint, and owns neither: they live as long as `desc`.
template <typename PrimitiveDesc, typename Pick>
Made firstThatFits(PrimitiveDesc desc, const KernelSpec &spec, const ConvShape &s, Attempt &attempt, Pick pick) {
  do {
    if (!isOptimised(desc))
      return nullptr;
    auto made = std::make_unique<Rearranged>(spec, attempt.threads, s.dtype, attempt.isWide);
    if (pick(desc, *made))
      return made;
    attempt.lacksMemory = true;
    // Fewer threads come before another one, and so does rearranging what is channels last.
  } while (attempt.threads == 1 && !attempt.isGiven && desc.next_impl());
  return nullptr;
}

/// Does padding fill a window but for one element?
bool isFarPadded(const ConvShape &s) {
  const Windows &w = s.windows;
  for (size_t i = 0; i < w.kernel.size(); ++i)
    if (std::max(w.low[i], s.high[i]) >= (w.kernel[i] - 1) * w.dilations[i] && w.kernel[i] > 1)
      return true;
  return false;
}

Made makeForward(const KernelSpec &spec, const ConvShape &s, Attempt &attempt) {
  // oneDNN 2.6's kernel in bf16 reads an element beside a volume's odd channels there, and multiplies it by 0.
  if (s.dtype == DType::bf16 && !attempt.isWide && s.windows.in.size() == 3 && s.inPerGroup() % 2 == 1 &&
      isFarPadded(s))
    return nullptr;
  Described d(s, attempt);
  const auto wanted = d.forward(s.hasBias);
  dnnl::convolution_forward::primitive_desc desc(wanted, d.attributes, cpuEngine());
  return firstThatFits(desc, spec, s, attempt, [&](const auto &desc, Rearranged &made) {
    made.input(DNNL_ARG_SRC, d.given(d.input()), desc.src_desc());
    made.input(DNNL_ARG_WEIGHTS, d.plain(d.weight()), desc.weights_desc());
    if (s.hasBias)
      made.input(DNNL_ARG_BIAS, d.plain({s.outChannels}), desc.bias_desc());
    made.output(DNNL_ARG_DST, d.given(d.output()), desc.dst_desc());
    return made.primitiveOf(desc, dnnl::convolution_forward(desc));
  });
}

Made makeBackwardData(const KernelSpec &spec, const ConvShape &s, Attempt &attempt) {
  Described d(s, attempt);
  const auto hint = d.hint();
  const dnnl::convolution_backward_data::desc wanted(dnnl::algorithm::convolution_direct, d.activation(d.input()),
                                                     d.any(d.weight()), d.activation(d.output()), d.strides, d.dilates,
                                                     d.low, d.high);
  dnnl::convolution_backward_data::primitive_desc desc(wanted, d.attributes, cpuEngine(), hint);
  return firstThatFits(desc, spec, s, attempt, [&](const auto &desc, Rearranged &made) {
    made.input(DNNL_ARG_DIFF_DST, d.given(d.output()), desc.diff_dst_desc());
    made.input(DNNL_ARG_WEIGHTS, d.plain(d.weight()), desc.weights_desc());
    made.output(DNNL_ARG_DIFF_SRC, d.given(d.input()), desc.diff_src_desc());
    return made.primitiveOf(desc, dnnl::convolution_backward_data(desc));
  });
}

Made makeBackwardWeights(const KernelSpec &spec, const ConvShape &s, Attempt &attempt) {
  // oneDNN 2.6's kernel in bf16 adds up sums that nobody began, of taps that see padding alone: of volumes, and of
  // images that are one window wide, and narrower than a stride.
  const Windows &w = s.windows;
  if (s.dtype == DType::bf16 && !attempt.isWide &&
      (w.in.size() == 3 || (w.out.back() == 1 && w.in.back() < w.strides.back())))
    return nullptr;
  Described d(s, attempt);
  const auto hint = d.hint();
  const dnnl::convolution_backward_weights::desc wanted(dnnl::algorithm::convolution_direct, d.activation(d.input()),
                                                        d.any(d.weight()), d.activation(d.output()), d.strides,
                                                        d.dilates, d.low, d.high);
  dnnl::convolution_backward_weights::primitive_desc desc(wanted, d.attributes, cpuEngine(), hint);
  return firstThatFits(desc, spec, s, attempt, [&](const auto &desc, Rearranged &made) {
    made.input(DNNL_ARG_SRC, d.given(d.input()), desc.src_desc());
    made.input(DNNL_ARG_DIFF_DST, d.given(d.output()), desc.diff_dst_desc());
    made.output(DNNL_ARG_DIFF_WEIGHTS, d.plain(d.weight()), desc.diff_weights_desc());
    return made.primitiveOf(desc, dnnl::convolution_backward_weights(desc));
  });
}

using Make = Made (*)(const KernelSpec &, const ConvShape &, Attempt &);

/// oneDNN throws where it has no implementation for this CPU or shape.
Made makeIfThere(Make make, const KernelSpec &spec, const ConvShape &s, Attempt &attempt) {
  try {
    return make(spec, s, attempt);
  } catch (const std::exception &) {
    return nullptr;
  }
}

/// Is it fastest on channels-last activations as they are? Before AVX-512 oneDNN's kernels for those take half as long
/// again as the others and their rearranging (ResNet-50's forward 3 x 3 on a Zen 3), but of one point, or of few
/// channels for a filter, they do not.
bool isBestGiven(const ConvShape &s) {
  return s.channelsLast && (hasAvx512() || s.windows.taps == 1 || s.inPerGroup() < 16);
}

/// By as many threads as possible: oneDNN's scratchpads grow with them, so that fewer may do.
Made makeThatFits(Make make, const KernelSpec &spec, const ConvShape &s, Attempt &attempt) {
  Made made;
  while (!made && attempt.threads > 0) {
    TeamOf team(attempt.threads);
    for (bool isGiven : {isBestGiven(s), !isBestGiven(s)}) {
      attempt.isGiven = isGiven;
      if (!made && (s.channelsLast || !isGiven))
        made = makeIfThere(make, spec, s, attempt);
    }
    attempt.threads = made ? attempt.threads : attempt.threads / 2;
  }
  return made;
}

/// In its own type if oneDNN can.
Made makeSomehow(Make make, const KernelSpec &spec, const ConvShape &s, std::string &note) {
  Attempt attempt{spec.threads, s.dtype == DType::f16};
  Made made = makeThatFits(make, spec, s, attempt);
  if (!made && s.dtype == DType::bf16) {
    attempt = {spec.threads, /*isWide=*/true};
    made = makeThatFits(make, spec, s, attempt);
  }
  if (!made)
    note = std::string("is computed by plain loops: oneDNN ") +
           (attempt.lacksMemory ? "needs a larger workspace than a plan allows it" : "has no kernel for it here");
  else if (attempt.threads < spec.threads)
    note = kFewerThreads;
  else if (attempt.lacksMemory)
    note = "uses a slower kernel of oneDNN's: the fastest needs a larger workspace than a plan allows it";
  return made;
}

/// Null where the caller's plain loops are as good, or all there is; `note` then says why.
Made tryMake(Make make, const KernelSpec &spec, const ConvShape &s, std::string &note) {
  auto negative = [](int64_t amount) { return amount < 0; };
  const Windows &w = s.windows;
  if (!isFast(s.dtype) || s.isEmpty())
    return nullptr;
  if (w.in.size() > 3 || std::any_of(w.low.begin(), w.low.end(), negative) ||
      std::any_of(s.high.begin(), s.high.end(), negative)) {
    note = "is computed by plain loops: oneDNN takes up to three dimensions, and no negative padding";
    return nullptr;
  }
  // oneDNN counts in 32 bits, some of it in products of these.
  auto isFar = [](int64_t amount) { return amount > int64_t(1) << 20; };
  for (const Dims *amounts : {&w.strides, &w.dilations, &w.low, &s.high})
    if (std::any_of(amounts->begin(), amounts->end(), isFar)) {
      note = "is computed by plain loops: oneDNN takes no strides, dilations or padding of more than a million";
      return nullptr;
    }
  return makeSomehow(make, spec, s, note);
}

Prepared makeRearranged(std::shared_ptr<Rearranged> made) {
  return makeKernel([made](void *const *operands, const StepContext &context) { return made->run(operands, context); },
                    made->method());
}

Prepared prepareConv(const KernelSpec &spec, std::string &note, Result<ConvShape> read, Make make) {
  ZC_RETURN_IF_ERROR(read.status());
  std::shared_ptr<Rearranged> made = tryMake(make, spec, *read, note);
  if (!made)
    return decline();
  return makeRearranged(made);
}

/// Operands: input, weight, [bias], result.
Prepared prepareConvTranspose(const KernelSpec &spec, std::string &note) {
  Result<ConvShape> read = readConvTranspose(spec);
  ZC_RETURN_IF_ERROR(read.status());
  std::shared_ptr<Rearranged> made = tryMake(makeBackwardData, spec, *read, note);
  if (!made)
    return decline();
  if (!read->hasBias)
    return makeRearranged(made);
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [made, s = *read, threads = threadsFor(spec.threads, read->batch * read->inChannels * read->windows.inPlane)](
            void *const *operands, const StepContext &context) -> Status {
          ZC_RETURN_IF_ERROR(made->run(operands, context));
          const int64_t run = s.channelsLast ? 1 : s.windows.inPlane; // elements of a channel side by side
          parallelRanges(threads, s.batch * s.inChannels * s.windows.inPlane / run, 1,
                         [&](int64_t begin, int64_t end, int) {
                           for (int64_t p = begin; p < end; ++p)
                             for (int64_t i = p * run; i < (p + 1) * run; ++i)
                               as<T>(operands[3])[i] =
                                   store<T>(load(as<T>(operands[3])[i]) + load(as<T>(operands[2])[p % s.inChannels]));
                         });
          return Status::success();
        },
        made->method());
  });
}

} // namespace

void addFastConv(KernelRegistry &registry) {
  registry.addNoting("conv", [](const KernelSpec &spec, std::string &note) {
    return prepareConv(spec, note, readConv(spec), makeForward);
  });
  registry.addNoting("conv_transpose", prepareConvTranspose);
  registry.addNoting("conv_weight_grad", [](const KernelSpec &spec, std::string &note) {
    return prepareConv(spec, note, readConvWeightGrad(spec), makeBackwardWeights);
  });
}

} // namespace zc::cpu
