#include "runtime/cuda/CudnnKernels.h"
#include "kernels/cuda/CudnnAttention.h"
#include "runtime/cuda/CudnnGraph.h"
#include "runtime/cuda/Errors.h"

#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace zc::cuda {

namespace {

using BuiltGraph = Result<std::unique_ptr<CudnnGraph>>;

/// Layers have the same shapes, and building a graph takes up to seconds: kernels of one key share it, or the refusal.
/// Not with other threads, which have handles of their own: cuDNN does not say that all its graphs bear that.
class Graphs {
public:
  using Key = std::vector<int64_t>;
  template <typename Build> Result<std::shared_ptr<CudnnGraph>> get(Key key, Build build) {
    int ordinal = 0;
    ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
    key.push_back(ordinal);
    std::unique_lock<std::mutex> lock(mutex);
    Known &known = all[{std::this_thread::get_id(), std::move(key)}];
    lock.unlock(); // the rest is this thread's
    ZC_RETURN_IF_ERROR(Status(known.refusal));
    if (std::shared_ptr<CudnnGraph> graph = known.graph.lock())
      return graph;
    BuiltGraph made = build();
    if (!made && made.error().code == Code::unsupported)
      known.refusal = made.status();
    ZC_RETURN_IF_ERROR(made.status());
    std::shared_ptr<CudnnGraph> graph = std::move(*made);
    known.graph = graph;
    return graph;
  }

private:
  struct Known {
    std::weak_ptr<CudnnGraph> graph;
    Status refusal;
  };
  std::mutex mutex;
  std::map<std::pair<std::thread::id, Key>, Known> all;
};

int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Result<std::shared_ptr<CudnnGraph>> graphOf(const CudnnAttention &attention) {
  static Graphs graphs;
  const shapes::AttentionShape &s = attention.shape;
  Graphs::Key key = {int64_t(attention.pass), int64_t(s.dtype), s.causal,       s.window,
                     bitsOf(s.scale),         s.hasMask,        int64_t(s.mask)};
  for (const CudnnHeads &tensor : attention.tensors)
    for (const auto &numbers : {tensor.dims, tensor.strides})
      key.insert(key.end(), numbers.begin(), numbers.end());
  return graphs.get(std::move(key), [&] { return buildAttentionGraph(attention); });
}

Result<std::shared_ptr<CudnnGraph>> graphOf(const CudnnConv &conv) {
  static Graphs graphs;
  const shapes::ConvShape &s = conv.shape;
  Graphs::Key key = {int64_t(conv.pass), int64_t(s.dtype), s.groups, s.hasBias, s.channelsLast, conv.tf32};
  for (const Dims &extents :
       {conv.input(), conv.weight(), conv.output(), s.windows.strides, s.windows.dilations, s.windows.low, s.high}) {
    key.push_back(int64_t(extents.size()));
    key.insert(key.end(), extents.begin(), extents.end());
  }
  return graphs.get(std::move(key), [&] { return buildConvGraph(conv); });
}

/// Calls of one graph.
class CudnnKernel : public GpuKernel {
public:
  /// `operands`: which of them each tensor of the graph is in; `calls`: how many bytes behind its beginning.
  CudnnKernel(const KernelSpec &spec, std::shared_ptr<CudnnGraph> graph, std::vector<size_t> operands,
              std::vector<std::vector<int64_t>> calls)
      : graph(std::move(graph)), tensors(std::move(operands)), calls(std::move(calls)),
        workspaceAt(spec.workspace > 0 ? spec.operands.size() : 0) {}
  Status enqueue(void *const *operands, const Frame &, cudaStream_t stream) override {
    void *workspace = workspaceAt ? operands[workspaceAt] : nullptr;
    std::vector<void *> places(tensors.size());
    for (const std::vector<int64_t> &offsets : calls) {
      for (size_t i = 0; i < places.size(); ++i)
        places[i] = static_cast<char *>(operands[tensors[i]]) + offsets[i];
      ZC_RETURN_IF_ERROR(graph->enqueue(places.data(), workspace, stream));
    }
    return {};
  }

private:
  std::shared_ptr<CudnnGraph> graph;
  std::vector<size_t> tensors;
  std::vector<std::vector<int64_t>> calls;
  size_t workspaceAt; ///< 0: none
};

/// A convolution's result plus its bias, where it stands: operands are input, weight, bias, result.
class BiasedKernel : public GpuKernel {
public:
  BiasedKernel(std::unique_ptr<GpuKernel> conv, std::unique_ptr<GpuKernel> add)
      : conv(std::move(conv)), add(std::move(add)) {}
  Status enqueue(void *const *operands, const Frame &frame, cudaStream_t stream) override {
    ZC_RETURN_IF_ERROR(conv->enqueue(operands, frame, stream));
    void *const sum[] = {operands[3], operands[2], operands[3]};
    return add->enqueue(sum, frame, stream);
  }

private:
  std::unique_ptr<GpuKernel> conv, add;
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

using PreparedKernel = Result<std::unique_ptr<GpuKernel>>;

PreparedKernel ownInstead(const KernelSpec &spec, const GpuKernelFactory &own, const std::string &why) {
  PreparedKernel kernel = own(spec);
  ZC_RETURN_IF_ERROR(kernel.status());
  return std::unique_ptr<GpuKernel>(std::make_unique<OwnKernel>(
      std::move(*kernel), "kernel '" + spec.name + "' is our own in cuDNN's place: " + why));
}

/// Of a graph that was not built: ours where cuDNN does not take it. With no memory, or no GPU, ours would go no
/// better.
PreparedKernel ownUnlessFailed(const KernelSpec &spec, const GpuKernelFactory &own, const Error &why) {
  return why.code == Code::unsupported ? ownInstead(spec, own, why.message) : PreparedKernel(why);
}

PreparedKernel prepareAttention(const KernelSpec &spec, const GpuKernelFactory &own) {
  std::optional<CudnnAttention> cudnn = CudnnAttention::chosen(spec);
  if (!cudnn)
    return own(spec);
  Result<std::shared_ptr<CudnnGraph>> graph = graphOf(*cudnn);
  if (!graph)
    return ownUnlessFailed(spec, own, graph.error());
  if (int64_t bytes = (*graph)->workspaceBytes(); bytes > spec.workspace)
    return ownInstead(spec, own,
                      "cuDNN works in " + std::to_string(bytes) + " bytes, " + std::to_string(spec.workspace) +
                          " are planned");
  std::vector<size_t> operands;
  for (const CudnnHeads &tensor : cudnn->tensors)
    operands.push_back(tensor.operand);
  std::vector<std::vector<int64_t>> calls;
  for (int64_t call = 0; call < cudnn->calls(); ++call)
    calls.push_back(cudnn->offsetsOf(call));
  return std::unique_ptr<GpuKernel>(
      std::make_unique<CudnnKernel>(spec, std::move(*graph), std::move(operands), std::move(calls)));
}

PreparedKernel prepareConv(const KernelSpec &spec, const GpuKernelFactory &own, const GpuKernelFactory &adds) {
  std::optional<CudnnConv> conv = CudnnConv::of(spec);
  if (!conv)
    return own(spec);
  if (spec.workspace < conv->workspaceBytes())
    return ownInstead(spec, own,
                      std::to_string(spec.workspace) + " bytes are planned for cuDNN, " +
                          std::to_string(conv->workspaceBytes()) + " are needed");
  Result<std::shared_ptr<CudnnGraph>> graph = graphOf(*conv);
  if (!graph)
    return ownUnlessFailed(spec, own, graph.error());
  std::vector<size_t> operands(spec.operands.size());
  std::iota(operands.begin(), operands.end(), size_t{0});
  std::vector<int64_t> offsets(operands.size());
  auto kernel = std::make_unique<CudnnKernel>(spec, std::move(*graph), std::move(operands),
                                              std::vector<std::vector<int64_t>>{std::move(offsets)});
  if (!conv->shape.hasBias)
    return std::unique_ptr<GpuKernel>(std::move(kernel));
  const TensorType &bias = spec.operands[2], &result = spec.operands[3];
  Dims along(result.dims.size(), 1);
  (conv->shape.channelsLast ? along.back() : along[1]) = bias.numElements();
  KernelSpec sum;
  sum.name = "add";
  sum.operands = {result, {bias.dtype, along}, result};
  sum.numInputs = 2;
  sum.inPlace = {{0, 2}};
  PreparedKernel add = adds(sum);
  ZC_RETURN_IF_ERROR(add.status());
  return std::unique_ptr<GpuKernel>(std::make_unique<BiasedKernel>(std::move(kernel), std::move(*add)));
}

} // namespace

void addCudnnKernels(GpuKernelRegistry &registry) {
  for (const char *name : {"attention", "attention_grad"})
    registry.add(name, [own = *registry.find(name)](const KernelSpec &spec) { return prepareAttention(spec, own); });
  for (const char *name : {"conv", "conv_transpose", "conv_weight_grad"})
    registry.add(name, [own = *registry.find(name), adds = *registry.find("add")](const KernelSpec &spec) {
      return prepareConv(spec, own, adds);
    });
}

} // namespace zc::cuda
