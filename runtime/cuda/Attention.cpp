#include "runtime/cuda/Attention.h"
#include "kernels/cuda/CudnnAttention.h"
#include "runtime/cuda/AttentionGraph.h"
#include "runtime/cuda/Errors.h"

#include <map>
#include <mutex>
#include <tuple>

namespace zc::cuda {

namespace {

/// Layers have the same shapes, and building a graph takes seconds: kernels of one shape share it.
Result<std::shared_ptr<AttentionGraph>> graphOf(const cpu::AttentionShape &s, AttentionPass pass) {
  using Key = std::tuple<int, AttentionPass, DType, DType, bool, bool, double, std::vector<int64_t>>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<AttentionGraph>> graphs;
  int ordinal = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  std::vector<int64_t> extents = {s.batch, s.heads, s.keyHeads, s.queries, s.keys, s.depth, s.valueDepth};
  extents.insert(extents.end(), s.maskStrides.begin(), s.maskStrides.end());
  Key key{ordinal, pass, s.dtype, s.mask, s.hasMask, s.causal, s.scale, std::move(extents)};
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<AttentionGraph> &known = graphs[key];
  if (std::shared_ptr<AttentionGraph> graph = known.lock())
    return graph;
  Result<std::unique_ptr<AttentionGraph>> made = AttentionGraph::build(s, pass);
  ZC_RETURN_IF_ERROR(made.status());
  std::shared_ptr<AttentionGraph> graph = std::move(*made);
  known = graph;
  return graph;
}

/// Calls of one graph for pieces of the batch.
class CudnnKernel : public GpuKernel {
public:
  CudnnKernel(const KernelSpec &spec, std::shared_ptr<AttentionGraph> graph, const CudnnAttention &cudnn)
      : graph(std::move(graph)), calls(cudnn.calls), hasWorkspace(spec.workspace > 0), strides(cudnn.strides(spec)) {}
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override {
    void *workspace = hasWorkspace ? operands[strides.size()] : nullptr;
    std::vector<void *> places(strides.size());
    for (int64_t call = 0; call < calls; ++call) {
      for (size_t i = 0; i < places.size(); ++i)
        places[i] = static_cast<char *>(operands[i]) + call * strides[i];
      ZC_RETURN_IF_ERROR(graph->enqueue(places.data(), workspace, stream));
    }
    return {};
  }

private:
  std::shared_ptr<AttentionGraph> graph;
  int64_t calls;
  bool hasWorkspace;
  std::vector<int64_t> strides; ///< bytes from call to call, per operand
};

/// Ours, in place of cuDNN's.
class OwnKernel : public GpuKernel {
public:
  OwnKernel(std::unique_ptr<GpuKernel> own, std::string why) : own(std::move(own)), why(std::move(why)) {}
  Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) override {
    return own->enqueue(operands, frame, stream);
  }
  std::string note() const override { return why; }

private:
  std::unique_ptr<GpuKernel> own;
  std::string why;
};

Result<std::unique_ptr<GpuKernel>> prepare(const KernelSpec &spec, AttentionPass pass, const GpuKernelFactory &own) {
  CudnnAttention cudnn = CudnnAttention::of(spec);
  if (!cudnn.calls)
    return own(spec);
  Result<std::shared_ptr<AttentionGraph>> graph = graphOf(cudnn.shape, pass);
  std::string why;
  if (!graph)
    why = graph.error().message;
  else if ((*graph)->workspaceBytes() > spec.workspace)
    why = "cuDNN works in " + std::to_string((*graph)->workspaceBytes()) + " bytes, " + std::to_string(spec.workspace) +
          " are planned";
  if (why.empty())
    return std::unique_ptr<GpuKernel>(std::make_unique<CudnnKernel>(spec, std::move(*graph), cudnn));
  Result<std::unique_ptr<GpuKernel>> kernel = own(spec);
  ZC_RETURN_IF_ERROR(kernel.status());
  return std::unique_ptr<GpuKernel>(std::make_unique<OwnKernel>(
      std::move(*kernel), "kernel '" + spec.name + "' runs outside of tensor cores: " + why));
}

} // namespace

void addAttention(GpuKernelRegistry &registry) {
  auto add = [&](const char *name, AttentionPass pass) {
    const GpuKernelFactory *own = registry.find(name);
    registry.add(name, [own = *own, pass](const KernelSpec &spec) { return prepare(spec, pass, own); });
  };
  add("attention", AttentionPass::forward);
  add("attention_grad", AttentionPass::gradient);
}

} // namespace zc::cuda
