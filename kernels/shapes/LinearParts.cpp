#include "kernels/shapes/LinearParts.h"
#include "kernels/Workspace.h"
#include "kernels/shapes/Support.h"

namespace zc::shapes {

Result<LinearParts> LinearParts::of(const KernelSpec &spec) {
  auto areMatrices = [&] { return spec.operands[0].dims.size() == 2 && spec.operands[1].dims.size() == 2; };
  ZC_RETURN_IF_ERROR(Check(spec).counts(3, 1).that(areMatrices, "factors that are matrices").done());
  LinearParts parts{spec, {}};
  parts.product.name = "matmul";
  parts.product.operands = {spec.operands[0], spec.operands[1], spec.operands[3]};
  parts.product.numInputs = 2;
  parts.activation.name = "gelu_grad";
  parts.activation.operands = {spec.operands[3], spec.operands[2], spec.operands[3]};
  parts.activation.numInputs = 2;
  parts.activation.attributes["tanh"] = int64_t{1};
  parts.activation.inPlace = {{0, 2}};
  parts.activation.threads = spec.threads;
  return parts;
}

static Prepared prepareLinear(const KernelSpec &spec, const PartFactory &make) {
  Result<LinearParts> parts = LinearParts::of(spec);
  ZC_RETURN_IF_ERROR(parts.status());
  Prepared product = make(parts->product);
  ZC_RETURN_IF_ERROR(product.status());
  Prepared activation = make(parts->activation);
  ZC_RETURN_IF_ERROR(activation.status());
  return makeKernel([product = std::move(*product), activation = std::move(*activation),
                     hasWorkspace = spec.workspace > 0](void *const *operands, const StepContext &context) -> Status {
    ZC_RETURN_IF_ERROR(product->run(productOperands(operands, hasWorkspace).data(), context));
    return activation->run(activationOperands(operands).data(), context);
  });
}

static int64_t linearBytes(const LinearParts &parts) { return workspaceBytes(parts.product, Target::cpu); }

void addLinear(KernelRegistry &registry, const PartFactory &make) {
  registry.add(
      "linear_gelu_grad", [make](const KernelSpec &spec) { return prepareLinear(spec, make); },
      bytesOf<LinearParts::of, linearBytes>);
}

} // namespace zc::shapes
