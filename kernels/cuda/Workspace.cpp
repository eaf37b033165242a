#include "kernels/cuda/Workspace.h"
#include "kernels/Prologue.h"
#include "kernels/WorkspaceFormulas.h"
#include "kernels/cpu/IndexShapes.h"
#include "kernels/cpu/LinearParts.h"
#include "kernels/cuda/CudnnAttention.h"
#include "kernels/cuda/CudnnConv.h"

namespace zc::cuda {

ReduceCut::ReduceCut(const cpu::ReduceShape &shape)
    : results(cpu::product(shape.kept, 0, shape.kept.size())), n(cpu::product(shape.reduced, 0, shape.reduced.size())) {
  areColumns = results >= 32 && !shape.keptStrides.empty() && shape.keptStrides.back() == 1 && n > 1;
  if (areColumns) { // threads for 132 multiprocessors, of which each has a pack of columns
    const int64_t groups = results % kReducePack == 0 ? results / kReducePack : results;
    parts = std::max<int64_t>(1, std::min(n / 64, 256 * 1024 / groups));
  } else {
    parts = std::max<int64_t>(1, std::min(n / 4096, 1024 / std::max<int64_t>(1, results)));
  }
}

NormGradCut::NormGradCut(int64_t rows, int64_t n, int64_t elementBytes, int64_t sums)
    : results(Space::times(sums, n)), parts(rowParts(rows)), heldParts(0) {
  const int64_t pack = 16 / elementBytes;
  const int threads = elementBytes < 8 && n % pack == 0 ? threadsThatHold(n / pack) : 0;
  if (!threads || rows == 0 || n == 0)
    return;
  // Sixteen rows at least for each sum that is written; as many warps as 132 multiprocessors have at work at once.
  heldParts = std::min<int64_t>((rows + 15) / 16, 132 * (threads == 32 ? 12 : 512 / threads));
}

HeadSpace::HeadSpace(const cpu::HeadShape &s)
    : scratch(matmulBytes(Space::times(s.chunk, s.classes))), logits(Space::times(s.chunk, s.classes)), losses(s.rows),
      factors(s.isGrad), biasParts(s.isGrad && s.hasBias ? std::min<int64_t>(16, (s.chunk + 63) / 64) : 0),
      biasSums(Space::times(biasParts, s.classes)), weightSums(s.widens() ? Space::times(s.classes, s.width) : 0) {
  if (s.isGrad)
    scratch =
        std::max({scratch, matmulBytes(Space::times(s.chunk, s.width)), matmulBytes(Space::times(s.classes, s.width))});
}

int64_t HeadSpace::bytes(const cpu::HeadShape &s) const {
  int64_t total =
      Space::sum(Space::bytesOf<char>(scratch), Space::bytesOf(logits, static_cast<size_t>(sizeOf(s.dtype))));
  for (int64_t doubles : {losses, factors, biasSums})
    total = Space::sum(total, Space::bytesOf<double>(doubles));
  return Space::sum(total, Space::bytesOf<float>(weightSums));
}

AttentionTiles::AttentionTiles(const cpu::AttentionShape &s)
    : size(s.dtype == DType::f64 ? sizeof(double) : sizeof(float)), rows(Space::times(s.batch, s.heads, s.queries)),
      queryTiles(Space::times(s.batch, s.heads, (s.queries + kAttentionTile - 1) / kAttentionTile)),
      keyTiles(Space::times(s.batch, s.keyHeads, (s.keys + kAttentionTile - 1) / kAttentionTile)),
      queryScores(Space::times(kAttentionTile, s.keys)),
      keyScores(Space::times(2 * kAttentionTile, s.keyHeads ? s.heads / s.keyHeads : 0, s.queries)) {
  auto atOnce = [&](int64_t tiles, int64_t scores) {
    int64_t fit = (int64_t{32} << 20) / std::max<int64_t>(1, Space::times(size, scores));
    return std::max<int64_t>(1, std::min(tiles, fit));
  };
  queriesAtOnce = atOnce(queryTiles, queryScores);
  keysAtOnce = atOnce(keyTiles, keyScores);
}

namespace {

/// Bytes of what `read` found, 0 for a spec that no kernel takes.
template <typename Read, typename Fn> int64_t bytesOf(const Read &read, Fn fn) { return read.ok() ? fn(*read) : 0; }

int64_t ofReduce(const KernelSpec &spec) {
  return bytesOf(cpu::readReduce(spec), [](const cpu::ReduceShape &s) { return ReduceCut(s).bytes(); });
}

int64_t headBytes(const cpu::HeadShape &s) { return HeadSpace(s).bytes(s); }

int64_t ofLinear(const KernelSpec &spec) {
  return bytesOf(cpu::LinearParts::of(spec), [](const cpu::LinearParts &parts) {
    return bytesOf(cpu::readMatmul(parts.product), [](const cpu::MatmulShape &s) { return matmulBytes(s.m * s.n); });
  });
}

int64_t ofConv(const KernelSpec &spec) {
  std::optional<CudnnConv> conv = CudnnConv::of(spec);
  return conv ? conv->workspaceBytes() : 0;
}

} // namespace

const std::vector<WorkspaceFormula> &workspaceFormulas() {
  static const std::vector<WorkspaceFormula> formulas = {
      {"attention",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readAttention(spec), [](const auto &s) {
           return isOnTensorCores(s) ? int64_t(256) : std::max<int64_t>(256, AttentionTiles(s).bytes());
         });
       }},
      {"attention_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readAttentionGrad(spec), [&](const auto &s) {
           auto cudnn = CudnnAttention::chosen(spec); // ours is at hand where cuDNN is not
           const int64_t own = isOnTensorCores(s) ? coreGradBytes(s) : AttentionTiles(s).gradBytes();
           return std::max(own, cudnn ? CudnnAttention::gradBytes(cudnn->shape) : int64_t(0));
         });
       }},
      {"batch_norm",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readBatchNorm(spec), [](const auto &s) { return batchNormBytes(s, 2); });
       }},
      {"batch_norm_apply",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readBatchNormApply(spec), [](const auto &s) { return batchNormBytes(s, 0); });
       }},
      {"batch_norm_statistics",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readBatchNormStatistics(spec), [](const auto &s) { return batchNormBytes(s, 2); });
       }},
      {"batch_norm_grad_sums",
       [](const KernelSpec &spec) {
         return bytesOf(throughProgram(spec), [](const ProgrammedSpec &seen) {
           return bytesOf(cpu::readBatchNormGradSums(seen.spec), [](const auto &s) { return batchNormBytes(s, 2); });
         });
       }},
      {"batch_norm_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readBatchNormGrad(spec), [](const auto &s) { return batchNormBytes(s, 2); });
       }},
      {"conv", ofConv},
      {"conv_transpose", ofConv},
      {"conv_weight_grad", ofConv},
      {"cross_entropy", [](const KernelSpec &spec) { return bytesOf(cpu::readCrossEntropy(spec), crossEntropyBytes); }},
      {"cross_entropy_grad",
       [](const KernelSpec &spec) { return bytesOf(cpu::readCrossEntropyGrad(spec), crossEntropyGradBytes); }},
      {"gather_grad", [](const KernelSpec &spec) { return bytesOf(cpu::readGatherGrad(spec), gatherGradBytes); }},
      {"gather_elements_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readElements(spec, 2, 0),
                        [&](const auto &) { return pairsBytes(spec.operands[1].numElements()); });
       }},
      {"gather_nd_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readGatherNd(spec, 2, 0), [](const auto &s) { return pairsBytes(s.batch * s.perBatch); });
       }},
      {"layer_norm_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readLayerNormGrad(spec), [](const cpu::NormShape &s) { return normGradBytes(s, 2); });
       }},
      {"linear_cross_entropy", [](const KernelSpec &spec) { return bytesOf(cpu::readHead(spec), headBytes); }},
      {"linear_cross_entropy_grad", [](const KernelSpec &spec) { return bytesOf(cpu::readHeadGrad(spec), headBytes); }},
      {"max_pool_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readMaxPoolGrad(spec),
                        [&](const auto &) { return pairsBytes(spec.operands[0].numElements()); });
       }},
      {"rms_norm_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readRmsNormGrad(spec), [](const cpu::NormShape &s) { return normGradBytes(s, 1); });
       }},
      {"linear_gelu_grad", ofLinear},
      {"matmul",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readMatmul(spec),
                        [](const cpu::MatmulShape &s) { return matmulBytes(s.numBatches * s.m * s.n); });
       }},
      {"matmul_part",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readMatmulPart(spec),
                        [](const cpu::MatmulPartShape &s) { return matmulBytes(s.product.m * s.product.n); });
       }},
      {"reduce_max", ofReduce},
      {"reduce_mean", ofReduce},
      {"reduce_min", ofReduce},
      {"reduce_prod", ofReduce},
      {"reduce_sum", ofReduce},
      {"scatter_elements",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readScatterElements(spec),
                        [&](const auto &) { return pairsBytes(spec.operands[1].numElements()); });
       }},
      {"scatter_nd",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readScatterNd(spec), [](const auto &s) { return pairsBytes(s.tuples); });
       }},
  };
  return formulas;
}

} // namespace zc::cuda
