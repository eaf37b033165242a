//===- CudnnFrontEnd.h - graphs by cuDNN's front end -----------------------------------===//
//
// The front end is all headers, which take a minute to compile: only files that make graphs see it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudnnGraph.h"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <mutex>
#include <string>
#include <vector>

namespace zc::cuda {

namespace fe = cudnn_frontend;
using CudnnTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// One for each GPU and thread that builds graphs there, so that no rank's calls go by a handle whose stream another
/// rank captures; and whoever uses it: it has one stream at a time.
struct CudnnHandle {
  std::mutex mutex;
  cudnnHandle_t handle{};
};

std::vector<int64_t> contiguous(const std::vector<int64_t> &dims);
fe::DataType_t typeOf(DType type);

/// Tensors have numbers: which of the kernel's each is.
class FrontEndGraph : public CudnnGraph {
public:
  /// Which GPU the graph is for; before operations are added, which ask.
  Status setPlace(const std::string &description);
  int64_t workspaceBytes() const override { return workspace; }
  Status enqueue(void *const *tensors, void *workspace, cudaStream_t stream) override;

protected:
  /// `what`: for messages, "attention of ..."; numbers are of `type`.
  FrontEndGraph(std::string what, DType type);

  /// Number `index` of those that the kernel's description names.
  CudnnTensor input(int64_t index, const std::vector<int64_t> &dims, const std::vector<int64_t> &strides);
  void output(const CudnnTensor &tensor, int64_t index, const std::vector<int64_t> &dims,
              const std::vector<int64_t> &strides);

  /// Of what has been added: chooses among cuDNN's deterministic kernels that have none of `refused` and work in
  /// `mostBytes`.
  Status build(const std::vector<fe::HeurMode_t> &heuristics, std::vector<fe::NumericalNote_t> refused,
               int64_t mostBytes);

  fe::graph::Graph graph;

private:
  Status statusOf(fe::error_object error) const;
  Status choose(const std::vector<fe::HeurMode_t> &heuristics, std::vector<fe::NumericalNote_t> refused,
                int64_t mostBytes);
  void bind(int64_t index, const std::vector<int64_t> &dims, const std::vector<int64_t> &strides);

  const std::string what;
  std::string asked;             ///< that, and where its tensors lie
  CudnnHandle *handle = nullptr; ///< none where the GPU is only described
  int64_t workspace = 0;
  std::vector<int64_t> bound; ///< tensors that the graph takes
};

/// cuDNN's libraries, loaded.
Status cudnnStatus();
/// What is `unsupported` is ours instead; anything else ends the run.
Error cudnnRefusal(const std::string &what, const std::string &why, Code code = Code::unsupported);

/// A graph of `Kind`, whose prepare() adds its operations and builds it. The front end throws where a library lacks a
/// function.
template <typename Kind, typename... Arguments>
Result<std::unique_ptr<CudnnGraph>> buildGraph(const std::string &description, const Arguments &...arguments) {
  ZC_RETURN_IF_ERROR(cudnnStatus());
  try {
    auto graph = std::make_unique<Kind>(arguments...);
    ZC_RETURN_IF_ERROR(graph->setPlace(description));
    ZC_RETURN_IF_ERROR(graph->prepare());
    return std::unique_ptr<CudnnGraph>(std::move(graph));
  } catch (const std::exception &thrown) {
    return cudnnRefusal("make a graph", thrown.what());
  }
}

} // namespace zc::cuda
