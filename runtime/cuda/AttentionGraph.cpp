#include "runtime/cuda/CudnnFrontEnd.h"

#include <limits>

namespace zc::cuda {

namespace {

std::string nameOf(const shapes::AttentionShape &s, AttentionPass pass) {
  return std::string(s.causal ? "causal " : "") + (s.window ? "windowed " : "") + (s.hasMask ? "masked " : "") +
         "attention" + std::string(pass == AttentionPass::gradient ? "'s gradient" : "") + " of " +
         std::to_string(s.batch) + "x" + std::to_string(s.heads) + " heads, " + std::to_string(s.queries) +
         " queries, " + std::to_string(s.keys) + " keys of " + std::to_string(s.depth) + " " +
         std::string(zc::nameOf(s.dtype));
}

class AttentionGraph : public FrontEndGraph {
public:
  explicit AttentionGraph(const CudnnAttention &attention)
      : FrontEndGraph(nameOf(attention.shape, attention.pass), attention.shape.dtype), attention(attention) {}

  Status prepare() {
    // What the front end refuses of windows without an end to the right it does not of those with one.
    const auto version = fe::detail::get_backend_version();
    const shapes::AttentionShape &s = attention.shape;
    if (s.window != 0 && !s.causal && (version < 91002 || (version == 91400 && s.keys > 1024)))
      return cudnnRefusal("compute windows to both sides", "version " + std::to_string(version) + " has defects there");
    // Older ones hide by position with the lowest number, which a mask's -inf is below.
    if (s.hasMask && (s.causal || s.window != 0) && version < 91000)
      return cudnnRefusal("compute masks beside positions",
                          "version " + std::to_string(version) + " shows what is hidden");
    attention.pass == AttentionPass::forward ? addForward() : addGradient();
    return build({fe::HeurMode_t::A}, {}, std::numeric_limits<int64_t>::max());
  }

private:
  static std::vector<int64_t> listOf(const std::array<int64_t, 4> &numbers) { return {numbers.begin(), numbers.end()}; }
  CudnnTensor give(int64_t index) {
    const CudnnHeads &tensor = attention.tensors[static_cast<size_t>(index)];
    return input(index, listOf(tensor.dims), listOf(tensor.strides));
  }
  void take(const CudnnTensor &result, int64_t index) {
    const CudnnHeads &tensor = attention.tensors[static_cast<size_t>(index)];
    output(result, index, listOf(tensor.dims), listOf(tensor.strides));
  }
  template <typename Attributes> Attributes attributes(int64_t mask);
  void addForward();
  void addGradient();

  const CudnnAttention attention;
};

template <typename Attributes> Attributes AttentionGraph::attributes(int64_t mask) {
  const shapes::AttentionShape &s = attention.shape;
  Attributes made;
  made.set_name("attention").set_attn_scale(static_cast<float>(s.scale));
  if (s.causal || s.window != 0) // the last query sees the last key; with a mask cuDNN knows but the first ones
    made.set_diagonal_alignment(s.queries == s.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(static_cast<int>(s.endOfSeen() - 1));
  if (s.window != 0) // what is not less than so far behind is hidden
    made.set_diagonal_band_left_bound(static_cast<int>(s.window));
  if (s.hasMask) {
    CudnnTensor bias = give(mask);
    bias->set_data_type(typeOf(s.mask));
    made.set_bias(bias);
  }
  return made;
}

void AttentionGraph::addForward() {
  CudnnTensor q = give(0), k = give(1), v = give(2);
  auto [y, stats] = graph.sdpa(q, k, v, attributes<fe::graph::SDPA_attributes>(3).set_generate_stats(true));
  int64_t first = attention.shape.hasMask ? 4 : 3;
  take(y, first);
  take(stats, first + 1);
  stats->set_data_type(fe::DataType_t::FLOAT);
}

void AttentionGraph::addGradient() {
  CudnnTensor grad = give(0), q = give(1), k = give(2), v = give(3), y = give(4), stats = give(5);
  stats->set_data_type(fe::DataType_t::FLOAT);
  auto [dq, dk, dv] = graph.sdpa_backward(
      q, k, v, y, grad, stats, attributes<fe::graph::SDPA_backward_attributes>(6).set_deterministic_algorithm(true));
  int64_t first = attention.shape.hasMask ? 7 : 6;
  take(dq, first);
  take(dk, first + 1);
  take(dv, first + 2);
}

} // namespace

Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const CudnnAttention &attention,
                                                        const std::string &description) {
  return buildGraph<AttentionGraph>(description, attention);
}

} // namespace zc::cuda
