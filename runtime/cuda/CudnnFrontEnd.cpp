#include "runtime/cuda/CudnnFrontEnd.h"
#include "runtime/cuda/Choices.h"
#include "runtime/cuda/Errors.h"
#include "runtime/cuda/Library.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // where the front end looks for cuDNN's functions
}

namespace zc::cuda {

namespace {

/// cuDNN, and what it and its front end look for by name: CUDA's runtime (ours is linked into the plugin), cuBLASLt and
/// NVRTC.
struct Cudnn {
  Library runtime = cudaRuntimeLibrary();
  Library blas = cublasLtLibrary();
  Library nvrtc = nvrtcLibrary(); ///< of some kernels alone, which cuDNN says
  Library cudnn = cudnnLibrary();
  Status status;

  Cudnn() {
    for (const Library *library : {&runtime, &blas, &cudnn})
      if (status.ok())
        status = library->status();
    fe::cudnn_dlhandle = cudnn.handleOrNull();
  }
};

/// Of cuDNN that makes no handle: it is not for this machine, or something is wrong with the GPU.
Error cannotStart(cudnnStatus_t status) {
  const bool isAbsent = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
                        status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
                        status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
  const bool saysMemory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                          status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  if (!isAbsent)
    if (std::optional<Error> found = failedOnGpu("cuDNN", "start", saysMemory))
      return *found;
  return cudnnRefusal("start", fe::detail::get_error_string(status), isAbsent ? Code::unsupported : Code::internal);
}

/// This thread's, for its GPU. Kept: as many as there are ranks.
Result<CudnnHandle *> ownHandle() {
  static std::mutex mutex;
  static std::map<std::pair<int, std::thread::id>, std::unique_ptr<CudnnHandle>> handles;
  int ordinal = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  std::unique_lock<std::mutex> lock(mutex);
  std::unique_ptr<CudnnHandle> &found = handles[{ordinal, std::this_thread::get_id()}];
  lock.unlock();
  if (found) // nobody else's
    return found.get();
  auto made = std::make_unique<CudnnHandle>();
  if (cudnnStatus_t status = fe::detail::create_handle(&made->handle); status != CUDNN_STATUS_SUCCESS)
    return cannotStart(status);
  found = std::move(made);
  return found.get();
}

/// Of cuDNN's own memory; its front end hands on no more than a text.
bool saysMemory(const std::string &message) {
  return message.find("ALLOCATION_FAILED") != std::string::npos || message.find("ALLOC_FAILED") != std::string::npos ||
         message.find("out of memory") != std::string::npos;
}

/// Not of a graph that cuDNN does not take.
bool isOfGpu(fe::error_code_t code) {
  return code == fe::error_code_t::CUDA_API_FAILED || code == fe::error_code_t::INVALID_CUDA_DEVICE ||
         code == fe::error_code_t::HANDLE_ERROR;
}

} // namespace

Status cudnnStatus() {
  static const Cudnn cudnn;
  return cudnn.status;
}

Error cudnnRefusal(const std::string &what, const std::string &why, Code code) {
  return makeError(code, 642, "cuDNN cannot " + what + ": " + why);
}

Result<std::string> describeForCudnn(const std::string &description) {
  ZC_RETURN_IF_ERROR(cudnnStatus());
  try {
    fe::DeviceProperties device;
    std::vector<uint8_t> written;
    fe::error_object error;
    if (description.empty()) {
      int ordinal = 0;
      ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
      error = device.set_device_id(ordinal).build();
    } else {
      error = device.deserialize({description.begin(), description.end()});
    }
    if (error.is_good())
      error = device.serialize(written);
    if (!error.is_good())
      return cudnnRefusal("describe the GPU", error.get_message());
    return std::string(written.begin(), std::find(written.begin(), written.end(), uint8_t{0}));
  } catch (const std::exception &thrown) { // where a library lacks a function
    return cudnnRefusal("describe the GPU", thrown.what());
  }
}

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

FrontEndGraph::FrontEndGraph(std::string what, DType type) : what(std::move(what)), asked(this->what) {
  graph.set_io_data_type(typeOf(type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

void FrontEndGraph::bind(int64_t index, const std::vector<int64_t> &dims, const std::vector<int64_t> &strides) {
  bound.push_back(index);
  std::string text = ", tensor " + std::to_string(index);
  for (const auto *numbers : {&dims, &strides})
    for (size_t i = 0; i < numbers->size(); ++i)
      text += (i ? "x" : numbers == &dims ? " of " : " every ") + std::to_string((*numbers)[i]);
  asked += text;
}

// Theirs is one more than ours: 0 means none.
CudnnTensor FrontEndGraph::input(int64_t index, const std::vector<int64_t> &dims, const std::vector<int64_t> &strides) {
  bind(index, dims, strides);
  return graph.tensor(fe::graph::Tensor_attributes().set_uid(index + 1).set_dim(dims).set_stride(strides));
}

void FrontEndGraph::output(const CudnnTensor &tensor, int64_t index, const std::vector<int64_t> &dims,
                           const std::vector<int64_t> &strides) {
  bind(index, dims, strides);
  tensor->set_output(true).set_uid(index + 1).set_dim(dims).set_stride(strides);
}

Status FrontEndGraph::statusOf(fe::error_object error) const {
  if (error.is_good())
    return {};
  const std::string why = error.get_message();
  const bool isMemory = saysMemory(why), isGpu = isOfGpu(error.get_code());
  if (handle) // for a GPU that is there
    if (std::optional<Error> found =
            isMemory || isGpu ? failedOnGpu("cuDNN", "prepare " + what, isMemory) : lostGpu("prepare " + what))
      return *found;
  return cudnnRefusal("prepare " + what, why, isGpu ? Code::internal : Code::unsupported);
}

Status FrontEndGraph::setPlace(const std::string &description) {
  if (!description.empty()) {
    auto device = std::make_shared<fe::DeviceProperties>();
    ZC_RETURN_IF_ERROR(statusOf(device->deserialize({description.begin(), description.end()})));
    nlohmann::json json = nlohmann::json::parse(description, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json["deviceVer"].is_number_integer() || !json["multiProcessorCount"].is_number_integer())
      return cudnnRefusal("read a description", "it has no deviceVer or multiProcessorCount");
    graph.set_device_properties(std::move(device));
    graph.set_sm_version(json["deviceVer"].get<int>() / 10).set_sm_count(json["multiProcessorCount"].get<int>());
    return {};
  }
  Result<CudnnHandle *> own = ownHandle();
  ZC_RETURN_IF_ERROR(own.status());
  handle = *own;
  int ordinal = 0, major = 0, minor = 0;
  ZC_CUDA(cudaGetDevice(&ordinal), "ask for the GPU");
  ZC_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "ask for the GPU");
  ZC_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal), "ask for the GPU");
  graph.set_sm_version(10 * major + minor);
  return {};
}

Status FrontEndGraph::build(const std::vector<fe::HeurMode_t> &heuristics, std::vector<fe::NumericalNote_t> refused,
                            int64_t mostBytes) {
  Status status = choose(heuristics, std::move(refused), mostBytes);
  std::string taken;
  if (status.ok() && graph.get_plan_name(taken).is_good())
    taken += ", " + std::to_string(workspace) + " bytes";
  Choices::instance().add("cuDNN", asked, status.ok() ? taken : "none: " + status.error().message);
  return status;
}

Status FrontEndGraph::choose(const std::vector<fe::HeurMode_t> &heuristics, std::vector<fe::NumericalNote_t> refused,
                             int64_t mostBytes) {
  cudnnHandle_t of = handle ? handle->handle : nullptr;
  ZC_RETURN_IF_ERROR(statusOf(graph.validate()));
  ZC_RETURN_IF_ERROR(statusOf(of ? graph.build_operation_graph(of) : graph.build_operation_graph()));
  ZC_RETURN_IF_ERROR(statusOf(graph.create_execution_plans(heuristics)));
  refused.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  graph.deselect_numeric_notes(refused);
  graph.deselect_workspace_greater_than(mostBytes);
  ZC_RETURN_IF_ERROR(statusOf(graph.check_support()));
  ZC_RETURN_IF_ERROR(statusOf(graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE)));
  return statusOf(graph.get_workspace_size(workspace));
}

Status FrontEndGraph::enqueue(void *const *tensors, void *space, cudaStream_t stream) {
  std::unordered_map<int64_t, void *> places;
  for (int64_t index : bound)
    places[index + 1] = tensors[index];
  auto refused = [&](const std::string &why) {
    return makeError(Code::internal, 643, "cuDNN cannot launch " + what + ": " + why);
  };
  std::lock_guard<std::mutex> lock(handle->mutex);
  try {
    if (fe::detail::set_stream(handle->handle, stream) != CUDNN_STATUS_SUCCESS)
      return refused("it takes no stream");
    fe::error_object error = graph.execute(handle->handle, places, space);
    return error.is_good() ? Status() : Status(refused(error.get_message()));
  } catch (const std::exception &thrown) { // the front end throws where a function of CUDA's runtime is missing
    return refused(thrown.what());
  }
}

} // namespace zc::cuda
