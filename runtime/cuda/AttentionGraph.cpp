#include "runtime/cuda/AttentionGraph.h"
#include "runtime/cuda/Errors.h"
#include "runtime/cuda/Library.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <map>
#include <mutex>

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // where the front end looks for cuDNN's functions
}

namespace zc::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// cuDNN, and what it and its front end look for by name: CUDA's runtime (ours is linked into the plugin) and cuBLASLt.
struct Cudnn {
  Library runtime{{"libcudart.so." + std::to_string(CUDART_VERSION / 1000), "libcudart.so.13", "libcudart.so.12"},
                  "nvidia-cuda-runtime"};
  Library blas{{"libcublasLt.so.13", "libcublasLt.so.12"}, "nvidia-cublas"};
  Library cudnn{{"libcudnn.so.9"}, "nvidia-cudnn-cu13"};
  Status status;

  Cudnn() {
    for (const Library *library : {&runtime, &blas, &cudnn})
      if (status.ok())
        status = library->status();
    fe::cudnn_dlhandle = cudnn.handleOrNull();
  }
  static const Cudnn &instance() {
    static const Cudnn cudnn;
    return cudnn;
  }
};

/// One handle per GPU, and whoever uses it: it has one stream at a time.
struct Handle {
  std::mutex mutex;
  cudnnHandle_t handle{};
};

Error refused(const std::string &what, const std::string &why) {
  return makeError(Code::unsupported, 642, "cuDNN cannot " + what + ": " + why);
}

Status statusOf(fe::error_object error, const std::string &what) {
  return error.is_good() ? Status() : Status(refused(what, error.get_message()));
}

Result<Handle *> handleOfCurrentDevice() {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Handle>> handles;
  int ordinal = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Handle> &found = handles[ordinal];
  if (!found) {
    auto made = std::make_unique<Handle>();
    if (fe::detail::create_handle(&made->handle) != CUDNN_STATUS_SUCCESS)
      return refused("start", "it makes no handle");
    found = std::move(made);
  }
  return found.get();
}

/// Tensors by number: which one of `operands` each is.
class Graph : public AttentionGraph {
public:
  Graph(const cpu::AttentionShape &shape, AttentionPass pass) : s(shape), pass(pass) {}

  Status prepare(const std::string &description);
  int64_t workspaceBytes() const override { return workspace; }
  Status enqueue(void *const *operands, void *workspace, cudaStream_t stream) override;

private:
  std::vector<int64_t> queries(int64_t depth) const { return {s.batch, s.heads, s.queries, depth}; }
  std::vector<int64_t> keys(int64_t depth) const { return {s.batch, s.keyHeads, s.keys, depth}; }
  /// The operand of the kernel with that number, contiguous.
  Tensor input(int64_t operand, const std::vector<int64_t> &dims);
  void output(const Tensor &tensor, int64_t operand, const std::vector<int64_t> &dims);
  Tensor bias(int64_t operand);
  template <typename Attributes> Attributes attributes(int64_t mask);
  void addForward();
  void addGradient();
  Status setPlace(const std::string &description);
  std::string what() const {
    return "prepare attention" + std::string(pass == AttentionPass::gradient ? "'s gradient" : "") + " of " +
           std::to_string(s.batch) + "x" + std::to_string(s.heads) + " heads, " + std::to_string(s.queries) +
           " queries, " + std::to_string(s.keys) + " keys of " + std::to_string(s.depth) + " " +
           std::string(nameOf(s.dtype));
  }

  const cpu::AttentionShape s;
  const AttentionPass pass;
  fe::graph::Graph graph;
  Handle *handle = nullptr; ///< none where the GPU is only described
  int64_t workspace = 0;
  std::vector<int64_t> bound; ///< operands that the graph takes
};

std::vector<int64_t> contiguous(const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

fe::DataType_t typeOf(DType type) {
  return type == DType::bf16  ? fe::DataType_t::BFLOAT16
         : type == DType::f16 ? fe::DataType_t::HALF
                              : fe::DataType_t::FLOAT;
}

/// A tensor's number is one more than its operand's: 0 means none.
Tensor Graph::input(int64_t operand, const std::vector<int64_t> &dims) {
  bound.push_back(operand);
  return graph.tensor(fe::graph::Tensor_attributes().set_uid(operand + 1).set_dim(dims).set_stride(contiguous(dims)));
}

void Graph::output(const Tensor &tensor, int64_t operand, const std::vector<int64_t> &dims) {
  bound.push_back(operand);
  tensor->set_output(true).set_uid(operand + 1).set_dim(dims).set_stride(contiguous(dims));
}

/// Of the mask's own extents: 1 where it is the same along a dimension.
Tensor Graph::bias(int64_t operand) {
  std::vector<int64_t> dims = {s.batch, s.heads, s.queries, s.keys};
  for (size_t i = 0; i < dims.size(); ++i)
    if (s.maskStrides[i] == 0)
      dims[i] = 1;
  Tensor tensor = input(operand, dims);
  tensor->set_data_type(typeOf(s.mask));
  return tensor;
}

template <typename Attributes> Attributes Graph::attributes(int64_t mask) {
  Attributes made;
  made.set_name("attention").set_attn_scale(static_cast<float>(s.scale));
  if (s.causal) // the last query sees the last key
    made.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT).set_diagonal_band_right_bound(0);
  if (s.hasMask)
    made.set_bias(bias(mask));
  return made;
}

