// dropout and its gradient. The mask is a pure function of (seed, id, step, micro-step, rank, element), so that a
// recomputed forward has the same one: those numbers make a Philox key, and element e is word e % 4 of block e / 4.
#include "kernels/cpu/Philox.h"
#include "kernels/cpu/Support.h"

namespace zc::cpu {
namespace {

struct DropoutShape {
  DType dtype;
  int64_t n, id;
  double ratio;
  uint64_t seed;
  int rank;
};

Result<DropoutShape> readDropout(const KernelSpec &spec, size_t mask) {
  double ratio = spec.getReal("ratio", 0.5);
  auto masked = [&] {
    const TensorType &x = spec.operands[0];
    return isComputeFloat(x.dtype) && spec.operands[mask] == TensorType{DType::boolean, x.dims} &&
           spec.operands[mask == 1 ? 2 : 1] == x;
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(mask == 1 ? 2 : 1, mask == 1 ? 1 : 2)
                         .that(masked, "f32, bf16 or f64 and a bool mask of its shape")
                         .that([&] { return ratio >= 0 && ratio <= 1; }, "a ratio in [0, 1]")
                         .done());
  return DropoutShape{
      spec.operands[0].dtype, spec.operands[0].numElements(), spec.getInt("id", 0), ratio, spec.seed, spec.rank};
}

Prepared prepareDropout(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
      auto low = [](auto x) { return static_cast<uint32_t>(static_cast<uint64_t>(x)); };
      Words key =
          philox({low(s.id), low(context.step), low(context.micro), low(s.rank)}, {low(s.seed), low(s.seed >> 32)});
      // Dropped when word / 2^32 < ratio.
      auto threshold = static_cast<uint64_t>(s.ratio * 4294967296.0);
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      Bool *mask = as<Bool>(operands[2]);
#pragma omp parallel for num_threads(threads) if (threads > 1)
      for (int64_t block = 0; block < (s.n + 3) / 4; ++block) {
        Words words = philox({low(block), low(block >> 32), key[2], key[3]}, {key[0], key[1]});
        for (int64_t i = 0; i < 4 && block * 4 + i < s.n; ++i) {
          int64_t e = block * 4 + i;
          bool kept = words[static_cast<size_t>(i)] >= threshold;
          mask[e] = store<Bool>(kept);
          y[e] = store<T>(kept ? load(x[e]) * scale : 0);
        }
      }
    });
  });
}

Prepared prepareDropoutGrad(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
#pragma omp parallel for num_threads(threads) if (threads > 1)
      for (int64_t i = 0; i < s.n; ++i)
        as<T>(operands[2])[i] = store<T>(load(as<Bool>(operands[1])[i]) ? load(as<T>(operands[0])[i]) * scale : 0);
    });
  });
}

} // namespace

void addDropout(KernelRegistry &registry) {
  registry.add("dropout", prepareDropout);
  registry.add("dropout_grad", prepareDropoutGrad);
}

} // namespace zc::cpu
