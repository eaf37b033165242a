// dropout and its gradient, and random numbers. The mask is a pure function of (seed, id, step, micro-step, rank,
// element), so that a recomputed forward has the same one: those numbers make a Philox key, and element e is word e % 4
// of block e / 4.
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
                         .that(masked, "f32, bf16, f16 or f64 and a bool mask of its shape")
                         .that([&] { return ratio >= 0 && ratio <= 1; }, "a ratio in [0, 1]")
                         .done());
  return DropoutShape{
      spec.operands[0].dtype, spec.operands[0].numElements(), spec.getInt("id", 0), ratio, spec.seed, spec.rank};
}

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }

Words keyOf(int64_t id, const StepContext &context, int rank, uint64_t seed) {
  auto word = [](int64_t x) { return low(static_cast<uint64_t>(x)); };
  return philox({word(id), word(context.step), word(context.micro), word(rank)}, {low(seed), low(seed >> 32)});
}
Words wordsOf(const Words &key, int64_t block) {
  auto number = static_cast<uint64_t>(block);
  return philox({low(number), low(number >> 32), key[2], key[3]}, {key[0], key[1]});
}

Prepared prepareDropout(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
      Words key = keyOf(s.id, context, s.rank, s.seed);
      // Dropped when word / 2^32 < ratio.
      auto threshold = static_cast<uint64_t>(s.ratio * 4294967296.0);
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      Bool *mask = as<Bool>(operands[2]);
#pragma omp parallel for num_threads(threads) if (threads > 1)
      for (int64_t block = 0; block < (s.n + 3) / 4; ++block) {
        Words words = wordsOf(key, block);
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

/// Uniform: 64 bits of the stream each. Normal: of two numbers each (Box and Muller 1958).
Prepared prepareRandom(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(
      Check(spec).counts(0, 1).that([&] { return isFloat(spec.operands[0].dtype); }, "a float result").done());
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), id = spec.getInt("id", 0), rank = spec.rank,
                       seed = spec.seed,
                       normal = spec.getInt("normal", 0) != 0](void *const *operands, const StepContext &context) {
      Words key = keyOf(id, context, rank, seed);
      for (int64_t e = 0; e < n; ++e) {
        Words words = wordsOf(key, e / 2);
        size_t first = static_cast<size_t>(e % 2) * 2;
        double u = words[first] * 0x1p-32 + words[first + 1] * 0x1p-64;
        double y = u;
        if (normal) {
          Words pair = wordsOf(key, e); // of an own block: both numbers are needed whole
          y = std::sqrt(-2 * std::log((pair[0] + 0.5) * 0x1p-32)) * std::cos(6.283185307179586 * pair[1] * 0x1p-32);
        }
        // Rounding to a short type must not reach 1.
        T value = store<T>(static_cast<Compute<T>>(y));
        as<T>(operands[0])[e] = normal || load(value) < 1 ? value : store<T>(static_cast<Compute<T>>(1 - 0x1p-8));
      }
    });
  });
}

} // namespace

void addDropout(KernelRegistry &registry) {
  registry.add("dropout", prepareDropout);
  registry.add("dropout_grad", prepareDropoutGrad);
  registry.add("random", prepareRandom);
}

} // namespace zc::cpu