void Graph::addForward() {
  Tensor q = input(0, queries(s.depth)), k = input(1, keys(s.depth)), v = input(2, keys(s.valueDepth));
  auto [y, stats] = graph.sdpa(q, k, v, attributes<fe::graph::SDPA_attributes>(3).set_generate_stats(true));
  int64_t first = s.hasMask ? 4 : 3;
  output(y, first, queries(s.valueDepth));
  output(stats, first + 1, queries(1));
  stats->set_data_type(fe::DataType_t::FLOAT);
}

void Graph::addGradient() {
  Tensor grad = input(0, queries(s.valueDepth)), q = input(1, queries(s.depth)), k = input(2, keys(s.depth)),
         v = input(3, keys(s.valueDepth)), y = input(4, queries(s.valueDepth)), stats = input(5, queries(1));
  stats->set_data_type(fe::DataType_t::FLOAT);
  auto [dq, dk, dv] = graph.sdpa_backward(
      q, k, v, y, grad, stats, attributes<fe::graph::SDPA_backward_attributes>(6).set_deterministic_algorithm(true));
  int64_t first = s.hasMask ? 7 : 6;
  output(dq, first, queries(s.depth));
  output(dk, first + 1, keys(s.depth));
  output(dv, first + 2, keys(s.valueDepth));
}

/// Which GPU the graph is for.
Status Graph::setPlace(const std::string &description) {
  if (!description.empty()) {
    auto device = std::make_shared<fe::DeviceProperties>();
    ZC_RETURN_IF_ERROR(statusOf(device->deserialize({description.begin(), description.end()}), "read a description"));
    nlohmann::json json = nlohmann::json::parse(description, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json["deviceVer"].is_number_integer() || !json["multiProcessorCount"].is_number_integer())
      return refused("read a description", "it has no deviceVer or multiProcessorCount");
    graph.set_device_properties(std::move(device));
    graph.set_sm_version(json["deviceVer"].get<int>() / 10).set_sm_count(json["multiProcessorCount"].get<int>());
    return {};
  }
  Result<Handle *> own = handleOfCurrentDevice();
  ZC_RETURN_IF_ERROR(own.status());
  handle = *own;
  int ordinal = 0, major = 0, minor = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  ZC_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "ask for the GPU");
  ZC_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal), "ask for the GPU");
  graph.set_sm_version(10 * major + minor);
  return {};
}

Status Graph::prepare(const std::string &description) {
  graph.set_io_data_type(typeOf(s.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  ZC_RETURN_IF_ERROR(setPlace(description));
  pass == AttentionPass::forward ? addForward() : addGradient();
  cudnnHandle_t of = handle ? handle->handle : nullptr;
  ZC_RETURN_IF_ERROR(statusOf(graph.validate(), what()));
  ZC_RETURN_IF_ERROR(statusOf(of ? graph.build_operation_graph(of) : graph.build_operation_graph(), what()));
  ZC_RETURN_IF_ERROR(statusOf(graph.create_execution_plans({fe::HeurMode_t::A}), what()));
  graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  ZC_RETURN_IF_ERROR(statusOf(graph.check_support(), what()));
  ZC_RETURN_IF_ERROR(statusOf(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), what()));
  return statusOf(graph.get_workspace_size(workspace), what());
}

Status Graph::enqueue(void *const *operands, void *space, cudaStream_t stream) {
  std::unordered_map<int64_t, void *> places;
  for (int64_t operand : bound)
    places[operand + 1] = operands[operand];
  std::lock_guard<std::mutex> lock(handle->mutex);
  try {
    if (fe::detail::set_stream(handle->handle, stream) != CUDNN_STATUS_SUCCESS)
      return refused("take a stream", "it says no more");
    fe::error_object error = graph.execute(handle->handle, places, space);
    return error.is_good()
               ? Status()
               : Status(makeError(Code::internal, 643, "cuDNN cannot launch attention: " + error.get_message()));
  } catch (const std::exception &thrown) { // the front end throws where a function of CUDA's runtime is missing
    return makeError(Code::internal, 643, std::string("cuDNN cannot launch attention: ") + thrown.what());
  }
}

} // namespace

Result<std::unique_ptr<AttentionGraph>> AttentionGraph::build(const cpu::AttentionShape &shape, AttentionPass pass,
                                                              const std::string &description) {
  ZC_RETURN_IF_ERROR(Status(Cudnn::instance().status));
  try {
    auto graph = std::make_unique<Graph>(shape, pass);
    ZC_RETURN_IF_ERROR(graph->prepare(description));
    return std::unique_ptr<AttentionGraph>(std::move(graph));
  } catch (const std::exception &thrown) {
    return refused("prepare attention", thrown.what());
  }
}

} // namespace zc::cuda
