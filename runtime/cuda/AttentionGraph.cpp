#include "runtime/cuda/CudnnFrontEnd.h"

#include <limits>

namespace zc::cuda {

namespace {

std::string nameOf(const cpu::AttentionShape &s, AttentionPass pass) {
  return "attention" + std::string(pass == AttentionPass::gradient ? "'s gradient" : "") + " of " +
         std::to_string(s.batch) + "x" + std::to_string(s.heads) + " heads, " + std::to_string(s.queries) +
         " queries, " + std::to_string(s.keys) + " keys of " + std::to_string(s.depth) + " " +
         std::string(zc::nameOf(s.dtype));
}

class AttentionGraph : public FrontEndGraph {
public:
  AttentionGraph(const cpu::AttentionShape &shape, AttentionPass pass)
      : FrontEndGraph(nameOf(shape, pass), shape.dtype), s(shape), pass(pass) {}

  Status prepare() {
    pass == AttentionPass::forward ? addForward() : addGradient();
    return build({fe::HeurMode_t::A}, {}, std::numeric_limits<int64_t>::max());
  }

private:
  std::vector<int64_t> queries(int64_t depth) const { return {s.batch, s.heads, s.queries, depth}; }
  std::vector<int64_t> keys(int64_t depth) const { return {s.batch, s.keyHeads, s.keys, depth}; }
  CudnnTensor bias(int64_t operand);
  template <typename Attributes> Attributes attributes(int64_t mask);
  void addForward();
  void addGradient();

  const cpu::AttentionShape s;
  const AttentionPass pass;
};

/// Of the mask's own extents: 1 where it is the same along a dimension.
CudnnTensor AttentionGraph::bias(int64_t operand) {
  std::vector<int64_t> dims = {s.batch, s.heads, s.queries, s.keys};
  for (size_t i = 0; i < dims.size(); ++i)
    if (s.maskStrides[i] == 0)
      dims[i] = 1;
  CudnnTensor tensor = input(operand, dims);
  tensor->set_data_type(typeOf(s.mask));
  return tensor;
}

template <typename Attributes> Attributes AttentionGraph::attributes(int64_t mask) {
  Attributes made;
  made.set_name("attention").set_attn_scale(static_cast<float>(s.scale));
  if (s.causal) // the last query sees the last key
    made.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT).set_diagonal_band_right_bound(0);
  if (s.hasMask)
    made.set_bias(bias(mask));
  return made;
}

void AttentionGraph::addForward() {
  CudnnTensor q = input(0, queries(s.depth)), k = input(1, keys(s.depth)), v = input(2, keys(s.valueDepth));
  auto [y, stats] = graph.sdpa(q, k, v, attributes<fe::graph::SDPA_attributes>(3).set_generate_stats(true));
  int64_t first = s.hasMask ? 4 : 3;
  output(y, first, queries(s.valueDepth));
  output(stats, first + 1, queries(1));
  stats->set_data_type(fe::DataType_t::FLOAT);
}

void AttentionGraph::addGradient() {
  CudnnTensor grad = input(0, queries(s.valueDepth)), q = input(1, queries(s.depth)), k = input(2, keys(s.depth)),
              v = input(3, keys(s.valueDepth)), y = input(4, queries(s.valueDepth)), stats = input(5, queries(1));
  stats->set_data_type(fe::DataType_t::FLOAT);
  auto [dq, dk, dv] = graph.sdpa_backward(
      q, k, v, y, grad, stats, attributes<fe::graph::SDPA_backward_attributes>(6).set_deterministic_algorithm(true));
  int64_t first = s.hasMask ? 7 : 6;
  output(dq, first, queries(s.depth));
  output(dk, first + 1, keys(s.depth));
  output(dv, first + 2, keys(s.valueDepth));
}

} // namespace

Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const cpu::AttentionShape &shape, AttentionPass pass,
                                                        const std::string &description) {
  return buildGraph<AttentionGraph>(description, shape, pass);
}

} // namespace zc::cuda
