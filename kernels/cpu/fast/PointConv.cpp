// conv, conv_transpose, conv_weight_grad of one point and one group, channels last, as the product of matrices that
// they are: a row is a place, a column a channel. Where oneDNN 2.6 is slow at them: before AVX-512 at gradients of
// weights (it takes 1.1 to 1.7 times as long at ResNet-50's on a Zen 3), and where the weight is larger than an
// activation (1.1 to 1.4).
#include "kernels/Workspace.h"
#include "kernels/cpu/Registries.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {
namespace {

bool isPoint(const ConvShape &s) {
  const Windows &w = s.windows;
  auto are = [](const Dims &dims, int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
  };
  return s.groups == 1 && w.taps == 1 && are(w.strides, 1) && are(w.low, 0) && are(s.high, 0) &&
         (s.channelsLast || w.inPlane == 1);
}

bool isWeightLarge(const ConvShape &s) { return std::max(s.inChannels, s.outChannels) > s.batch * s.windows.inPlane; }

/// Of the step's operands `lhs` and `rhs`, and of the bias that may be between them and the result.
struct Product {
  size_t lhs, rhs;
  Dims lhsDims, rhsDims, outDims;
  const char *transposed = nullptr;
};
Product forward(const ConvShape &s, int64_t places) {
  return {0, 1, {places, s.inChannels}, {s.outChannels, s.inChannels}, {places, s.outChannels}, "trans_rhs"};
}
Product backwardData(const ConvShape &s, int64_t places) {
  return {0, 1, {places, s.outChannels}, {s.outChannels, s.inChannels}, {places, s.inChannels}};
}
Product backwardWeights(const ConvShape &s, int64_t places) {
  return {1, 0, {places, s.outChannels}, {places, s.inChannels}, {s.outChannels, s.inChannels}, "trans_lhs"};
}

Prepared preparePoint(const KernelSpec &spec, const Result<ConvShape> &read,
                      Product (*productOf)(const ConvShape &, int64_t), std::string &note) {
  ZC_RETURN_IF_ERROR(read.status());
  if (hasAvx512() || !isFast(read->dtype) || read->isEmpty() || !isPoint(*read) ||
      (productOf != backwardWeights && !isWeightLarge(*read)))
    return decline();
  const Product product = productOf(*read, read->batch * read->windows.inPlane);
  KernelSpec matmul = spec;
  matmul.name = "matmul";
  matmul.attributes.clear();
  matmul.kept = 0;
  if (product.transposed)
    matmul.attributes[product.transposed] = int64_t{1};
  matmul.operands.front().dims = product.lhsDims;
  matmul.operands[1].dims = product.rhsDims;
  matmul.operands.back().dims = product.outDims;
  if (workspaceBytes(matmul, Target::cpu) > spec.workspace)
    return decline();
  Prepared made = fastKernels().prepare(matmul);
  ZC_RETURN_IF_ERROR(made.status());
  const std::string method = "as a product: " + (*made)->method();
  note = (*made)->note();
  return makeKernel(
      [made = std::shared_ptr<Kernel>(std::move(*made)), product,
       count = spec.operands.size() + (spec.workspace > 0)](void *const *operands, const StepContext &context) {
        std::array<void *, 5> own{};
        std::copy_n(operands, count, own.begin());
        own[0] = operands[product.lhs];
        own[1] = operands[product.rhs];
        return made->run(own.data(), context);
      },
      method);
}

} // namespace

void addPointConv(KernelRegistry &registry) {
  registry.addNoting("conv", [](const KernelSpec &spec, std::string &note) {
    return preparePoint(spec, readConv(spec), forward, note);
  });
  registry.addNoting("conv_transpose", [](const KernelSpec &spec, std::string &note) {
    return preparePoint(spec, readConvTranspose(spec), backwardData, note);
  });
  registry.addNoting("conv_weight_grad", [](const KernelSpec &spec, std::string &note) {
    return preparePoint(spec, readConvWeightGrad(spec), backwardWeights, note);
  });
}

} // namespace zc::cpu
