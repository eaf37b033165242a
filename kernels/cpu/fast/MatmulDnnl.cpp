#include "kernels/cpu/fast/MatmulDnnl.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"

#include <string>

namespace zc::cpu {
namespace {

using dnnl::memory;

/// [batches, rows, columns] stored row by row, or column by column if transposed.
memory::desc describe(int64_t batches, int64_t rows, int64_t columns, bool transposed,
                      memory::data_type type = memory::data_type::bf16) {
  memory::dims dims = {batches, rows, columns};
  memory::dims strides = transposed ? memory::dims{rows * columns, 1, rows} : memory::dims{rows * columns, columns, 1};
  if (batches == 1) {
    dims.erase(dims.begin());
    strides.erase(strides.begin());
  }
  return {dims, type, strides};
}

class Product : public MatmulDnnl {
public:
  Product(const KernelSpec &spec, const MatmulShape &s, int64_t batches, int threads, DType result, bool accumulates)
      : threads(threads), stream(cpuEngine()) {
    TeamOf team(threads);
    memory::desc lhs = describe(batches, s.m, s.k, s.transLhs), rhs = describe(batches, s.k, s.n, s.transRhs);
    auto type = result == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    memory::desc out = describe(batches, s.m, s.n, false, type),
                 bias = describe(batches == 1 ? 1 : batches, 1, s.n, false);
    if (batches > 1)
      bias = {{1, 1, s.n}, memory::data_type::bf16, memory::dims{s.n, s.n, 1}};
    auto desc = s.hasBias ? dnnl::matmul::desc(lhs, rhs, bias, out) : dnnl::matmul::desc(lhs, rhs, out);
    dnnl::primitive_attr attributes = ownScratchpad();
    if (accumulates) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc primitiveDesc(desc, attributes, cpuEngine());
    implementation = primitiveDesc.impl_info_str();
    primitive = dnnl::matmul(primitiveDesc);
    auto unset = [](const memory::desc &d) { return memory(d, cpuEngine(), nullptr); };
    arguments = {{DNNL_ARG_SRC, unset(lhs)}, {DNNL_ARG_WEIGHTS, unset(rhs)}, {DNNL_ARG_DST, unset(out)}};
    if (s.hasBias)
      arguments.emplace(DNNL_ARG_BIAS, unset(bias));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, unset(primitiveDesc.scratchpad_desc()));
    Workspace workspace(spec);
    scratchpad = workspace.take<char>(static_cast<int64_t>(primitiveDesc.scratchpad_desc().get_size()));
    doesFit = workspace.fits();
  }

  bool fits() const { return doesFit; }

  bool isOptimised() const { return implementation.rfind("ref", 0) != 0; }

  Status run(const void *lhs, const void *rhs, const void *bias, void *out, void *const *operands) override {
    // oneDNN reports failure by exceptions; none may leave a kernel.
    try {
      DnnlCall call(threads, std::exchange(isFirst, false));
      arguments[DNNL_ARG_SRC].set_data_handle(const_cast<void *>(lhs));
      arguments[DNNL_ARG_WEIGHTS].set_data_handle(const_cast<void *>(rhs));
      arguments[DNNL_ARG_DST].set_data_handle(out);
      arguments[DNNL_ARG_SCRATCHPAD].set_data_handle(scratchpad.of(operands));
      if (auto it = arguments.find(DNNL_ARG_BIAS); it != arguments.end())
        it->second.set_data_handle(const_cast<void *>(bias));
      primitive.execute(stream, arguments);
      stream.wait();
    } catch (const std::exception &failure) {
      return makeError(Code::internal, 707, std::string("matrix product failed in oneDNN: ") + failure.what());
    }
    return Status::success();
  }

private:
  int threads;
  dnnl::stream stream;
  dnnl::matmul primitive;
  std::string implementation;
  std::unordered_map<int, memory> arguments;
  Piece<char> scratchpad;
  bool doesFit = false, isFirst = true; ///< of runs
};

} // namespace

std::unique_ptr<MatmulDnnl> prepareDnnl(const KernelSpec &spec, const MatmulShape &shape, int64_t batches,
                                        std::string &note, DType result, bool accumulates) {
  if (shape.dtype != DType::bf16)
    return nullptr;
  note = "multiplies blocks widened to fp32: oneDNN has no bf16 kernel for it here";
  try {
    for (int threads = spec.threads; threads > 0; threads /= 2) {
      auto product = std::make_unique<Product>(spec, shape, batches, threads, result, accumulates);
      if (!product->isOptimised())
        return nullptr;
      if (product->fits()) {
        note = threads < spec.threads ? kFewerThreads : "";
        return product;
      }
    }
    note = "multiplies blocks widened to fp32: oneDNN needs a larger workspace than a plan allows it";
  } catch (const std::exception &) {
    // No implementation for this CPU or shape: the caller has another way.
  }
  return nullptr;
}

} // namespace zc::cpu
