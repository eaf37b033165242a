#include "runtime/cuda/CudnnFrontEnd.h"

#include <algorithm>

namespace zc::cuda {

namespace {

std::string nameOf(const CudnnConv &conv) {
  static constexpr const char *kPasses[] = {"a convolution", "a convolution's input", "a convolution's weight"};
  auto extents = [](const Dims &dims) {
    std::string all;
    for (int64_t extent : dims)
      all += (all.empty() ? "" : "x") + std::to_string(extent);
    return all;
  };
  const shapes::Windows &w = conv.shape.windows;
  return std::string(kPasses[static_cast<size_t>(conv.pass)]) + " of " + extents(conv.input()) + " with " +
         extents(conv.weight()) + " in " + std::to_string(conv.shape.groups) + " groups, strides " +
         extents(w.strides) + ", dilations " + extents(w.dilations) + ", padding " + extents(w.low) + " and " +
         extents(conv.shape.high) + ", " + std::string(conv.tf32 ? "tf32" : zc::nameOf(conv.shape.dtype));
}

/// Operands are those of conv, conv_transpose, conv_weight_grad; the channels of a weight say how many groups there
/// are.
class ConvGraph : public FrontEndGraph {
public:
  explicit ConvGraph(const CudnnConv &conv) : FrontEndGraph(nameOf(conv), conv.shape.dtype), conv(conv) {}

  Status prepare() {
    const int64_t result = conv.shape.hasBias ? 3 : 2;
    switch (conv.pass) {
    case ConvPass::output:
      take(graph.conv_fprop(give(0, conv.input()), giveWeight(), windowed(fe::graph::Conv_fprop_attributes())), result,
           conv.output());
      break;
    case ConvPass::input:
      take(graph.conv_dgrad(give(0, conv.output()), giveWeight(), windowed(fe::graph::Conv_dgrad_attributes())), result,
           conv.input());
      break;
    case ConvPass::weight: // of the input and the result's gradient
      CudnnTensor x = give(0, conv.input());
      output(graph.conv_wgrad(give(1, conv.output()), x, windowed(fe::graph::Conv_wgrad_attributes())), result,
             conv.weight(), contiguous(conv.weight()));
      break;
    }
    std::vector<fe::NumericalNote_t> refused;
    if (conv.shape.dtype == DType::f32 && !conv.tf32) // its tensor cores would take 10 bits of a number
      refused = {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS};
    return build({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}, std::move(refused), conv.workspaceBytes());
  }

private:
  CudnnTensor give(int64_t index, const Dims &dims) { return input(index, dims, strides(dims)); }
  CudnnTensor giveWeight() { return input(1, conv.weight(), contiguous(conv.weight())); }
  void take(const CudnnTensor &tensor, int64_t index, const Dims &dims) { output(tensor, index, dims, strides(dims)); }
  /// Of activations; weights have the model's order. cuDNN names dimensions in that, wherever their elements lie.
  Dims strides(const Dims &dims) const {
    if (!conv.shape.channelsLast)
      return contiguous(dims);
    Dims last = dims;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    last = contiguous(last);
    std::rotate(last.begin() + 1, last.end() - 1, last.end());
    return last;
  }
  template <typename Attributes> Attributes windowed(Attributes attributes) const {
    const shapes::Windows &w = conv.shape.windows;
    attributes.set_pre_padding(w.low).set_post_padding(conv.shape.high).set_stride(w.strides).set_dilation(w.dilations);
    return attributes;
  }

  const CudnnConv conv;
};

} // namespace

Result<std::unique_ptr<CudnnGraph>> buildConvGraph(const CudnnConv &conv, const std::string &description) {
  return buildGraph<ConvGraph>(description, conv);
}

} // namespace zc::cuda
