#include "kernels/cpu/fast/MatmulDnnl.h"
#include "base/Failpoint.h"
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
  Product(const KernelSpec &spec, const MatmulShape &s, DnnlProduct what, int threads)
      : threads(threads), stream(cpuEngine()) {
    TeamOf team(threads);
    const int64_t batches = what.batches;
    const memory::desc lhs = describe(batches, s.m, s.k, s.transLhs), given = describe(batches, s.k, s.n, s.transRhs);
    const memory::desc rhs =
        what.packs ? memory::desc(given.dims(), memory::data_type::bf16, memory::format_tag::any) : given;
    auto type = what.result == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    memory::desc out = describe(batches, s.m, s.n, false, type),
                 bias = describe(batches == 1 ? 1 : batches, 1, s.n, false);
    if (batches > 1)
      bias = {{1, 1, s.n}, memory::data_type::bf16, memory::dims{s.n, s.n, 1}};
    auto desc = s.hasBias ? dnnl::matmul::desc(lhs, rhs, bias, out) : dnnl::matmul::desc(lhs, rhs, out);
    dnnl::primitive_attr attributes = ownScratchpad();
    if (what.accumulates) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc primitiveDesc(desc, attributes, cpuEngine());
    implementation = primitiveDesc.impl_info_str();
    primitive = dnnl::matmul(primitiveDesc);
    auto unset = [](const memory::desc &d) { return memory(d, cpuEngine(), nullptr); };
    const memory::desc weights = primitiveDesc.weights_desc();
    arguments = {{DNNL_ARG_SRC, unset(lhs)}, {DNNL_ARG_WEIGHTS, unset(weights)}, {DNNL_ARG_DST, unset(out)}};
    if (s.hasBias)
      arguments.emplace(DNNL_ARG_BIAS, unset(bias));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, unset(primitiveDesc.scratchpad_desc()));
    Workspace workspace(spec);
    scratchpad = workspace.take<char>(static_cast<int64_t>(primitiveDesc.scratchpad_desc().get_size()));
    if (weights != given)
      packInto(workspace, given, weights);
    doesFit = workspace.fits();
  }

  bool fits() const { return doesFit; }

  bool isOptimised() const { return implementation.rfind("ref", 0) != 0; }

  Status run(const void *lhs, const void *rhs, const void *bias, void *out, void *const *operands) override {
    // oneDNN reports failure by exceptions; none may leave a kernel.
    try {
      DnnlCall call(threads, std::exchange(isFirst, false));
      arguments[DNNL_ARG_SRC].set_data_handle(const_cast<void *>(lhs));
      arguments[DNNL_ARG_WEIGHTS].set_data_handle(packing ? pack(rhs, operands) : const_cast<void *>(rhs));
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
  void packInto(Workspace &workspace, const memory::desc &given, const memory::desc &weights) {
    dnnl::reorder::primitive_desc desc(cpuEngine(), given, cpuEngine(), weights, ownScratchpad());
    packing = dnnl::reorder(desc);
    packed = workspace.take<char>(static_cast<int64_t>(weights.get_size()));
    packingScratchpad = workspace.take<char>(static_cast<int64_t>(desc.scratchpad_desc().get_size()));
    packingArguments = {{DNNL_ARG_FROM, memory(given, cpuEngine(), nullptr)},
                        {DNNL_ARG_TO, memory(weights, cpuEngine(), nullptr)},
                        {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc(), cpuEngine(), nullptr)}};
  }

  /// Where the rearranged factor lies.
  void *pack(const void *rhs, void *const *operands) {
    packingArguments[DNNL_ARG_FROM].set_data_handle(const_cast<void *>(rhs));
    packingArguments[DNNL_ARG_TO].set_data_handle(packed.of(operands));
    packingArguments[DNNL_ARG_SCRATCHPAD].set_data_handle(packingScratchpad.of(operands));
    packing.execute(stream, packingArguments);
    return packed.of(operands);
  }

  int threads;
  dnnl::stream stream;
  dnnl::matmul primitive;
  dnnl::reorder packing; ///< of the right factor, where it is rearranged
  std::unordered_map<int, memory> packingArguments;
  Piece<char> packed, packingScratchpad;
  std::string implementation;
  std::unordered_map<int, memory> arguments;
  Piece<char> scratchpad;
  bool doesFit = false, isFirst = true; ///< of runs
};

} // namespace

std::unique_ptr<MatmulDnnl> prepareDnnl(const KernelSpec &spec, const MatmulShape &shape, DnnlProduct what,
                                        std::string &note) {
  if (shape.dtype != DType::bf16)
    return nullptr;
  note = "oneDNN has no bf16 kernel for it here";
  if (failpoint("product.onednn"))
    return nullptr;
  try {
    for (int threads = spec.threads; threads > 0; threads /= 2) {
      auto product = std::make_unique<Product>(spec, shape, what, threads);
      if (!product->isOptimised())
        return nullptr;
      if (product->fits()) {
        note = threads < spec.threads ? kFewerThreads : "";
        return product;
      }
    }
    note = "oneDNN needs a larger workspace than a plan allows it";
  } catch (const std::exception &) {
    // No implementation for this CPU or shape: the caller has another way.
  }
  return nullptr;
}

} // namespace zc::cpu
